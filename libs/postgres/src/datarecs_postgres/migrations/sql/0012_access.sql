-- Privileges on the new columns; printed by `python -m datarecs_postgres.rls`, frozen here.
GRANT SELECT (tenant_id, received_on, message_id, attributes, created_at, filter_values) ON datarecs.webhook_message TO datarecs_api;
