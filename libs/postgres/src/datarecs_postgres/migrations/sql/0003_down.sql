-- Takes the repair of delivery back.

DROP FUNCTION datarecs.keep_outbox, datarecs.event_memory, datarecs.unheard_events;
DROP POLICY reads_mail ON datarecs.outbox;
DROP POLICY reads_controller ON datarecs.outbox;
REVOKE SELECT ("position", event_id, created_at, tenant_id, type, topic, partition_key, headers, data)
    ON datarecs.outbox FROM datarecs_controller, datarecs_mail, datarecs_webhook;
DROP INDEX datarecs.outbox_age;
DELETE FROM datarecs.schema_compat WHERE revision = '0003';
