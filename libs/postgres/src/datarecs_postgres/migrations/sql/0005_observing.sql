-- How much waits, for the controller's metrics. Who may do what is 0005_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0005', '0.1.0');

-- Runs that are not terminal, by status, over all tenants: numbers alone, each status once. Every such
-- run has a timer, a terminal one has none, so the history of runs is never read. Overdue: nobody
-- closed it within two minutes after its deadline.
CREATE FUNCTION datarecs.run_backlog()
RETURNS TABLE (status text, runs bigint, oldest_seconds double precision, overdue bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    WITH open AS (
        SELECT r.status, r.created_at, r.deadline_at FROM run r
        WHERE (r.tenant_id, r.run_id) IN (SELECT t.tenant_id, t.run_id FROM run_timer t))
    SELECT s.status, count(o.status),
           coalesce(extract(epoch FROM clock_timestamp() - min(o.created_at)), 0)::double precision,
           count(*) FILTER (WHERE o.deadline_at < clock_timestamp() - interval '120 seconds')
    FROM unnest(ARRAY['TRIGGERED', 'QUEUED', 'RUNNING']) AS s (status)
    LEFT JOIN open o ON o.status = s.status
    GROUP BY s.status
$$;
