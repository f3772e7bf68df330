-- Tasks of paused sinks end, and halted ones are counted. Who may do what is 0029_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0029', '0.1.0');

ALTER TABLE datarecs.sink_task ADD COLUMN is_resting boolean NOT NULL DEFAULT false;

-- Lease tasks that nobody holds, of the tenants with the fewest running tasks first. A task that
-- another claim has locked is left out, and one that it has taken is seen as taken. A resting task
-- is left out while its sink pauses.
CREATE OR REPLACE FUNCTION datarecs.claim_sink_tasks(holder text, lease interval, n integer)
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
            AND NOT (t.is_resting AND s.wish = 'pause')
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
                lease_until = clock_timestamp() + lease, is_resting = false
            WHERE t.tenant_id = free.tenant_id AND t.sink_uid = free.sink_uid
                AND t.number = free.number
            RETURNING t.tenant_id, t.sink_uid, t.number, t.epoch;
        taken := taken + 1;
    END LOOP;
END $$;

-- Tasks of all tenants that wait for a person.
CREATE FUNCTION datarecs.halted_sink_tasks() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    SELECT count(*) FROM sink_task t
    JOIN sink_state s ON s.tenant_id = t.tenant_id AND s.sink_uid = t.sink_uid
    WHERE t.is_halted AND NOT s.is_drained
$$;
