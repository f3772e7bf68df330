-- Sinks and the leases of their tasks. Who may do what is 0028_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0028', '0.1.0');
INSERT INTO datarecs.service_role (role, service) VALUES ('datarecs_sink', 'iceberg-sink');

CREATE TABLE datarecs.sink_state (
    tenant_id uuid NOT NULL,
    sink_uid uuid NOT NULL,
    tasks integer NOT NULL,
    wish text NOT NULL,
    revision text NOT NULL,
    epoch bigint NOT NULL DEFAULT '0'::bigint,
    checkpoint jsonb NOT NULL DEFAULT '{}'::jsonb,
    control_offset bigint NOT NULL DEFAULT '0'::bigint,
    commit_requests bigint NOT NULL DEFAULT '0'::bigint,
    is_drained boolean NOT NULL DEFAULT false,
    dead_letters bigint NOT NULL DEFAULT '0'::bigint,
    fenced_at timestamptz,
    PRIMARY KEY (tenant_id, sink_uid),
    FOREIGN KEY (tenant_id, sink_uid)
        REFERENCES datarecs.resource (tenant_id, uid) ON DELETE CASCADE
) WITH (fillfactor = 70);
CREATE TABLE datarecs.sink_task (
    tenant_id uuid NOT NULL,
    sink_uid uuid NOT NULL,
    number integer NOT NULL,
    epoch bigint NOT NULL DEFAULT '0'::bigint,
    executor text,
    lease_until timestamptz,
    is_halted boolean NOT NULL DEFAULT false,
    session uuid,
    session_letters bigint NOT NULL DEFAULT '0'::bigint,
    session_fenced bigint NOT NULL DEFAULT '0'::bigint,
    report jsonb,
    reported_at timestamptz,
    PRIMARY KEY (tenant_id, sink_uid, number),
    FOREIGN KEY (tenant_id, sink_uid)
        REFERENCES datarecs.sink_state (tenant_id, sink_uid) ON DELETE CASCADE
) WITH (fillfactor = 50);
CREATE TABLE datarecs.sink_commit (
    tenant_id uuid NOT NULL,
    sink_uid uuid NOT NULL,
    commit_id uuid NOT NULL,
    epoch bigint NOT NULL,
    completed_at timestamptz NOT NULL,
    is_partial boolean NOT NULL,
    control_offset bigint NOT NULL,
    valid_through timestamptz,
    records bigint NOT NULL,
    PRIMARY KEY (tenant_id, sink_uid, commit_id),
    FOREIGN KEY (tenant_id, sink_uid)
        REFERENCES datarecs.sink_state (tenant_id, sink_uid) ON DELETE CASCADE
);
CREATE INDEX sink_commit_newest
    ON datarecs.sink_commit (tenant_id, sink_uid, completed_at DESC, commit_id DESC);
CREATE TABLE datarecs.sink_table_commit (
    tenant_id uuid NOT NULL,
    sink_uid uuid NOT NULL,
    table_uuid uuid NOT NULL,
    snapshot_id bigint NOT NULL,
    commit_id uuid NOT NULL,
    catalog text NOT NULL,
    namespace text[] NOT NULL,
    name text NOT NULL,
    control_offset bigint NOT NULL,
    valid_through timestamptz,
    records bigint NOT NULL,
    files bigint NOT NULL,
    source_ends jsonb NOT NULL,
    committed_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, sink_uid, table_uuid, snapshot_id),
    FOREIGN KEY (tenant_id, sink_uid)
        REFERENCES datarecs.sink_state (tenant_id, sink_uid) ON DELETE CASCADE
);
CREATE INDEX sink_table_commit_cycle
    ON datarecs.sink_table_commit (tenant_id, sink_uid, commit_id);
CREATE INDEX sink_table_commit_old
    ON datarecs.sink_table_commit (tenant_id, sink_uid, committed_at);

-- A row that is removed and added again never has an epoch twice.
CREATE SEQUENCE datarecs.sink_epochs;

-- Lease tasks that nobody holds, of the tenants with the fewest running tasks first. A task that
-- another claim has locked is left out, and one that it has taken is seen as taken.
CREATE FUNCTION datarecs.claim_sink_tasks(holder text, lease interval, n integer)
RETURNS TABLE (tenant_id uuid, sink_uid uuid, number integer, epoch bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
#variable_conflict use_column
DECLARE
    at timestamptz := clock_timestamp();
    free record;
    taken integer := 0;
BEGIN
    FOR free IN
        WITH running AS (
            SELECT t.tenant_id, count(*) AS tasks FROM sink_task t
            WHERE t.lease_until > at GROUP BY t.tenant_id)
        SELECT t.tenant_id, t.sink_uid, t.number
        FROM sink_task t
        JOIN sink_state s ON s.tenant_id = t.tenant_id AND s.sink_uid = t.sink_uid
        LEFT JOIN running r ON r.tenant_id = t.tenant_id
        WHERE (t.lease_until IS NULL OR t.lease_until <= at)
            AND NOT t.is_halted AND NOT s.is_drained
        ORDER BY coalesce(r.tasks, 0) + row_number() OVER (
                PARTITION BY t.tenant_id ORDER BY t.number, t.sink_uid),
            t.number, t.sink_uid
    LOOP
        EXIT WHEN taken >= n;
        PERFORM FROM sink_task t
        WHERE t.tenant_id = free.tenant_id AND t.sink_uid = free.sink_uid
            AND t.number = free.number
            AND (t.lease_until IS NULL OR t.lease_until <= at) AND NOT t.is_halted
        FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        RETURN QUERY UPDATE sink_task t
            SET epoch = nextval('sink_epochs'), executor = holder,
                lease_until = clock_timestamp() + lease
            WHERE t.tenant_id = free.tenant_id AND t.sink_uid = free.sink_uid
                AND t.number = free.number
            RETURNING t.tenant_id, t.sink_uid, t.number, t.epoch;
        taken := taken + 1;
    END LOOP;
END $$;
