"""How the controller handles ends, one after the other."""

from dataclasses import dataclass, field

import pytest
import structlog

from datarecs_application.observing import ObservedUnit
from datarecs_core.runs.events import RunEnd
from datarecs_core.runs.model import Disposition, Run, RunStatus
from datarecs_core.values import EventId
from datarecs_events.catalogue import Service, Topic
from datarecs_events.codec import Stamp, encode
from datarecs_kafka.consumer import Consumer
from datarecs_memory.message_log import MessageLog
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_run_controller.handlers import Handlers
from datarecs_run_controller.wiring import subscriptions
from datarecs_testing.builders import A_TENANT, NOON, a_run, an_id
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.consuming import Until
from datarecs_testing.metrics import RecordedMetrics
from datarecs_testing.run_facts import a_completion, an_errored

GROUP = Service.RUN_CONTROLLER
COMPLETED, ERRORED = RunStatus.COMPLETED, RunStatus.ERRORED


@dataclass
class World:
    """A broker and a database in memory, and the service's consumer over them."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(by_itself=True))
    metrics: RecordedMetrics = field(default_factory=RecordedMetrics)

    def __post_init__(self) -> None:
        topics = (Topic.RUN_INFRA, Topic.RUN_PROGRESS, Topic.RUN_PLATFORM, f"{GROUP}.dlq")
        self.log = MessageLog(self.clock, dict.fromkeys(map(str, topics), 1))
        self.unit = ObservedUnit(
            unit=MemoryUnitOfWork(MemoryStore(self.clock, FixedIds())),
            metrics=self.metrics,
            clock=self.clock,
        )

    def running(self) -> Run:
        run = a_run(status=RunStatus.RUNNING)
        with self.unit.begin(A_TENANT) as tx:
            tx.runs.add(run)
        return run

    def handle(self, *ends: RunEnd) -> None:
        for end in ends:
            encoded = encode(end, Stamp(event_id=EventId(an_id()), time=NOON, sequence=1))
            self.log.append(
                Topic.RUN_INFRA,
                key=encoded.key_bytes,
                value=encoded.data,
                headers=encoded.headers,
                partition=0,
            )
        consumer = Consumer(
            self.log,
            self.unit,
            group=GROUP,
            subscriptions=subscriptions(Handlers()),
            metrics=self.metrics,
            clock=self.clock,
        )
        consumer.run(Until(self.clock, self.clock.monotonic() + 30))

    def finalised(self, run: Run) -> int:
        with self.unit.begin(A_TENANT) as tx:
            history = tx.runs.history(run.run_id, after=0)
        return sum(entry.type.endswith("run.finalised") for entry in history)

    def status(self, run: Run) -> RunStatus:
        with self.unit.begin(A_TENANT) as tx:
            result = tx.runs.for_update(run.run_id)
        assert result is not None
        return result.status


def ends_of(run: Run) -> dict[RunStatus, RunEnd]:
    return {
        COMPLETED: a_completion(run, attempt=run.attempt),
        ERRORED: an_errored(run, attempt=run.attempt),
    }


@pytest.mark.case("L04")
@pytest.mark.parametrize(("first", "second"), [(COMPLETED, ERRORED), (ERRORED, COMPLETED)])
def test_the_first_end_is_retained_and_its_opposite_alerts(
    first: RunStatus, second: RunStatus
) -> None:
    world = World()
    run = world.running()
    ends = ends_of(run)
    with structlog.testing.capture_logs() as entries:
        world.handle(ends[first], ends[second])
    assert (world.status(run), world.finalised(run)) == (first, 1)
    assert world.metrics.total("run_facts_total", disposition=Disposition.CONFLICT) == 1
    (alert,) = (line for line in entries if line["event"] == "late_fact")
    assert (alert["log_level"], alert["run_id"]) == ("error", str(run.run_id))


@pytest.mark.case("L03")
def test_the_same_end_in_other_words_is_late_and_raises_no_alert() -> None:
    world = World()
    run = world.running()
    end = ends_of(run)[COMPLETED]
    with structlog.testing.capture_logs() as entries:
        world.handle(end, end)
    assert world.finalised(run) == 1
    assert world.metrics.total("run_facts_total", disposition=Disposition.LATE) == 1
    assert [line["log_level"] for line in entries if line["event"] == "late_fact"] == ["info"]
