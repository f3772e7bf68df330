-- name: runs
-- Runs in the order of their creation, and whether the selection removes them or their
-- differences. At most :most are examined, so that a statement is short whatever is kept.
WITH examined AS MATERIALIZED (
    SELECT r.run_id, r.job_id, r.created_at, r.closed_at, r.result, r.differences_deleted_at
    FROM datarecs.run r
    WHERE r.tenant_id = :tenant AND r.created_at < :before
      AND (r.created_at, r.run_id) > (:after_at, :after_id)
    ORDER BY r.created_at, r.run_id LIMIT :most)
SELECT e.created_at AS at, e.run_id AS id,
    coalesce(e.closed_at < :before, false)
    AND (:whole OR e.result IS NOT NULL AND e.differences_deleted_at IS NULL)
    AND CASE WHEN j.uid IS NULL THEN :deleted_jobs
             ELSE j.namespace = :namespace AND j.labels @> :labels
                  AND coalesce(j.annotations ->> 'datarecs.io/hold', '') <> 'true' END
    AND (SELECT count(*) FROM (
             SELECT 1 FROM datarecs.run n
             WHERE n.tenant_id = :tenant AND n.job_id = e.job_id
               AND (n.created_at, n.run_id) > (e.created_at, e.run_id)
             LIMIT :keep_last) newer) >= :keep_last
    AND NOT (e.result IS NOT DISTINCT FROM 'MATCHED' AND NOT EXISTS (
             SELECT 1 FROM datarecs.run n
             WHERE n.tenant_id = :tenant AND n.job_id = e.job_id AND n.result = 'MATCHED'
               AND (n.created_at, n.run_id) > (e.created_at, e.run_id)))
    AND NOT EXISTS (
             SELECT 1 FROM datarecs.email_delivery m
             WHERE m.tenant_id = :tenant AND m.run_id = e.run_id
               AND m.state IN ('PENDING', 'SENDING'))
    AND e.run_id NOT IN (
             SELECT d.run_id FROM datarecs.webhook_delivery d
             WHERE d.tenant_id = :tenant AND d.run_id IS NOT NULL
               AND d.state IN ('PENDING', 'LEASED'))
    AND e.run_id::text NOT IN (
             SELECT o.partition_key FROM datarecs.outbox o
             WHERE o.tenant_id = :tenant AND o.sent_at IS NULL)
    AS is_due
FROM examined e
LEFT JOIN datarecs.resource j ON j.tenant_id = :tenant AND j.uid = e.job_id
    AND j.kind = 'ReconciliationJob'
ORDER BY e.created_at, e.run_id

-- name: mails
-- Mails in the order of their creation, and whether the selection removes them. Digests and
-- notices belong to no job.
WITH examined AS MATERIALIZED (
    SELECT m.delivery_id, m.job_id, m.created_at, m.state FROM datarecs.email_delivery m
    WHERE m.tenant_id = :tenant AND m.created_at < :before
      AND (m.created_at, m.delivery_id) > (:after_at, :after_id)
    ORDER BY m.created_at, m.delivery_id LIMIT :most)
SELECT e.created_at AS at, e.delivery_id AS id,
    e.state NOT IN ('PENDING', 'SENDING')
    AND CASE WHEN e.job_id IS NULL THEN :labels = '{}'::jsonb
             WHEN j.uid IS NULL THEN :deleted_jobs
             ELSE j.namespace = :namespace AND j.labels @> :labels
                  AND coalesce(j.annotations ->> 'datarecs.io/hold', '') <> 'true' END
    AS is_due
FROM examined e
LEFT JOIN datarecs.resource j ON j.tenant_id = :tenant AND j.uid = e.job_id
    AND j.kind = 'ReconciliationJob'
ORDER BY e.created_at, e.delivery_id

-- name: ticks
-- Ticks by schedule and time, and whether the selection removes them.
WITH examined AS MATERIALIZED (
    SELECT t.schedule_uid, t.fire_time FROM datarecs.schedule_tick t
    WHERE t.tenant_id = :tenant AND t.at < :before
      AND (t.schedule_uid, t.fire_time) > (:after_id, :after_at)
    ORDER BY t.schedule_uid, t.fire_time LIMIT :most)
SELECT e.fire_time AS at, e.schedule_uid AS id,
    s.namespace = :namespace
    AND CASE WHEN j.uid IS NULL THEN :labels = '{}'::jsonb
             ELSE j.labels @> :labels
                  AND coalesce(j.annotations ->> 'datarecs.io/hold', '') <> 'true' END
    AS is_due
FROM examined e
JOIN datarecs.resource s ON s.tenant_id = :tenant AND s.uid = e.schedule_uid
LEFT JOIN datarecs.resource j ON j.tenant_id = :tenant AND j.kind = 'ReconciliationJob'
    AND j.namespace = s.namespace AND j.name = s.spec ->> 'job'
ORDER BY e.schedule_uid, e.fire_time

-- name: remove_links
-- Revoked report links of removed runs; the links answer 404 without them as well.
DELETE FROM datarecs.report_link_revocation WHERE tenant_id = :tenant AND run_id = ANY (:ids)

-- name: remove_runs
-- Ended runs; history, lease and timers go with them.
DELETE FROM datarecs.run
WHERE tenant_id = :tenant AND run_id = ANY (:ids) AND closed_at IS NOT NULL

-- name: mark_runs
-- Runs without stored differences from now on.
UPDATE datarecs.run SET differences_deleted_at = now()
WHERE tenant_id = :tenant AND run_id = ANY (:ids) AND differences_deleted_at IS NULL

-- name: remove_mails
-- Mails that are terminal, with their attempts.
WITH gone AS (
    DELETE FROM datarecs.email_delivery
    WHERE tenant_id = :tenant AND delivery_id = ANY (:ids) AND state NOT IN ('PENDING', 'SENDING')
    RETURNING delivery_id),
attempts AS (
    DELETE FROM datarecs.email_attempt a USING gone
    WHERE a.tenant_id = :tenant AND a.delivery_id = gone.delivery_id)
SELECT count(*) FROM gone

-- name: remove_ticks
-- What became of some times.
DELETE FROM datarecs.schedule_tick t USING unnest(:ids, :times) AS gone (schedule_uid, fire_time)
WHERE t.tenant_id = :tenant AND t.schedule_uid = gone.schedule_uid
  AND t.fire_time = gone.fire_time
