-- Who may free a key; printed by `python -m datarecs_postgres.rls capture_free_key`, frozen here.
REVOKE ALL ON FUNCTION datarecs.capture_free_key(uuid, uuid, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION datarecs.capture_free_key(uuid, uuid, text) TO datarecs_api, datarecs_capture;
