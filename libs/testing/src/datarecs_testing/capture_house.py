"""Captures of a folder from the request to the published statistics, in the process of a test.

The stores, the queue, the control plane and the sources are real; only the process of the worker
and its child are left out, so a test decides what happens between two steps.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from datarecs_application.capturing import maintaining, queue
from datarecs_application.capturing.control import LocalControl
from datarecs_application.capturing.source_work import SourceOutcome, sidecar_file, source_outcome
from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.entities import Entities
from datarecs_application.catalogue.generations import Generations
from datarecs_application.catalogue.indexes import Indexes
from datarecs_application.catalogue.pointer_store import PointerStore
from datarecs_application.catalogue.snapshots import Snapshots
from datarecs_application.child_frames import Reader
from datarecs_application.ports.capturing import (
    Assignment,
    CaptureControl,
    CaptureSource,
    ClaimRequest,
)
from datarecs_application.ports.outside import BlobStores
from datarecs_connectors.capturing.opening import open_capture_source
from datarecs_connectors.registry import Surroundings
from datarecs_core.captures.items import CaptureJobId, WorkItem, WorkKind, WorkState, WorkToken
from datarecs_core.captures.outcomes import Finalize, GroupCaptured, Outcome
from datarecs_core.catalog import layout
from datarecs_core.catalog.generations import ActiveGeneration
from datarecs_core.catalog.records import IndexArtifact, Snapshot, Table, TargetStats
from datarecs_core.documents import from_document
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.resources.connection import Connection
from datarecs_core.resources.resource import Kind
from datarecs_core.values import ResourceUid
from datarecs_runtime.clock import SystemClock
from datarecs_specs.documents import StoredSpecs
from datarecs_testing.builders import A_TENANT, a_resource
from datarecs_testing.captured_files import capture_request
from datarecs_testing.captures import IDS, RecordingUnit
from datarecs_testing.conformance.stores import Stores

ALL_KINDS = tuple(WorkKind)
CONNECTION = "exports"


@dataclass(slots=True, kw_only=True)
class CaptureHouse:
    """One tenant with a connection to a folder."""

    stores: Stores
    blobs: BlobStores
    root: Path
    """Of the connection."""
    reports: Path
    """Where children leave indexes."""
    spec: Mapping[str, object] | None = None
    """Of the connection; None: of type files, with the root."""
    opened: list[WorkKind] = field(default_factory=list)
    """For each data file that a source has opened, in order, the work that it was for."""
    before_end: Callable[[WorkToken, Outcome], None] = lambda _token, _outcome: None
    over: Callable[[LocalControl], CaptureControl] = lambda local: local
    """The control that a worker uses, above the one beside the stores."""
    connection_uid: ResourceUid = field(init=False)
    unit: RecordingUnit = field(init=False)
    control: CaptureControl = field(init=False)

    def __post_init__(self) -> None:
        self.unit = RecordingUnit(self.stores.capture.unit)
        self.connection_uid = self.declare()
        self.control = self.over(
            LocalControl(
                unit=self.unit,
                finder=self.stores.capture.finder,
                blobs=self.blobs,
                decode=StoredSpecs(),
                ids=IDS,
                clock=SystemClock(),
                jitter=lambda: 0.75,
            )
        )

    def declare(self, *, namespace: str = "default") -> ResourceUid:
        """A connection of the name, new each time."""
        spec = self.spec or {"type": "files", "config": {"root": str(self.root)}}
        with self.stores.api.unit.begin(A_TENANT, feed=1) as tx:
            stored = a_resource(
                kind=Kind.CONNECTION,
                namespace=namespace,
                name=CONNECTION,
                spec=spec,
                rv=tx.next_rv(),
            )
            tx.resources.add(stored)
        return stored.uid

    def write(self, path: str, **columns: list[object]) -> None:
        """A Parquet file below the root; an equal one has another time of change."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(columns or {"id": [1, 2, 3]}), file)

    def start(self, **changes: object) -> CaptureJobId:
        request = capture_request(connection_uid=self.connection_uid, **changes)
        with self.stores.api.unit.begin(A_TENANT) as tx:
            return queue.enqueue_root(tx, IDS, request, requested_by="u-1").id

    def capture(self, **changes: object) -> WorkItem:
        """A capture from its request to its end."""
        root = self.start(**changes)
        self.work()
        return self.item(root)

    def work(self, *, kinds: tuple[WorkKind, ...] = ALL_KINDS) -> int:
        """Work until nothing is due; the number of items."""
        done = 0
        while (step := self.step(kinds=kinds)) is not None:
            done += 1
            del step
        return done

    def step(self, *, kinds: tuple[WorkKind, ...] = ALL_KINDS) -> WorkToken | None:
        """The work of one item; None if nothing is due."""
        token = self.claim(kinds=kinds)
        if token is not None:
            assignment = self.control.begin(token)
            if assignment is not None:
                self.end(assignment, self.outcome_of(assignment))
        return token

    def claim(self, *, kinds: tuple[WorkKind, ...] = ALL_KINDS) -> WorkToken | None:
        request = ClaimRequest(executor="worker-1", kinds=kinds)
        tokens = self.control.claim(request).tokens
        return tokens[0] if tokens else None

    def outcome_of(self, assignment: Assignment) -> Outcome:
        """What the child reports."""
        if assignment.kind is WorkKind.FINALIZE_SNAPSHOT_CAPTURE:
            return Finalize()
        with closing(self._source(assignment)) as source:
            frame = Reader(assignment.frame)
            outcome: SourceOutcome = source_outcome(frame, source, str(self.reports))
            self.opened += [assignment.kind] * source.opened_files
        return outcome

    def end(self, assignment: Assignment, outcome: Outcome) -> None:
        """What the worker does with it."""
        if isinstance(outcome, GroupCaptured):
            for file in outcome.files:
                if file.sidecar is not None:
                    content = (self.reports / sidecar_file(file.sidecar.sha256)).read_bytes()
                    self.control.put_sidecar(
                        assignment.token, file.path, file.sidecar.sha256, content
                    )
        self.before_end(assignment.token, outcome)
        self.control.end(assignment.token, outcome)

    def item(self, item_id: CaptureJobId) -> WorkItem:
        with self.stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            item = tx.capture_work.get(item_id)
        assert item is not None
        return item

    def below(self, item_id: CaptureJobId) -> Iterator[WorkItem]:
        """Everything below an item, parents first."""
        with self.stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            children = list(tx.capture_work.children(item_id, limit=1000))
        for child in children:
            yield child
            yield from self.below(child.id)

    def totals(self, item_id: CaptureJobId) -> Mapping[str, int]:
        with self.stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            return queue.totals(tx, item_id)

    def failure(self, item_id: CaptureJobId) -> str:
        """The code with which an item failed."""
        item = self.item(item_id)
        assert item.state is WorkState.FAILED
        assert item.error is not None
        return item.error.code

    def reclaim(self) -> int:
        return maintaining.reclaim(self.unit, self.stores.capture.finder)

    def follow(self) -> None:
        while maintaining.follow_cancels(self.unit, self.stores.capture.finder):
            pass

    @property
    def account(self) -> CatalogueAccount:
        return CatalogueAccount(
            tenant=A_TENANT,
            pointers=PointerStore(unit=self.stores.capture.unit, tenant=A_TENANT),
            blobs=self.blobs.of(A_TENANT),
            clock=SystemClock(),
        )

    def table(self, name: str) -> Table:
        """A captured table."""
        keys = [
            one.key
            for one in self.account.pages(layout.account_pointer(A_TENANT) + "/tables/by-id/")
        ]
        tables = [
            stored.record
            for key in keys
            if (stored := Entities(self.account, Table).get(UUID(key.rpartition("/")[2])))
        ]
        return next(one for one in tables if one.name == name)

    def current(self, table: Table) -> Snapshot | None:
        return Snapshots(self.account).current(table.id)

    def snapshots(self, table: Table) -> list[Snapshot]:
        return list(Snapshots(self.account).newest_first(table.id))

    def active(self, table: Table, snapshot: Snapshot) -> ActiveGeneration | None:
        return Generations(self.account).active(table.id, snapshot.snapshot_id)

    def targets(self, table: Table, snapshot: Snapshot) -> dict[str, TargetStats]:
        active = self.active(table, snapshot)
        assert active is not None
        return {one.target_id: one for one in Generations(self.account).targets(active)}

    def files(self, table: Table, snapshot: Snapshot) -> list[str]:
        """Paths of the published records of files."""
        active = self.active(table, snapshot)
        assert active is not None
        return sorted(one.path for one in Generations(self.account).files(active))

    def index(self, table: Table, snapshot: Snapshot, target_id: str) -> IndexArtifact:
        index = Indexes(self.account).get(table.id, snapshot.snapshot_id, target_id)
        assert index is not None
        assert Indexes(self.account).content(index)
        return index

    def _source(self, assignment: Assignment) -> CaptureSource:
        frame = Reader(assignment.frame)
        connection = from_document(Connection, frame.of("connection", dict))
        around = Surroundings(
            roots=(self.root.parent,),
            policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
            now=SystemClock().now,
        )
        return open_capture_source(CONNECTION, connection, {}, around)
