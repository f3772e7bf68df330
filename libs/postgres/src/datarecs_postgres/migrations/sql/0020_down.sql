-- Lets claims of schedules last 30 s again, and leases of objects 75 s.

CREATE OR REPLACE FUNCTION datarecs.claim_schedules(n integer)
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

CREATE OR REPLACE FUNCTION datarecs.claim_resources(kinds text[], n integer)
RETURNS TABLE (tenant_id uuid, uid uuid, kind text, epoch bigint, dirty_seq bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
    WITH waiting AS MATERIALIZED (
        SELECT t.tenant_id, (
            SELECT count(*) FROM resource_work l
            WHERE l.tenant_id = t.tenant_id AND l.lease_until > now()) AS leased
        FROM tenant t
        WHERE EXISTS (
            SELECT FROM resource_work w
            WHERE w.tenant_id = t.tenant_id AND w.due_at <= now()
                AND w.kind = ANY (kinds)
                AND (w.lease_until IS NULL OR w.lease_until <= now()))),
    due AS MATERIALIZED (
        SELECT d.tenant_id, d.uid
        FROM waiting t CROSS JOIN LATERAL (
            SELECT w.tenant_id, w.uid, w.due_at FROM resource_work w
            WHERE w.tenant_id = t.tenant_id AND w.due_at <= now()
                AND w.kind = ANY (kinds)
                AND (w.lease_until IS NULL OR w.lease_until <= now())
            ORDER BY w.due_at
            LIMIT (SELECT ceil(n::numeric / count(*))::integer FROM waiting)
            FOR UPDATE SKIP LOCKED) d
        ORDER BY t.leased, d.due_at LIMIT n)
    UPDATE resource_work s
    SET epoch = s.epoch + 1, lease_until = clock_timestamp() + interval '75 seconds'
    FROM due WHERE s.tenant_id = due.tenant_id AND s.uid = due.uid
    RETURNING s.tenant_id, s.uid, s.kind, s.epoch, s.dirty_seq
$$;
DELETE FROM datarecs.schema_compat WHERE revision = '0020';
