-- Takes the reason of a trigger back.

ALTER TABLE datarecs.run DROP COLUMN trigger_reason;
DELETE FROM datarecs.schema_compat WHERE revision = '0008';
