"""Slots of iceberg-sink over a scripted process: what begins a task, and what ends it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.sink_leases import ENDS, SinkLease
from datarecs_application.ports.sinking import SinkMemory
from datarecs_application.sinking.assignments import Assignments
from datarecs_application.sinking.backoffs import SLOT_LIMIT, Backoffs
from datarecs_application.sinking.figures import SinkGauges
from datarecs_application.sinking.renewals import FENCE, TaskRenewals
from datarecs_application.sinking.tasks import SinkSlot
from datarecs_core.access.references import SecretUse
from datarecs_core.errors.captures import LeaseLostError
from datarecs_core.errors.security import SecretUnavailableError
from datarecs_core.resources.connection import Connection
from datarecs_core.resources.resource import Kind
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    Lineage,
    PartitionState,
    SinkCommit,
    SinkState,
    TaskReport,
    TaskWish,
)
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.declared import SinkWish
from datarecs_core.sink.definition import SinkTable
from datarecs_core.sink.documents import sink_document
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

SECRET = "canary-4711"
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


COMMIT = SinkCommit(
    commit_id=UUID(int=1),
    epoch=1,
    checkpoint=Checkpoint(),
    is_partial=True,
    tables=1,
    records=4,
    duration=timedelta(seconds=2.5),
)


def decoded(kind: Kind) -> Callable[[str, Mapping[str, object]], Any]:
    return lambda name, spec: decode_stored(kind, name, spec)


class Secrets:
    """Port SecretStore, as far as tasks use it."""

    value = SECRET
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


class House:
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


def stops_the_service(house: "House") -> Script:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        house.stop.set()
        return waits(side)

    return script


def test_a_task_gets_its_declaration_its_secrets_and_nothing_else() -> None:
    house = House()
    assert house.slot.step() == 1
    (plan,) = house.plans
    assert plan["sink"] == SINK
    assert plan["number"] == 0
    assert plan["secrets"] == {"events/password": SECRET}
    assert sorted(plan["connections"]) == ["events", "lake"]  # type: ignore[call-overload]  # JSON
    assert "database" not in str(plan)
    assert house.leases.released == [house.leases.lease]
    assert house.memory.reports == []


def test_a_call_is_answered_and_its_effect_is_stored() -> None:
    answers = []

    def script(_: Mapping[str, object], side: ChildSide) -> int:
        answers.append(call(side, "begin_epoch"))
        answers.append(call(side, "report", {"dead_letters": 2}))
        house.stop.set()
        return waits(side)

    house = House(script)
    house.slot.step()
    assert [one["value"] for one in answers] == [1, None]
    assert house.last == TaskReport(dead_letters=2)


def test_a_task_that_dies_begins_again_with_growing_pauses() -> None:
    def script(_: Mapping[str, object], _side: ChildSide) -> int:
        house.renewals.beat()
        return 1

    house = House(*[script] * 4)
    house.work()
    assert len(house.children) == 5
    assert len(set(house.leases.sessions)) == 5
    assert 1 + 2 + 4 + 8 <= house.clock.monotonic() < 20
    assert house.last.error_code == "TASK_CRASHED"
    assert house.last.error == "the process of the task ended with exit code 1 and no report"


def dies(_plan: Mapping[str, object], _side: ChildSide) -> int:
    return 1


def test_a_task_that_waits_after_a_fault_leaves_its_slot_to_others() -> None:
    house = House(dies)
    failed = house.leases.lease
    assert house.slot.step() == 1
    house.leases.lease = replace(failed, number=1, epoch=8)
    house.leases.is_free = True
    assert house.slot.step() == 1
    assert house.leases.released == [house.leases.lease]
    assert house.plans[-1]["number"] == 1
    assert house.backoffs.paused() == {failed}


def test_a_new_declaration_ends_the_pause_after_a_fault() -> None:
    house = House(dies, dies, dies)
    for _ in range(2):
        house.slot.step()
        house.clock.advance(timedelta(seconds=2))
    house.slot.step()
    assert house.slot.step() == 0
    house.leases.revision = "2"
    house.renewals.beat()
    assert house.slot.step() == 1
    assert len(house.children) == 4


def test_a_task_without_a_slot_after_its_pause_is_released() -> None:
    house = House(dies)
    house.slot.step()
    house.clock.advance(timedelta(seconds=1) + SLOT_LIMIT)
    house.renewals.beat()
    house.backoffs.step()
    assert house.leases.released == [house.leases.lease]
    assert house.backoffs.take() is None


def test_an_end_of_the_process_releases_tasks_that_wait() -> None:
    house = House(dies)
    house.slot.step()
    house.stop.set()
    house.backoffs.run(house.stop)
    assert house.leases.released == [house.leases.lease]
    assert house.renewals.held() == ()


def test_a_task_that_dies_while_the_process_ends_is_released() -> None:
    house = House(dies)
    house.backoffs.run(set_latch())
    house.slot.step()
    assert house.leases.released == [house.leases.lease]


def set_latch() -> Latch:
    latch = Latch()
    latch.set()
    return latch


ORDERS_0 = SourcePartition("orders", 0)


def stored_at(offset: int, *, accepted: int, wish: TaskWish = TaskWish.PAUSE) -> SinkState:
    lineage = Lineage(cluster_id="c", topic_id="t", group="g")
    partitions = {ORDERS_0: PartitionState(accepted=accepted)}
    checkpoint = Checkpoint(lineage=lineage, control_offset=offset, partitions=partitions)
    return SinkState(wish=wish, checkpoint=checkpoint)


@pytest.mark.parametrize("positions", [{"orders/0": 5}, {}])
def test_a_task_of_a_paused_sink_ends_when_what_it_read_is_committed(
    positions: Mapping[str, int],
) -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        for stored in (stored_at(3, accepted=2), stored_at(7, accepted=5)):
            house.memory.stored = stored
            call(side, "state")
            call(side, "report", {"positions": positions})
        return waits(side)

    house = House(script)
    assert house.slot.step() == 1
    assert len(house.children) == 1
    assert house.leases.resting == [house.leases.lease]


@pytest.mark.parametrize(
    ("states", "report"),
    [
        ([stored_at(3, accepted=2), stored_at(7, accepted=4)], {"positions": {"orders/0": 5}}),
        ([stored_at(7, accepted=5), stored_at(7, accepted=5)], {"positions": {"orders/0": 5}}),
        (
            [stored_at(3, accepted=2), stored_at(7, accepted=5, wish=TaskWish.RUN)],
            {"positions": {"orders/0": 5}},
        ),
        ([stored_at(3, accepted=2), stored_at(7, accepted=5)], {"error_code": "LOG_UNAVAILABLE"}),
    ],
    ids=["uncommitted", "no cycle", "it goes on", "hindered"],
)
def test_a_task_of_a_paused_sink_goes_on_while_something_is_to_do(
    states: Sequence[SinkState], report: Mapping[str, Any]
) -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        for stored in states:
            house.memory.stored = stored
            call(side, "state")
            call(side, "report", report)
        call(side, "state")
        house.stop.set()
        return waits(side)

    house = House(script)
    house.slot.step()
    assert house.leases.released == [house.leases.lease]
    assert house.leases.resting == []


def test_a_report_from_before_the_pause_says_nothing_of_what_was_read_since() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        call(side, "report", {"positions": {"orders/0": 5}})
        for stored in (stored_at(3, accepted=2), stored_at(7, accepted=5)):
            house.memory.stored = stored
            call(side, "state")
        house.stop.set()
        return waits(side)

    house = House(script)
    house.slot.step()
    assert house.leases.resting == []


def test_a_broker_that_does_not_answer_is_named() -> None:
    house = House(lambda _plan, _side: 79)
    house.work()
    assert house.last.error_code == "BROKER_TIMEOUT"


def test_what_a_task_says_of_its_failure_is_stored_without_secrets() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        call(side, "report", {"dead_letters": 2})
        side.send({"type": "failed", "code": "TOPIC_REFUSED", "message": f"no topic\nfor {SECRET}"})
        return 1

    house = House(script)
    house.work()
    assert house.last == TaskReport(
        dead_letters=2, error_code="TOPIC_REFUSED", error="no topic for ***"
    )


def test_a_line_of_a_task_is_logged_without_secrets() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        fields = {"code": 3, "text": f"of {SECRET}"}
        side.send({"type": "log", "level": "error", "name": "sink_x", "fields": fields})
        house.stop.set()
        return waits(side)

    house = House(script)
    with capture_logs() as lines:
        house.slot.step()
    (line,) = (one for one in lines if one["event"] == "sink_task_log")
    assert line["log_level"] == "error"
    assert (line["message"], line["task_code"], line["task_text"]) == ("sink_x", "3", "of ***")


@pytest.mark.parametrize("report", [{"is_halted": True, "error_code": "BAD_RECORD"}, None])
def test_a_halted_or_drained_task_is_not_begun_again(report: dict[str, object] | None) -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        call(side, "report", report) if report else call(side, "drained")
        return 0

    house = House(script)
    house.slot.step()
    assert len(house.children) == 1
    assert house.leases.released == [house.leases.lease]


def test_a_task_of_a_sink_that_another_task_drained_ends() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        house.memory.drained()
        call(side, "state")
        return 0

    house = House(script)
    house.slot.step()
    assert len(house.children) == 1
    assert house.memory.reports == []


def test_another_declaration_begins_the_task_anew_after_a_clean_stop() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        house.leases.revision = "2"
        with house.unit.begin(house.tenant) as tx:
            tx.sinks.want(house.uid, SinkWish(tasks=1, wish=TaskWish.RUN, revision="2"))
        house.renewals.beat()
        code = waits(side)
        ends.append("stopped")
        return code

    ends: list[str] = []
    house = House(script)
    house.slot.step()
    assert ends == ["stopped"]
    assert len(house.children) == 2
    assert house.memory.reports == []


def test_a_retried_task_stops_cleanly_and_is_claimed_again() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        call(side, "report", {"is_halted": True, "error_code": "BAD_RECORD"})
        house.leases.revision = ENDS
        house.renewals.beat()
        code = waits(side)
        ends.append("stopped")
        return code

    ends: list[str] = []
    house = House(script)
    assert house.slot.step() == 1
    assert ends == ["stopped"]
    assert len(house.children) == 1
    assert house.leases.released == [house.leases.lease]


def test_a_task_makes_room_for_one_that_its_slot_is_handed() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        house.renewals.end(house.leases.lease)
        house.renewals.beat()
        code = waits(side)
        ends.append("stopped")
        return code

    ends: list[str] = []
    house = House(script)
    handed = replace(house.leases.lease, epoch=9)
    house.slot.handed = lambda: handed if ends else None
    assert house.slot.step() == 1
    assert house.leases.released == [house.leases.lease]
    house.renewals.hold(handed, confirmed_at=house.clock.monotonic())
    house.leases.lease = handed
    assert house.slot.step() == 1
    assert house.leases.released[1:] == [handed]
    assert (ends, len(house.children)) == (["stopped"], 2)


def test_a_task_that_is_retried_while_it_pauses_is_claimed_again() -> None:
    def script(_: Mapping[str, object], _side: ChildSide) -> int:
        house.leases.revision = ENDS
        house.renewals.beat()
        return 1

    house = House(script)
    house.work()
    assert len(house.children) == 1
    assert house.leases.released == [house.leases.lease]


def test_calls_of_a_task_are_counted() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        call(side, "state")
        call(side, "report", {"dead_letters": 2, "positions": {"orders/0": 5}, "ends": {}})
        position, end = {"orders/0": 5}, {"orders/0": 8}
        call(side, "report", {"dead_letters": 3, "positions": position, "ends": end})
        running.append(house.metrics.last("sink_tasks", state="running"))
        call(side, "committed", sink_document(COMMIT))
        call(side, "committed", sink_document(COMMIT))
        house.stop.set()
        return waits(side)

    running: list[float | None] = []
    house = House(script)
    house.slot.step()
    metrics = house.metrics
    assert metrics.total("sink_dead_letters_total") == 3
    assert metrics.total("sink_commits_total", outcome="partial") == 1
    assert metrics.total("sink_records_total") == 4
    assert metrics.values("sink_commit_seconds") == [2.5]
    assert running == [1]
    assert metrics.last("sink_tasks", state="running") == 0
    assert max(metrics.values("sink_lag_messages")) == 3
    assert metrics.last("sink_lag_messages") == 0


def test_a_rotated_secret_begins_the_task_anew() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        house.secrets.value = "another"
        for seconds in (20, 11):
            house.clock.advance(timedelta(seconds=seconds))
            house.renewals.beat()
        return waits(side)

    house = House(script)
    house.slot.step()
    assert [plan["secrets"] for plan in house.plans] == [
        {"events/password": SECRET},
        {"events/password": "another"},
    ]


def never_stops(side: ChildSide) -> int:
    while side.receive() is not None:
        pass
    return 0


def test_a_task_that_does_not_stop_is_killed() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        house.stop.set()
        assert side.receive() == {"type": "stop"}
        house.clock.advance(timedelta(seconds=26))
        house.renewals.beat()
        return never_stops(side)

    house = House(script)
    house.slot.step()
    end = house.children[0].ended()
    assert end is not None
    assert end.signal == 9


def refused(house: House) -> None:
    house.leases.is_current = False
    house.renewals.beat()


def unanswered(house: House) -> None:
    house.leases.fails = True
    house.renewals.beat()
    house.clock.advance(FENCE)


@pytest.mark.parametrize("lose", [refused, unanswered])
def test_a_lost_lease_kills_the_task_at_once(lose: Callable[[House], None]) -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        lose(house)
        return never_stops(side)

    house = House(script)
    house.slot.step()
    assert len(house.children) == 1
    end = house.children[0].ended()
    assert end is not None
    assert end.signal == 9


def test_a_refused_call_kills_the_task() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        call(side, "state")
        return never_stops(side)

    house = House(script)
    house.memory.faults.append(LeaseLostError(item_id=house.uid, epoch=3))
    house.slot.step()
    assert len(house.children) == 1
    end = house.children[0].ended()
    assert end is not None
    assert end.signal == 9


def test_an_unavailable_store_ends_nothing() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        answers.append(call(side, "state")["error"])
        answers.append(call(side, "begin_epoch")["value"])
        house.stop.set()
        return waits(side)

    answers: list[object] = []
    house = House(script)
    house.memory.faults.append(StoreUnavailableError(cause="it restarts"))
    house.slot.step()
    assert answers == ["STORE_UNAVAILABLE", 1]
    assert len(house.children) == 1


def test_a_missing_secret_is_reported_and_tried_again() -> None:
    house = House()
    house.secrets.failures = 2
    house.work()
    assert [one.error_code for one in house.memory.reports] == ["SECRET_UNAVAILABLE"] * 2
    assert len(house.children) == 1


@pytest.mark.parametrize("frame", [b"{", b'{"type": "hello"}', b'{"type": "call", "id": 1}'])
def test_a_broken_frame_kills_the_task(frame: bytes) -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        side.send_raw(frame)
        return never_stops(side)

    house = House(script)
    house.work()
    assert house.last.error_code == "TASK_CRASHED"
    assert len(house.children) == 2


def test_nothing_is_claimed_where_nothing_waits() -> None:
    house = House()
    house.leases.is_free = False
    assert house.slot.step() == 0
    assert house.children == []


def test_the_types_of_a_declaration_are_those_of_the_ports() -> None:
    assert isinstance(decoded(Kind.SINK_TABLE)("landing", SINK), SinkTable)
    assert isinstance(decoded(Kind.CONNECTION)("events", KAFKA), Connection)
