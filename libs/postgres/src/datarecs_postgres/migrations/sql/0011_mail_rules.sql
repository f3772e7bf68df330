-- Digests and notices in the mail queue, who wants no mail, and which report links are revoked. Who
-- may do what is 0011_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0011', '0.1.0');

ALTER TABLE datarecs.email_delivery
    ALTER COLUMN run_id DROP NOT NULL,
    ALTER COLUMN job_id DROP NOT NULL,
    ADD COLUMN rule_uids uuid[] NOT NULL DEFAULT '{}'::uuid[],
    ADD COLUMN fold text,
    ADD COLUMN folded jsonb NOT NULL DEFAULT '[]'::jsonb,
    ADD COLUMN notice jsonb,
    ADD COLUMN opened_at timestamptz;
CREATE INDEX email_delivery_fold ON datarecs.email_delivery (tenant_id, recipient_key, fold)
    WHERE fold IS NOT NULL;
CREATE INDEX email_delivery_opened ON datarecs.email_delivery (tenant_id, opened_at);
CREATE INDEX email_delivery_newest ON datarecs.email_delivery (tenant_id, created_at, delivery_id);

CREATE TABLE datarecs.email_unsubscribe (
    tenant_id uuid NOT NULL,
    recipient_hash text NOT NULL,
    scope text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, recipient_hash, scope)
);

CREATE TABLE datarecs.email_suppression (
    tenant_id uuid NOT NULL,
    recipient_key text NOT NULL,
    reason text NOT NULL,
    reply text NOT NULL DEFAULT ''::text,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, recipient_key)
);

CREATE TABLE datarecs.report_link_revocation (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    revoked_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, run_id)
);
