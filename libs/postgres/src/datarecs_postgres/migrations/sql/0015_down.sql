-- Removes schedules' state and ticks, and the rights of resource-controller.

DROP FUNCTION datarecs.decide_schedules_again, datarecs.claim_schedules;
DROP INDEX datarecs.run_of_schedule;
DROP TABLE datarecs.schedule_tick, datarecs.schedule_state;
DROP POLICY tenant_resources ON datarecs.run;
DROP POLICY tenant_resources ON datarecs.run_event;
DROP POLICY tenant_resources ON datarecs.run_timer;
DROP POLICY tenant_resources ON datarecs.resource;
DROP POLICY tenant_resources ON datarecs.outbox;
DROP POLICY types_resources ON datarecs.outbox;
DROP POLICY types_api ON datarecs.outbox;
CREATE POLICY types_api ON datarecs.outbox AS RESTRICTIVE FOR INSERT TO datarecs_api WITH CHECK (type = ANY ('{io.datarecs.reconciliation.run.cancel_requested,io.datarecs.reconciliation.run.triggered,io.datarecs.resource.connection.created,io.datarecs.resource.connection.deleted,io.datarecs.resource.connection.status_updated,io.datarecs.resource.connection.updated,io.datarecs.resource.notificationrule.created,io.datarecs.resource.notificationrule.deleted,io.datarecs.resource.notificationrule.status_updated,io.datarecs.resource.notificationrule.updated,io.datarecs.resource.reconciliationjob.created,io.datarecs.resource.reconciliationjob.deleted,io.datarecs.resource.reconciliationjob.status_updated,io.datarecs.resource.reconciliationjob.updated,io.datarecs.resource.webhookendpoint.created,io.datarecs.resource.webhookendpoint.deleted,io.datarecs.resource.webhookendpoint.status_updated,io.datarecs.resource.webhookendpoint.updated,io.datarecs.webhook.delivery.replay_requested,io.datarecs.webhook.delivery.resend_requested,io.datarecs.webhook.endpoint.test_requested}'::text[]));
REVOKE ALL ON datarecs.schema_compat FROM datarecs_resources;
REVOKE ALL ON datarecs.service_role FROM datarecs_resources;
REVOKE ALL ON datarecs.run FROM datarecs_resources;
REVOKE ALL ON datarecs.run_event FROM datarecs_resources;
REVOKE ALL ON datarecs.run_timer FROM datarecs_resources;
REVOKE ALL ON datarecs.resource FROM datarecs_resources;
REVOKE ALL ON datarecs.outbox FROM datarecs_resources;
REVOKE EXECUTE ON FUNCTION datarecs.outbox_shards(), datarecs.service_name(),
    datarecs.draw_rv(integer) FROM datarecs_resources;
REVOKE USAGE ON SEQUENCE datarecs.feed_rv FROM datarecs_resources;
REVOKE USAGE ON SCHEMA datarecs FROM datarecs_resources;
DELETE FROM datarecs.service_role WHERE role = 'datarecs_resources';
DELETE FROM datarecs.schema_compat WHERE revision = '0015';
