-- Who may do what with checks; printed by `python -m datarecs_postgres.rls`, frozen here.
ALTER TABLE datarecs.resource_check ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY owner ON datarecs.resource_check TO datarecs_owner USING (true) WITH CHECK (true);
CREATE POLICY tenant_resources ON datarecs.resource_check TO datarecs_resources USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
CREATE POLICY tenant_worker_run ON datarecs.resource_check TO datarecs_worker_run USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
CREATE POLICY tenant_read ON datarecs.resource_check TO datarecs_read USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
GRANT SELECT ON datarecs.resource_check TO datarecs_resources, datarecs_worker_run, datarecs_read;
GRANT INSERT ON datarecs.resource_check TO datarecs_resources;
GRANT UPDATE (subject, due_at) ON datarecs.resource_check TO datarecs_resources;
GRANT UPDATE (lease_until, due_at, checked_at, checked_generation, result) ON datarecs.resource_check TO datarecs_worker_run;
REVOKE ALL ON FUNCTION datarecs.lease_check(interval) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION datarecs.lease_check(interval) TO datarecs_worker_run;
