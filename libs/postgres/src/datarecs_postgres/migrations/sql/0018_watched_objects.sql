-- A change stores the object after the write, and the labels before a write that changed them, so
-- that watchers get what each write did. Rights are those of the table.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0018', '0.1.0');

ALTER TABLE datarecs.resource_change ADD COLUMN old_labels jsonb;
CREATE INDEX resource_change_object
    ON datarecs.resource_change (tenant_id, kind, namespace, name, rv);
