-- Takes deliveries and the mail queue back.

DROP FUNCTION datarecs.claim_mails, datarecs.claim_deliveries;
DROP TABLE datarecs.notification_rule_state, datarecs.email_attempt, datarecs.email_delivery,
    datarecs.webhook_endpoint_state, datarecs.webhook_attempt, datarecs.webhook_delivery,
    datarecs.webhook_message;
DELETE FROM datarecs.partition_policy
    WHERE table_name IN ('webhook_message', 'webhook_delivery', 'webhook_attempt');
DELETE FROM datarecs.schema_compat WHERE revision = '0002';
