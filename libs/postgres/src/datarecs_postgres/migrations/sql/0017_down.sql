-- Removes the checks of connections and jobs.

DROP FUNCTION datarecs.lease_check;
DROP TABLE datarecs.resource_check;
DROP POLICY types_resources ON datarecs.outbox;
CREATE POLICY types_resources ON datarecs.outbox AS RESTRICTIVE FOR INSERT TO datarecs_resources WITH CHECK (type = ANY ('{io.datarecs.reconciliation.run.cancel_requested,io.datarecs.reconciliation.run.triggered,io.datarecs.resource.reconciliationjob.reconcile_failed,io.datarecs.resource.reconciliationjob.reconciled,io.datarecs.resource.reconciliationjob.status_updated}'::text[]));
DROP POLICY tenant_worker_run ON datarecs.resource_work;
REVOKE ALL ON datarecs.resource_work FROM datarecs_worker_run;
REVOKE UPDATE (dirty_seq) ON datarecs.resource_work FROM datarecs_resources;
DELETE FROM datarecs.schema_compat WHERE revision = '0017';
