-- Who may repair delivery; printed by `python -m datarecs_postgres.rls`, frozen here.
CREATE POLICY reads_controller ON datarecs.outbox AS RESTRICTIVE FOR SELECT TO datarecs_controller USING (type = ANY ('{io.datarecs.reconciliation.run.cancel_requested,io.datarecs.reconciliation.run.comparison.completed,io.datarecs.reconciliation.run.comparison.errored,io.datarecs.reconciliation.run.comparison.started,io.datarecs.reconciliation.run.completed,io.datarecs.reconciliation.run.errored,io.datarecs.reconciliation.run.extraction.completed,io.datarecs.reconciliation.run.extraction.errored,io.datarecs.reconciliation.run.extraction.started,io.datarecs.reconciliation.run.rows_processed,io.datarecs.reconciliation.run.stage.completed,io.datarecs.reconciliation.run.stage.errored,io.datarecs.reconciliation.run.stage.started,io.datarecs.reconciliation.run.triggered}'::text[]));
CREATE POLICY reads_mail ON datarecs.outbox AS RESTRICTIVE FOR SELECT TO datarecs_mail USING (type = ANY ('{io.datarecs.reconciliation.run.finalised}'::text[]));
GRANT SELECT (position, event_id, created_at, tenant_id, type, topic, partition_key, headers, data) ON datarecs.outbox TO datarecs_controller, datarecs_mail, datarecs_webhook;
REVOKE ALL ON FUNCTION datarecs.keep_outbox(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION datarecs.keep_outbox(integer) TO datarecs_controller;
REVOKE ALL ON FUNCTION datarecs.unheard_events(text, text[], timestamptz, timestamptz, bigint, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION datarecs.unheard_events(text, text[], timestamptz, timestamptz, bigint, integer) TO datarecs_controller, datarecs_mail, datarecs_webhook;
REVOKE ALL ON FUNCTION datarecs.event_memory() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION datarecs.event_memory() TO datarecs_controller, datarecs_mail, datarecs_webhook;
