"""Tenants, keys, stored answers and the audit chain (spec security 3, 4, 14)."""

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
    COUNT,
    INSTANT,
    JSON,
    METADATA,
    NUMBER,
    TEXT,
    column,
    tenant_column,
)

TENANT = Table(
    "tenant",
    METADATA,
    tenant_column(),
    column("name", TEXT, "unique over the deployment"),
    column("running_limit", COUNT, "maximum number of concurrently leased runs", default="10"),
    column("created_at", INSTANT, "made", default="now()"),
    PrimaryKeyConstraint("tenant_id"),
    UniqueConstraint("name"),
    info={"doc": "Tenants, the owners of all other rows."},
)

API_KEY = Table(
    "api_key",
    METADATA,
    tenant_column(),
    column("key_id", TEXT, "the 12 characters after `drk_`, unique over all tenants"),
    column("name", TEXT, "for people"),
    column("subject", TEXT, "owner: the person or program responsible for the key"),
    column("secret_sha256", LargeBinary(), "hash of the 32 random bytes' text"),
    column("permissions", ARRAY(TEXT), "scopes"),
    column("created_at", INSTANT, "made"),
    column("expires_at", INSTANT, "not accepted from this time on"),
    column("revoked_at", INSTANT, "taken back", null=True),
    column("parent_key_id", TEXT, "the key it was made with", null=True),
    PrimaryKeyConstraint("tenant_id", "key_id"),
    UniqueConstraint("key_id"),
    ForeignKeyConstraint(["tenant_id"], ["tenant.tenant_id"]),
    ForeignKeyConstraint(["tenant_id", "parent_key_id"], ["api_key.tenant_id", "api_key.key_id"]),
    Index(
        "api_key_children",
        "tenant_id",
        "parent_key_id",
        postgresql_where=text("parent_key_id IS NOT NULL"),
    ),
    info={"doc": "API keys, without their secrets."},
)

WS_TICKET = Table(
    "ws_ticket",
    METADATA,
    tenant_column(),
    column("ticket_sha256", LargeBinary(), "hash of the 32 random bytes' text"),
    column("key_id", TEXT, "the key that requested it"),
    column("expires_at", INSTANT, "not accepted from this time on"),
    PrimaryKeyConstraint("tenant_id", "ticket_sha256"),
    Index("ws_ticket_hash", "ticket_sha256"),
    info={"doc": "Tickets that admit one WebSocket each; used and expired ones are deleted."},
)

IDEMPOTENCY_KEY = Table(
    "idempotency_key",
    METADATA,
    tenant_column(),
    column("principal", TEXT, "sender of the request"),
    column("route", TEXT, "where"),
    column("key", TEXT, "the Idempotency-Key"),
    column("request_hash", LargeBinary(), "SHA-256 of method, path and canonical body"),
    column("created_at", INSTANT, "first use; deleted after 24 h", default="now()"),
    column("status", COUNT, "HTTP status answered", null=True),
    column("headers", JSON, "headers answered", null=True),
    column("body", LargeBinary(), "body answered", null=True),
    PrimaryKeyConstraint("tenant_id", "principal", "route", "key"),
    Index("idempotency_key_age", "created_at"),
    info={"doc": "Stored answers for repeated requests."},
)

AUDIT_EVENT = Table(
    "audit_event",
    METADATA,
    tenant_column(),
    column("seq", NUMBER, "1, 2, 3 … within the tenant"),
    column("at", INSTANT, "transaction time"),
    column("actor", TEXT, "who"),
    column("actor_kind", TEXT, "key, user, service"),
    column("action", TEXT, "did what"),
    column("resource_kind", TEXT, "kind of the object"),
    column("resource_uid", TEXT, "to which"),
    column("before_sha256", LargeBinary(), "canonical state before", null=True),
    column("after_sha256", LargeBinary(), "canonical state after", null=True),
    column("request_id", TEXT, "request it belongs to"),
    column("address", TEXT, "address of the client"),
    column("outcome", TEXT, "ok, refused, failed"),
    column("detail", JSON, "more, without secrets", null=True),
    column("prev_hash", LargeBinary(), "hash of the row before; 32 zero bytes for the first"),
    column("hash", LargeBinary(), "SHA-256 over this row and prev_hash"),
    PrimaryKeyConstraint("tenant_id", "seq"),
    info={"doc": "Audit log, chained by hashes; no role may change or delete a row."},
)

AUDIT_HEAD = Table(
    "audit_head",
    METADATA,
    tenant_column(),
    column("seq", NUMBER, "number of the newest row"),
    column("hash", LargeBinary(), "its hash"),
    PrimaryKeyConstraint("tenant_id"),
    info={"doc": "End of each tenant's audit chain; locked while a row is added."},
)
