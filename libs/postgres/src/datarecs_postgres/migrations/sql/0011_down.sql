-- Takes digests, notices, unsubscribing, suppression and revocations back; mails about no run go.

DROP TABLE datarecs.report_link_revocation, datarecs.email_suppression, datarecs.email_unsubscribe;
DROP INDEX datarecs.email_delivery_newest, datarecs.email_delivery_opened,
    datarecs.email_delivery_fold;
DELETE FROM datarecs.email_delivery WHERE run_id IS NULL;
ALTER TABLE datarecs.email_delivery
    DROP COLUMN opened_at,
    DROP COLUMN notice,
    DROP COLUMN folded,
    DROP COLUMN fold,
    DROP COLUMN rule_uids,
    ALTER COLUMN job_id SET NOT NULL,
    ALTER COLUMN run_id SET NOT NULL;
REVOKE SELECT (dedupe_key, recipient, recipient_key, background, phase, expires_at, unknowns,
    lease_epoch, lease_owner, lease_until, last_reply) ON datarecs.email_delivery FROM datarecs_api;
REVOKE INSERT ON datarecs.email_delivery FROM datarecs_api, datarecs_webhook;
DROP POLICY tenant_webhook ON datarecs.email_delivery;
DELETE FROM datarecs.schema_compat WHERE revision = '0011';
