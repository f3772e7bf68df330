-- Takes back what filters read of stored events.

REVOKE SELECT (filter_values) ON datarecs.webhook_message FROM datarecs_api;
ALTER TABLE datarecs.webhook_message DROP COLUMN filter_values;
DELETE FROM datarecs.schema_compat WHERE revision = '0012';
