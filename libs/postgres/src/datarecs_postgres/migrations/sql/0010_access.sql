-- Who may do what with actions on webhook deliveries, and what of stored events core-api may count by;
-- printed by `python -m datarecs_postgres.rls`, frozen here.
ALTER TABLE datarecs.webhook_action ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY owner ON datarecs.webhook_action TO datarecs_owner USING (true) WITH CHECK (true);
CREATE POLICY tenant_webhook ON datarecs.webhook_action TO datarecs_webhook USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
CREATE POLICY tenant_api ON datarecs.webhook_action TO datarecs_api USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
CREATE POLICY tenant_read ON datarecs.webhook_action TO datarecs_read USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
GRANT SELECT ON datarecs.webhook_action TO datarecs_webhook, datarecs_api, datarecs_read;
GRANT INSERT ON datarecs.webhook_action TO datarecs_api;
GRANT UPDATE (state, closed_at, position_on, position_id, made, first_delivery) ON datarecs.webhook_action TO datarecs_webhook, datarecs_api;
GRANT DELETE ON datarecs.webhook_action TO datarecs_webhook;
CREATE POLICY tenant_api ON datarecs.webhook_message TO datarecs_api USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
GRANT SELECT (tenant_id, received_on, message_id, attributes, created_at) ON datarecs.webhook_message TO datarecs_api;
GRANT INSERT ON datarecs.webhook_endpoint_state TO datarecs_api;
GRANT UPDATE ON datarecs.webhook_endpoint_state TO datarecs_api;
