-- The queue of runs by index probes, and an outbox divided as the operator says. Who may do what is
-- 0006_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0006', '0.1.0');

-- The next run of a tenant, and how many of it are running: neither reads the whole queue.
CREATE INDEX run_lease_next ON datarecs.run_lease (tenant_id, priority, due_at, run_id)
    WHERE lease_owner IS NULL;
CREATE INDEX run_lease_running ON datarecs.run_lease (tenant_id) WHERE lease_owner IS NOT NULL;
DROP INDEX datarecs.run_lease_waiting;

CREATE OR REPLACE FUNCTION datarecs.lease_run(executor text, ttl interval DEFAULT interval '60 seconds')
RETURNS TABLE (tenant uuid, run uuid, attempt_no integer, epoch bigint, remaining interval)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
DECLARE
    candidate record;
    chosen record;
    moment timestamptz;
    deadline timestamptz;
BEGIN
    -- Tenants with few running runs come first, so that a long queue delays only its owner. Who waits
    -- at all is found by skipping from tenant to tenant, and of each only its next run is looked at.
    FOR candidate IN
        WITH RECURSIVE waiting AS (
            (SELECT l.tenant_id FROM run_lease l WHERE l.lease_owner IS NULL
             ORDER BY l.tenant_id LIMIT 1)
            UNION ALL
            SELECT (SELECT l.tenant_id FROM run_lease l
                    WHERE l.lease_owner IS NULL AND l.tenant_id > w.tenant_id
                    ORDER BY l.tenant_id LIMIT 1)
            FROM waiting w WHERE w.tenant_id IS NOT NULL)
        SELECT w.tenant_id, t.running_limit
        FROM waiting w
        JOIN datarecs.tenant t ON t.tenant_id = w.tenant_id
        CROSS JOIN LATERAL (
            SELECT count(*) AS running FROM run_lease h
            WHERE h.tenant_id = w.tenant_id AND h.lease_owner IS NOT NULL) held
        CROSS JOIN LATERAL (
            SELECT l.priority, l.due_at, l.run_id FROM run_lease l
            JOIN datarecs.run r ON r.tenant_id = l.tenant_id AND r.run_id = l.run_id
            WHERE l.tenant_id = w.tenant_id
              AND l.lease_owner IS NULL AND l.due_at <= clock_timestamp()
              AND r.status IN ('QUEUED', 'RUNNING') AND NOT r.cancel_requested
              AND (r.deadline_at IS NULL OR r.deadline_at > clock_timestamp())
            ORDER BY l.priority, l.due_at, l.run_id LIMIT 1) next
        WHERE held.running < t.running_limit
        ORDER BY held.running, next.priority, next.due_at, next.run_id
    LOOP
        -- The tenant's row is the counter's lock: the limit holds under concurrent leases.
        PERFORM 1 FROM datarecs.tenant t WHERE t.tenant_id = candidate.tenant_id FOR NO KEY UPDATE;
        CONTINUE WHEN (SELECT count(*) FROM run_lease h WHERE h.tenant_id = candidate.tenant_id
                       AND h.lease_owner IS NOT NULL) >= candidate.running_limit;
        -- A lease may change between being read and its run being locked: then the next one.
        FOR try IN 1..5 LOOP
            SELECT l.run_id, r.status INTO chosen FROM run_lease l
                JOIN datarecs.run r ON r.tenant_id = l.tenant_id AND r.run_id = l.run_id
                WHERE l.tenant_id = candidate.tenant_id
                  AND l.lease_owner IS NULL AND l.due_at <= clock_timestamp()
                  AND r.status IN ('QUEUED', 'RUNNING') AND NOT r.cancel_requested
                  AND (r.deadline_at IS NULL OR r.deadline_at > clock_timestamp())
                ORDER BY l.priority, l.due_at, l.run_id LIMIT 1
                FOR UPDATE OF r SKIP LOCKED;
            EXIT WHEN NOT FOUND;
            moment := clock_timestamp();
            UPDATE run_lease l
                SET lease_epoch = l.lease_epoch + 1, attempt = l.attempt + 1,
                    lease_owner = executor, lease_until = moment + ttl
                WHERE l.tenant_id = candidate.tenant_id AND l.run_id = chosen.run_id
                  AND l.lease_owner IS NULL AND l.due_at <= moment
                RETURNING l.attempt, l.lease_epoch INTO attempt_no, epoch;
            CONTINUE WHEN NOT FOUND;
            -- What datarecs_core.runs.progress decides for the fact AttemptStarted; a test compares.
            UPDATE datarecs.run r
                SET status = 'RUNNING', attempt = attempt_no, row_version = r.row_version + 1,
                    started_at = coalesce(r.started_at, moment),
                    deadline_at = coalesce(r.deadline_at,
                                           moment + make_interval(secs => r.deadline_seconds)),
                    next_reconcile_at = CASE WHEN chosen.status = 'QUEUED' THEN NULL
                                             ELSE r.next_reconcile_at END
                WHERE r.tenant_id = candidate.tenant_id AND r.run_id = chosen.run_id
                RETURNING r.deadline_at INTO deadline;
            IF chosen.status = 'QUEUED' THEN
                DELETE FROM run_timer t
                    WHERE t.tenant_id = candidate.tenant_id AND t.run_id = chosen.run_id
                      AND t.reason IN ('submit', 'late_start', 'queue_wait', 'queue_ttl');
                INSERT INTO run_timer (tenant_id, run_id, reason, due_at) VALUES
                    (candidate.tenant_id, chosen.run_id, 'deadline',
                     deadline + interval '60 seconds'),
                    (candidate.tenant_id, chosen.run_id, 'observe', moment + interval '60 seconds')
                    ON CONFLICT ON CONSTRAINT run_timer_pkey
                    DO UPDATE SET due_at = excluded.due_at, claimed_until = NULL;
            END IF;
            PERFORM pg_notify('datarecs_run', chosen.run_id::text);
            tenant := candidate.tenant_id;
            run := chosen.run_id;
            remaining := deadline - moment;
            RETURN NEXT;
            RETURN;
        END LOOP;
    END LOOP;
END $$;

-- What is below the number of shards follows from it; a wider check would read every old row.
ALTER TABLE datarecs.outbox DROP CONSTRAINT outbox_shard_check;

-- Into how many shards the outbox is divided. Whoever writes an event asks, so that all agree on the
-- shard of a key.
CREATE FUNCTION datarecs.outbox_shards()
RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    SELECT count(*)::integer FROM relay_shard
$$;

-- Divide it anew, or answer false while an event is not sent: the shards of one key must never be two.
CREATE FUNCTION datarecs.divide_outbox(n integer)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
BEGIN
    IF n NOT BETWEEN 1 AND 256 THEN
        RAISE EXCEPTION 'an outbox has 1 to 256 shards' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF outbox_shards() = n THEN
        RETURN true;
    END IF;
    IF EXISTS (SELECT 1 FROM outbox o WHERE o.sent_at IS NULL) THEN
        RETURN false;
    END IF;
    -- Nobody writes an event from here to the commit.
    LOCK TABLE outbox IN SHARE MODE;
    LOCK TABLE relay_shard IN SHARE ROW EXCLUSIVE MODE;
    IF EXISTS (SELECT 1 FROM outbox o WHERE o.sent_at IS NULL) THEN
        RETURN false;
    END IF;
    DELETE FROM relay_shard r WHERE r.shard >= n;
    INSERT INTO relay_shard (shard) SELECT generate_series(0, n - 1) ON CONFLICT DO NOTHING;
    RETURN true;
END $$;
