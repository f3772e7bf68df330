-- What resource-controller may do at the end of a deletion, and who may report and read figures;
-- printed by `python -m datarecs_postgres.rls`, frozen here.
GRANT UPDATE (finalizers) ON datarecs.resource TO datarecs_resources;
GRANT DELETE ON datarecs.resource TO datarecs_resources;
DROP POLICY types_resources ON datarecs.outbox;
CREATE POLICY dying_resources ON datarecs.resource AS RESTRICTIVE FOR DELETE TO datarecs_resources USING (deletion_at IS NOT NULL);
CREATE POLICY types_resources ON datarecs.outbox AS RESTRICTIVE FOR INSERT TO datarecs_resources WITH CHECK (type = ANY ('{io.datarecs.reconciliation.run.cancel_requested,io.datarecs.reconciliation.run.triggered,io.datarecs.resource.connection.deleted,io.datarecs.resource.connection.finalize_failed,io.datarecs.resource.connection.finalized,io.datarecs.resource.connection.reconcile_failed,io.datarecs.resource.connection.reconciled,io.datarecs.resource.connection.status_updated,io.datarecs.resource.connection.updated,io.datarecs.resource.reconciliationjob.reconcile_failed,io.datarecs.resource.reconciliationjob.reconciled,io.datarecs.resource.reconciliationjob.status_updated,io.datarecs.resource.retentionpolicy.status_updated}'::text[]));
REVOKE ALL ON FUNCTION datarecs.report_stats(uuid, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION datarecs.report_stats(uuid, jsonb) TO datarecs_api, datarecs_controller, datarecs_resources;
REVOKE ALL ON FUNCTION datarecs.read_stats() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION datarecs.read_stats() TO datarecs_api;
