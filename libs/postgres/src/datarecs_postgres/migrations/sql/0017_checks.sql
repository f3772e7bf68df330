-- Checks of connections and jobs: requested by resource-controller, made by reconciliation-worker.
-- Who may do what is 0017_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0017', '0.1.0');

CREATE TABLE datarecs.resource_check (
    tenant_id uuid NOT NULL,
    resource_uid uuid NOT NULL,
    subject text NOT NULL,
    due_at timestamptz,
    epoch bigint NOT NULL DEFAULT 0,
    claimed_at timestamptz,
    lease_until timestamptz,
    checked_at timestamptz,
    checked_generation bigint,
    result jsonb,
    PRIMARY KEY (tenant_id, resource_uid),
    FOREIGN KEY (tenant_id, resource_uid)
        REFERENCES datarecs.resource (tenant_id, uid) ON DELETE CASCADE
);
CREATE INDEX resource_check_due ON datarecs.resource_check (due_at) WHERE due_at IS NOT NULL;

-- At most one. The tenant that has waited longest for a check comes first. `due_at` becomes the end
-- of the lease: a request that arrives later sets another time, so one more check follows.
CREATE FUNCTION datarecs.lease_check(ttl interval)
RETURNS TABLE (tenant_id uuid, resource_uid uuid, epoch bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    WITH moment AS MATERIALIZED (SELECT clock_timestamp() AS now),
    latest AS (
        SELECT l.tenant_id, max(l.claimed_at) AS at FROM resource_check l GROUP BY l.tenant_id),
    due AS MATERIALIZED (
        SELECT d.tenant_id, d.resource_uid
        FROM resource_check d JOIN latest ON latest.tenant_id = d.tenant_id
        WHERE d.due_at <= clock_timestamp()
          AND (d.lease_until IS NULL OR d.lease_until <= clock_timestamp())
        ORDER BY latest.at NULLS FIRST, d.due_at LIMIT 1 FOR UPDATE OF d SKIP LOCKED)
    UPDATE resource_check c SET epoch = c.epoch + 1, claimed_at = moment.now,
        due_at = moment.now + ttl, lease_until = moment.now + ttl
    FROM due, moment
    WHERE c.tenant_id = due.tenant_id AND c.resource_uid = due.resource_uid
    RETURNING c.tenant_id, c.resource_uid, c.epoch
$$;
