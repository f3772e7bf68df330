"""What belongs to no tenant: schema versions, role names, retention of partitions."""

from sqlalchemy import Boolean, PrimaryKeyConstraint, Table

from datarecs_postgres.tables.metadata import COUNT, INSTANT, METADATA, TEXT, column

SCHEMA_COMPAT = Table(
    "schema_compat",
    METADATA,
    column("revision", TEXT, "migration that was applied"),
    column("oldest_release", TEXT, "oldest release that works on this schema"),
    column("applied_at", INSTANT, "when", default="now()"),
    PrimaryKeyConstraint("revision"),
    info={"doc": "Applied migrations and the releases they still carry; read by readiness."},
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
    column("keep_days", COUNT, "days a partition is kept"),
    column("unsent_guard", Boolean(), "keep a partition with unsent rows", default="false"),
    PrimaryKeyConstraint("table_name"),
    info={"doc": "Which tables `maintain_partitions` looks after, and how long."},
)
