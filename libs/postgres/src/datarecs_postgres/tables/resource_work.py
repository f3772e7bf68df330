"""When objects are reconciled next, and who holds them (spec resources-scheduler 7)."""

from sqlalchemy import Boolean, ForeignKeyConstraint, Index, PrimaryKeyConstraint, Table, text

from datarecs_postgres.tables.metadata import (
    INSTANT,
    METADATA,
    NUMBER,
    TEXT,
    UUID,
    column,
    tenant_column,
)

RESOURCE_WORK = Table(
    "resource_work",
    METADATA,
    tenant_column(),
    column("uid", UUID, "resource"),
    column("kind", TEXT, "kind of the resource"),
    column("due_at", INSTANT, "next reconcile; NULL after a terminal error", null=True),
    column("dirty_seq", NUMBER, "raised by each change", default="'0'::bigint"),
    column("attempts", NUMBER, "failures in a row", default="'0'::bigint"),
    column("conflicts", NUMBER, "conflicts in a row", default="'0'::bigint"),
    column("generation", NUMBER, "of the last reconcile", default="'0'::bigint"),
    column("reconcile_at", TEXT, "annotation at the last reconcile", default="''::text"),
    column("is_terminal", Boolean(), "whether the last error was terminal", default="false"),
    column("window_start", INSTANT, "from which reconciles are counted", null=True),
    column("window_count", NUMBER, "reconciles since then", default="'0'::bigint"),
    column("epoch", NUMBER, "number of the lease", default="'0'::bigint"),
    column("lease_until", INSTANT, "end of the lease, if one is held", null=True),
    PrimaryKeyConstraint("tenant_id", "uid"),
    ForeignKeyConstraint(
        ["tenant_id", "uid"], ["resource.tenant_id", "resource.uid"], ondelete="CASCADE"
    ),
    Index(
        "resource_work_due",
        "tenant_id",
        "due_at",
        postgresql_where=text("due_at IS NOT NULL"),
    ),
    Index(
        "resource_work_leased",
        "tenant_id",
        "lease_until",
        postgresql_where=text("lease_until IS NOT NULL"),
    ),
    info={"doc": "Due times and leases of controllers."},
)
