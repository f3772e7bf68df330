-- Removes figures of services, and the rights of resource-controller to end deletions.

DROP FUNCTION datarecs.report_stats, datarecs.read_stats;
DROP TABLE datarecs.service_stats;
DROP POLICY dying_resources ON datarecs.resource;
REVOKE UPDATE (finalizers) ON datarecs.resource FROM datarecs_resources;
REVOKE DELETE ON datarecs.resource FROM datarecs_resources;
DROP POLICY types_resources ON datarecs.outbox;
CREATE POLICY types_resources ON datarecs.outbox AS RESTRICTIVE FOR INSERT TO datarecs_resources WITH CHECK (type = ANY ('{io.datarecs.reconciliation.run.cancel_requested,io.datarecs.reconciliation.run.triggered,io.datarecs.resource.connection.reconcile_failed,io.datarecs.resource.connection.reconciled,io.datarecs.resource.connection.status_updated,io.datarecs.resource.reconciliationjob.reconcile_failed,io.datarecs.resource.reconciliationjob.reconciled,io.datarecs.resource.reconciliationjob.status_updated,io.datarecs.resource.retentionpolicy.status_updated}'::text[]));
DELETE FROM datarecs.schema_compat WHERE revision = '0021';
