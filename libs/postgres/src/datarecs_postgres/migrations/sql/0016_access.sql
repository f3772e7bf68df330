-- What resource-controller may do with objects, and who may do what with their work; printed by
-- `python -m datarecs_postgres.rls`, frozen here.
GRANT UPDATE (status, observed_generation, rv) ON datarecs.resource TO datarecs_resources;
CREATE POLICY tenant_resources ON datarecs.resource_change TO datarecs_resources USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
GRANT INSERT ON datarecs.resource_change TO datarecs_api, datarecs_webhook, datarecs_resources;
DROP POLICY types_resources ON datarecs.outbox;
CREATE POLICY types_resources ON datarecs.outbox AS RESTRICTIVE FOR INSERT TO datarecs_resources WITH CHECK (type = ANY ('{io.datarecs.reconciliation.run.cancel_requested,io.datarecs.reconciliation.run.triggered,io.datarecs.resource.reconciliationjob.reconcile_failed,io.datarecs.resource.reconciliationjob.reconciled,io.datarecs.resource.reconciliationjob.status_updated}'::text[]));
ALTER TABLE datarecs.resource_work ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY owner ON datarecs.resource_work TO datarecs_owner USING (true) WITH CHECK (true);
CREATE POLICY tenant_api ON datarecs.resource_work TO datarecs_api USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
CREATE POLICY tenant_resources ON datarecs.resource_work TO datarecs_resources USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
CREATE POLICY tenant_read ON datarecs.resource_work TO datarecs_read USING (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid) WITH CHECK (tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid);
GRANT SELECT ON datarecs.resource_work TO datarecs_api, datarecs_resources, datarecs_read;
GRANT INSERT ON datarecs.resource_work TO datarecs_api;
GRANT UPDATE (due_at, dirty_seq) ON datarecs.resource_work TO datarecs_api;
GRANT UPDATE (due_at, attempts, conflicts, generation, reconcile_at, is_terminal, window_start, window_count, epoch, lease_until) ON datarecs.resource_work TO datarecs_resources;
REVOKE ALL ON FUNCTION datarecs.claim_resources(text[], integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION datarecs.claim_resources(text[], integer) TO datarecs_resources;
REVOKE ALL ON FUNCTION datarecs.adopt_resources(text[]) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION datarecs.adopt_resources(text[]) TO datarecs_resources;
REVOKE ALL ON FUNCTION datarecs.resource_backlog() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION datarecs.resource_backlog() TO datarecs_resources;
