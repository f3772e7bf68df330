"""Declared resources, their change feed and their sealed secrets (spec resources-scheduler 3)."""

from sqlalchemy import (
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

from datarecs_postgres.tables.metadata import (
    INSTANT,
    JSON,
    METADATA,
    NUMBER,
    TEXT,
    UUID,
    Xid8,
    column,
    tenant_column,
)

RESOURCE = Table(
    "resource",
    METADATA,
    tenant_column(),
    column("uid", UUID, "UUIDv7 at create"),
    column("kind", TEXT, "Connection, ReconciliationJob, …"),
    column("namespace", TEXT, "project label inside the tenant"),
    column("name", TEXT, "DNS label"),
    column("api_version", TEXT, "version the spec is stored in"),
    column("generation", NUMBER, "raised when the canonical spec differs"),
    column("rv", NUMBER, "feed number of the newest write"),
    column("version", NUMBER, "resourceVersion; a trigger raises it with each write", default="1"),
    column("spec", JSON, "canonical, defaults materialised"),
    column("spec_hash", TEXT, "sha256 of the canonical spec"),
    column("labels", JSON, "for selectors", default="'{}'::jsonb"),
    column("annotations", JSON, "for people and tools", default="'{}'::jsonb"),
    column("finalizers", ARRAY(TEXT), "must be empty before deletion", default="'{}'::text[]"),
    column("status", JSON, "written by one controller", default="'{}'::jsonb"),
    column("observed_generation", NUMBER, "generation of the last decision", default="'0'::bigint"),
    column("created_at", INSTANT, "create committed"),
    column("deletion_at", INSTANT, "first delete", null=True),
    PrimaryKeyConstraint("tenant_id", "uid"),
    UniqueConstraint("tenant_id", "kind", "namespace", "name"),
    ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"]),
    Index("resource_newest", "tenant_id", "kind", text("created_at DESC"), text("uid DESC")),
    info={"doc": "Declared resources: apiVersion, kind, metadata, spec, status."},
)

RESOURCE_CHANGE = Table(
    "resource_change",
    METADATA,
    tenant_column(),
    column("rv", NUMBER, "feed number, the resource's rv after the write"),
    column("xid", Xid8(), "transaction that wrote it", default="pg_current_xact_id()"),
    column("kind", TEXT, "kind of the resource"),
    column("namespace", TEXT, "its namespace"),
    column("name", TEXT, "its name"),
    column("uid", UUID, "its uid"),
    column("op", TEXT, "CREATED, UPDATED, STATUS_UPDATED or DELETED"),
    column("generation", NUMBER, "after the write"),
    column("changed", ARRAY(TEXT), "what differs"),
    column("body", JSON, "the object after the write; for DELETED its last state", null=True),
    column("old_labels", JSON, "labels before a write that changed them", null=True),
    column("actor", TEXT, "who wrote"),
    column("at", INSTANT, "transaction time", default="now()"),
    PrimaryKeyConstraint("tenant_id", "rv", "at"),
    Index("resource_change_feed", "rv"),
    Index("resource_change_object", "tenant_id", "kind", "namespace", "name", "rv"),
    postgresql_partition_by="RANGE (at)",
    info={"doc": "Change feed of resources in commit order; daily partitions."},
)

SEALED_SECRET = Table(
    "sealed_secret",
    METADATA,
    tenant_column(),
    column("resource_uid", UUID, "resource it belongs to"),
    column("field", TEXT, "name of the secret in the resource"),
    column("key_id", TEXT, "id of the value of the field"),
    column("sealed", LargeBinary(), "AES-256-GCM envelope"),
    column("created_at", INSTANT, "stored", default="clock_timestamp()"),
    column("expires_at", INSTANT, "no longer valid from this time on", null=True),
    PrimaryKeyConstraint("tenant_id", "resource_uid", "field", "key_id"),
    ForeignKeyConstraint(
        ["tenant_id", "resource_uid"], ["resource.tenant_id", "resource.uid"], ondelete="CASCADE"
    ),
    info={"doc": "Envelope-encrypted secrets of resources, such as signing secrets."},
)
