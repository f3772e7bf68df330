-- Who may call the new function: nobody, the trigger asks for no right; printed by
-- `python -m datarecs_postgres.rls`, frozen here.
REVOKE ALL ON FUNCTION datarecs.raise_version() FROM PUBLIC;
