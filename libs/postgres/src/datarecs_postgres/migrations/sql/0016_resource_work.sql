-- Controllers: when each object is reconciled next, and who holds it. Who may do what is
-- 0016_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0016', '0.1.0');

CREATE TABLE datarecs.resource_work (
    tenant_id uuid NOT NULL,
    uid uuid NOT NULL,
    kind text NOT NULL,
    due_at timestamptz,
    dirty_seq bigint NOT NULL DEFAULT '0'::bigint,
    attempts bigint NOT NULL DEFAULT '0'::bigint,
    conflicts bigint NOT NULL DEFAULT '0'::bigint,
    generation bigint NOT NULL DEFAULT '0'::bigint,
    reconcile_at text NOT NULL DEFAULT ''::text,
    is_terminal boolean NOT NULL DEFAULT false,
    window_start timestamptz,
    window_count bigint NOT NULL DEFAULT '0'::bigint,
    epoch bigint NOT NULL DEFAULT '0'::bigint,
    lease_until timestamptz,
    PRIMARY KEY (tenant_id, uid),
    FOREIGN KEY (tenant_id, uid)
        REFERENCES datarecs.resource (tenant_id, uid) ON DELETE CASCADE
);
CREATE INDEX resource_work_due ON datarecs.resource_work (tenant_id, due_at)
    WHERE due_at IS NOT NULL;
CREATE INDEX resource_work_leased ON datarecs.resource_work (tenant_id, lease_until)
    WHERE lease_until IS NOT NULL;

-- Objects that were stored before their kind had a controller, or by an older release since.
CREATE FUNCTION datarecs.adopt_resources(kinds text[])
RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    WITH adopted AS (
        INSERT INTO resource_work (tenant_id, uid, kind, due_at, dirty_seq)
        SELECT r.tenant_id, r.uid, r.kind, clock_timestamp(), 1 FROM resource r
        WHERE r.kind = ANY (kinds) AND NOT EXISTS (
            SELECT FROM resource_work w WHERE w.tenant_id = r.tenant_id AND w.uid = r.uid)
        ON CONFLICT DO NOTHING RETURNING 1)
    SELECT count(*) FROM adopted
$$;

-- Of each tenant at most its share of n, oldest first; a tenant with fewer leases comes first.
-- now() can be compared in an index, as the claim is alone in its transaction; the settings let it
-- read the first rows of the index instead of sorting all that are due.
CREATE FUNCTION datarecs.claim_resources(kinds text[], n integer)
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

CREATE FUNCTION datarecs.resource_backlog()
RETURNS TABLE (kind text, due bigint, oldest_seconds double precision)
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    SELECT w.kind, count(*),
        extract(epoch FROM now() - min(w.due_at))::double precision
    FROM resource_work w
    WHERE w.due_at <= now()
        AND (w.lease_until IS NULL OR w.lease_until <= now())
    GROUP BY w.kind
$$;
