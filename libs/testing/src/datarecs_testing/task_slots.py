"""One slot of iceberg-sink over a scripted process, with a declared sink and a lease for it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.sink_leases import SinkLease
from datarecs_application.ports.sinking import SinkMemory
from datarecs_application.sinking.assignments import Assignments
from datarecs_application.sinking.backoffs import Backoffs
from datarecs_application.sinking.figures import SinkGauges
from datarecs_application.sinking.renewals import TaskRenewals
from datarecs_application.sinking.tasks import SinkSlot
from datarecs_core.access.references import SecretUse
from datarecs_core.errors.security import SecretUnavailableError
from datarecs_core.resources.resource import Kind
from datarecs_core.sink.checkpoint import (
    TaskReport,
    TaskWish,
)
from datarecs_core.sink.declared import SinkWish
from datarecs_core.values import ResourceUid, TenantId
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_runtime.clock import Latch
from datarecs_specs.documents import decode_stored
from datarecs_testing.builders import a_resource
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.metrics import RecordedMetrics
from datarecs_testing.scripted_child import ChildSide, Script, ScriptedChild
from datarecs_testing.sink_doubles import RecordedSinkMemory

CANARY = "canary-4711"
KAFKA = {
    "type": "kafka",
    "config": {
        "brokers": ["127.0.0.1:9092"],
        "security": "SASL_PLAINTEXT",
        "mechanism": "SCRAM-SHA-512",
        "user": "u",
        "transport": "encrypted",
    },
    "auth": {"password": "env:EVENTS"},
}
CATALOG = {"type": "sql", "name": "lake", "sqlite": "catalog.db"}
LAKE: dict[str, Any] = {"type": "iceberg", "config": {"catalog": CATALOG}, "auth": {}}
ORDERS = {"catalog": "lake", "namespace": "sales", "name": "orders"}
SINK = {"connection": "events", "topics": ["orders"], "tables": [ORDERS]}


def decoded(kind: Kind) -> Callable[[str, Mapping[str, object]], Any]:
    return lambda name, spec: decode_stored(kind, name, spec)


class Secrets:
    """Port SecretStore, as far as tasks use it."""

    value = CANARY
    failures = 0
    """Of the next calls."""

    def resolve(self, reference: str, *, tenant: UUID, uses: Collection[SecretUse]) -> str:
        assert isinstance(tenant, UUID)
        assert reference == "env:EVENTS"
        assert [str(use) for use in uses] == ["kafka:127.0.0.1"]
        if self.failures:
            self.failures -= 1
            raise SecretUnavailableError(reference=reference, cause="it is not set")
        return self.value

    def seal(self, plain: bytes, *, context: Mapping[str, str]) -> bytes:
        raise NotImplementedError

    def open(self, sealed: bytes, *, context: Mapping[str, str]) -> bytes:
        raise NotImplementedError


@dataclass
class Leases:
    """Port SinkLeases of one task."""

    lease: SinkLease
    memory_of_sink: RecordedSinkMemory
    revision: str = "1"
    is_current: bool = True
    is_free: bool = True
    fails: bool = False
    sessions: list[UUID] = field(default_factory=list)
    released: list[SinkLease] = field(default_factory=list)
    resting: list[SinkLease] = field(default_factory=list)

    def claim(self, executor: str, *, limit: int) -> Sequence[SinkLease]:
        assert (executor, limit) == ("host/1/0", 1)
        was_free, self.is_free = self.is_free, False
        return [self.lease] if was_free else []

    def renew(self, leases: Collection[SinkLease]) -> Mapping[SinkLease, str]:
        if self.fails:
            raise StoreUnavailableError(cause="it restarts")
        return {lease: self.revision for lease in leases if self.is_current}

    def release(self, lease: SinkLease, *, is_resting: bool = False) -> None:
        self.released.append(lease)
        if is_resting:
            self.resting.append(lease)

    def halted(self) -> int:
        return 0

    def memory(self, lease: SinkLease, session: UUID) -> SinkMemory:
        assert lease == self.lease
        self.sessions.append(session)
        return self.memory_of_sink


class TaskHouse:
    """A declared sink, and one slot with a process that follows scripts, one after the other."""

    def __init__(self, *scripts: Script) -> None:
        self.clock = ManualClock(by_itself=True)
        store = MemoryStore(self.clock, FixedIds())
        self.tenant: TenantId = store.create_tenant()
        self.unit = MemoryUnitOfWork(store)
        self.declare(Kind.CONNECTION, "events", KAFKA)
        self.declare(Kind.CONNECTION, "lake", LAKE)
        self.uid = self.declare(Kind.SINK_TABLE, "landing", SINK)
        with self.unit.begin(self.tenant) as tx:
            tx.sinks.want(self.uid, SinkWish(tasks=1, wish=TaskWish.RUN, revision="1"))
        self.memory = RecordedSinkMemory()
        lease = SinkLease(tenant_id=self.tenant, sink_uid=self.uid, number=0, epoch=3)
        self.leases, self.secrets, self.stop = Leases(lease, self.memory), Secrets(), Latch()
        self.scripts, self.plans = list(scripts), list[Mapping[str, object]]()
        self.children: list[ScriptedChild] = []
        wake = Latch()
        self.metrics = metrics = RecordedMetrics()
        self.renewals = TaskRenewals(
            leases=self.leases, clock=self.clock, metrics=metrics, wake=wake
        )
        self.backoffs = Backoffs(leases=self.leases, renewals=self.renewals, clock=self.clock)
        self.slot = SinkSlot(
            name="slot_0",
            executor="host/1/0",
            leases=self.leases,
            renewals=self.renewals,
            assignments=Assignments(
                unit=self.unit,
                secrets=self.secrets,
                sink_of=decoded(Kind.SINK_TABLE),
                connection_of=decoded(Kind.CONNECTION),
            ),
            make=self.child,
            surroundings={"roots": []},
            ids=FixedIds(9_000),
            rhythm=Rhythm(clock=self.clock, wake=wake),
            gauges=SinkGauges(metrics),
            backoffs=self.backoffs,
        )
        self.slot.use(self.stop)

    def declare(self, kind: Kind, name: str, spec: Mapping[str, object]) -> ResourceUid:
        with self.unit.begin(self.tenant, feed=1) as tx:
            stored = a_resource(
                kind=kind, name=name, spec=spec, rv=tx.next_rv(), tenant_id=self.tenant
            )
            tx.resources.add(stored)
        return stored.uid

    def child(self) -> ScriptedChild:
        script = self.scripts.pop(0) if self.scripts else stops_the_service(self)

        def run(plan: Mapping[str, object], side: ChildSide) -> int:
            self.plans.append(plan)
            return script(plan, side)

        made = ScriptedChild(run)
        self.children.append(made)
        return made

    def work(self) -> None:
        """What the loops of the process do until it ends."""
        while not self.stop.is_set() and not self.leases.released:
            self.backoffs.step()
            if not self.slot.step():
                self.renewals.beat()
                self.clock.wait(timedelta(seconds=1))
        self.stop.set()
        self.backoffs.run(self.stop)

    @property
    def last(self) -> TaskReport:
        return self.memory.reports[-1]


def call(side: ChildSide, name: str, argument: object = None) -> Mapping[str, object]:
    side.send({"type": "call", "id": 1, "call": name, "argument": argument})
    answer = side.receive()
    assert answer is not None
    return answer


def waits(side: ChildSide) -> int:
    """A correct task: it ends when the service says so."""
    frame = side.receive()
    assert frame == {"type": "stop"}
    return 0


def stops_the_service(house: TaskHouse) -> Script:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        house.stop.set()
        return waits(side)

    return script


def dies(_plan: Mapping[str, object], _side: ChildSide) -> int:
    return 1


def never_stops(side: ChildSide) -> int:
    while side.receive() is not None:
        pass
    return 0
