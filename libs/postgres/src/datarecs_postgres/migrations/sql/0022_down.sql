-- Removes the pointers of the catalogue.

DROP TABLE datarecs.pointer;
DELETE FROM datarecs.schema_compat WHERE revision = '0022';
