-- Who may do what with bounces and suppressions; printed by `python -m datarecs_postgres.rls`,
-- frozen here.
GRANT INSERT ON datarecs.email_suppression TO datarecs_api;
GRANT UPDATE (reason, reply, created_at, ends_at) ON datarecs.email_suppression TO datarecs_mail, datarecs_api;
ALTER TABLE datarecs.email_bounce ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY owner ON datarecs.email_bounce TO datarecs_owner USING (true) WITH CHECK (true);
CREATE POLICY tenant_mail ON datarecs.email_bounce TO datarecs_mail USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
CREATE POLICY tenant_api ON datarecs.email_bounce TO datarecs_api USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
GRANT SELECT ON datarecs.email_bounce TO datarecs_mail, datarecs_api;
GRANT INSERT ON datarecs.email_bounce TO datarecs_mail, datarecs_api;
GRANT DELETE ON datarecs.email_bounce TO datarecs_mail, datarecs_api;
