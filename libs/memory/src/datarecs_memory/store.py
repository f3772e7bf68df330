"""All data of the database twin, and its transactions.

Transactions run one after another over copies of one tenant's containers; the items are immutable,
so a copy is shallow and a rollback discards it. Separate from the repositories, which use a copy
like the original.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from datarecs_application.ports.checks import ResourceCheck
from datarecs_application.ports.keys import ApiKey
from datarecs_application.ports.outside import Clock, Ids
from datarecs_application.ports.retention import SweepState
from datarecs_application.ports.schedules import DecidedTick, ScheduleState
from datarecs_application.ports.state import HistoryEntry, Lease, OutboxRow, StoredAnswer
from datarecs_application.ports.tickets import SocketTicket
from datarecs_core.access.audit import ChainedRow
from datarecs_core.catalog.pointers import Pointer
from datarecs_core.resources.change_feed import ResourceChange
from datarecs_core.resources.reconciling import Work
from datarecs_core.resources.resource import Resource
from datarecs_core.runs.model import Run
from datarecs_core.values import EventId, ResourceUid, RunId, TenantId
from datarecs_memory.capture_rows import CaptureRows
from datarecs_memory.delivery_rows import DeliveryRows
from datarecs_memory.sink_rows import SinkRow

Listener = Callable[[str, str], None]
Reports = dict[UUID, tuple[datetime, Mapping[str, float]]]

SHARDS = 16
"""Shards of the outbox, as in PostgreSQL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    due_at: datetime
    claimed_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedKey:
    request_hash: bytes
    created_at: datetime
    answer: StoredAnswer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    sealed: bytes
    created_at: datetime
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queued:
    """An outbox row and its state."""

    row: OutboxRow
    shard: int
    sent_at: datetime | None = None
    parked_at: datetime | None = None
    attempts: int = 0
    last_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """The relay that sends a shard, with its epoch and lease end."""

    owner: str | None = None
    epoch: int = 0
    lease_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """A row of `resource_check`."""

    check: ResourceCheck
    claimed_at: datetime | None = None


@dataclass(slots=True, kw_only=True)
class TenantState:
    """One tenant's rows, by key."""

    runs: dict[RunId, Run] = field(default_factory=dict)
    history: dict[RunId, tuple[HistoryEntry, ...]] = field(default_factory=dict)
    leases: dict[RunId, Lease] = field(default_factory=dict)
    timers: dict[tuple[RunId, str], Timer] = field(default_factory=dict)
    resources: dict[ResourceUid, Resource] = field(default_factory=dict)
    changes: tuple[ResourceChange, ...] = ()
    outbox: dict[EventId, Queued] = field(default_factory=dict)
    inbox: frozenset[tuple[str, str, EventId]] = frozenset()
    remembered: dict[tuple[str, str, str], RememberedKey] = field(default_factory=dict)
    api_keys: dict[str, ApiKey] = field(default_factory=dict)
    tickets: dict[bytes, SocketTicket] = field(default_factory=dict)
    audit: tuple[ChainedRow, ...] = ()
    secrets: dict[tuple[ResourceUid, str, str], Secret] = field(default_factory=dict)
    schedules: dict[ResourceUid, ScheduleState] = field(default_factory=dict)
    ticks: dict[tuple[ResourceUid, datetime], DecidedTick] = field(default_factory=dict)
    sweeps: dict[ResourceUid, SweepState] = field(default_factory=dict)
    checks: dict[ResourceUid, CheckRow] = field(default_factory=dict)
    work: dict[ResourceUid, Work] = field(default_factory=dict)
    pointers: dict[str, Pointer] = field(default_factory=dict)
    captures: CaptureRows = field(default_factory=CaptureRows)
    delivery: DeliveryRows = field(default_factory=DeliveryRows)
    sinks: dict[ResourceUid, SinkRow] = field(default_factory=dict)

    def copy(self) -> "TenantState":
        return TenantState(
            runs=dict(self.runs),
            history=dict(self.history),
            leases=dict(self.leases),
            timers=dict(self.timers),
            resources=dict(self.resources),
            changes=self.changes,
            outbox=dict(self.outbox),
            inbox=self.inbox,
            remembered=dict(self.remembered),
            api_keys=dict(self.api_keys),
            tickets=dict(self.tickets),
            audit=self.audit,
            secrets=dict(self.secrets),
            schedules=dict(self.schedules),
            ticks=dict(self.ticks),
            sweeps=dict(self.sweeps),
            checks=dict(self.checks),
            work=dict(self.work),
            pointers=dict(self.pointers),
            captures=self.captures.copy(),
            delivery=self.delivery.copy(),
            sinks=dict(self.sinks),
        )


class MemoryStore:
    """The database of unit tests and of `datarecs compare`. Safe from several threads."""

    def __init__(self, clock: Clock, ids: Ids, *, running_limit: int = 10) -> None:
        """Create an empty store.

        Args:
            clock: used as the database's clock, also for leases and timers.
            ids: creates ids of events and tenants.
            running_limit: runs of one tenant that may hold a lease at once.
        """
        self.clock, self.ids, self.running_limit = clock, ids, running_limit
        self.shards = [Shard() for _ in range(SHARDS)]
        self.relays: dict[str, datetime] = {}
        """Live relays, and the times until which they are considered alive."""
        self.stats: Reports = {}
        """Counters of processes and the times of their reports."""
        self._served: dict[tuple[TenantId, str], int] = {}
        self._tenants: dict[TenantId, TenantState] = {}
        self._lock = threading.Lock()
        self._writer: int | None = None
        self._last_rv = 0
        self._last_position = 0
        self._last_sink_epoch = 0
        self._listeners: list[Listener] = []

    def create_tenant(self) -> TenantId:
        """A new tenant id without rows; any other id is also valid."""
        return TenantId(self.ids.new())

    def listen(self, listener: Listener) -> None:
        """Call `listener(channel, payload)` after each commit that notifies, as LISTEN would."""
        self._listeners.append(listener)

    @contextmanager
    def writing(self, tenant: TenantId) -> Iterator[TenantState]:
        """A copy of the tenant's rows that replaces them if the block succeeds."""
        with self.alone():
            state = self.committed(tenant).copy()
            yield state
            self._tenants[tenant] = state

    @contextmanager
    def writing_all(self) -> Iterator[dict[TenantId, TenantState]]:
        """Copies of every tenant's rows: the definer functions."""
        with self.alone():
            states = {tenant: state.copy() for tenant, state in self._tenants.items()}
            yield states
            self._tenants.update(states)

    def committed(self, tenant: TenantId) -> TenantState:
        """The committed rows; must not be changed."""
        return self._tenants.get(tenant) or TenantState()

    def everything(self) -> dict[TenantId, TenantState]:
        """The committed rows of all tenants; must not be changed."""
        return dict(self._tenants)

    def draw_rv(self, block: int) -> range:
        """Feed numbers for the open transaction; a rollback leaves a gap."""
        first = self._last_rv + 1
        self._last_rv += block
        return range(first, first + block)

    def next_position(self) -> int:
        self._last_position += 1
        return self._last_position

    def next_sink_epoch(self) -> int:
        """Of a lease; a task that is removed and comes back never has one twice."""
        self._last_sink_epoch += 1
        return self._last_sink_epoch

    def served(self, tenant: TenantId, kind: str) -> None:
        """Note that a claim of captures has just served this tenant and kind."""
        self._served[tenant, kind] = max(self._served.values(), default=0) + 1

    def last_served(self, tenant: TenantId, kind: str) -> int:
        """Grows with each `served`; 0: never."""
        return self._served.get((tenant, kind), 0)

    def notify(self, channel: str, payload: str) -> None:
        for listener in self._listeners:
            listener(channel, payload)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One writer at a time. A second transaction of one thread would wait for itself."""
        me = threading.get_ident()
        if self._writer == me:
            raise RuntimeError("this thread has a transaction open; end it first")
        with self._lock:
            self._writer = me
            try:
                yield
            finally:
                self._writer = None
