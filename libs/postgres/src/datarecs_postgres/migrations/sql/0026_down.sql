-- Takes the rights of runs on pointers away.
REVOKE ALL ON datarecs.pointer FROM datarecs_worker_run;
DROP POLICY pins_moved ON datarecs.pointer;
DROP POLICY pins_added ON datarecs.pointer;
DROP POLICY tenant_worker_run ON datarecs.pointer;
DELETE FROM datarecs.schema_compat WHERE revision = '0026';
