-- Who may do what with checks, and what their results make due; printed by
-- `python -m datarecs_postgres.rls`, frozen here.
DROP POLICY types_resources ON datarecs.outbox;
CREATE POLICY types_resources ON datarecs.outbox AS RESTRICTIVE FOR INSERT TO datarecs_resources WITH CHECK (type = ANY ('{io.datarecs.reconciliation.run.cancel_requested,io.datarecs.reconciliation.run.triggered,io.datarecs.resource.connection.reconcile_failed,io.datarecs.resource.connection.reconciled,io.datarecs.resource.connection.status_updated,io.datarecs.resource.reconciliationjob.reconcile_failed,io.datarecs.resource.reconciliationjob.reconciled,io.datarecs.resource.reconciliationjob.status_updated}'::text[]));
CREATE POLICY tenant_worker_run ON datarecs.resource_work TO datarecs_worker_run USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
GRANT SELECT ON datarecs.resource_work TO datarecs_worker_run;
GRANT UPDATE (due_at, dirty_seq) ON datarecs.resource_work TO datarecs_worker_run;
GRANT UPDATE (dirty_seq) ON datarecs.resource_work TO datarecs_resources;
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
