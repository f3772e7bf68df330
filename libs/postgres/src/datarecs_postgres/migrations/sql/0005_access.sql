-- Who may ask how much waits; printed by `python -m datarecs_postgres.rls`, frozen here.
REVOKE ALL ON FUNCTION datarecs.run_backlog() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION datarecs.run_backlog() TO datarecs_controller;
