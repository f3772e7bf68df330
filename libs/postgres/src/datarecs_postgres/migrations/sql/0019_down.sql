-- Removes retention: its state, and the rights of resource-controller to remove rows.

DROP FUNCTION datarecs.claim_sweeps;
DROP TABLE datarecs.retention_state;
DROP POLICY ended_resources ON datarecs.run;
DROP POLICY tenant_resources ON datarecs.webhook_delivery;
DROP POLICY tenant_resources ON datarecs.email_delivery;
DROP POLICY terminal_resources ON datarecs.email_delivery;
DROP POLICY tenant_resources ON datarecs.email_attempt;
DROP POLICY tenant_resources ON datarecs.report_link_revocation;
REVOKE UPDATE (differences_deleted_at) ON datarecs.run FROM datarecs_resources;
REVOKE DELETE ON datarecs.run FROM datarecs_resources;
REVOKE SELECT (tenant_id, partition_key, sent_at) ON datarecs.outbox FROM datarecs_resources;
REVOKE SELECT (tenant_id, run_id, state) ON datarecs.webhook_delivery FROM datarecs_resources;
REVOKE SELECT (tenant_id, delivery_id, run_id, job_id, state, created_at) ON datarecs.email_delivery FROM datarecs_resources;
REVOKE DELETE ON datarecs.email_delivery FROM datarecs_resources;
REVOKE SELECT (tenant_id, delivery_id) ON datarecs.email_attempt FROM datarecs_resources;
REVOKE DELETE ON datarecs.email_attempt FROM datarecs_resources;
REVOKE SELECT (tenant_id, run_id) ON datarecs.report_link_revocation FROM datarecs_resources;
REVOKE DELETE ON datarecs.report_link_revocation FROM datarecs_resources;
REVOKE DELETE ON datarecs.schedule_tick FROM datarecs_resources;
DROP POLICY types_api ON datarecs.outbox;
DROP POLICY types_resources ON datarecs.outbox;
CREATE POLICY types_api ON datarecs.outbox AS RESTRICTIVE FOR INSERT TO datarecs_api WITH CHECK (type = ANY ('{io.datarecs.reconciliation.run.cancel_requested,io.datarecs.reconciliation.run.triggered,io.datarecs.resource.connection.created,io.datarecs.resource.connection.deleted,io.datarecs.resource.connection.status_updated,io.datarecs.resource.connection.updated,io.datarecs.resource.notificationrule.created,io.datarecs.resource.notificationrule.deleted,io.datarecs.resource.notificationrule.status_updated,io.datarecs.resource.notificationrule.updated,io.datarecs.resource.reconciliationjob.created,io.datarecs.resource.reconciliationjob.deleted,io.datarecs.resource.reconciliationjob.status_updated,io.datarecs.resource.reconciliationjob.updated,io.datarecs.resource.schedule.created,io.datarecs.resource.schedule.deleted,io.datarecs.resource.schedule.status_updated,io.datarecs.resource.schedule.updated,io.datarecs.resource.webhookendpoint.created,io.datarecs.resource.webhookendpoint.deleted,io.datarecs.resource.webhookendpoint.status_updated,io.datarecs.resource.webhookendpoint.updated,io.datarecs.webhook.delivery.replay_requested,io.datarecs.webhook.delivery.resend_requested,io.datarecs.webhook.endpoint.test_requested}'::text[]));
CREATE POLICY types_resources ON datarecs.outbox AS RESTRICTIVE FOR INSERT TO datarecs_resources WITH CHECK (type = ANY ('{io.datarecs.reconciliation.run.cancel_requested,io.datarecs.reconciliation.run.triggered,io.datarecs.resource.connection.reconcile_failed,io.datarecs.resource.connection.reconciled,io.datarecs.resource.connection.status_updated,io.datarecs.resource.reconciliationjob.reconcile_failed,io.datarecs.resource.reconciliationjob.reconciled,io.datarecs.resource.reconciliationjob.status_updated}'::text[]));
ALTER TABLE datarecs.run DROP COLUMN differences_deleted_at;
DELETE FROM datarecs.schema_compat WHERE revision = '0019';
