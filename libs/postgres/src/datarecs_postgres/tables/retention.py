"""How far sweeps of retention policies have come (spec resources-scheduler 11)."""

from sqlalchemy import ForeignKeyConstraint, Index, PrimaryKeyConstraint, Table, text

from datarecs_postgres.tables.metadata import (
    INSTANT,
    JSON,
    METADATA,
    NUMBER,
    TEXT,
    UUID,
    column,
    tenant_column,
)

RETENTION_STATE = Table(
    "retention_state",
    METADATA,
    tenant_column(),
    column("policy_uid", UUID, "the RetentionPolicy"),
    column("due_at", INSTANT, "next step; NULL if the policy cannot be read", null=True),
    column("generation", NUMBER, "declaration of the current sweep; NULL between", null=True),
    column("target", TEXT, "what the current sweep examines", null=True),
    column("place_at", INSTANT, "time of the last examined object", null=True),
    column("place_id", UUID, "id of the last examined object", null=True),
    column("counts", JSON, "removed by the current sweep, by target", default="'{}'::jsonb"),
    PrimaryKeyConstraint("tenant_id", "policy_uid"),
    ForeignKeyConstraint(
        ["tenant_id", "policy_uid"], ["resource.tenant_id", "resource.uid"], ondelete="CASCADE"
    ),
    Index("retention_state_due", "due_at", postgresql_where=text("due_at IS NOT NULL")),
    info={"doc": "Sweeps of retention policies: when the next one is due, and how far one is."},
)
