-- The first schema: tenants and keys, runs, resources, outbox and inbox, audit. Who may do what is 0001_access.sql.

-- Platform tables -------------------------------------------------------------------------------

CREATE TABLE datarecs.schema_compat (
    revision text NOT NULL,
    oldest_release text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (revision)
);

INSERT INTO datarecs.schema_compat (revision, oldest_release) VALUES ('0001', '0.1.0');

CREATE TABLE datarecs.service_role (
    role text NOT NULL,
    service text NOT NULL,
    PRIMARY KEY (role)
);

INSERT INTO datarecs.service_role (role, service) VALUES
    ('datarecs_api', 'core-api'),
    ('datarecs_controller', 'run-controller'),
    ('datarecs_worker_run', 'reconciliation-worker'),
    ('datarecs_mail', 'email-notifier'),
    ('datarecs_webhook', 'webhook-service');

CREATE TABLE datarecs.partition_policy (
    table_name text NOT NULL,
    keep_days integer NOT NULL,
    unsent_guard boolean NOT NULL DEFAULT false,
    PRIMARY KEY (table_name)
);

-- The caller is session_user: inside a definer function current_user would be the owner.
CREATE FUNCTION datarecs.service_name() RETURNS text LANGUAGE sql STABLE
RETURN (SELECT r.service FROM datarecs.service_role r WHERE r.role = session_user);

-- Tenants and access ----------------------------------------------------------------------------

CREATE TABLE datarecs.tenant (
    tenant_id uuid NOT NULL,
    name text NOT NULL,
    running_limit integer NOT NULL DEFAULT 10 CHECK (running_limit >= 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id),
    UNIQUE (name)
);

CREATE TABLE datarecs.api_key (
    tenant_id uuid NOT NULL REFERENCES datarecs.tenant (tenant_id),
    key_id text NOT NULL,
    name text NOT NULL,
    subject text NOT NULL,
    secret_sha256 bytea NOT NULL CHECK (octet_length(secret_sha256) = 32),
    permissions text[] NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    PRIMARY KEY (tenant_id, key_id),
    UNIQUE (key_id)
);

CREATE TABLE datarecs.idempotency_key (
    tenant_id uuid NOT NULL,
    principal text NOT NULL,
    route text NOT NULL,
    key text NOT NULL,
    request_hash bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    status integer,
    headers jsonb,
    body bytea,
    PRIMARY KEY (tenant_id, principal, route, key)
);
CREATE INDEX idempotency_key_age ON datarecs.idempotency_key (created_at);

CREATE TABLE datarecs.audit_event (
    tenant_id uuid NOT NULL,
    seq bigint NOT NULL,
    at timestamptz NOT NULL,
    actor text NOT NULL,
    actor_kind text NOT NULL,
    action text NOT NULL,
    resource_kind text NOT NULL,
    resource_uid text NOT NULL,
    before_sha256 bytea,
    after_sha256 bytea,
    request_id text NOT NULL,
    address text NOT NULL,
    outcome text NOT NULL,
    detail jsonb,
    prev_hash bytea NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (tenant_id, seq)
);

CREATE TABLE datarecs.audit_head (
    tenant_id uuid NOT NULL,
    seq bigint NOT NULL,
    hash bytea NOT NULL,
    PRIMARY KEY (tenant_id)
);

-- Runs ------------------------------------------------------------------------------------------

CREATE TABLE datarecs.run (
    tenant_id uuid NOT NULL REFERENCES datarecs.tenant (tenant_id),
    run_id uuid NOT NULL,
    job_id uuid NOT NULL,
    job_name text NOT NULL,
    job_generation bigint NOT NULL,
    spec_hash text NOT NULL,
    spec jsonb NOT NULL,
    parameters jsonb NOT NULL DEFAULT '{}'::jsonb,
    mode text NOT NULL DEFAULT 'IMMEDIATE' CHECK (mode IN ('IMMEDIATE', 'SCHEDULED')),
    triggered_by text NOT NULL,
    idempotency_key text,
    schedule_uid uuid,
    fire_time timestamptz,
    status text NOT NULL DEFAULT 'TRIGGERED' CHECK (status IN
        ('TRIGGERED', 'QUEUED', 'RUNNING', 'COMPLETED', 'ERRORED', 'CANCELLED', 'QUEUE_ERRORED')),
    result text CHECK (result IN ('MATCHED', 'UNMATCHED')),
    error_code text CHECK (error_code IN ('TIMED_OUT', 'CRASHED', 'QUERY_FAILED', 'UNKNOWN')),
    error_detail_code text,
    error_message text,
    raw_error jsonb,
    terminal_fact_id uuid,
    row_version bigint NOT NULL DEFAULT 1,
    last_sequence bigint NOT NULL DEFAULT 0,
    feed_rv bigint NOT NULL DEFAULT 0,
    cancel_requested boolean NOT NULL DEFAULT false,
    cancel_requested_at timestamptz,
    cancel_requested_id uuid,
    cancelled_by text,
    cancel_reason text,
    cancel_stale boolean NOT NULL DEFAULT false,
    backend text NOT NULL DEFAULT 'queue' CHECK (backend IN ('queue', 'argo')),
    wish text NOT NULL DEFAULT 'RUN' CHECK (wish IN ('RUN', 'STOP')),
    execution_name text NOT NULL,
    submit_intent_at timestamptz,
    submit_attempts integer NOT NULL DEFAULT 0,
    next_reconcile_at timestamptz,
    stop_sent_at timestamptz,
    attempt integer NOT NULL DEFAULT 0,
    max_attempts integer NOT NULL DEFAULT 3,
    priority integer NOT NULL DEFAULT 5,
    deadline_seconds integer NOT NULL DEFAULT 3600 CHECK (deadline_seconds > 0),
    deadline_at timestamptz,
    last_progress_at timestamptz,
    created_at timestamptz NOT NULL,
    queued_at timestamptz,
    started_at timestamptz,
    ended_at timestamptz,
    closed_at timestamptz,
    summary jsonb,
    pins jsonb,
    report_path text,
    traceparent text,
    PRIMARY KEY (tenant_id, run_id),
    UNIQUE (run_id),
    UNIQUE (tenant_id, schedule_uid, fire_time),
    CHECK ((status = 'COMPLETED') = (result IS NOT NULL))
) WITH (fillfactor = 70);
CREATE INDEX run_newest ON datarecs.run (tenant_id, created_at DESC, run_id DESC);
CREATE INDEX run_of_job ON datarecs.run (tenant_id, job_id, created_at DESC, run_id DESC);
CREATE INDEX run_due ON datarecs.run (next_reconcile_at) WHERE next_reconcile_at IS NOT NULL;

CREATE TABLE datarecs.run_event (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    sequence bigint NOT NULL,
    event_id uuid NOT NULL,
    type text NOT NULL,
    source text NOT NULL,
    time timestamptz NOT NULL,
    data jsonb NOT NULL,
    disposition text NOT NULL CHECK (disposition IN
        ('APPLIED', 'HISTORY', 'LATE', 'CONFLICT', 'STALE_ATTEMPT', 'SYNTHESISED')),
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    rv bigint NOT NULL,
    PRIMARY KEY (tenant_id, run_id, sequence),
    UNIQUE (tenant_id, run_id, event_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES datarecs.run (tenant_id, run_id) ON DELETE CASCADE
);
CREATE INDEX run_event_feed ON datarecs.run_event (rv);

CREATE TABLE datarecs.run_lease (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    due_at timestamptz NOT NULL,
    priority integer NOT NULL,
    attempt integer NOT NULL DEFAULT 0,
    lease_epoch bigint NOT NULL DEFAULT 0,
    lease_owner text,
    lease_until timestamptz,
    releases integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant_id, run_id),
    FOREIGN KEY (tenant_id, run_id) REFERENCES datarecs.run (tenant_id, run_id) ON DELETE CASCADE,
    CHECK ((lease_owner IS NULL) = (lease_until IS NULL))
) WITH (fillfactor = 50);
CREATE INDEX run_lease_waiting ON datarecs.run_lease (due_at) WHERE lease_owner IS NULL;
CREATE INDEX run_lease_held ON datarecs.run_lease (lease_until) WHERE lease_owner IS NOT NULL;

CREATE TABLE datarecs.run_timer (
    tenant_id uuid NOT NULL,
    run_id uuid NOT NULL,
    reason text NOT NULL,
    due_at timestamptz NOT NULL,
    claimed_until timestamptz,
    PRIMARY KEY (tenant_id, run_id, reason),
    FOREIGN KEY (tenant_id, run_id) REFERENCES datarecs.run (tenant_id, run_id) ON DELETE CASCADE
);
CREATE INDEX run_timer_due ON datarecs.run_timer (due_at);

-- Resources -------------------------------------------------------------------------------------

CREATE TABLE datarecs.resource (
    tenant_id uuid NOT NULL REFERENCES datarecs.tenant (tenant_id),
    uid uuid NOT NULL,
    kind text NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    api_version text NOT NULL,
    generation bigint NOT NULL,
    rv bigint NOT NULL,
    spec jsonb NOT NULL,
    spec_hash text NOT NULL,
    labels jsonb NOT NULL DEFAULT '{}'::jsonb,
    annotations jsonb NOT NULL DEFAULT '{}'::jsonb,
    finalizers text[] NOT NULL DEFAULT '{}'::text[],
    status jsonb NOT NULL DEFAULT '{}'::jsonb,
    observed_generation bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL,
    deletion_at timestamptz,
    PRIMARY KEY (tenant_id, uid),
    UNIQUE (tenant_id, kind, namespace, name),
    CHECK (observed_generation <= generation)
) WITH (fillfactor = 70);
CREATE INDEX resource_newest ON datarecs.resource (tenant_id, kind, created_at DESC, uid DESC);

CREATE TABLE datarecs.resource_change (
    tenant_id uuid NOT NULL,
    rv bigint NOT NULL,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    kind text NOT NULL,
    namespace text NOT NULL,
    name text NOT NULL,
    uid uuid NOT NULL,
    op text NOT NULL CHECK (op IN ('CREATED', 'UPDATED', 'STATUS_UPDATED', 'DELETED')),
    generation bigint NOT NULL,
    changed text[] NOT NULL,
    body jsonb,
    actor text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, rv, at)
) PARTITION BY RANGE (at);
CREATE INDEX resource_change_feed ON datarecs.resource_change (rv);
CREATE TABLE datarecs.resource_change_default PARTITION OF datarecs.resource_change DEFAULT;
INSERT INTO datarecs.partition_policy (table_name, keep_days) VALUES ('resource_change', 14);

CREATE TABLE datarecs.sealed_secret (
    tenant_id uuid NOT NULL,
    resource_uid uuid NOT NULL,
    field text NOT NULL,
    key_id text NOT NULL,
    sealed bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz,
    PRIMARY KEY (tenant_id, resource_uid, field, key_id),
    FOREIGN KEY (tenant_id, resource_uid) REFERENCES datarecs.resource (tenant_id, uid)
        ON DELETE CASCADE
);

-- Events ----------------------------------------------------------------------------------------

CREATE TABLE datarecs.outbox (
    position bigint GENERATED ALWAYS AS IDENTITY,
    event_id uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    tenant_id uuid NOT NULL,
    service text NOT NULL DEFAULT datarecs.service_name(),
    type text NOT NULL,
    topic text NOT NULL,
    partition_key text NOT NULL,
    shard smallint NOT NULL CHECK (shard BETWEEN 0 AND 15),
    headers jsonb NOT NULL,
    data bytea NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    last_error text,
    sent_at timestamptz,
    parked_at timestamptz,
    PRIMARY KEY (tenant_id, event_id, created_at)
) PARTITION BY RANGE (created_at);
CREATE INDEX outbox_unsent ON datarecs.outbox (shard, position)
    WHERE sent_at IS NULL AND parked_at IS NULL;
CREATE INDEX outbox_unsent_event ON datarecs.outbox (event_id) WHERE sent_at IS NULL;
CREATE TABLE datarecs.outbox_default PARTITION OF datarecs.outbox DEFAULT;
INSERT INTO datarecs.partition_policy (table_name, keep_days, unsent_guard)
    VALUES ('outbox', 30, true);

CREATE TABLE datarecs.relay_shard (
    shard smallint NOT NULL,
    owner text,
    epoch bigint NOT NULL DEFAULT 0,
    lease_until timestamptz,
    PRIMARY KEY (shard)
);
INSERT INTO datarecs.relay_shard (shard) SELECT generate_series(0, 15);

CREATE TABLE datarecs.relay_owner (
    owner text NOT NULL,
    seen_until timestamptz NOT NULL,
    PRIMARY KEY (owner)
);

CREATE TABLE datarecs.inbox (
    tenant_id uuid NOT NULL,
    consumer text NOT NULL,
    source text NOT NULL,
    event_id uuid NOT NULL,
    received_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant_id, consumer, source, event_id)
);
CREATE INDEX inbox_age ON datarecs.inbox (received_at);

-- Feed numbers ----------------------------------------------------------------------------------

CREATE SEQUENCE datarecs.feed_rv AS bigint;

-- First number of a block, drawn in the order of transaction ids: under one lock, held for this
-- call alone, the transaction takes its id and its numbers. Readers of the feeds rest on that order.
CREATE FUNCTION datarecs.draw_rv(block integer DEFAULT 8) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    first_rv bigint;
BEGIN
    IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
        RAISE EXCEPTION 'draw_rv comes before every write and every row lock of its transaction'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF block NOT BETWEEN 1 AND 10000 THEN
        RAISE EXCEPTION 'a block holds 1 to 10000 numbers' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_advisory_lock(1684108385, 1);
    BEGIN
        PERFORM pg_current_xact_id();
        SELECT min(n) INTO first_rv
            FROM (SELECT nextval('datarecs.feed_rv') AS n FROM generate_series(1, block)) numbers;
    EXCEPTION WHEN OTHERS OR query_canceled THEN
        -- A session lock outlives its transaction: it must not stay with a pooled connection.
        PERFORM pg_advisory_unlock(1684108385, 1);
        RAISE;
    END;
    PERFORM pg_advisory_unlock(1684108385, 1);
    RETURN first_rv;
END $$;

-- Doors across tenants: the closed list of security.md 5. They return ids and numbers. ------------

CREATE FUNCTION datarecs.claim_runs(n integer)
RETURNS TABLE (tenant_id uuid, run_id uuid)
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    -- Materialized: a plan that read it twice would lock and claim more than n.
    WITH due AS MATERIALIZED (
        SELECT d.tenant_id, d.run_id FROM run d
        WHERE d.next_reconcile_at <= clock_timestamp()
        ORDER BY d.next_reconcile_at LIMIT n FOR UPDATE SKIP LOCKED)
    UPDATE run r SET next_reconcile_at = clock_timestamp() + interval '30 seconds'
    FROM due WHERE r.tenant_id = due.tenant_id AND r.run_id = due.run_id
    RETURNING r.tenant_id, r.run_id
$$;

CREATE FUNCTION datarecs.due_timers(n integer)
RETURNS TABLE (tenant_id uuid, run_id uuid, reason text)
LANGUAGE sql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    WITH due AS MATERIALIZED (
        SELECT d.tenant_id, d.run_id, d.reason FROM run_timer d
        WHERE d.due_at <= clock_timestamp()
          AND (d.claimed_until IS NULL OR d.claimed_until <= clock_timestamp())
        ORDER BY d.due_at LIMIT n FOR UPDATE SKIP LOCKED)
    UPDATE run_timer t SET claimed_until = clock_timestamp() + interval '30 seconds'
    FROM due WHERE t.tenant_id = due.tenant_id AND t.run_id = due.run_id AND t.reason = due.reason
    RETURNING t.tenant_id, t.run_id, t.reason
$$;

CREATE FUNCTION datarecs.due_tenants(what text)
RETURNS TABLE (tenant_id uuid, items bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
BEGIN
    IF what = 'run_leases' THEN
        RETURN QUERY SELECT l.tenant_id, count(*) FROM run_lease l
            WHERE l.lease_owner IS NOT NULL
              AND l.lease_until < clock_timestamp() - interval '5 seconds'
            GROUP BY l.tenant_id;
    ELSE
        RAISE EXCEPTION 'nothing is due under the name %', what
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END $$;

CREATE FUNCTION datarecs.lease_run(executor text, ttl interval DEFAULT interval '60 seconds')
RETURNS TABLE (tenant uuid, run uuid, attempt_no integer, epoch bigint, remaining interval)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
DECLARE
    candidate record;
    state text;
    moment timestamptz;
    deadline timestamptz;
BEGIN
    -- Tenants with few running runs come first, so that a long queue delays only its owner.
    FOR candidate IN
        WITH held AS (SELECT h.tenant_id, count(*) AS running FROM run_lease h
                      WHERE h.lease_owner IS NOT NULL GROUP BY h.tenant_id)
        SELECT l.tenant_id, l.run_id, t.running_limit
        FROM run_lease l
        JOIN datarecs.run r ON r.tenant_id = l.tenant_id AND r.run_id = l.run_id
        JOIN datarecs.tenant t ON t.tenant_id = l.tenant_id
        LEFT JOIN held ON held.tenant_id = l.tenant_id
        WHERE l.lease_owner IS NULL AND l.due_at <= clock_timestamp()
          AND r.status IN ('QUEUED', 'RUNNING') AND NOT r.cancel_requested
          AND (r.deadline_at IS NULL OR r.deadline_at > clock_timestamp())
          AND coalesce(held.running, 0) < t.running_limit
        ORDER BY coalesce(held.running, 0), l.priority, l.due_at, l.run_id
        LIMIT 50
    LOOP
        -- The tenant's row is the counter's lock: the limit holds under concurrent leases.
        PERFORM 1 FROM datarecs.tenant t WHERE t.tenant_id = candidate.tenant_id FOR NO KEY UPDATE;
        CONTINUE WHEN (SELECT count(*) FROM run_lease h WHERE h.tenant_id = candidate.tenant_id
                       AND h.lease_owner IS NOT NULL) >= candidate.running_limit;
        SELECT r.status INTO state FROM datarecs.run r
            WHERE r.tenant_id = candidate.tenant_id AND r.run_id = candidate.run_id
              AND r.status IN ('QUEUED', 'RUNNING') AND NOT r.cancel_requested
            FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        moment := clock_timestamp();
        UPDATE run_lease l
            SET lease_epoch = l.lease_epoch + 1, attempt = l.attempt + 1,
                lease_owner = executor, lease_until = moment + ttl
            WHERE l.tenant_id = candidate.tenant_id AND l.run_id = candidate.run_id
              AND l.lease_owner IS NULL AND l.due_at <= moment
            RETURNING l.attempt, l.lease_epoch INTO attempt_no, epoch;
        CONTINUE WHEN NOT FOUND;
        -- What datarecs_core.runs.progress decides for the fact AttemptStarted; a test compares.
        UPDATE datarecs.run r
            SET status = 'RUNNING', attempt = attempt_no, row_version = r.row_version + 1,
                started_at = coalesce(r.started_at, moment),
                deadline_at = coalesce(r.deadline_at,
                                       moment + make_interval(secs => r.deadline_seconds)),
                next_reconcile_at = CASE WHEN state = 'QUEUED' THEN NULL
                                         ELSE r.next_reconcile_at END
            WHERE r.tenant_id = candidate.tenant_id AND r.run_id = candidate.run_id
            RETURNING r.deadline_at INTO deadline;
        IF state = 'QUEUED' THEN
            DELETE FROM run_timer t
                WHERE t.tenant_id = candidate.tenant_id AND t.run_id = candidate.run_id
                  AND t.reason IN ('submit', 'late_start', 'queue_wait', 'queue_ttl');
            INSERT INTO run_timer (tenant_id, run_id, reason, due_at) VALUES
                (candidate.tenant_id, candidate.run_id, 'deadline',
                 deadline + interval '60 seconds'),
                (candidate.tenant_id, candidate.run_id, 'observe', moment + interval '60 seconds')
                ON CONFLICT ON CONSTRAINT run_timer_pkey
                DO UPDATE SET due_at = excluded.due_at, claimed_until = NULL;
        END IF;
        PERFORM pg_notify('datarecs_run', candidate.run_id::text);
        tenant := candidate.tenant_id;
        run := candidate.run_id;
        remaining := deadline - moment;
        RETURN NEXT;
        RETURN;
    END LOOP;
END $$;

CREATE FUNCTION datarecs.feed_after(feed text, after bigint, n integer)
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

CREATE FUNCTION datarecs.resolve_api_key(id text)
RETURNS TABLE (key_id text, tenant_id uuid, name text, subject text, secret_sha256 bytea,
               permissions text[], created_at timestamptz, expires_at timestamptz,
               revoked_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = datarecs, pg_temp AS $$
    SELECT k.key_id, k.tenant_id, k.name, k.subject, k.secret_sha256, k.permissions,
           k.created_at, k.expires_at, k.revoked_at
    FROM api_key k WHERE k.key_id = id
$$;

-- Makes the partitions of the next days, moves what a missing day sent to the DEFAULT partition,
-- drops what retention allows, forgets old inbox marks and answers. Returns rows left in DEFAULT.
CREATE FUNCTION datarecs.maintain_partitions()
RETURNS TABLE (partitioned_table text, default_rows bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = datarecs, pg_temp SET lock_timeout = '2s' SET timezone = 'UTC' AS $$
DECLARE
    policy partition_policy%ROWTYPE;
    range_column text;
    fallback text;
    day date;
    part text;
    unsent boolean;
BEGIN
    IF NOT pg_try_advisory_xact_lock(1684108385, 2) THEN
        RETURN;
    END IF;
    FOR policy IN SELECT * FROM partition_policy p ORDER BY p.table_name LOOP
        fallback := policy.table_name || '_default';
        SELECT a.attname INTO range_column FROM pg_partitioned_table p
            JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = p.partattrs[0]
            WHERE p.partrelid = policy.table_name::regclass;
        FOR day IN EXECUTE format(
            'SELECT generate_series(current_date, current_date + 7, interval ''1 day'')::date
             UNION SELECT DISTINCT %I::date FROM %I ORDER BY 1', range_column, fallback)
        LOOP
            part := policy.table_name || to_char(day, '_YYYYMMDD');
            CONTINUE WHEN to_regclass(part) IS NOT NULL;
            BEGIN
                EXECUTE format('LOCK TABLE ONLY %I IN SHARE UPDATE EXCLUSIVE MODE',
                               policy.table_name);
                EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', fallback);
                EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING CONSTRAINTS)', part, policy.table_name);
                EXECUTE format(
                    'WITH moved AS (DELETE FROM %I WHERE %I >= %L AND %I < %L RETURNING *)
                     INSERT INTO %I SELECT * FROM moved',
                    fallback, range_column, day, range_column, day + 1, part);
                EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                               policy.table_name, part, day, day + 1);
            EXCEPTION WHEN lock_not_available THEN
                RAISE NOTICE 'partition % waits for the next pass', part;
            END;
        END LOOP;
        FOR part, day IN
            SELECT c.relname, right(c.relname, 8)::date FROM pg_inherits i
            JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = policy.table_name::regclass AND c.relname <> fallback
        LOOP
            CONTINUE WHEN day >= current_date - policy.keep_days;
            unsent := false;
            IF policy.unsent_guard THEN
                EXECUTE format('SELECT EXISTS (SELECT 1 FROM %I WHERE sent_at IS NULL)', part)
                    INTO unsent;
            END IF;
            CONTINUE WHEN unsent;
            BEGIN
                EXECUTE format('DROP TABLE %I', part);
            EXCEPTION WHEN lock_not_available THEN
                RAISE NOTICE 'partition % is dropped in the next pass', part;
            END;
        END LOOP;
        partitioned_table := policy.table_name;
        EXECUTE format('SELECT count(*) FROM %I', fallback) INTO default_rows;
        RETURN NEXT;
    END LOOP;
    DELETE FROM inbox WHERE ctid = ANY (ARRAY(
        SELECT i.ctid FROM inbox i WHERE i.received_at < now() - interval '45 days' LIMIT 10000));
    DELETE FROM idempotency_key WHERE ctid = ANY (ARRAY(
        SELECT k.ctid FROM idempotency_key k
        WHERE k.created_at < now() - interval '24 hours' LIMIT 10000));
END $$;
