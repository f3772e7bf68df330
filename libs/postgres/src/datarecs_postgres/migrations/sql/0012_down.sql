-- Removes the filter values of stored events, the consent of receivers, and the order of a run's
-- events.

REVOKE SELECT (filter_values) ON datarecs.webhook_message FROM datarecs_api;
ALTER TABLE datarecs.webhook_message DROP COLUMN filter_values;
DROP INDEX datarecs.webhook_delivery_order;
ALTER TABLE datarecs.webhook_delivery
    DROP COLUMN failing_since,
    DROP COLUMN is_early,
    DROP COLUMN sequence;
ALTER TABLE datarecs.webhook_endpoint_state DROP COLUMN handshake;
DELETE FROM datarecs.schema_compat WHERE revision = '0012';
