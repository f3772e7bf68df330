"""Tables without a tenant: schema versions, role names, retention of partitions, counters."""

from sqlalchemy import Boolean, PrimaryKeyConstraint, Table

from datarecs_postgres.tables.metadata import COUNT, INSTANT, JSON, METADATA, TEXT, UUID, column

SCHEMA_COMPAT = Table(
    "schema_compat",
    METADATA,
    column("revision", TEXT, "migration that was applied"),
    column("oldest_release", TEXT, "oldest release that works on this schema"),
    column("applied_at", INSTANT, "when", default="now()"),
    PrimaryKeyConstraint("revision"),
    info={"doc": "Applied migrations and the releases they support; read by readiness."},
)

SERVICE_ROLE = Table(
    "service_role",
    METADATA,
    column("role", TEXT, "database role"),
    column("service", TEXT, "service that logs in with it"),
    PrimaryKeyConstraint("role"),
    info={"doc": "The one table that maps database roles to service names."},
)

PARTITION_POLICY = Table(
    "partition_policy",
    METADATA,
    column("table_name", TEXT, "range-partitioned table"),
    column("keep_days", COUNT, "retention of a partition in days"),
    column("unsent_guard", Boolean(), "do not drop a partition with unsent rows", default="false"),
    PrimaryKeyConstraint("table_name"),
    info={"doc": "Tables that `maintain_partitions` maintains, and their retention."},
)

SERVICE_STATS = Table(
    "service_stats",
    METADATA,
    column("instance", UUID, "process, new at each start"),
    column("counters", JSON, "its counters since its start"),
    column("at", INSTANT, "last report", default="now()"),
    PrimaryKeyConstraint("instance"),
    info={"doc": "Counters of running processes for /system/stats; no figure of one tenant."},
)
