-- Retention policies: how far their sweeps are, and which runs have no differences any more. Who
-- may do what is 0019_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0019', '0.1.0');

ALTER TABLE datarecs.run ADD COLUMN differences_deleted_at timestamptz;

CREATE TABLE datarecs.retention_state (
    tenant_id uuid NOT NULL,
    policy_uid uuid NOT NULL,
    due_at timestamptz,
    generation bigint,
    target text,
    place_at timestamptz,
    place_id uuid,
    counts jsonb NOT NULL DEFAULT '{}'::jsonb,
    PRIMARY KEY (tenant_id, policy_uid),
    FOREIGN KEY (tenant_id, policy_uid)
        REFERENCES datarecs.resource (tenant_id, uid) ON DELETE CASCADE
);
CREATE INDEX retention_state_due ON datarecs.retention_state (due_at) WHERE due_at IS NOT NULL;

CREATE FUNCTION datarecs.claim_sweeps(n integer)
RETURNS TABLE (tenant_id uuid, policy_uid uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    WITH due AS MATERIALIZED (
        SELECT d.tenant_id, d.policy_uid FROM retention_state d
        WHERE d.due_at <= clock_timestamp()
        ORDER BY d.due_at LIMIT n FOR UPDATE SKIP LOCKED)
    UPDATE retention_state s SET due_at = clock_timestamp() + interval '30 seconds'
    FROM due WHERE s.tenant_id = due.tenant_id AND s.policy_uid = due.policy_uid
    RETURNING s.tenant_id, s.policy_uid
$$;
