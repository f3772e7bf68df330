"""Captures for tests: requests, tasks, and one worker that claims and reports step by step."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any, cast
from uuid import UUID

from datarecs_application.capturing import maintaining, queue
from datarecs_application.ports.capturing import Added, ClaimRequest, Renewed, WorkFilter
from datarecs_application.ports.state import Transaction, UnitOfWork
from datarecs_core.captures.events import CaptureEvent
from datarecs_core.captures.items import (
    CaptureJobId,
    CaptureTask,
    NewWork,
    RetryClass,
    WorkItem,
    WorkKind,
    WorkState,
    WorkToken,
)
from datarecs_core.captures.outcomes import WorkFailed
from datarecs_core.captures.request import (
    CaptureMode,
    CapturePolicy,
    CaptureRequest,
    CaptureScope,
    ExecutionPolicy,
    ObjectName,
    Output,
    SnapshotChoice,
    SnapshotSelection,
)
from datarecs_core.decision import Event
from datarecs_core.values import EventId, ResourceUid, TenantId
from datarecs_testing.builders import A_TENANT
from datarecs_testing.clock import FixedIds
from datarecs_testing.conformance.stores import Stores

CONNECTION = ResourceUid(UUID("01900000-0000-7000-8000-0000000000c0"))
TABLE = UUID("01900000-0000-7000-8000-0000000000d0")
IDS = FixedIds(50_000_000)
JITTER = 0.75
_numbers = count(1)


def a_request(*tables: str, **changes: Any) -> CaptureRequest:  # noqa: ANN401  any field
    """A capture of these tables; of a table that no other capture names if none is named."""
    names = tables or (f"t{next(_numbers)}",)
    fields: dict[str, Any] = {
        "connection_uid": CONNECTION,
        "mode": CaptureMode.METADATA_AND_CAPTURE,
        "scope": CaptureScope(tables=tuple(a_name(one) for one in names)),
        "policy": CapturePolicy(outputs=(Output.TABLE_STATS,)),
        "selection": SnapshotSelection(kind=SnapshotChoice.CURRENT),
        "execution": ExecutionPolicy(),
    }
    return CaptureRequest(**fields | changes)


def a_name(table: str) -> ObjectName:
    return ObjectName(namespace=("default",), name=table)


def a_table(name: str, request: CaptureRequest | None = None, **changes: Any) -> NewWork:  # noqa: ANN401  any field of NewWork
    """A PLAN_TABLE."""
    task = CaptureTask(request=request or a_request(name), object=a_name(name))
    return NewWork(kind=WorkKind.PLAN_TABLE, task=task, **changes)


def a_snapshot(
    snapshot_id: int, request: CaptureRequest | None = None, table: UUID = TABLE
) -> NewWork:
    """A PLAN_SNAPSHOT."""
    task = CaptureTask(
        request=request or a_request("t"), table_id=table, snapshot_id=snapshot_id, native_id="n"
    )
    return NewWork(kind=WorkKind.PLAN_SNAPSHOT, task=task)


def groups(size: int) -> list[NewWork]:
    """File groups of a snapshot, and its finalizer behind the barrier."""
    finalize = NewWork(
        kind=WorkKind.FINALIZE_SNAPSHOT_CAPTURE, task=_of_plan(None), is_barrier=size > 0
    )
    tasks = [_of_plan(number) for number in range(size)]
    return [*(NewWork(kind=WorkKind.EXEC_FILE_GROUP, task=one) for one in tasks), finalize]


def _of_plan(group: int | None) -> CaptureTask:
    return CaptureTask(
        request=a_request("t"), table_id=TABLE, snapshot_id=1, plan_key="plans/one", group=group
    )


@dataclass(slots=True)
class Recorded:
    """A transaction that also lists its events."""

    inner: Transaction
    events: list[Event]

    def append(self, *events: Event) -> Sequence[EventId]:
        self.events += events
        return self.inner.outbox.append(*events)

    @property
    def outbox(self) -> "Recorded":
        return self

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  every repository of the transaction
        return getattr(self.inner, name)


@dataclass(frozen=True, slots=True)
class RecordingUnit:
    """A unit of work that collects the events of committed transactions."""

    unit: UnitOfWork
    events: list[CaptureEvent] = field(default_factory=list)

    @contextmanager
    def begin(
        self, tenant: TenantId, *, feed: int = 0, read_only: bool = False
    ) -> Iterator[Transaction]:
        made: list[Event] = []
        with self.unit.begin(tenant, feed=feed, read_only=read_only) as tx:
            yield cast("Transaction", Recorded(tx, made))
        self.events.extend(cast("list[CaptureEvent]", made))


class CaptureQueue:
    """The queue over stores: core-api adds and cancels, capture-worker does the rest."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.api = RecordingUnit(stores.api.unit)
        self.unit = RecordingUnit(stores.capture.unit, self.api.events)
        self.events = self.api.events
        self.held: dict[CaptureJobId, WorkToken] = {}
        """The newest token of each item."""
        self._reports = count(1)

    def enqueue(self, request: CaptureRequest | None = None, tenant: TenantId = A_TENANT) -> Added:
        with self.api.begin(tenant) as tx:
            return queue.enqueue_root(tx, IDS, request or a_request(), requested_by="u-1")

    def put(
        self, request: CaptureRequest | None = None, tenant: TenantId = A_TENANT
    ) -> CaptureJobId:
        return self.enqueue(request, tenant).id

    def claim(
        self,
        executor: str = "worker-1",
        *kinds: WorkKind,
        limit: int = 100,
        **options: Any,  # noqa: ANN401  of ClaimRequest
    ) -> dict[CaptureJobId, WorkToken]:
        request = ClaimRequest(executor=executor, kinds=kinds, limit=limit, **options)
        tokens = self.stores.capture.finder.claim_work(request).tokens
        claimed = {token.item_id: token for token in tokens}
        self.held |= claimed
        return claimed

    def begin(self, token: WorkToken) -> WorkItem | None:
        with self.unit.begin(token.tenant_id) as tx:
            return queue.begin(tx, token)

    def take(self, item_id: CaptureJobId, executor: str = "worker-1") -> WorkToken:
        """Begin an item: claimed before, or now with everything of its kind that is due."""
        item = self.item(item_id)
        if item.state is not WorkState.RUNNING:
            self.claim(executor, item.kind)
        token = self.held[item_id]
        assert self.begin(token) is not None
        return token

    def succeed(
        self, token: WorkToken, *children: NewWork, sha: str = "", **counters: int
    ) -> WorkItem:
        with self.unit.begin(token.tenant_id) as tx:
            return self.succeed_in(tx, token, *children, sha=sha, **counters)

    def succeed_in(
        self, tx: Transaction, token: WorkToken, *children: NewWork, sha: str = "", **counters: int
    ) -> WorkItem:
        return queue.end_succeeded(
            tx,
            IDS,
            token,
            outcome_sha256=sha or self.sha(),
            children=children,
            counters=counters,
        )

    def succeed_and_die(self, token: WorkToken) -> None:
        """The process ends after the report and before its commit."""
        with self.unit.begin(token.tenant_id) as tx:
            self.succeed_in(tx, token)
            raise ZeroDivisionError

    def fail(
        self,
        token: WorkToken,
        retry: RetryClass = RetryClass.TRANSIENT,
        *,
        code: str = "SOURCE_UNAVAILABLE",
        message: str = "the source did not answer",
        **options: Any,  # noqa: ANN401  of WorkFailed
    ) -> WorkItem:
        failure = WorkFailed(code=code, message=message, retry=retry, **options)
        with self.unit.begin(token.tenant_id) as tx:
            return queue.end_failed(tx, token, failure, outcome_sha256=self.sha(), jitter=JITTER)

    def release(self, token: WorkToken) -> WorkItem:
        with self.unit.begin(token.tenant_id) as tx:
            return queue.end_released(tx, token, outcome_sha256=self.sha())

    def stop(self, token: WorkToken) -> WorkItem:
        with self.unit.begin(token.tenant_id) as tx:
            return queue.end_stopped(tx, token, outcome_sha256=self.sha())

    def cancel(self, item_id: CaptureJobId, tenant: TenantId = A_TENANT) -> WorkItem:
        with self.api.begin(tenant) as tx:
            return queue.cancel(tx, item_id, by="u-2", reason="not needed")

    def revoke(self, item_id: CaptureJobId) -> WorkItem:
        with self.api.begin(A_TENANT) as tx:
            return queue.release(tx, item_id)

    def totals(self, item_id: CaptureJobId) -> Mapping[str, int]:
        with self.stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            return queue.totals(tx, item_id)

    def matching(
        self,
        before: tuple[datetime, CaptureJobId] | None = None,
        **where: Any,  # noqa: ANN401  of WorkFilter
    ) -> Sequence[WorkItem]:
        with self.stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            return tx.capture_work.matching(WorkFilter(**where), before=before, limit=100)

    def renew(self, token: WorkToken) -> Renewed:
        answers: Mapping[WorkToken, Renewed] = maintaining.renew(self.unit, [token])
        return answers[token]

    def reclaim(self) -> int:
        return maintaining.reclaim(self.unit, self.stores.capture.finder)

    def follow(self) -> int:
        """Follow cancels to their end."""
        followed = 0
        while changed := maintaining.follow_cancels(self.unit, self.stores.capture.finder):
            followed += changed
        return followed

    def remove_old(self) -> int:
        return maintaining.remove_old(self.unit, self.stores.capture.finder)

    def stored(self, item_id: CaptureJobId, tenant: TenantId = A_TENANT) -> WorkItem | None:
        with self.stores.api.unit.begin(tenant, read_only=True) as tx:
            return tx.capture_work.get(item_id)

    def item(self, item_id: CaptureJobId, tenant: TenantId = A_TENANT) -> WorkItem:
        item = self.stored(item_id, tenant)
        assert item is not None
        return item

    def children(self, item_id: CaptureJobId, limit: int = 1_000) -> Sequence[WorkItem]:
        with self.stores.api.unit.begin(A_TENANT, read_only=True) as tx:
            return list(tx.capture_work.children(item_id, limit=limit))

    def planned(
        self, *children: NewWork, request: CaptureRequest | None = None
    ) -> tuple[CaptureJobId, list[CaptureJobId]]:
        """A root that waits for these children: its id and theirs."""
        root = self.put(request)
        self.succeed(self.take(root), *children)
        return root, [one.id for one in self.children(root)]

    def states(self, item_ids: Collection[CaptureJobId]) -> set[str]:
        return {self.item(one).state.value for one in item_ids}

    def sha(self) -> str:
        return f"{next(self._reports):064x}"
