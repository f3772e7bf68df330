-- Repair of delivery: events a group never heard, and how long events are remembered. Who may do what is 0003_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0003', '0.1.0');

-- Refills look at the outbox hour by hour; rows lie in the order of their time, so a small index finds an hour.
CREATE INDEX outbox_age ON datarecs.outbox USING brin (created_at);

-- Events of a topic that the broker had and the caller's group has no mark of, by position. Ids
-- alone: the rows are read inside their tenant.
CREATE FUNCTION datarecs.unheard_events(
    of_topic text, of_types text[], since timestamptz, until timestamptz, after bigint, n integer)
RETURNS TABLE (tenant_id uuid, event_id uuid, outbox_position bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    SELECT o.tenant_id, o.event_id, o.position FROM outbox o
    WHERE o.created_at >= since AND o.created_at < until AND o.position > after
      AND o.topic = of_topic AND o.type = ANY (of_types) AND o.sent_at IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM inbox i
                      WHERE i.tenant_id = o.tenant_id AND i.consumer = datarecs.service_name()
                        AND i.event_id = o.event_id)
    ORDER BY o.position LIMIT n
$$;

-- Days that sent events and marks of received ones are kept, and whether the caller has any mark.
-- The days of the inbox are those after which maintain_partitions forgets.
CREATE FUNCTION datarecs.event_memory()
RETURNS TABLE (outbox_days integer, inbox_days integer, heard boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    SELECT p.keep_days, 45,
           EXISTS (SELECT 1 FROM inbox i WHERE i.consumer = datarecs.service_name())
    FROM partition_policy p WHERE p.table_name = 'outbox'
$$;

-- How many days maintain_partitions keeps sent events from now on.
CREATE FUNCTION datarecs.keep_outbox(days integer) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    UPDATE partition_policy SET keep_days = days
    WHERE table_name = 'outbox' AND keep_days <> days
$$;
