-- Webhook deliveries and the mail queue. Who may do what is 0002_access.sql.

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0002', '0.1.0');

-- Webhooks --------------------------------------------------------------------------------------

CREATE TABLE datarecs.webhook_message (
    tenant_id uuid NOT NULL,
    received_on date NOT NULL,
    message_id uuid NOT NULL,
    attributes jsonb NOT NULL,
    data bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, received_on, message_id)
) PARTITION BY RANGE (received_on);
CREATE TABLE datarecs.webhook_message_default PARTITION OF datarecs.webhook_message DEFAULT;

CREATE TABLE datarecs.webhook_delivery (
    tenant_id uuid NOT NULL,
    received_on date NOT NULL,
    delivery_id uuid NOT NULL,
    endpoint_uid uuid NOT NULL,
    event_id uuid NOT NULL,
    event_type text NOT NULL,
    run_id uuid,
    state text NOT NULL CHECK (state IN
        ('PENDING', 'LEASED', 'SUCCEEDED', 'DEAD_LETTERED', 'DISCARDED')),
    reason text,
    attempt_no integer NOT NULL DEFAULT 0,
    schedule_index integer NOT NULL DEFAULT 0,
    losses integer NOT NULL DEFAULT 0,
    due_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    created_at timestamptz NOT NULL,
    lease_epoch bigint NOT NULL DEFAULT 0,
    lease_owner text,
    lease_until timestamptz,
    last_outcome text,
    last_status integer,
    PRIMARY KEY (tenant_id, received_on, delivery_id),
    CONSTRAINT webhook_delivery_once_per_event
        UNIQUE (tenant_id, received_on, endpoint_uid, event_id),
    CHECK ((state = 'LEASED') = (lease_until IS NOT NULL))
) PARTITION BY RANGE (received_on);
CREATE INDEX webhook_delivery_due ON datarecs.webhook_delivery (tenant_id, endpoint_uid, due_at)
    WHERE state = 'PENDING';
CREATE INDEX webhook_delivery_expiry
    ON datarecs.webhook_delivery (tenant_id, endpoint_uid, expires_at) WHERE state = 'PENDING';
CREATE INDEX webhook_delivery_leased
    ON datarecs.webhook_delivery (tenant_id, endpoint_uid, lease_until) WHERE state = 'LEASED';
CREATE INDEX webhook_delivery_newest
    ON datarecs.webhook_delivery (tenant_id, endpoint_uid, created_at DESC);
CREATE TABLE datarecs.webhook_delivery_default PARTITION OF datarecs.webhook_delivery DEFAULT;

CREATE TABLE datarecs.webhook_attempt (
    tenant_id uuid NOT NULL,
    received_on date NOT NULL,
    delivery_id uuid NOT NULL,
    attempt_no integer NOT NULL,
    lease_epoch bigint NOT NULL,
    worker text NOT NULL,
    reason text NOT NULL,
    started_at timestamptz NOT NULL,
    trace_id text,
    finished_at timestamptz,
    outcome text,
    phases jsonb,
    url text NOT NULL DEFAULT ''::text,
    request_headers jsonb,
    body_sha256 text NOT NULL DEFAULT ''::text,
    key_ids text[] NOT NULL DEFAULT '{}'::text[],
    status integer,
    response_headers jsonb,
    response_body bytea,
    truncated boolean NOT NULL DEFAULT false,
    error text NOT NULL DEFAULT ''::text,
    address_class text,
    PRIMARY KEY (tenant_id, received_on, delivery_id, attempt_no)
) PARTITION BY RANGE (received_on);
CREATE TABLE datarecs.webhook_attempt_default PARTITION OF datarecs.webhook_attempt DEFAULT;

INSERT INTO datarecs.partition_policy (table_name, keep_days) VALUES
    ('webhook_message', 30), ('webhook_delivery', 30), ('webhook_attempt', 30);

CREATE TABLE datarecs.webhook_endpoint_state (
    tenant_id uuid NOT NULL,
    endpoint_uid uuid NOT NULL,
    next_claim_at timestamptz,
    rate_paid_until timestamptz,
    paused_until timestamptz,
    failing_since timestamptz,
    consecutive_failures integer NOT NULL DEFAULT 0,
    last_success_at timestamptz,
    disabled_by text CHECK (disabled_by IN ('gone', 'receiver')),
    disabled_at timestamptz,
    disabled_generation bigint,
    PRIMARY KEY (tenant_id, endpoint_uid),
    CHECK ((disabled_by IS NULL) = (disabled_at IS NULL)),
    CHECK ((disabled_by IS NULL) = (disabled_generation IS NULL))
) WITH (fillfactor = 50);
CREATE INDEX webhook_endpoint_state_due ON datarecs.webhook_endpoint_state (next_claim_at)
    WHERE next_claim_at IS NOT NULL;

-- Mail ------------------------------------------------------------------------------------------

CREATE TABLE datarecs.email_delivery (
    tenant_id uuid NOT NULL,
    delivery_id uuid NOT NULL,
    dedupe_key text NOT NULL,
    run_id uuid NOT NULL,
    job_id uuid NOT NULL,
    recipient text NOT NULL,
    recipient_key text NOT NULL,
    rules text[] NOT NULL,
    kind text NOT NULL,
    detail text NOT NULL,
    background jsonb NOT NULL,
    outcome text NOT NULL,
    state text NOT NULL CHECK (state IN
        ('PENDING', 'SENDING', 'SENT', 'FAILED', 'UNKNOWN', 'SKIPPED')),
    reason text,
    phase text CHECK (phase IN ('OPEN', 'DATA')),
    due_at timestamptz,
    claimed_until timestamptz,
    expires_at timestamptz NOT NULL,
    finalised_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    unknowns integer NOT NULL DEFAULT 0,
    lease_epoch bigint NOT NULL DEFAULT 0,
    lease_owner text,
    lease_until timestamptz,
    message_id text NOT NULL,
    mime bytea,
    last_reply text NOT NULL DEFAULT ''::text,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant_id, delivery_id),
    UNIQUE (tenant_id, dedupe_key),
    CHECK ((state = 'SENDING') = (phase IS NOT NULL)),
    CHECK ((state = 'SENDING') = (lease_until IS NOT NULL))
) WITH (fillfactor = 70);
CREATE INDEX email_delivery_due ON datarecs.email_delivery (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX email_delivery_of_run ON datarecs.email_delivery (tenant_id, run_id);

CREATE TABLE datarecs.email_attempt (
    tenant_id uuid NOT NULL,
    delivery_id uuid NOT NULL,
    attempt_no bigint NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz,
    phase text NOT NULL,
    stage text,
    code integer,
    text text NOT NULL DEFAULT ''::text,
    error text NOT NULL DEFAULT ''::text,
    relay text NOT NULL,
    tls_version text NOT NULL DEFAULT ''::text,
    PRIMARY KEY (tenant_id, delivery_id, attempt_no)
);

CREATE TABLE datarecs.notification_rule_state (
    tenant_id uuid NOT NULL,
    rule_uid uuid NOT NULL,
    job_id uuid NOT NULL,
    last_run_id uuid,
    last_finalised_at timestamptz,
    announced text,
    open_alert boolean NOT NULL DEFAULT false,
    alert_outcome text,
    consecutive integer NOT NULL DEFAULT 0,
    streak_since timestamptz,
    last_mailed_at timestamptz,
    last_mailed_outcome text,
    PRIMARY KEY (tenant_id, rule_uid, job_id)
);

-- Doors across tenants: ids alone; the work follows inside the tenant. ------------------------------

CREATE FUNCTION datarecs.claim_deliveries(n integer)
RETURNS TABLE (tenant_id uuid, endpoint_uid uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    WITH due AS MATERIALIZED (
        SELECT d.tenant_id, d.endpoint_uid FROM webhook_endpoint_state d
        WHERE d.next_claim_at <= clock_timestamp()
        ORDER BY d.next_claim_at LIMIT n FOR UPDATE SKIP LOCKED)
    UPDATE webhook_endpoint_state s SET next_claim_at = clock_timestamp() + interval '5 seconds'
    FROM due WHERE s.tenant_id = due.tenant_id AND s.endpoint_uid = due.endpoint_uid
    RETURNING s.tenant_id, s.endpoint_uid
$$;

CREATE FUNCTION datarecs.claim_mails(n integer)
RETURNS TABLE (tenant_id uuid, delivery_id uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    WITH due AS MATERIALIZED (
        SELECT d.tenant_id, d.delivery_id FROM email_delivery d
        WHERE d.due_at <= clock_timestamp()
          AND (d.claimed_until IS NULL OR d.claimed_until <= clock_timestamp())
        ORDER BY d.due_at LIMIT n FOR UPDATE SKIP LOCKED)
    UPDATE email_delivery e SET claimed_until = clock_timestamp() + interval '30 seconds'
    FROM due WHERE e.tenant_id = due.tenant_id AND e.delivery_id = due.delivery_id
    RETURNING e.tenant_id, e.delivery_id
$$;
