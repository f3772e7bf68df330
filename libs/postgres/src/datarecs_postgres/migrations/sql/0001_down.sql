-- Takes the first schema back: functions, then tables in the order of their references.

DROP FUNCTION datarecs.claim_runs, datarecs.due_timers, datarecs.due_tenants, datarecs.lease_run,
    datarecs.feed_after, datarecs.resolve_api_key, datarecs.maintain_partitions, datarecs.draw_rv;
DROP SEQUENCE datarecs.feed_rv;
DROP TABLE datarecs.inbox, datarecs.relay_owner, datarecs.relay_shard, datarecs.outbox,
    datarecs.sealed_secret, datarecs.resource_change, datarecs.resource,
    datarecs.run_timer, datarecs.run_lease, datarecs.run_event, datarecs.run,
    datarecs.audit_head, datarecs.audit_event, datarecs.idempotency_key, datarecs.api_key,
    datarecs.tenant;
DROP FUNCTION datarecs.service_name;
DROP TABLE datarecs.partition_policy, datarecs.service_role, datarecs.schema_compat;
REVOKE USAGE ON SCHEMA datarecs FROM datarecs_api, datarecs_controller, datarecs_worker_run,
    datarecs_mail, datarecs_webhook, datarecs_relay, datarecs_read;
