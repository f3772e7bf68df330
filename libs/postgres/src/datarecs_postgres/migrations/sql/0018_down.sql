-- Takes the index of an object's changes and the old labels back.

DROP INDEX datarecs.resource_change_object;
ALTER TABLE datarecs.resource_change DROP COLUMN old_labels;
DELETE FROM datarecs.schema_compat WHERE revision = '0018';
