"""The queue of captures (spec queue-capture 3 to 10)."""

from sqlalchemy import (
    ARRAY,
    Boolean,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    Table,
    Uuid,
    text,
)

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

OPEN_ROOT = (
    "parent_id IS NULL AND state = ANY (ARRAY['QUEUED'::text, 'RUNNING'::text, 'WAITING'::text])"
)
"""A capture that has not ended; a query needs this text to use the index."""
CAPTURE_WORK = Table(
    "capture_work",
    METADATA,
    tenant_column(),
    column("id", UUID, "the item; of a root it is the id of the capture"),
    column("kind", TEXT, "what the item does"),
    column("parent_id", UUID, "item that added it; NULL: a root", null=True),
    column("root_id", UUID, "root of the tree"),
    column("ancestors", ARRAY(Uuid()), "from the root to the parent"),
    column("task", JSON, "the work, as a document"),
    column("connection_uid", UUID, "connection that is captured"),
    column("dedupe", TEXT, "equal for equal requests"),
    column("execution_class", TEXT, "workers that may take it"),
    column("lane", TEXT, "workers that may take it"),
    column("claim_key", TEXT, "at most one running item has it", null=True),
    column("pinned_executor", TEXT, "the only executor that may take it; '': any"),
    column("requested_by", TEXT, "principal"),
    column("state", TEXT, "QUEUED to CANCELLED"),
    column("gate", TEXT, "whether a queued item can be leased"),
    column("due_at", INSTANT, "from then on it can be leased"),
    column("created_at", INSTANT, "when it was added"),
    column("attempt", NUMBER, "failures that were consumed", default="'0'::bigint"),
    column("releases", NUMBER, "returns by workers", default="'0'::bigint"),
    column("epoch", NUMBER, "number of the lease", default="'0'::bigint"),
    column("executor", TEXT, "holder of the lease", null=True),
    column("lease_until", INSTANT, "end of the lease, if one is held", null=True),
    column("deadline_at", INSTANT, "end of the attempt", null=True),
    column("waits_since", INSTANT, "since when a dependency is not ready", null=True),
    column("started_at", INSTANT, "first begin", null=True),
    column("finished_at", INSTANT, "end", null=True),
    column("cancel_requested_at", INSTANT, "when the cancel arrived", null=True),
    column("cancelled_by", TEXT, "principal", null=True),
    column("cancel_reason", TEXT, "as the person gave it", null=True),
    column("children_final", Boolean(), "no more children will come", default="false"),
    column("outcome_sha256", TEXT, "of the last report of a worker", null=True),
    column("outcome_epoch", NUMBER, "of that report", null=True),
    column("message", TEXT, "for people", default="''::text"),
    column("error_code", TEXT, "name of the error", null=True),
    column("error_message", TEXT, "for people, redacted", null=True),
    column("error_retry", TEXT, "what the error means for another attempt", null=True),
    column("counters", JSON, "of this item alone"),
    PrimaryKeyConstraint("tenant_id", "id"),
    Index(
        "capture_work_ready",
        *("kind", "tenant_id", "pinned_executor", "due_at", "id"),
        postgresql_where=text("state = 'QUEUED'::text AND gate = 'OPEN'::text"),
    ),
    Index(
        "capture_work_parked",
        *("tenant_id", "claim_key", "due_at", "id"),
        postgresql_where=text("state = 'QUEUED'::text AND gate = 'LANE'::text"),
    ),
    Index(
        "capture_work_root_key",
        *("tenant_id", "dedupe"),
        unique=True,
        postgresql_where=text(OPEN_ROOT),
    ),
    Index(
        "capture_work_child_key",
        *("tenant_id", "dedupe"),
        unique=True,
        postgresql_where=text("parent_id IS NOT NULL"),
    ),
    Index(
        "capture_work_children",
        *("tenant_id", "parent_id", "id"),
        postgresql_where=text("parent_id IS NOT NULL"),
    ),
    Index(
        "capture_work_live",
        *("tenant_id", "parent_id"),
        postgresql_where=text("parent_id IS NOT NULL AND finished_at IS NULL"),
    ),
    Index("capture_work_tree", "tenant_id", "root_id"),
    Index(
        "capture_work_leased",
        *("lease_until", "tenant_id"),
        postgresql_where=text("lease_until IS NOT NULL"),
    ),
    Index(
        "capture_work_old",
        *("finished_at", "tenant_id"),
        postgresql_where=text("parent_id IS NULL AND finished_at IS NOT NULL"),
    ),
    Index("capture_work_listed", "tenant_id", "created_at", "id"),
    info={"doc": "Work items of captures: the queue of capture-worker."},
)
CAPTURE_CLAIM = Table(
    "capture_claim",
    METADATA,
    tenant_column(),
    column("claim_key", TEXT, "name of a lane or snapshot"),
    column("item_id", UUID, "the running item that has it"),
    PrimaryKeyConstraint("tenant_id", "claim_key"),
    ForeignKeyConstraint(
        ["tenant_id", "item_id"],
        ["capture_work.tenant_id", "capture_work.id"],
        ondelete="CASCADE",
    ),
    info={"doc": "Claim keys of running work items."},
)
CAPTURE_CANCEL = Table(
    "capture_cancel",
    METADATA,
    tenant_column(),
    column("item_id", UUID, "cancelled item with live descendants"),
    PrimaryKeyConstraint("tenant_id", "item_id"),
    ForeignKeyConstraint(
        ["tenant_id", "item_id"],
        ["capture_work.tenant_id", "capture_work.id"],
        ondelete="CASCADE",
    ),
    info={"doc": "Cancelled work items; nothing below them is leased."},
)
CAPTURE_TURN = Table(
    "capture_turn",
    METADATA,
    tenant_column(),
    column("kind", TEXT, "of work items"),
    column("served", NUMBER, "number of the last claim"),
    PrimaryKeyConstraint("tenant_id", "kind"),
    info={"doc": "When each tenant and kind was served last by a claim of work items."},
)
CAPTURE_SEQUENCE = Table(
    "capture_sequence",
    METADATA,
    tenant_column(),
    column("root_job_id", UUID, "root of the tree"),
    column("last_sequence", NUMBER, "number of its newest event"),
    PrimaryKeyConstraint("tenant_id", "root_job_id"),
    ForeignKeyConstraint(
        ["tenant_id", "root_job_id"],
        ["capture_work.tenant_id", "capture_work.id"],
        ondelete="CASCADE",
    ),
    info={"doc": "The last number of an event of each capture."},
)
