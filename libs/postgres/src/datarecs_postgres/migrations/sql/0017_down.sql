-- Removes the checks of connections and jobs.

DROP FUNCTION datarecs.lease_check;
DROP TABLE datarecs.resource_check;
DELETE FROM datarecs.schema_compat WHERE revision = '0017';
