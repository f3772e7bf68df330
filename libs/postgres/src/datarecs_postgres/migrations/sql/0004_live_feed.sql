-- The tenant-wide live feed, and tickets for sockets. Who may do what is 0004_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0004', '0.1.0');

-- A reader that was away reads its own tenant's events by number.
CREATE INDEX run_event_tenant_feed ON datarecs.run_event (tenant_id, rv);

CREATE TABLE datarecs.ws_ticket (
    tenant_id uuid NOT NULL,
    ticket_sha256 bytea NOT NULL CHECK (octet_length(ticket_sha256) = 32),
    key_id text NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, ticket_sha256)
);
CREATE INDEX ws_ticket_hash ON datarecs.ws_ticket (ticket_sha256);

-- Doors across tenants: ids and numbers. ------------------------------------------------------------

-- As before, and without a cursor the newest numbers, from which a new reader goes on.
CREATE OR REPLACE FUNCTION datarecs.feed_after(feed text, after bigint, n integer)
RETURNS TABLE (tenant_id uuid, rv bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
BEGIN
    IF feed = 'run' AND after IS NULL THEN
        RETURN QUERY SELECT e.tenant_id, e.rv FROM run_event e
            WHERE e.xid < pg_snapshot_xmin(pg_current_snapshot())
            ORDER BY e.rv DESC LIMIT n;
    ELSIF feed = 'run' THEN
        RETURN QUERY SELECT e.tenant_id, e.rv FROM run_event e
            WHERE e.rv > after AND e.xid < pg_snapshot_xmin(pg_current_snapshot())
            ORDER BY e.rv LIMIT n;
    ELSIF feed = 'resource' AND after IS NULL THEN
        RETURN QUERY SELECT c.tenant_id, c.rv FROM resource_change c
            WHERE c.xid < pg_snapshot_xmin(pg_current_snapshot())
            ORDER BY c.rv DESC LIMIT n;
    ELSIF feed = 'resource' THEN
        RETURN QUERY SELECT c.tenant_id, c.rv FROM resource_change c
            WHERE c.rv > after AND c.xid < pg_snapshot_xmin(pg_current_snapshot())
            ORDER BY c.rv LIMIT n;
    ELSE
        RAISE EXCEPTION 'there is no feed %', feed USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

CREATE FUNCTION datarecs.resolve_session(hash bytea)
RETURNS TABLE (tenant_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    SELECT t.tenant_id FROM ws_ticket t WHERE t.ticket_sha256 = hash
$$;
