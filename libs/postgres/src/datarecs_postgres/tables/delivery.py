"""Events on their way out and in: outbox, relay shards, inbox (spec run-lifecycle 12, 13)."""

from sqlalchemy import (
    BigInteger,
    Column,
    Identity,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    text,
)

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

SHARDS = 16
"""Shards of a new outbox; the shard of an event is the stable hash of its key modulo this."""

OUTBOX = Table(
    "outbox",
    METADATA,
    Column(
        "position",
        BigInteger,
        Identity(always=True),
        nullable=False,
        doc="insertion order; a lower one may commit later",
    ),
    column("event_id", UUID, "CloudEvents id, UUIDv7, the same in every resend"),
    column("created_at", INSTANT, "database clock at insert", default="clock_timestamp()"),
    tenant_column(),
    column("service", TEXT, "process that wrote it", default="datarecs.service_name()"),
    column("type", TEXT, "CloudEvents type"),
    column("topic", TEXT, "Kafka topic"),
    column("partition_key", TEXT, "Kafka key"),
    column("shard", SmallInteger(), "stable hash of the partition key"),
    column("headers", JSON, "list of name and text, in the order sent"),
    column("data", LargeBinary(), "bytes of the record, sent unchanged"),
    column("attempts", COUNT, "sends tried", default="0"),
    column("last_error", TEXT, "why the last send failed", null=True),
    column("sent_at", INSTANT, "acknowledged by the broker", null=True),
    column("parked_at", INSTANT, "parked: the broker refuses it for good", null=True),
    PrimaryKeyConstraint("tenant_id", "event_id", "created_at"),
    Index(
        "outbox_unsent",
        "shard",
        "position",
        postgresql_where=text("sent_at IS NULL AND parked_at IS NULL"),
    ),
    Index("outbox_unsent_event", "event_id", postgresql_where=text("sent_at IS NULL")),
    Index("outbox_age", "created_at", postgresql_using="brin"),
    postgresql_partition_by="RANGE (created_at)",
    info={"doc": "Events that wait for the relay, and sent ones; daily partitions."},
)

RELAY_SHARD = Table(
    "relay_shard",
    METADATA,
    column("shard", SmallInteger(), "0, 1, 2 … as many as the outbox has"),
    column("owner", TEXT, "relay that sends this shard", null=True),
    column("epoch", NUMBER, "grows with every change of owner", default="'0'::bigint"),
    column("lease_until", INSTANT, "end of the lease unless renewed", null=True),
    PrimaryKeyConstraint("shard"),
    info={"doc": "Which relay owns which shard of the outbox."},
)

RELAY_OWNER = Table(
    "relay_owner",
    METADATA,
    column("owner", TEXT, "a relay"),
    column("seen_until", INSTANT, "considered alive until then"),
    PrimaryKeyConstraint("owner"),
    info={"doc": "Live relays, so that each takes its fair share of the shards."},
)

INBOX = Table(
    "inbox",
    METADATA,
    tenant_column(),
    column("consumer", TEXT, "who acted"),
    column("source", TEXT, "CloudEvents source"),
    column("event_id", UUID, "CloudEvents id"),
    column("received_at", INSTANT, "when it took effect", default="now()"),
    PrimaryKeyConstraint("tenant_id", "consumer", "source", "event_id"),
    Index("inbox_age", "received_at"),
    info={"doc": "Which events took effect at which consumer; written with the effect."},
)
