"""Captures: the sources they read, the queue of their work items, and what workers call.

Three ports. `CaptureSource` is the only one that reaches a source, in the child of a worker.
`WorkItems` and `CaptureFinder` store the queue. `CaptureControl` is what a worker may do; it is
implemented beside the database, and over HTTP for workers that cannot reach it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from datarecs_core.captures.items import (
    CaptureJobId,
    WorkItem,
    WorkKind,
    WorkState,
    WorkToken,
)
from datarecs_core.captures.outcomes import Outcome
from datarecs_core.captures.request import (
    CapturePolicy,
    CaptureScope,
    ExecutionClass,
    ObjectName,
)
from datarecs_core.captures.source_facts import (
    CapturedFile,
    CapturedTable,
    SourceFile,
    SourceObjects,
    SourceTable,
    SourceView,
)
from datarecs_core.catalog.records import TableColumn
from datarecs_core.hashing import JsonValue
from datarecs_core.values import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRequest:
    """What is captured of files."""

    policy: CapturePolicy
    """Which figures of which columns."""
    columns: Sequence[TableColumn]
    """Of the snapshot, as its `SourceSnapshot` or the catalogue has them: the types of text files
    are those of all files, which are not read again."""
    directory: str
    """Local; a sidecar is written there as `<sha256>.parquet`."""


class CaptureSource(Protocol):
    """One opened connection, as captures read it; built by the registry, closed by its user.

    Every method may raise an error of the DR2 or DR3 family, as a Connector; a table, view or
    snapshot that is gone is one of them.
    """

    @property
    def opened_files(self) -> int:
        """Data files that were opened so far; a file counts once, however often it is opened."""

    def objects(self, scope: CaptureScope) -> SourceObjects:
        """The tables and views in the scope; a named one that does not exist is left out."""

    def table(self, name: ObjectName, *, known: Sequence[str]) -> SourceTable:
        """The table and its snapshots.

        Args:
            name: of `objects`.
            known: native ids of snapshots, the newest first, whose details may be left out; those
                of them that exist are in `known_snapshots`. If all are left out, a source that has
                no schema apart from its files has no columns either, since no data file is opened:
                the catalogue's columns stay as they are.
        """

    def view(self, name: ObjectName) -> SourceView: ...

    def files(self, name: ObjectName, native_id: str) -> Sequence[SourceFile]:
        """The data files of a snapshot, sorted by path; no data file is opened.

        Raises SnapshotLostError if the source no longer has this snapshot.
        """

    def capture_files(
        self,
        name: ObjectName,
        native_id: str,
        files: Sequence[SourceFile],
        request: FileRequest,
    ) -> Iterator[CapturedFile]:
        """Statistics of each file, in any order; only these files and their deletes are opened.

        Args:
            name: of the table.
            native_id: of the snapshot.
            files: of `files`.
            request: figures, columns, and where indexes are written.

        Raises SnapshotLostError for a file that is gone or has changed.
        """

    def capture_table(self, name: ObjectName, policy: CapturePolicy) -> CapturedTable:
        """Of a source with DIRECT_STATS: its state now, captured in one transaction."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """Which items a worker takes; an empty collection means any."""

    executor: str
    kinds: Collection[WorkKind]
    lanes: Collection[str] = ()
    execution_classes: Collection[ExecutionClass] = ()
    limit: int = 1
    """1 to 100."""
    tenant: TenantId | None = None
    """None: of all tenants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    tokens: Sequence[WorkToken]


class CaptureFinder(Protocol):
    """The part of WorkFinder that is about captures; each call commits by itself."""

    def claim_work(self, request: ClaimRequest) -> Claims:
        """Lease due items for 60 s, earliest first within a kind, fairly over kinds and tenants."""

    def tenants_with_work(self, what: str) -> Sequence[TenantId]:
        """Tenants with `expired` leases, `cancelled` trees, or `old` ones that can be removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    id: CaptureJobId
    is_new: bool
    """False: an equal item exists, and this is its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFilter:
    connection_uid: str | None = None
    states: Collection[WorkState] = ()
    kinds: Collection[WorkKind] = ()
    roots_only: bool = False


class WorkItems(Protocol):
    """The rows of `capture_work`, inside a transaction of one tenant.

    Lock order: an item, then its ancestors upwards, then claim keys in their order.
    """

    def add(self, items: Sequence[WorkItem]) -> Sequence[Added]:
        """Insert items; one whose dedupe key is taken is not inserted. In the order of `items`."""

    def get(self, item_id: CaptureJobId) -> WorkItem | None:
        """Without a lock."""

    def for_update(self, item_id: CaptureJobId) -> WorkItem | None:
        """Lock the row until the transaction ends."""

    def save(self, item: WorkItem) -> None:
        """Replace the locked row; task, kind, parent and dedupe key never change."""

    def children(
        self, parent_id: CaptureJobId, *, after: CaptureJobId | None = None, limit: int = 500
    ) -> Sequence[WorkItem]:
        """In the order of their ids."""

    def child_states(self, parent_id: CaptureJobId) -> Mapping[WorkState, int]:
        """How many children are in each state."""

    def live_children(self, parent_id: CaptureJobId, *, limit: int) -> Sequence[WorkItem]:
        """Children that have not ended, in any order."""

    def first_failed_child(self, parent_id: CaptureJobId) -> WorkItem | None:
        """By the time of its end."""

    def free_key(self, item: WorkItem) -> None:
        """Release the claim key of the item, if it has it.

        While nobody has the key, the earliest item that is parked behind it opens: one of each
        kind, lane, execution class and pinned executor, so that nobody waits behind an item that no
        worker takes.
        """

    def mark_cancelled(self, item_id: CaptureJobId) -> None:
        """From now on nothing below the item is leased."""

    def is_below_cancelled(self, item: WorkItem) -> bool: ...

    def renew(self, tokens: Collection[WorkToken]) -> Mapping[WorkToken, bool]:
        """Extend current leases that have not expired: these, and whether a cancel is requested.

        Never past the deadline of the attempt or the grace of a cancel (`decide.lease_end`).
        """

    def expired(self, *, limit: int) -> Sequence[CaptureJobId]:
        """Leased items past the end of their lease and its grace, oldest first."""

    def live_below_cancelled(self, *, limit: int) -> Sequence[CaptureJobId]:
        """Descendants of cancelled items that no cancel has reached.

        A mark without a live descendant is removed.
        """

    def matching(
        self, where: WorkFilter, *, before: tuple[datetime, CaptureJobId] | None, limit: int
    ) -> Sequence[WorkItem]:
        """Newest first by (created_at, id), strictly before the cursor."""

    def counters_below(self, item_id: CaptureJobId) -> Mapping[str, int]:
        """Sums over the item and everything below it.

        Besides COUNTERS: `file_groups_completed` and `file_groups_failed`, which counts cancelled
        ones too; `tables_failed` and `views_failed`, where one has failed.
        """

    def remove_ended(self, *, finished_before: datetime, limit: int) -> int:
        """Whole trees whose root ended before; the number of removed trees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewed:
    is_current: bool
    """False: stop the work at once and report nothing."""
    cancel_requested: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Everything a worker needs for one item."""

    token: WorkToken
    kind: WorkKind
    frame: Mapping[str, JsonValue] = field(repr=False)
    """For the child: operation, connection, object, files, and references of secrets."""
    deadline_seconds: float
    cancel_requested: bool = False


class CaptureControl(Protocol):
    """What a worker may do. Facts of strangers: everything is checked here."""

    def claim(self, request: ClaimRequest) -> Claims: ...

    def begin(self, token: WorkToken) -> Assignment | None:
        """The work of a claimed item; None if it is no longer this worker's, or ended at once."""

    def renew(self, tokens: Collection[WorkToken]) -> Mapping[WorkToken, Renewed]: ...

    def put_sidecar(self, token: WorkToken, path: str, sha256: str, content: bytes) -> None:
        """Store the index of a file before the outcome that names it; safe to repeat."""

    def end(self, token: WorkToken, outcome: Outcome) -> None:
        """Record the outcome with all its effects in one transaction; safe to repeat.

        Raises:
            LeaseLostError: the item belongs to another epoch or has ended otherwise; nothing was
                changed.
            OutcomeRefusedError: it does not fit the item, with every fault; the item stays leased.
        """
