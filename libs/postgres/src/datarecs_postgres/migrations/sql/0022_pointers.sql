-- Pointers of the catalogue: what each name, id and list currently names. Who may do what is
-- 0022_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0022', '0.1.0');

CREATE TABLE datarecs.pointer (
    tenant_id uuid NOT NULL,
    key text COLLATE "C" NOT NULL,
    blob_key text,
    payload bytea,
    resource_id uuid,
    expires_at timestamptz,
    version bigint NOT NULL,
    PRIMARY KEY (tenant_id, key)
) WITH (fillfactor = 80);
CREATE INDEX pointer_expiry ON datarecs.pointer (tenant_id, expires_at)
    WHERE expires_at IS NOT NULL;
