-- Claims tasks of paused sinks again.

DROP FUNCTION datarecs.halted_sink_tasks;
-- Lease tasks that nobody holds, of the tenants with the fewest running tasks first. A task that
-- another claim has locked is left out, and one that it has taken is seen as taken.
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
ALTER TABLE datarecs.sink_task DROP COLUMN is_resting;
DELETE FROM datarecs.schema_compat WHERE revision = '0029';
