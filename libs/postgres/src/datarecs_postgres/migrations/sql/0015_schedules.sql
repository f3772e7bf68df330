-- Schedules: when each is decided next, and what became of its times. Who may do what is
-- 0015_access.sql; the role datarecs_resources is made by `datarecs admin bootstrap-db`.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0015', '0.1.0');
INSERT INTO datarecs.service_role (role, service)
    VALUES ('datarecs_resources', 'resource-controller');

CREATE TABLE datarecs.schedule_state (
    tenant_id uuid NOT NULL,
    schedule_uid uuid NOT NULL,
    due_at timestamptz,
    times text NOT NULL DEFAULT ''::text,
    last_fire_time timestamptz,
    is_suspended boolean NOT NULL DEFAULT false,
    waiting timestamptz,
    tzdata text NOT NULL DEFAULT ''::text,
    PRIMARY KEY (tenant_id, schedule_uid),
    FOREIGN KEY (tenant_id, schedule_uid)
        REFERENCES datarecs.resource (tenant_id, uid) ON DELETE CASCADE
);
CREATE INDEX schedule_state_due ON datarecs.schedule_state (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE datarecs.schedule_tick (
    tenant_id uuid NOT NULL,
    schedule_uid uuid NOT NULL,
    fire_time timestamptz NOT NULL,
    outcome text NOT NULL,
    run_id uuid,
    first_fire_time timestamptz,
    missed bigint NOT NULL,
    reason text,
    tzdata text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, schedule_uid, fire_time),
    FOREIGN KEY (tenant_id, schedule_uid)
        REFERENCES datarecs.resource (tenant_id, uid) ON DELETE CASCADE
);

CREATE INDEX run_of_schedule ON datarecs.run (tenant_id, schedule_uid)
    WHERE schedule_uid IS NOT NULL AND closed_at IS NULL;

CREATE FUNCTION datarecs.claim_schedules(n integer)
RETURNS TABLE (tenant_id uuid, schedule_uid uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    WITH due AS MATERIALIZED (
        SELECT d.tenant_id, d.schedule_uid FROM schedule_state d
        WHERE d.due_at <= clock_timestamp()
        ORDER BY d.due_at LIMIT n FOR UPDATE SKIP LOCKED)
    UPDATE schedule_state s SET due_at = clock_timestamp() + interval '30 seconds'
    FROM due WHERE s.tenant_id = due.tenant_id AND s.schedule_uid = due.schedule_uid
    RETURNING s.tenant_id, s.schedule_uid
$$;

CREATE FUNCTION datarecs.decide_schedules_again(version text)
RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    WITH again AS (
        UPDATE schedule_state SET due_at = least(due_at, clock_timestamp())
        WHERE due_at IS NOT NULL AND tzdata NOT IN ('', version) RETURNING 1)
    SELECT count(*) FROM again
$$;
