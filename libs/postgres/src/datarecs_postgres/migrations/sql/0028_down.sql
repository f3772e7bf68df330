-- Removes sinks and the rights of iceberg-sink.

DROP FUNCTION datarecs.claim_sink_tasks;
DROP TABLE datarecs.sink_table_commit, datarecs.sink_commit, datarecs.sink_task, datarecs.sink_state;
DROP SEQUENCE datarecs.sink_epochs;
DROP POLICY types_api ON datarecs.outbox;
CREATE POLICY types_api ON datarecs.outbox AS RESTRICTIVE FOR INSERT TO datarecs_api WITH CHECK (type = ANY ('{io.datarecs.capture.job.cancelled,io.datarecs.capture.job.failed,io.datarecs.reconciliation.run.cancel_requested,io.datarecs.reconciliation.run.triggered,io.datarecs.resource.capture.created,io.datarecs.resource.capture.deleted,io.datarecs.resource.capture.status_updated,io.datarecs.resource.capture.updated,io.datarecs.resource.connection.created,io.datarecs.resource.connection.deleted,io.datarecs.resource.connection.status_updated,io.datarecs.resource.connection.updated,io.datarecs.resource.notificationrule.created,io.datarecs.resource.notificationrule.deleted,io.datarecs.resource.notificationrule.status_updated,io.datarecs.resource.notificationrule.updated,io.datarecs.resource.reconciliationjob.created,io.datarecs.resource.reconciliationjob.deleted,io.datarecs.resource.reconciliationjob.status_updated,io.datarecs.resource.reconciliationjob.updated,io.datarecs.resource.retentionpolicy.created,io.datarecs.resource.retentionpolicy.deleted,io.datarecs.resource.retentionpolicy.status_updated,io.datarecs.resource.retentionpolicy.updated,io.datarecs.resource.schedule.created,io.datarecs.resource.schedule.deleted,io.datarecs.resource.schedule.status_updated,io.datarecs.resource.schedule.updated,io.datarecs.resource.webhookendpoint.created,io.datarecs.resource.webhookendpoint.deleted,io.datarecs.resource.webhookendpoint.status_updated,io.datarecs.resource.webhookendpoint.updated,io.datarecs.webhook.delivery.replay_requested,io.datarecs.webhook.delivery.resend_requested,io.datarecs.webhook.endpoint.test_requested}'::text[]));
DROP POLICY types_resources ON datarecs.outbox;
CREATE POLICY types_resources ON datarecs.outbox AS RESTRICTIVE FOR INSERT TO datarecs_resources WITH CHECK (type = ANY ('{io.datarecs.reconciliation.run.cancel_requested,io.datarecs.reconciliation.run.triggered,io.datarecs.resource.capture.reconcile_failed,io.datarecs.resource.capture.reconciled,io.datarecs.resource.capture.status_updated,io.datarecs.resource.connection.deleted,io.datarecs.resource.connection.finalize_failed,io.datarecs.resource.connection.finalized,io.datarecs.resource.connection.reconcile_failed,io.datarecs.resource.connection.reconciled,io.datarecs.resource.connection.status_updated,io.datarecs.resource.connection.updated,io.datarecs.resource.reconciliationjob.reconcile_failed,io.datarecs.resource.reconciliationjob.reconciled,io.datarecs.resource.reconciliationjob.status_updated,io.datarecs.resource.retentionpolicy.status_updated}'::text[]));
REVOKE ALL ON datarecs.schema_compat FROM datarecs_sink;
REVOKE ALL ON datarecs.service_role FROM datarecs_sink;
DROP POLICY tenant_sink ON datarecs.resource;
REVOKE ALL ON datarecs.resource FROM datarecs_sink;
DROP POLICY tenant_sink ON datarecs.outbox;
DROP POLICY types_sink ON datarecs.outbox;
REVOKE ALL ON datarecs.outbox FROM datarecs_sink;
REVOKE EXECUTE ON FUNCTION datarecs.outbox_shards() FROM datarecs_sink;
REVOKE EXECUTE ON FUNCTION datarecs.service_name() FROM datarecs_sink;
REVOKE USAGE ON SCHEMA datarecs FROM datarecs_sink;
DELETE FROM datarecs.service_role WHERE role = 'datarecs_sink';
DELETE FROM datarecs.schema_compat WHERE revision = '0028';
