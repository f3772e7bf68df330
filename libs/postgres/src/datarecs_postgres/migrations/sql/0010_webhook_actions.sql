-- Actions on webhook deliveries: test, resend, recover, replay. Who may do what is 0010_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0010', '0.1.0');

CREATE TABLE datarecs.webhook_action (
    tenant_id uuid NOT NULL,
    action_id uuid NOT NULL,
    endpoint_uid uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('test', 'resend', 'recover', 'replay')),
    state text NOT NULL CHECK (state IN ('OPEN', 'DONE', 'CANCELLED')),
    requested_by text NOT NULL,
    created_at timestamptz NOT NULL,
    closed_at timestamptz,
    since timestamptz,
    until timestamptz,
    types text[] NOT NULL DEFAULT '{}'::text[],
    deliveries uuid[] NOT NULL DEFAULT '{}'::uuid[],
    example text,
    position_on date,
    position_id uuid,
    expected integer NOT NULL,
    made integer NOT NULL DEFAULT 0,
    first_delivery uuid,
    PRIMARY KEY (tenant_id, action_id),
    CHECK ((state = 'OPEN') = (closed_at IS NULL)),
    CHECK ((since IS NULL) = (until IS NULL)),
    CHECK ((position_on IS NULL) = (position_id IS NULL))
);
CREATE INDEX webhook_action_open ON datarecs.webhook_action (created_at) WHERE state = 'OPEN';
CREATE UNIQUE INDEX webhook_action_one_window ON datarecs.webhook_action (tenant_id, endpoint_uid)
    WHERE state = 'OPEN' AND kind IN ('recover', 'replay');

-- An event may be delivered once by itself and once by every action that repeats it.
ALTER TABLE datarecs.webhook_delivery
    ADD COLUMN event_on date,
    ADD COLUMN origin text NOT NULL DEFAULT 'event'
        CHECK (origin IN ('event', 'test', 'resend', 'recover', 'replay')),
    ADD COLUMN priority integer NOT NULL DEFAULT 1,
    ADD COLUMN action_id uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000'::uuid,
    DROP CONSTRAINT webhook_delivery_once_per_event,
    ADD CONSTRAINT webhook_delivery_once_per_action
        UNIQUE (tenant_id, received_on, endpoint_uid, event_id, action_id);
CREATE INDEX webhook_delivery_next
    ON datarecs.webhook_delivery (tenant_id, endpoint_uid, priority, due_at)
    WHERE state = 'PENDING';

-- The circuit of an endpoint, and two more reasons for which it is off.
ALTER TABLE datarecs.webhook_endpoint_state
    ADD COLUMN circuit_openings integer NOT NULL DEFAULT 0,
    ADD COLUMN circuit_open_until timestamptz,
    ADD COLUMN window_started_at timestamptz,
    ADD COLUMN window_attempts integer NOT NULL DEFAULT 0,
    ADD COLUMN window_failures integer NOT NULL DEFAULT 0,
    DROP CONSTRAINT webhook_endpoint_state_disabled_by_check,
    ADD CONSTRAINT webhook_endpoint_state_disabled_by_check
        CHECK (disabled_by IN ('user', 'auto', 'gone', 'receiver'));

CREATE OR REPLACE FUNCTION datarecs.due_tenants(what text)
RETURNS TABLE (tenant_id uuid, items bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
BEGIN
    IF what = 'run_leases' THEN
        RETURN QUERY SELECT l.tenant_id, count(*) FROM run_lease l
            WHERE l.lease_owner IS NOT NULL
              AND l.lease_until < clock_timestamp() - interval '5 seconds'
            GROUP BY l.tenant_id;
    ELSIF what = 'webhook_actions' THEN
        RETURN QUERY SELECT a.tenant_id, count(*) FROM webhook_action a
            WHERE a.state = 'OPEN' GROUP BY a.tenant_id;
    ELSE
        RAISE EXCEPTION 'nothing is due under the name %', what
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;
