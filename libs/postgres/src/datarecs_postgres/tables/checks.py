"""Checks of connections and jobs against their sources (spec resources-scheduler 12)."""

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

RESOURCE_CHECK = Table(
    "resource_check",
    METADATA,
    tenant_column(),
    column("resource_uid", UUID, "connection or job"),
    column("subject", TEXT, "what the newest request is about"),
    column("due_at", INSTANT, "when a worker may take it; NULL: nothing is requested", null=True),
    column("epoch", NUMBER, "rises with each lease", default="0"),
    column("claimed_at", INSTANT, "last lease; orders the tenants", null=True),
    column("lease_until", INSTANT, "end of the lease; NULL: no worker checks it", null=True),
    column("checked_at", INSTANT, "end of the last check", null=True),
    column("checked_generation", NUMBER, "of the declaration that was checked", null=True),
    column("result", JSON, "steps of the last check: no secret, no value of a source", null=True),
    PrimaryKeyConstraint("tenant_id", "resource_uid"),
    ForeignKeyConstraint(
        ["tenant_id", "resource_uid"], ["resource.tenant_id", "resource.uid"], ondelete="CASCADE"
    ),
    Index("resource_check_due", "due_at", postgresql_where=text("due_at IS NOT NULL")),
    info={"doc": "Checks of connections and jobs against their sources."},
)
