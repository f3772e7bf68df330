"""The work items of captures: what a worker leases, and where it stands in its tree.

Every change of an item is decided by `captures.decide`; adapters only store. Spec queue-capture 3,
4.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NewType
from uuid import UUID

from datarecs_core.captures.request import CaptureRequest, ExecutionClass, ObjectName
from datarecs_core.values import TenantId

CaptureJobId = NewType("CaptureJobId", UUID)
"""Of a work item; stays valid as long as the item exists."""


class WorkKind(StrEnum):
    PLAN_CONNECTOR = "PLAN_CONNECTOR"
    PLAN_TABLE = "PLAN_TABLE"
    PLAN_VIEW = "PLAN_VIEW"
    PLAN_SNAPSHOT = "PLAN_SNAPSHOT"
    EXEC_FILE_GROUP = "EXEC_FILE_GROUP"
    FINALIZE_SNAPSHOT_CAPTURE = "FINALIZE_SNAPSHOT_CAPTURE"


class WorkState(StrEnum):
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    """Its own work is done; its children decide how it ends."""
    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


ENDED = frozenset({WorkState.SUCCEEDED, WorkState.FAILED, WorkState.CANCELLED})
LEASED = frozenset({WorkState.RUNNING, WorkState.CANCELLING})


class Gate(StrEnum):
    """Whether a queued item can be leased."""

    OPEN = "OPEN"
    """From `due_at` on."""
    LANE = "LANE"
    """Parked: another item has its claim key."""
    BARRIER = "BARRIER"
    """Waits for its siblings."""


class RetryClass(StrEnum):
    """What a failure means for the next attempt."""

    TRANSIENT = "TRANSIENT"
    STATE_UNCERTAIN = "STATE_UNCERTAIN"
    """Whether the effect was committed is unknown; the next attempt reads first."""
    DEPENDENCY_NOT_READY = "DEPENDENCY_NOT_READY"
    TERMINAL = "TERMINAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureTask:
    """The work of an item. Which fields are set depends on its kind."""

    request: CaptureRequest
    object: ObjectName | None = None
    """Of PLAN_TABLE, PLAN_VIEW and everything below."""
    table_id: UUID | None = None
    """Of PLAN_SNAPSHOT and everything below."""
    snapshot_id: int | None = None
    """None in a PLAN_SNAPSHOT whose source takes the snapshot itself."""
    native_id: str | None = None
    plan_key: str | None = None
    """Blob of the plan of the snapshot, of EXEC_FILE_GROUP and FINALIZE_SNAPSHOT_CAPTURE."""
    group: int | None = None
    """Of EXEC_FILE_GROUP: its place in the plan, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkError:
    code: str
    """Name of the error catalogue."""
    message: str
    """For people; no secret."""
    retry: RetryClass


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkItem:
    """One row of the queue."""

    id: CaptureJobId
    tenant_id: TenantId
    kind: WorkKind
    parent_id: CaptureJobId | None = None
    root_id: CaptureJobId
    ancestors: tuple[CaptureJobId, ...] = ()
    """From the root to the parent."""
    task: CaptureTask
    dedupe: str
    """Equal for equal requests; see `dedupe_key`."""
    execution_class: ExecutionClass
    lane: str
    claim_key: str | None = None
    """At most one running item of a tenant has it."""
    pinned_executor: str | None = None
    requested_by: str
    state: WorkState
    gate: Gate
    due_at: datetime
    created_at: datetime
    attempt: int = 0
    """Failures that were consumed."""
    releases: int = 0
    epoch: int = 0
    """Raised by every claim; the fence of every write of a worker."""
    executor: str | None = None
    lease_until: datetime | None = None
    deadline_at: datetime | None = None
    """Of this attempt."""
    waits_since: datetime | None = None
    """First of the DEPENDENCY_NOT_READY in a row."""
    started_at: datetime | None = None
    finished_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    cancelled_by: str | None = None
    cancel_reason: str | None = None
    children_final: bool = False
    """No more children will come."""
    outcome_sha256: str | None = None
    """Of the outcome that ended its own work: an equal one is accepted again."""
    outcome_epoch: int | None = None
    message: str = ""
    error: WorkError | None = None
    counters: Mapping[str, int]
    """Of this item alone; see COUNTERS."""

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED


COUNTERS = (
    *("tables_scanned", "tables_changed", "tables_skipped", "views_scanned", "views_changed"),
    "entries_left_out",
    *("snapshots_planned", "snapshots_finalized", "stats_written", "indexes_written"),
    *("file_groups_total", "files_total", "files_completed", "files_reused", "bytes_read"),
)
"""Names of counters; a tree shows their sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkToken:
    """The right of one executor to one item."""

    tenant_id: TenantId
    item_id: CaptureJobId
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWork:
    """An item to be added; identity, dedupe key and due time are computed."""

    kind: WorkKind
    task: CaptureTask
    is_barrier: bool = False
    pinned_executor: str | None = None


LEASE = timedelta(seconds=60)
HEARTBEAT = LEASE / 3
RECLAIM_GRACE = timedelta(seconds=5)
CANCEL_GRACE = timedelta(seconds=60)
MAX_ATTEMPTS = 8
MAX_RELEASES = 5
MAX_CHILDREN = 50_000
DEPENDENCY_LIMIT = timedelta(hours=24)
BASE_BACKOFF, LONGEST_BACKOFF = timedelta(seconds=0.5), timedelta(seconds=30)
DEADLINES: Mapping[WorkKind, timedelta] = {
    WorkKind.PLAN_CONNECTOR: timedelta(minutes=30),
    WorkKind.PLAN_TABLE: timedelta(minutes=15),
    WorkKind.PLAN_VIEW: timedelta(minutes=5),
    WorkKind.PLAN_SNAPSHOT: timedelta(hours=2),
    WorkKind.EXEC_FILE_GROUP: timedelta(hours=2),
    WorkKind.FINALIZE_SNAPSHOT_CAPTURE: timedelta(minutes=30),
}
"""Of one attempt; a longer one counts as a failure that may be repeated."""
