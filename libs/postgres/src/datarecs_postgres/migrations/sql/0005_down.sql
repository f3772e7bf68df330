-- Takes the numbers of what waits back.

DROP FUNCTION datarecs.run_backlog;
DELETE FROM datarecs.schema_compat WHERE revision = '0005';
