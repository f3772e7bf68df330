"""What iceberg-sink counts of its tasks: counters per process, gauges over all slots."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.metrics import CATALOGUE
from datarecs_application.ports.sink_leases import SinkLease
from datarecs_application.sinking.figures import HaltedTasks, SinkGauges, TaskFigures
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    PartitionState,
    SinkCommit,
    SinkState,
    TaskReport,
    TaskWish,
)
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.declared import SinkWish
from datarecs_core.values import ResourceUid
from datarecs_memory.sink_leases import MemorySinkLeases
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_testing.builders import A_TENANT
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.metrics import RecordedMetrics

P0 = SourcePartition("orders", 0)
INTERVAL, SECOND = timedelta(seconds=10), timedelta(seconds=1)
AT_FIVE = SinkState(checkpoint=Checkpoint(partitions={P0: PartitionState(accepted=5)}))
BEHIND = TaskReport(positions={P0: 5}, ends={P0: 8})


def lease(number: int) -> SinkLease:
    uid = ResourceUid(UUID(int=7))
    return SinkLease(tenant_id=A_TENANT, sink_uid=uid, number=number, epoch=1)


class Service:
    """Two tasks of one process."""

    def __init__(self) -> None:
        self.clock, self.metrics = ManualClock(), RecordedMetrics()
        gauges = SinkGauges(self.metrics)
        self.first, self.second = (
            TaskFigures(task=lease(number), gauges=gauges, clock=self.clock) for number in (0, 1)
        )
        for task in (self.first, self.second):
            task.begin(INTERVAL)
            task.note_state(AT_FIVE)

    def tasks(self, state: str) -> float | None:
        return self.metrics.last("sink_tasks", state=state)

    def pass_time(self, time: timedelta) -> None:
        self.clock.advance(time)
        self.first.show()
        self.second.show()


def counted(field: str, number: int) -> TaskReport:
    counters: dict[str, Any] = {field: number}
    return TaskReport(**counters)


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("dead_letters", "sink_dead_letters_total"),
        ("fenced", "sink_votes_refused_total"),
        ("unrouted", "sink_unrouted_total"),
        ("tombstones", "sink_tombstones_total"),
        ("dropped_fields", "sink_fields_dropped_total"),
    ],
)
def test_a_counter_grows_by_what_is_new_and_over_processes(
    service: Service, field: str, name: str
) -> None:
    for number in (2, 2, 5):
        service.first.note_report(counted(field, number))
    service.first.end_process()
    service.first.begin(INTERVAL)
    service.first.note_report(counted(field, 1))
    assert service.metrics.total(name) == 6


def test_cycles_are_counted_by_how_they_ended(service: Service) -> None:
    commit = SinkCommit(
        commit_id=UUID(int=1),
        epoch=1,
        checkpoint=Checkpoint(),
        is_partial=False,
        tables=1,
        records=7,
        duration=2 * SECOND,
    )
    service.first.note_commit(commit)
    service.first.note_commit(replace(commit, commit_id=UUID(int=2), is_partial=True))
    service.first.note_report(TaskReport(failed_commits=3))
    outcomes = ("full", "partial", "failed")
    counted = [service.metrics.total("sink_commits_total", outcome=one) for one in outcomes]
    assert counted == [1, 1, 3]
    assert service.metrics.total("sink_records_total") == 14
    assert service.metrics.values("sink_commit_seconds") == [2, 2]


def test_gauges_are_over_all_tasks(service: Service) -> None:
    service.first.note_report(BEHIND)
    service.second.note_report(BEHIND)
    assert service.metrics.last("sink_lag_messages") == 6
    assert service.tasks("running") == 2
    service.second.end()
    assert service.metrics.last("sink_lag_messages") == 3
    assert service.tasks("running") == 1


def test_halted_tasks_are_counted_after_a_restart_and_until_they_are_retried() -> None:
    store = MemoryStore(ManualClock(), FixedIds())
    leases, metrics, unit = MemorySinkLeases(store), RecordedMetrics(), MemoryUnitOfWork(store)
    tenant, uid = store.create_tenant(), ResourceUid(UUID(int=7))
    with unit.begin(tenant) as tx:
        tx.sinks.want(uid, SinkWish(tasks=1, wish=TaskWish.RUN, revision="1"))
    (held,) = leases.claim("w", limit=1)
    leases.memory(held, UUID(int=1)).report(TaskReport(is_halted=True, error_code="BAD_RECORD"))
    leases.release(held)
    restarted = HaltedTasks(leases=leases, metrics=metrics, clock=ManualClock())
    restarted.step()
    assert metrics.last("sink_tasks", state="halted") == 1
    with unit.begin(tenant) as tx:
        tx.sinks.retry(uid)
    restarted.step()
    assert metrics.last("sink_tasks", state="halted") == 0


def test_halted_tasks_stay_counted_while_the_store_does_not_answer() -> None:
    class Busy(MemorySinkLeases):
        def halted(self) -> int:
            raise StoreUnavailableError(cause="it restarts")

    metrics = RecordedMetrics()
    busy = Busy(MemoryStore(ManualClock(), FixedIds()))
    HaltedTasks(leases=busy, metrics=metrics, clock=ManualClock()).step()
    assert metrics.last("sink_tasks", state="halted") is None


def test_a_task_is_stalled_when_what_it_has_seen_stays_uncommitted(service: Service) -> None:
    service.first.note_report(BEHIND)
    service.pass_time(5 * INTERVAL)
    assert service.metrics.last("sink_oldest_uncommitted_seconds") == 50
    assert service.tasks("stalled") == 0
    service.pass_time(SECOND)
    assert service.tasks("stalled") == 1
    committed = replace(AT_FIVE.checkpoint, partitions={P0: PartitionState(accepted=8)})
    service.first.note_state(replace(AT_FIVE, checkpoint=committed))
    assert service.tasks("stalled") == 0
    assert service.metrics.last("sink_oldest_uncommitted_seconds") == 0


def test_a_task_that_commits_is_not_stalled_while_new_records_come(service: Service) -> None:
    for step in range(20):
        service.first.note_report(replace(BEHIND, ends={P0: 8 + step}))
        partitions = {P0: PartitionState(accepted=7 + step)}
        service.first.note_state(SinkState(checkpoint=Checkpoint(partitions=partitions)))
        service.pass_time(INTERVAL)
    assert service.metrics.last("sink_lag_messages") == 1
    assert service.tasks("stalled") == 0


def test_a_task_that_an_error_hinders_is_stalled_over_its_processes(service: Service) -> None:
    failure = TaskReport(error_code="TABLE_LOST", error="it was dropped")
    for _ in range(6):
        service.first.note_report(failure)
        service.first.end_process()
        service.pass_time(INTERVAL)
        service.first.begin(INTERVAL)
    assert service.tasks("stalled") == 1
    service.first.note_report(TaskReport())
    assert service.tasks("stalled") == 0


def test_ends_that_a_fault_hides_are_those_that_were_seen(service: Service) -> None:
    service.first.note_report(BEHIND)
    service.first.note_report(replace(BEHIND, ends={}, error_code="LOG_UNAVAILABLE"))
    assert service.metrics.last("sink_lag_messages") == 3


def test_a_paused_sink_is_not_stalled(service: Service) -> None:
    service.first.note_report(BEHIND)
    service.first.note_state(replace(AT_FIVE, wish=TaskWish.PAUSE))
    service.pass_time(100 * INTERVAL)
    assert service.tasks("stalled") == 0
    service.first.note_state(AT_FIVE)
    assert service.tasks("stalled") == 0


def test_no_figure_has_a_label_that_grows_with_sinks_or_tables() -> None:
    labels = {
        label
        for name, metric in CATALOGUE.items()
        if name.startswith("sink_")
        for label in metric.labels
    }
    assert labels == {"outcome", "state"}
