-- Figures of running services, and due schedules by tenant. Who may do what is 0021_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0021', '0.1.0');

CREATE TABLE datarecs.service_stats (
    instance uuid PRIMARY KEY,
    counters jsonb NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);

CREATE FUNCTION datarecs.report_stats(reporter uuid, figures jsonb)
RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    DELETE FROM service_stats WHERE at < now() - interval '1 hour';
    INSERT INTO service_stats (instance, counters) VALUES (reporter, figures)
    ON CONFLICT (instance) DO UPDATE SET counters = excluded.counters, at = now();
$$;

CREATE FUNCTION datarecs.read_stats()
RETURNS TABLE (counters jsonb)
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    SELECT s.counters FROM service_stats s WHERE s.at > now() - interval '60 seconds'
$$;

DROP INDEX datarecs.schedule_state_due;
CREATE INDEX schedule_state_due ON datarecs.schedule_state (tenant_id, due_at)
    WHERE due_at IS NOT NULL;

-- Of each tenant at most its share of n, so that the backlog of one delays no other.
CREATE OR REPLACE FUNCTION datarecs.claim_schedules(n integer)
RETURNS TABLE (tenant_id uuid, schedule_uid uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    WITH waiting AS MATERIALIZED (
        SELECT t.tenant_id FROM tenant t
        WHERE EXISTS (
            SELECT FROM schedule_state w WHERE w.tenant_id = t.tenant_id AND w.due_at <= now())),
    due AS MATERIALIZED (
        SELECT d.tenant_id, d.schedule_uid
        FROM waiting t CROSS JOIN LATERAL (
            SELECT w.tenant_id, w.schedule_uid, w.due_at FROM schedule_state w
            WHERE w.tenant_id = t.tenant_id AND w.due_at <= now()
            ORDER BY w.due_at
            LIMIT (SELECT ceil(n::numeric / count(*))::integer FROM waiting)
            FOR UPDATE SKIP LOCKED) d
        ORDER BY d.due_at LIMIT n)
    UPDATE schedule_state s SET due_at = clock_timestamp() + interval '12 seconds'
    FROM due WHERE s.tenant_id = due.tenant_id AND s.schedule_uid = due.schedule_uid
    RETURNING s.tenant_id, s.schedule_uid
$$;
