-- The reason of a trigger, as its request gave it. Who may write it is 0008_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0008', '0.1.0');

ALTER TABLE datarecs.run ADD COLUMN trigger_reason text;
