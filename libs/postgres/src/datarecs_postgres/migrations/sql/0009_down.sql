-- Takes the families of keys and the versions of objects back.

DROP TRIGGER resource_version ON datarecs.resource;
DROP FUNCTION datarecs.raise_version;
ALTER TABLE datarecs.resource DROP COLUMN version;
ALTER TABLE datarecs.api_key DROP COLUMN parent_key_id;
DELETE FROM datarecs.schema_compat WHERE revision = '0009';
