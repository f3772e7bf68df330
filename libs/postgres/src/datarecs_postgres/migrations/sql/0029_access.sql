-- Rights on what 0029_resting_tasks.sql adds; printed by `python -m datarecs_postgres.rls`, frozen
-- here.
GRANT UPDATE (is_resting) ON datarecs.sink_task TO datarecs_sink;
REVOKE ALL ON FUNCTION datarecs.halted_sink_tasks() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION datarecs.halted_sink_tasks() TO datarecs_sink;
