-- name: fence_runs
-- A worker of the lost future holds an epoch below. A held run returns to the queue as a drain
-- returns it, without use of an attempt; a run that ended in the topics waits for its end.
UPDATE datarecs.run_lease l
SET lease_epoch = l.lease_epoch + :step, lease_owner = NULL, lease_until = NULL,
    attempt = CASE WHEN l.lease_owner IS NULL THEN l.attempt ELSE greatest(l.attempt - 1, 0) END,
    releases = l.releases + CASE WHEN l.lease_owner IS NULL THEN 0 ELSE 1 END,
    due_at = CASE WHEN l.due_at > '9000-01-01' AND l.lease_owner IS NULL THEN l.due_at
                  WHEN l.run_id = ANY (:ended) THEN greatest(l.due_at, clock_timestamp() + :rest)
                  WHEN l.lease_owner IS NOT NULL THEN clock_timestamp() ELSE l.due_at END

-- name: fence_webhooks
-- A leased delivery is taken again when its lease ends, which is in the past by then.
UPDATE datarecs.webhook_delivery SET lease_epoch = lease_epoch + :step
WHERE state IN ('PENDING', 'LEASED')

-- name: fence_mails
-- The same for mails.
UPDATE datarecs.email_delivery SET lease_epoch = lease_epoch + :step
WHERE state IN ('PENDING', 'SENDING')

-- name: fence_shards
-- A relay of the lost future sends nothing more under its old epoch.
UPDATE datarecs.relay_shard SET epoch = epoch + :step, owner = NULL, lease_until = NULL

-- name: forget_relays
-- Relays count themselves again at their start.
DELETE FROM datarecs.relay_owner

-- name: reopen_events
-- The relay sends these rows again, with the same ids and bytes.
UPDATE datarecs.outbox SET sent_at = NULL
WHERE created_at >= :since AND created_at <= :until AND sent_at IS NOT NULL

-- name: advance_feed
-- Readers of the lost future may hold higher numbers than the restored database has drawn.
SELECT setval('datarecs.feed_rv', nextval('datarecs.feed_rv') + :step)

-- name: newest_event
-- The newest event of the database, and its time.
SELECT clock_timestamp() AS now, (SELECT max(created_at) FROM datarecs.outbox) AS newest

-- name: last_handled
-- When the event was written that a group handled last.
SELECT o.created_at FROM datarecs.inbox i
JOIN datarecs.outbox o ON o.tenant_id = i.tenant_id AND o.event_id = i.event_id
WHERE i.consumer = :group ORDER BY i.received_at DESC LIMIT 1

-- name: known_events
-- Which of these events the outbox has.
SELECT o.event_id FROM unnest(:tenants, :events) AS wanted (tenant_id, event_id)
JOIN datarecs.outbox o ON o.tenant_id = wanted.tenant_id AND o.event_id = wanted.event_id

-- name: known_runs
-- Which of these runs exist.
SELECT r.run_id FROM datarecs.run r WHERE r.run_id = ANY (:runs)

-- name: completed_runs
-- Runs whose result is in the blob store, by tenant.
SELECT r.tenant_id, r.run_id FROM datarecs.run r WHERE r.status = 'COMPLETED'
ORDER BY r.tenant_id, r.run_id
