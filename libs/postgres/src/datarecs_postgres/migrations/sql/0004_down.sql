-- Takes the tenant-wide live feed and the tickets back.

DROP FUNCTION datarecs.resolve_session;
DROP TABLE datarecs.ws_ticket;
DROP INDEX datarecs.run_event_tenant_feed;
CREATE OR REPLACE FUNCTION datarecs.feed_after(feed text, after bigint, n integer)
RETURNS TABLE (tenant_id uuid, rv bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
BEGIN
    IF feed = 'run' THEN
        RETURN QUERY SELECT e.tenant_id, e.rv FROM run_event e
            WHERE e.rv > after AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
            ORDER BY e.rv LIMIT n;
    ELSIF feed = 'resource' THEN
        RETURN QUERY SELECT c.tenant_id, c.rv FROM resource_change c
            WHERE c.rv > after AND c.xid < pg_snapshot_xmin(pg_current_snapshot())
            ORDER BY c.rv LIMIT n;
    ELSE
        RAISE EXCEPTION 'there is no feed %', feed USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;
DELETE FROM datarecs.schema_compat WHERE revision = '0004';
