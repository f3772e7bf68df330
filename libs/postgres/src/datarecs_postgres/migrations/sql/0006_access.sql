-- Who may divide the outbox, and who asks how it is; printed by `python -m datarecs_postgres.rls`, frozen here.
REVOKE ALL ON FUNCTION datarecs.divide_outbox(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION datarecs.divide_outbox(integer) TO datarecs_controller;
REVOKE ALL ON FUNCTION datarecs.outbox_shards() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION datarecs.outbox_shards() TO datarecs_api, datarecs_controller, datarecs_worker_run, datarecs_mail, datarecs_webhook;
