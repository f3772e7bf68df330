"""Webhook deliveries: kept events, one row per endpoint and event, the attempt log, endpoint state.

Daily partitions by the day the event came in, so retention drops whole days (notifications 1.11).
"""

from sqlalchemy import (
    Boolean,
    Date,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

from datarecs_postgres.tables.metadata import (
    COUNT,
    INSTANT,
    JSON,
    METADATA,
    NUMBER,
    TEXT,
    UUID,
    column,
    tenant_column,
)

DAY = Date()
NO_ACTION = "'00000000-0000-0000-0000-000000000000'::uuid"

WEBHOOK_MESSAGE = Table(
    "webhook_message",
    METADATA,
    tenant_column(),
    column("received_on", DAY, "UTC day on which the event came in"),
    column("message_id", UUID, "CloudEvents id"),
    column("attributes", JSON, "every attribute and extension as text"),
    column("data", LargeBinary(), "original bytes of the data"),
    column("filter_values", JSON, "job, result, error code of the data", default="'{}'::jsonb"),
    column("created_at", INSTANT, "stored", default="now()"),
    PrimaryKeyConstraint("tenant_id", "received_on", "message_id"),
    postgresql_partition_by="RANGE (received_on)",
    info={"doc": "Events of tenants that have an endpoint; bodies are made from these bytes."},
)

WEBHOOK_DELIVERY = Table(
    "webhook_delivery",
    METADATA,
    tenant_column(),
    column("received_on", DAY, "UTC day on which it was made"),
    column("delivery_id", UUID, "UUIDv7"),
    column("endpoint_uid", UUID, "the WebhookEndpoint; it may be gone"),
    column("event_id", UUID, "the event, and the receiver's webhook-id"),
    column("event_on", DAY, "day under which the event is stored, if another one", null=True),
    column("event_type", TEXT, "type of the event"),
    column("run_id", UUID, "run the event is about", null=True),
    column("state", TEXT, "PENDING, LEASED, SUCCEEDED, DEAD_LETTERED, DISCARDED"),
    column("reason", TEXT, "why it ended without success", null=True),
    column("attempt_no", COUNT, "attempts started", default="0"),
    column("schedule_index", COUNT, "delays of the schedule used up", default="0"),
    column("losses", COUNT, "attempts whose worker was lost", default="0"),
    column("due_at", INSTANT, "next attempt"),
    column("expires_at", INSTANT, "dead-lettered from here on"),
    column("created_at", INSTANT, "fan-out"),
    column("origin", TEXT, "event, test, resend, recover or replay", default="'event'::text"),
    column("priority", COUNT, "0 tests, 1 live events, 2 what is sent again", default="1"),
    column("action_id", UUID, "the action that made it; zeros for live events", default=NO_ACTION),
    column("lease_epoch", NUMBER, "grows with every lease", default="'0'::bigint"),
    column("lease_owner", TEXT, "worker that holds it", null=True),
    column("lease_until", INSTANT, "end of its right", null=True),
    column("last_outcome", TEXT, "of the newest ended attempt", null=True),
    column("last_status", COUNT, "HTTP status of the newest ended attempt", null=True),
    PrimaryKeyConstraint("tenant_id", "received_on", "delivery_id"),
    UniqueConstraint(
        *("tenant_id", "received_on", "endpoint_uid", "event_id", "action_id"),
        name="webhook_delivery_once_per_action",
    ),
    Index(
        "webhook_delivery_next",
        *("tenant_id", "endpoint_uid", "priority", "due_at"),
        postgresql_where=text("state = 'PENDING'"),
    ),
    Index(
        "webhook_delivery_due",
        *("tenant_id", "endpoint_uid", "due_at"),
        postgresql_where=text("state = 'PENDING'"),
    ),
    Index(
        "webhook_delivery_expiry",
        *("tenant_id", "endpoint_uid", "expires_at"),
        postgresql_where=text("state = 'PENDING'"),
    ),
    Index(
        "webhook_delivery_leased",
        *("tenant_id", "endpoint_uid", "lease_until"),
        postgresql_where=text("state = 'LEASED'"),
    ),
    Index("webhook_delivery_newest", "tenant_id", "endpoint_uid", text("created_at DESC")),
    postgresql_partition_by="RANGE (received_on)",
    info={"doc": "One event for one endpoint, until it succeeded or was set aside."},
)

WEBHOOK_ATTEMPT = Table(
    "webhook_attempt",
    METADATA,
    tenant_column(),
    column("received_on", DAY, "as of its delivery"),
    column("delivery_id", UUID, "the delivery"),
    column("attempt_no", COUNT, "from 1"),
    column("lease_epoch", NUMBER, "lease under which it was made"),
    column("worker", TEXT, "who made it"),
    column("reason", TEXT, "event, resend, recover, replay or test"),
    column("started_at", INSTANT, "before a byte was sent"),
    column("trace_id", TEXT, "trace of the event", null=True),
    column("finished_at", INSTANT, "end recorded", null=True),
    column("outcome", TEXT, "how it ended", null=True),
    column("phases", JSON, "milliseconds of dns, connect, tls, first_byte, total", null=True),
    column("url", TEXT, "as delivered, query values masked", default="''::text"),
    column("request_headers", JSON, "secret values and signatures masked", null=True),
    column("body_sha256", TEXT, "of the request body", default="''::text"),
    column("key_ids", ARRAY(TEXT), "secrets that signed", default="'{}'::text[]"),
    column("status", COUNT, "HTTP status", null=True),
    column("response_headers", JSON, "secret-looking values masked", null=True),
    column("response_body", LargeBinary(), "first 10,240 bytes", null=True),
    column("truncated", Boolean(), "the response was longer or slower", default="false"),
    column("error", TEXT, "class of the failure", default="''::text"),
    column("address_class", TEXT, "why the address was refused", null=True),
    PrimaryKeyConstraint("tenant_id", "received_on", "delivery_id", "attempt_no"),
    postgresql_partition_by="RANGE (received_on)",
    info={"doc": "Log of attempts: written before a byte is sent, completed once."},
)

WEBHOOK_ENDPOINT_STATE = Table(
    "webhook_endpoint_state",
    METADATA,
    tenant_column(),
    column("endpoint_uid", UUID, "the WebhookEndpoint"),
    column("next_claim_at", INSTANT, "when the sending loop looks again", null=True),
    column("rate_paid_until", INSTANT, "theoretical arrival time of the rate limit", null=True),
    column("paused_until", INSTANT, "the receiver asked for a rest", null=True),
    column("failing_since", INSTANT, "first failure since the last success", null=True),
    column("consecutive_failures", COUNT, "since the last success", default="0"),
    column("last_success_at", INSTANT, "newest 2xx", null=True),
    column("disabled_by", TEXT, "user, auto, gone or receiver", null=True),
    column("disabled_at", INSTANT, "when", null=True),
    column("disabled_generation", NUMBER, "spec it happened to; a later one is enabled", null=True),
    column("circuit_openings", COUNT, "in a row; 0 while the circuit is closed", default="0"),
    column("circuit_open_until", INSTANT, "then one attempt decides", null=True),
    column("window_started_at", INSTANT, "start of the window of attempts", null=True),
    column("window_attempts", COUNT, "attempts of the window", default="0"),
    column("window_failures", COUNT, "failures of the window", default="0"),
    PrimaryKeyConstraint("tenant_id", "endpoint_uid"),
    Index(
        "webhook_endpoint_state_due",
        "next_claim_at",
        postgresql_where=text("next_claim_at IS NOT NULL"),
    ),
    info={"doc": "What an endpoint's deliveries share: rest, rate, health, next look."},
)

WEBHOOK_ACTION = Table(
    "webhook_action",
    METADATA,
    tenant_column(),
    column("action_id", UUID, "UUIDv7"),
    column("endpoint_uid", UUID, "the WebhookEndpoint"),
    column("kind", TEXT, "test, resend, recover or replay"),
    column("state", TEXT, "OPEN, DONE or CANCELLED"),
    column("requested_by", TEXT, "subject of the caller"),
    column("created_at", INSTANT, "requested"),
    column("closed_at", INSTANT, "expanded or cancelled", null=True),
    column("since", INSTANT, "start of the window, inclusive", null=True),
    column("until", INSTANT, "end of the window, exclusive", null=True),
    column("types", ARRAY(TEXT), "globs that narrow the filter", default="'{}'::text[]"),
    column("deliveries", ARRAY(UUID), "of a resend: which ones", default="'{}'::uuid[]"),
    column("example", TEXT, "of a test: type of the example", null=True),
    column("position_on", DAY, "day of the last stored event that was read", null=True),
    column("position_id", UUID, "id of the last stored event that was read", null=True),
    column("expected", COUNT, "deliveries counted at the request"),
    column("made", COUNT, "deliveries made so far", default="0"),
    column("first_delivery", UUID, "first delivery that it made", null=True),
    PrimaryKeyConstraint("tenant_id", "action_id"),
    Index(
        "webhook_action_open",
        "created_at",
        postgresql_where=text("state = 'OPEN'"),
    ),
    Index(
        "webhook_action_one_window",
        *("tenant_id", "endpoint_uid"),
        unique=True,
        postgresql_where=text("state = 'OPEN' AND kind IN ('recover', 'replay')"),
    ),
    info={
        "doc": "Tests, resends, recovers and replays that users requested, and how far they are."
    },
)
