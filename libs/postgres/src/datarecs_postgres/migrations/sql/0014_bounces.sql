-- Addresses that get no mail for a while, and the temporary refusals that lead to it. Who may do
-- what is 0014_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0014', '0.1.0');

ALTER TABLE datarecs.email_suppression ADD COLUMN ends_at timestamptz;

CREATE TABLE datarecs.email_bounce (
    tenant_id uuid NOT NULL,
    recipient_key text NOT NULL,
    report_id text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, recipient_key, report_id)
);
