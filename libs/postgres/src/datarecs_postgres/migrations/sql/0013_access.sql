-- What the webhook-service may put into the outbox, who may write which run is retried; printed by
-- `python -m datarecs_postgres.rls`, frozen here.
DROP POLICY types_webhook ON datarecs.outbox;
CREATE POLICY types_webhook ON datarecs.outbox AS RESTRICTIVE FOR INSERT TO datarecs_webhook WITH CHECK (type = ANY ('{io.datarecs.resource.webhookendpoint.deleted,io.datarecs.resource.webhookendpoint.status_updated,io.datarecs.resource.webhookendpoint.updated,io.datarecs.webhook.delivery.dead_lettered,io.datarecs.webhook.delivery.failed,io.datarecs.webhook.delivery.replayed,io.datarecs.webhook.delivery.retried,io.datarecs.webhook.endpoint.auto_disabled}'::text[]));
GRANT INSERT (retry_of) ON datarecs.run TO datarecs_api;
