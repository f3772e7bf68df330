-- Removes figures of services, and the rights of resource-controller to end deletions.

DROP FUNCTION datarecs.report_stats, datarecs.read_stats;
DROP TABLE datarecs.service_stats;
DROP INDEX datarecs.schedule_state_due;
CREATE INDEX schedule_state_due ON datarecs.schedule_state (due_at) WHERE due_at IS NOT NULL;
CREATE OR REPLACE FUNCTION datarecs.claim_schedules(n integer)
RETURNS TABLE (tenant_id uuid, schedule_uid uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    WITH due AS MATERIALIZED (
        SELECT d.tenant_id, d.schedule_uid FROM schedule_state d
        WHERE d.due_at <= clock_timestamp()
        ORDER BY d.due_at LIMIT n FOR UPDATE SKIP LOCKED)
    UPDATE schedule_state s SET due_at = clock_timestamp() + interval '12 seconds'
    FROM due WHERE s.tenant_id = due.tenant_id AND s.schedule_uid = due.schedule_uid
    RETURNING s.tenant_id, s.schedule_uid
$$;
DROP POLICY dying_resources ON datarecs.resource;
REVOKE UPDATE (finalizers) ON datarecs.resource FROM datarecs_resources;
REVOKE DELETE ON datarecs.resource FROM datarecs_resources;
DROP POLICY types_resources ON datarecs.outbox;
CREATE POLICY types_resources ON datarecs.outbox AS RESTRICTIVE FOR INSERT TO datarecs_resources WITH CHECK (type = ANY ('{io.datarecs.reconciliation.run.cancel_requested,io.datarecs.reconciliation.run.triggered,io.datarecs.resource.connection.reconcile_failed,io.datarecs.resource.connection.reconciled,io.datarecs.resource.connection.status_updated,io.datarecs.resource.reconciliationjob.reconcile_failed,io.datarecs.resource.reconciliationjob.reconciled,io.datarecs.resource.reconciliationjob.status_updated,io.datarecs.resource.retentionpolicy.status_updated}'::text[]));
DELETE FROM datarecs.schema_compat WHERE revision = '0021';
