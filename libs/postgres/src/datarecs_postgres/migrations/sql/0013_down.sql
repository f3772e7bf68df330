-- Takes retries, alerts, overflows and draining back; endpoints that are being drained go at once.

ALTER TABLE datarecs.run DROP COLUMN retry_of;
DELETE FROM datarecs.resource
    WHERE deletion_at IS NOT NULL AND finalizers = '{datarecs.io/webhook-drain}'::text[];
ALTER TABLE datarecs.webhook_endpoint_state
    DROP COLUMN overflow_until,
    DROP COLUMN overflow_since,
    DROP COLUMN pending,
    DROP COLUMN warned_at;
DROP POLICY types_webhook ON datarecs.outbox;
CREATE POLICY types_webhook ON datarecs.outbox AS RESTRICTIVE FOR INSERT TO datarecs_webhook WITH CHECK (type = ANY ('{io.datarecs.resource.webhookendpoint.status_updated,io.datarecs.webhook.delivery.dead_lettered,io.datarecs.webhook.delivery.failed,io.datarecs.webhook.delivery.replayed,io.datarecs.webhook.delivery.retried,io.datarecs.webhook.endpoint.auto_disabled}'::text[]));
DELETE FROM datarecs.schema_compat WHERE revision = '0013';
