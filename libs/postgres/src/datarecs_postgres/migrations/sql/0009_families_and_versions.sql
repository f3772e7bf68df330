-- The key that a key was made with, so that both are revoked together; keys of before stand alone.
-- Versions of objects. Who may do what is 0009_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0009', '0.1.0');

ALTER TABLE datarecs.api_key
    ADD COLUMN parent_key_id text,
    ADD FOREIGN KEY (tenant_id, parent_key_id) REFERENCES datarecs.api_key (tenant_id, key_id);
CREATE INDEX api_key_children ON datarecs.api_key (tenant_id, parent_key_id)
    WHERE parent_key_id IS NOT NULL;

-- resourceVersion counts the writes of one object; objects of before go on from what was published.
ALTER TABLE datarecs.resource ADD COLUMN version bigint NOT NULL DEFAULT 1;
UPDATE datarecs.resource SET version = rv;

CREATE FUNCTION datarecs.raise_version() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.version := OLD.version + 1;
    RETURN NEW;
END $$;
CREATE TRIGGER resource_version BEFORE UPDATE ON datarecs.resource
    FOR EACH ROW EXECUTE FUNCTION datarecs.raise_version();
