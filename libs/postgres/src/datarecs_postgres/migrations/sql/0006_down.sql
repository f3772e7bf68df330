-- Takes the probes of the queue back. Of an outbox that was divided otherwise, 16 shards are left to
-- writers of before: it must be drained.

DROP FUNCTION datarecs.divide_outbox, datarecs.outbox_shards;
UPDATE datarecs.outbox SET shard = shard % 16 WHERE shard > 15;
ALTER TABLE datarecs.outbox ADD CONSTRAINT outbox_shard_check CHECK (shard BETWEEN 0 AND 15);
DELETE FROM datarecs.relay_shard WHERE shard >= 16;
INSERT INTO datarecs.relay_shard (shard) SELECT generate_series(0, 15) ON CONFLICT DO NOTHING;

CREATE INDEX run_lease_waiting ON datarecs.run_lease (due_at) WHERE lease_owner IS NULL;
CREATE OR REPLACE FUNCTION datarecs.lease_run(executor text, ttl interval DEFAULT interval '60 seconds')
RETURNS TABLE (tenant uuid, run uuid, attempt_no integer, epoch bigint, remaining interval)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
DECLARE
    candidate record;
    state text;
    moment timestamptz;
    deadline timestamptz;
BEGIN
    -- Tenants with few running runs come first, so that a long queue delays only its owner.
    FOR candidate IN
        WITH held AS (SELECT h.tenant_id, count(*) AS running FROM run_lease h
                      WHERE h.lease_owner IS NOT NULL GROUP BY h.tenant_id)
        SELECT l.tenant_id, l.run_id, t.running_limit
        FROM run_lease l
        JOIN datarecs.run r ON r.tenant_id = l.tenant_id AND r.run_id = l.run_id
        JOIN datarecs.tenant t ON t.tenant_id = l.tenant_id
        LEFT JOIN held ON held.tenant_id = l.tenant_id
        WHERE l.lease_owner IS NULL AND l.due_at <= clock_timestamp()
          AND r.status IN ('QUEUED', 'RUNNING') AND NOT r.cancel_requested
          AND (r.deadline_at IS NULL OR r.deadline_at > clock_timestamp())
          AND coalesce(held.running, 0) < t.running_limit
        ORDER BY coalesce(held.running, 0), l.priority, l.due_at, l.run_id
        LIMIT 50
    LOOP
        -- The tenant's row is the counter's lock: the limit holds under concurrent leases.
        PERFORM 1 FROM datarecs.tenant t WHERE t.tenant_id = candidate.tenant_id FOR NO KEY UPDATE;
        CONTINUE WHEN (SELECT count(*) FROM run_lease h WHERE h.tenant_id = candidate.tenant_id
                       AND h.lease_owner IS NOT NULL) >= candidate.running_limit;
        SELECT r.status INTO state FROM datarecs.run r
            WHERE r.tenant_id = candidate.tenant_id AND r.run_id = candidate.run_id
              AND r.status IN ('QUEUED', 'RUNNING') AND NOT r.cancel_requested
            FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        moment := clock_timestamp();
        UPDATE run_lease l
            SET lease_epoch = l.lease_epoch + 1, attempt = l.attempt + 1,
                lease_owner = executor, lease_until = moment + ttl
            WHERE l.tenant_id = candidate.tenant_id AND l.run_id = candidate.run_id
              AND l.lease_owner IS NULL AND l.due_at <= moment
            RETURNING l.attempt, l.lease_epoch INTO attempt_no, epoch;
        CONTINUE WHEN NOT FOUND;
        -- What datarecs_core.runs.progress decides for the fact AttemptStarted; a test compares.
        UPDATE datarecs.run r
            SET status = 'RUNNING', attempt = attempt_no, row_version = r.row_version + 1,
                started_at = coalesce(r.started_at, moment),
                deadline_at = coalesce(r.deadline_at,
                                       moment + make_interval(secs => r.deadline_seconds)),
                next_reconcile_at = CASE WHEN state = 'QUEUED' THEN NULL
                                         ELSE r.next_reconcile_at END
            WHERE r.tenant_id = candidate.tenant_id AND r.run_id = candidate.run_id
            RETURNING r.deadline_at INTO deadline;
        IF state = 'QUEUED' THEN
            DELETE FROM run_timer t
                WHERE t.tenant_id = candidate.tenant_id AND t.run_id = candidate.run_id
                  AND t.reason IN ('submit', 'late_start', 'queue_wait', 'queue_ttl');
            INSERT INTO run_timer (tenant_id, run_id, reason, due_at) VALUES
                (candidate.tenant_id, candidate.run_id, 'deadline',
                 deadline + interval '60 seconds'),
                (candidate.tenant_id, candidate.run_id, 'observe', moment + interval '60 seconds')
                ON CONFLICT ON CONSTRAINT run_timer_pkey
                DO UPDATE SET due_at = excluded.due_at, claimed_until = NULL;
        END IF;
        PERFORM pg_notify('datarecs_run', candidate.run_id::text);
        tenant := candidate.tenant_id;
        run := candidate.run_id;
        remaining := deadline - moment;
        RETURN NEXT;
        RETURN;
    END LOOP;
END $$;
DROP INDEX datarecs.run_lease_next;
DROP INDEX datarecs.run_lease_running;
DELETE FROM datarecs.schema_compat WHERE revision = '0006';
