-- Who may claim; printed by `python -m datarecs_postgres.rls`, frozen here.
REVOKE ALL ON FUNCTION datarecs.claim_work(text, text[], interval[], text[], text[], interval, integer, uuid) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION datarecs.claim_work(text, text[], interval[], text[], text[], interval, integer, uuid) TO datarecs_capture;
