-- The queue of captures. Who may do what is 0023_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0023', '0.1.0');
INSERT INTO datarecs.service_role (role, service)
    VALUES ('datarecs_capture', 'capture-worker');

CREATE TABLE datarecs.capture_work (
    tenant_id uuid NOT NULL,
    id uuid NOT NULL,
    kind text NOT NULL,
    parent_id uuid,
    root_id uuid NOT NULL,
    ancestors uuid[] NOT NULL,
    task jsonb NOT NULL,
    connection_uid uuid NOT NULL,
    dedupe text NOT NULL,
    execution_class text NOT NULL,
    lane text NOT NULL,
    claim_key text,
    pinned_executor text NOT NULL,
    requested_by text NOT NULL,
    state text NOT NULL,
    gate text NOT NULL,
    due_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    attempt bigint NOT NULL DEFAULT '0'::bigint,
    releases bigint NOT NULL DEFAULT '0'::bigint,
    epoch bigint NOT NULL DEFAULT '0'::bigint,
    executor text,
    lease_until timestamptz,
    deadline_at timestamptz,
    waits_since timestamptz,
    started_at timestamptz,
    finished_at timestamptz,
    cancel_requested_at timestamptz,
    cancelled_by text,
    cancel_reason text,
    children_final boolean NOT NULL DEFAULT false,
    outcome_sha256 text,
    outcome_epoch bigint,
    message text NOT NULL DEFAULT ''::text,
    error_code text,
    error_message text,
    error_retry text,
    counters jsonb NOT NULL,
    PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX capture_work_ready
    ON datarecs.capture_work (kind, tenant_id, pinned_executor, due_at, id)
    WHERE state = 'QUEUED' AND gate = 'OPEN';
CREATE INDEX capture_work_parked ON datarecs.capture_work (tenant_id, claim_key, due_at, id)
    WHERE state = 'QUEUED' AND gate = 'LANE';
CREATE UNIQUE INDEX capture_work_root_key ON datarecs.capture_work (tenant_id, dedupe)
    WHERE parent_id IS NULL AND state IN ('QUEUED', 'RUNNING', 'WAITING');
CREATE UNIQUE INDEX capture_work_child_key ON datarecs.capture_work (tenant_id, dedupe)
    WHERE parent_id IS NOT NULL;
CREATE INDEX capture_work_children ON datarecs.capture_work (tenant_id, parent_id, id)
    WHERE parent_id IS NOT NULL;
CREATE INDEX capture_work_live ON datarecs.capture_work (tenant_id, parent_id)
    WHERE parent_id IS NOT NULL AND finished_at IS NULL;
CREATE INDEX capture_work_tree ON datarecs.capture_work (tenant_id, root_id);
CREATE INDEX capture_work_leased ON datarecs.capture_work (lease_until, tenant_id)
    WHERE lease_until IS NOT NULL;
CREATE INDEX capture_work_old ON datarecs.capture_work (finished_at, tenant_id)
    WHERE parent_id IS NULL AND finished_at IS NOT NULL;
CREATE INDEX capture_work_listed ON datarecs.capture_work (tenant_id, created_at, id);

CREATE TABLE datarecs.capture_claim (
    tenant_id uuid NOT NULL,
    claim_key text NOT NULL,
    item_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, claim_key),
    FOREIGN KEY (tenant_id, item_id)
        REFERENCES datarecs.capture_work (tenant_id, id) ON DELETE CASCADE
);
CREATE TABLE datarecs.capture_cancel (
    tenant_id uuid NOT NULL,
    item_id uuid NOT NULL,
    PRIMARY KEY (tenant_id, item_id),
    FOREIGN KEY (tenant_id, item_id)
        REFERENCES datarecs.capture_work (tenant_id, id) ON DELETE CASCADE
);
CREATE TABLE datarecs.capture_turn (
    tenant_id uuid NOT NULL,
    kind text NOT NULL,
    served bigint NOT NULL,
    PRIMARY KEY (tenant_id, kind)
);
CREATE SEQUENCE datarecs.capture_turns;

-- Slices (tenant, kind, pinned or not) with due items; the one that was served longest ago first.
-- The recursion reads one row of the index per slice, however many items wait in it.
CREATE FUNCTION datarecs.capture_slices(reader text, wanted text[], at timestamptz)
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
CREATE FUNCTION datarecs.capture_candidates(
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

-- Whether the item gets its claim key; if another item has it, the item is parked behind it.
-- The advisory lock lets two claims never wait for each other's insert. A conflicting row is read
-- again FOR SHARE: a release that deletes it either waits until the item is parked, and then opens
-- it, or was first, and then the item stays open. So nothing is parked behind a free key.
CREATE FUNCTION datarecs.capture_take_key(owner uuid, item uuid, wanted text)
RETURNS boolean
LANGUAGE plpgsql SET search_path = datarecs, pg_temp AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('capture' || owner || wanted, 0)) THEN
        RETURN false;
    END IF;
    INSERT INTO capture_claim (tenant_id, claim_key, item_id) VALUES (owner, wanted, item)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
        RETURN true;
    END IF;
    PERFORM FROM capture_claim c WHERE c.tenant_id = owner AND c.claim_key = wanted FOR SHARE;
    IF FOUND THEN
        UPDATE capture_work w SET gate = 'LANE' WHERE w.tenant_id = owner AND w.id = item;
    END IF;
    RETURN false;
END $$;

-- The slice was served. Nobody waits for it: a turn that another claim writes is left out.
CREATE FUNCTION datarecs.capture_note_turn(owner uuid, of_kind text)
RETURNS void
LANGUAGE plpgsql SET search_path = datarecs, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM capture_turn t WHERE t.tenant_id = owner AND t.kind = of_kind) THEN
        INSERT INTO capture_turn (tenant_id, kind, served)
        VALUES (owner, of_kind, nextval('capture_turns')) ON CONFLICT DO NOTHING;
        RETURN;
    END IF;
    PERFORM FROM capture_turn t WHERE t.tenant_id = owner AND t.kind = of_kind
        FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE capture_turn t SET served = nextval('capture_turns')
        WHERE t.tenant_id = owner AND t.kind = of_kind;
    END IF;
END $$;

-- Lease due items to an executor, of one tenant or, with null, of all. Of each slice at most its
-- share in a first round, then the rest. Items that are parked on the way cost a visit each; a call makes at most 1,024 visits.
CREATE FUNCTION datarecs.claim_work(
    reader text, wanted text[], lasting interval[], lanes text[], classes text[], lease interval,
    n integer, only_tenant uuid)
RETURNS TABLE (tenant_id uuid, id uuid, epoch bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at timestamptz := clock_timestamp();
    owners uuid[];
    kinds text[];
    pins text[];
    item record;
    last_due timestamptz;
    last_id uuid;
    share integer;
    taken integer := 0;
    served integer;
    seen integer;
    visits integer := 0;
BEGIN
    SELECT array_agg(s.tenant_id), array_agg(s.kind), array_agg(s.pin)
    INTO owners, kinds, pins FROM capture_slices(reader, wanted, at) s
    WHERE only_tenant IS NULL OR s.tenant_id = only_tenant;
    FOR round IN 1..2 LOOP
        EXIT WHEN owners IS NULL;
        share := CASE round WHEN 1 THEN ceil(n::numeric / cardinality(owners)) ELSE n END;
        FOR i IN 1..cardinality(owners) LOOP
            served := 0;
            last_due := '-infinity';
            last_id := '00000000-0000-0000-0000-000000000000';
            LOOP
                EXIT WHEN taken >= n OR served >= share OR visits >= 1024;
                seen := 0;
                FOR item IN
                    SELECT c.id, c.claim_key, c.due_at FROM capture_candidates(
                        owners[i], kinds[i], pins[i], lanes, classes, at, last_due, last_id,
                        least(n - taken, share - served)) c
                LOOP
                    seen := seen + 1;
                    last_due := item.due_at;
                    last_id := item.id;
                    CONTINUE WHEN item.claim_key IS NOT NULL
                        AND NOT capture_take_key(owners[i], item.id, item.claim_key);
                    RETURN QUERY UPDATE capture_work w
                        SET state = 'RUNNING', epoch = w.epoch + 1, executor = reader,
                            lease_until = clock_timestamp() + lease,
                            deadline_at = clock_timestamp()
                                + lasting[array_position(wanted, w.kind)]
                        WHERE w.tenant_id = owners[i] AND w.id = item.id
                        RETURNING w.tenant_id, w.id, w.epoch;
                    served := served + 1;
                    taken := taken + 1;
                END LOOP;
                EXIT WHEN seen = 0;
                visits := visits + seen;
            END LOOP;
            IF served > 0 THEN
                PERFORM capture_note_turn(owners[i], kinds[i]);
            END IF;
        END LOOP;
    END LOOP;
END $$;

-- Tenants with leases that expired, cancelled trees, or trees that can be removed.
CREATE FUNCTION datarecs.capture_tenants(what text)
RETURNS TABLE (tenant_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    SELECT DISTINCT w.tenant_id FROM capture_work w
    WHERE what = 'expired' AND w.lease_until <= clock_timestamp() - interval '5 seconds'
    UNION ALL
    SELECT DISTINCT c.tenant_id FROM capture_cancel c WHERE what = 'cancelled'
    UNION ALL
    SELECT DISTINCT w.tenant_id FROM capture_work w
    WHERE what = 'old' AND w.parent_id IS NULL
        AND w.finished_at <= clock_timestamp() - interval '24 hours'
    ORDER BY 1
$$;
