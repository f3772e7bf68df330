"""Pointers of the catalogue (spec catalogue-storage 12)."""

from sqlalchemy import Index, LargeBinary, PrimaryKeyConstraint, Table, Text, text

from datarecs_postgres.tables.metadata import (
    INSTANT,
    METADATA,
    NUMBER,
    TEXT,
    UUID,
    column,
    tenant_column,
)

POINTER = Table(
    "pointer",
    METADATA,
    tenant_column(),
    column("key", Text(collation="C"), "from `/accounts/` on; in byte order"),
    column("blob_key", TEXT, "the immutable record in the blob store", null=True),
    column("payload", LargeBinary(), "canonical JSON, at most 8 KiB", null=True),
    column("resource_id", UUID, "object that the pointer belongs to", null=True),
    column("expires_at", INSTANT, "from then on the pointer is absent", null=True),
    column("version", NUMBER, "rises by one with each change"),
    PrimaryKeyConstraint("tenant_id", "key"),
    Index(
        "pointer_expiry",
        "tenant_id",
        "expires_at",
        postgresql_where=text("expires_at IS NOT NULL"),
    ),
    info={"doc": "Names, ids and lists of the catalogue, and the records that they name."},
)
