-- Plans the queries of a claim at each call again.

DROP FUNCTION datarecs.capture_free_key;
-- Slices (tenant, kind, pinned or not) with due items; the one that was served longest ago first.
-- The recursion reads one row of the index per slice, however many items wait in it.
CREATE OR REPLACE FUNCTION datarecs.capture_slices(reader text, wanted text[], at timestamptz)
RETURNS TABLE (tenant_id uuid, kind text, pin text)
LANGUAGE sql STABLE SET search_path = datarecs, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off AS $$
    WITH RECURSIVE slice AS (
        (SELECT w.kind, w.tenant_id FROM capture_work w
         WHERE w.state = 'QUEUED' AND w.gate = 'OPEN'
         ORDER BY w.kind, w.tenant_id LIMIT 1)
        UNION ALL
        SELECT n.kind, n.tenant_id FROM slice s CROSS JOIN LATERAL (
            SELECT w.kind, w.tenant_id FROM capture_work w
            WHERE w.state = 'QUEUED' AND w.gate = 'OPEN'
                AND (w.kind, w.tenant_id) > (s.kind, s.tenant_id)
            ORDER BY w.kind, w.tenant_id LIMIT 1) n)
    SELECT s.tenant_id, s.kind, p.pin
    FROM slice s
    CROSS JOIN LATERAL (VALUES (reader), ('')) p (pin)
    CROSS JOIN LATERAL (
        SELECT w.due_at FROM capture_work w
        WHERE w.kind = s.kind AND w.tenant_id = s.tenant_id AND w.pinned_executor = p.pin
            AND w.state = 'QUEUED' AND w.gate = 'OPEN' AND w.due_at <= at
        ORDER BY w.due_at LIMIT 1) d
    LEFT JOIN capture_turn t ON t.tenant_id = s.tenant_id AND t.kind = s.kind
    WHERE s.kind = ANY (wanted)
    ORDER BY t.served NULLS FIRST, d.due_at, s.tenant_id, s.kind, p.pin DESC
$$;

-- Due items of a slice in their order, after the last one of the call; filters of the caller apply.
CREATE OR REPLACE FUNCTION datarecs.capture_candidates(
    owner uuid, wanted text, pin text, lanes text[], classes text[], at timestamptz,
    last_due timestamptz, last_id uuid, n integer)
RETURNS TABLE (id uuid, claim_key text, due_at timestamptz)
LANGUAGE sql SET search_path = datarecs, pg_temp
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
    SELECT w.id, w.claim_key, w.due_at FROM capture_work w
    WHERE w.kind = wanted AND w.tenant_id = owner AND w.pinned_executor = pin
        AND w.state = 'QUEUED' AND w.gate = 'OPEN' AND w.due_at <= at
        AND (w.due_at, w.id) > (last_due, last_id)
        AND (pin <> '' OR ((cardinality(lanes) = 0 OR w.lane = ANY (lanes))
            AND (cardinality(classes) = 0 OR w.execution_class = ANY (classes))))
        AND NOT EXISTS (SELECT FROM capture_cancel c
            WHERE c.tenant_id = w.tenant_id AND c.item_id = ANY (w.ancestors))
    ORDER BY w.due_at, w.id LIMIT n
    FOR NO KEY UPDATE SKIP LOCKED
$$;
DELETE FROM datarecs.schema_compat WHERE revision = '0027';
