-- Takes back what filters read of stored events, and the consent of receivers.

REVOKE SELECT (filter_values) ON datarecs.webhook_message FROM datarecs_api;
ALTER TABLE datarecs.webhook_message DROP COLUMN filter_values;
ALTER TABLE datarecs.webhook_endpoint_state DROP COLUMN handshake;
DELETE FROM datarecs.schema_compat WHERE revision = '0012';
