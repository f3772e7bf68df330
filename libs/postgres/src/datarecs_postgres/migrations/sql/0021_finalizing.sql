-- Figures of running services. Who may do what is 0021_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0021', '0.1.0');

CREATE TABLE datarecs.service_stats (
    instance uuid PRIMARY KEY,
    counters jsonb NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);

CREATE FUNCTION datarecs.report_stats(reporter uuid, figures jsonb)
RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    DELETE FROM service_stats WHERE at < now() - interval '1 hour';
    INSERT INTO service_stats (instance, counters) VALUES (reporter, figures)
    ON CONFLICT (instance) DO UPDATE SET counters = excluded.counters, at = now();
$$;

CREATE FUNCTION datarecs.read_stats()
RETURNS TABLE (counters jsonb)
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    SELECT s.counters FROM service_stats s WHERE s.at > now() - interval '60 seconds'
$$;
