-- Rights on pointers; printed by `python -m datarecs_postgres.rls pointer`, frozen here.
ALTER TABLE datarecs.pointer ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY owner ON datarecs.pointer TO datarecs_owner USING (true) WITH CHECK (true);
CREATE POLICY tenant_api ON datarecs.pointer TO datarecs_api USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
CREATE POLICY tenant_read ON datarecs.pointer TO datarecs_read USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
CREATE POLICY tenant_worker_run ON datarecs.pointer TO datarecs_worker_run USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
CREATE POLICY tenant_resources ON datarecs.pointer TO datarecs_resources USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
GRANT SELECT ON datarecs.pointer TO datarecs_api, datarecs_read, datarecs_worker_run, datarecs_resources;
GRANT INSERT ON datarecs.pointer TO datarecs_worker_run, datarecs_resources;
GRANT UPDATE ON datarecs.pointer TO datarecs_worker_run, datarecs_resources;
GRANT DELETE ON datarecs.pointer TO datarecs_worker_run, datarecs_resources;
