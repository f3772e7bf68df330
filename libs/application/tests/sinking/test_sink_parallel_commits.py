"""Tables of one cycle are committed at the same time, and each keeps its own promise."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Barrier, Event, Lock, get_ident

import pytest

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.ports.sinking import CommitRequest
from datarecs_application.sinking.committing import COMMITS_AT_ONCE
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.checkpoint import TableCommit
from datarecs_core.sink.control import CommitToTable
from datarecs_core.sink.definition import SinkTarget
from datarecs_testing.sink_doubles import MemorySinkTables, RecordedSinkMemory
from datarecs_testing.sink_house import INTERVAL, KilledError, SinkHouse, a_sink

TARGETS = tuple(
    SinkTarget(catalog="lake", namespace=("sales",), name=f"t{number}") for number in range(6)
)
FIRST, SECOND, THIRD = TARGETS[:3]
LIMIT_S = 30.0
"""Of a thread that waits for another one."""
Gate = Callable[[SinkTarget], object]


@dataclass(kw_only=True)
class GatedTables(MemorySinkTables):
    """Tables whose commits wait where a test wants it."""

    gate: Gate = lambda _target: None
    in_flight: int = 0
    most_in_flight: int = 0
    lock: Lock = field(default_factory=Lock)

    def commit(self, target: SinkTarget, request: CommitRequest) -> Sequence[TableCommit]:
        with self.lock:
            self.in_flight += 1
            self.most_in_flight = max(self.in_flight, self.most_in_flight)
        try:
            self.gate(target)
            with self.lock:
                return super().commit(target, request)
        finally:
            with self.lock:
                self.in_flight -= 1


class NotingMemory(RecordedSinkMemory):
    """Which thread stored the snapshot of which table."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()
        self.stored_tables = {target.name: Event() for target in TARGETS}
        self.outage, self.noticed = False, Event()
        """Of the calls that store a snapshot."""

    def committed_table(self, commit: TableCommit) -> None:
        self.threads.add(get_ident())
        self.stored_tables[commit.table.name].set()
        if self.outage:
            self.noticed.set()
            raise StoreUnavailableError(cause="a test simulates an outage")
        super().committed_table(commit)


class ParallelHouse(SinkHouse):
    tables: GatedTables
    memory: NotingMemory

    def __init__(self, *targets: SinkTarget, at_once: int = COMMITS_AT_ONCE) -> None:
        super().__init__(a_sink(tables=targets))
        self.commits_at_once = at_once
        self.memory, self.tables = NotingMemory(), GatedTables(ids=self.ids)
        for target in targets:
            self.tables.create(target)

    def snapshots(self) -> list[int]:
        return [len(self.tables.table(target).snapshots) for target in self.sink.tables]

    def all_mistakes(self) -> list[str]:
        return [mistake for target in self.sink.tables if (mistake := self.mistakes(target))]


def waiting_for(event: Event, *targets: SinkTarget) -> Gate:
    def gate(target: SinkTarget) -> None:
        if target in targets:
            assert event.wait(LIMIT_S)

    return gate


def test_two_commits_are_in_flight_at_once_and_stored_in_the_thread_of_the_coordinator() -> None:
    house = ParallelHouse(FIRST, SECOND)
    both = Barrier(2, timeout=LIMIT_S)
    house.tables.gate = lambda _target: both.wait()
    house.send(5)
    house.run_cycles(1, house.task())
    assert house.snapshots() == [1, 1]
    assert house.memory.threads == {get_ident()}
    assert house.all_mistakes() == []
    announced = [one.table.name for one in house.control() if isinstance(one, CommitToTable)]
    assert announced == [FIRST.name, SECOND.name]


def test_no_more_tables_than_the_limit_are_committed_at_once() -> None:
    house = ParallelHouse(*TARGETS, at_once=2)
    pairs = Barrier(2, timeout=LIMIT_S)
    house.tables.gate = lambda _target: pairs.wait()
    house.send(5)
    house.run_cycles(1, house.task())
    assert house.tables.most_in_flight == 2
    assert house.snapshots() == [1] * len(TARGETS)


@pytest.mark.case("I17")
@pytest.mark.parametrize(
    "fault",
    [SinkError(SinkCode.COMMIT_FAILED, "the catalog does not answer"), ZeroDivisionError("secret")],
    ids=["known", "unknown"],
)
def test_a_table_is_stored_while_another_one_hangs_until_its_time_is_up(fault: Exception) -> None:
    house = ParallelHouse(FIRST, SECOND, THIRD)
    house.tables.gate = waiting_for(house.memory.stored_tables[THIRD.name], FIRST)
    house.tables.table(FIRST).faults.append(fault)
    task = house.task()
    house.send(5)
    house.run_until(lambda: bool(task.coordinator and task.coordinator.failed_commits), task)
    assert house.snapshots() == [0, 1, 1]
    stored = {one.table.name for one in house.memory.table_commits}
    assert stored == {SECOND.name, THIRD.name}
    assert house.memory.commits == []
    house.run_cycles(1, task)
    assert house.all_mistakes() == []
    assert house.snapshots() == [1, 1, 1]


def test_an_error_of_the_memory_waits_for_commits_in_flight_and_is_raised() -> None:
    house = ParallelHouse(*TARGETS, at_once=2)
    house.tables.gate = waiting_for(house.memory.noticed, SECOND)
    task = house.task()
    house.send(5)
    house.run_until(lambda: bool(task.coordinator and task.coordinator.is_collecting), task)
    house.memory.outage = True
    house.run_until(lambda: task.coordinator is None, task)
    assert house.tables.in_flight == 0
    assert house.memory.table_commits == []
    house.memory.outage = False
    house.run_cycles(1, task)
    assert house.all_mistakes() == []
    assert house.snapshots() == [1] * len(TARGETS)
    assert len(house.memory.table_commits) == len(TARGETS)


@pytest.mark.case("I10")
def test_a_coordinator_that_is_replaced_during_its_commits_steps_down() -> None:
    house = ParallelHouse(FIRST, SECOND)
    both = Barrier(2, timeout=LIMIT_S)
    task = house.task()
    house.run_cycles(1, task)
    epoch = house.memory.stored.epoch

    def replace_coordinator(target: SinkTarget) -> None:
        both.wait()
        if target == FIRST:
            house.log().producer("coordinator")

    house.tables.gate = replace_coordinator
    house.send(5)
    house.run_until(lambda: task.coordinator is None, task)
    assert house.tables.in_flight == 0
    house.tables.gate = lambda _target: None
    house.run_cycles(1, task)
    assert house.memory.stored.epoch == epoch + 1
    assert house.snapshots() == [1, 1]
    assert house.all_mistakes() == []


@pytest.mark.case("I15")
def test_a_process_that_dies_between_commits_at_once_leaves_the_rest_to_its_successor() -> None:
    house = ParallelHouse(*TARGETS, at_once=2)
    deaths: list[str] = []

    def die(name: str) -> None:
        if deaths or name == "after commit":
            deaths.append(name)
            raise KilledError

    task = house.task(die)
    house.send(5)
    with pytest.raises(KilledError):
        house.run_for(timedelta(minutes=5), task)
    assert house.memory.table_commits == []
    house.kill(task)
    house.run_cycles(1, house.task())
    assert house.all_mistakes() == []
    assert house.snapshots() == [1] * len(TARGETS)


@pytest.mark.parametrize("at_once", [1, COMMITS_AT_ONCE])
def test_a_table_at_two_names_gets_the_files_of_both(at_once: int) -> None:
    house = ParallelHouse(FIRST, SECOND, at_once=at_once)
    house.tables.tables[str(SECOND)] = house.tables.table(FIRST)
    task = house.task()
    for _ in range(2):
        house.send(5)
        house.run_cycles(1, task)
    house.run_for(INTERVAL, task)
    assert house.tables.most_in_flight == 1
    counts = house.tables.counts(FIRST)
    assert len(counts) == 10
    assert set(counts.values()) == {2}
    known = house.memory.stored.checkpoint.known_tables()
    assert set(known.values()) == {house.tables.table(FIRST).uuid}
    assert len(known) == 2
