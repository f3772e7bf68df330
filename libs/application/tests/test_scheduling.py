"""Due schedules over the store in memory: runs, ticks, replaced runs, jobs that cannot start."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.scheduling import ScheduleStarts
from datarecs_application.ports.quotas import WaitingRuns
from datarecs_application.scheduling import SCHEDULED, Scheduling
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.resources.check_conditions import valid_condition
from datarecs_core.resources.conditions import Condition, Truth, status_with
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.runs.model import Run, RunMode, RunStatus
from datarecs_core.scheduling.schedule import (
    Catchup,
    ConcurrencyPolicy,
    Schedule,
    Tick,
    TickOutcome,
)
from datarecs_core.values import ResourceUid
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_runtime.clock import Latch
from datarecs_specs.cron_times import CronTimes
from datarecs_specs.documents import decode_stored, job_of
from datarecs_testing.builders import a_resource
from datarecs_testing.checking import WRONG_TYPE
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.metrics import RecordedMetrics

BEGIN = datetime(2026, 3, 2, 12, 0, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
JOB: dict[str, Any] = {
    "sources": [
        {"name": "a", "kind": "csv", "connection": "here", "path": "a.csv"},
        {"name": "b", "kind": "csv", "connection": "here", "path": "b.csv"},
    ],
    "stages": [{"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"}],
}
HOURLY = Schedule(job="books", cron="0 * * * *")


class Platform:
    """One tenant with the job `books`, and the loop of the resource-controller."""

    def __init__(self) -> None:
        self.clock, ids = ManualClock(BEGIN), FixedIds()
        self.store = MemoryStore(self.clock, ids)
        self.tenant = self.store.create_tenant()
        self.unit = MemoryUnitOfWork(self.store)
        self.specs: dict[ResourceUid, Schedule] = {}
        self.metrics = RecordedMetrics()
        self.loop = ScheduleStarts(
            unit=self.unit,
            finder=MemoryWorkFinder(self.store),
            use=Scheduling(
                schedules=StoredSpecs(self.read),
                jobs=StoredSpecs(lambda spec: job_of("", spec)),
                times=CronTimes(),
                ids=ids,
                most_waiting=WaitingRuns(of_job=3, of_tenant=200),
            ),
            metrics=self.metrics,
            rhythm=Rhythm(clock=self.clock, wake=Latch()),
        )
        self.job = self.declare(Kind.RECONCILIATION_JOB, "books", JOB)

    def declare(self, kind: Kind, name: str, spec: Mapping[str, object]) -> Resource:
        resource = a_resource(
            kind=kind,
            name=name,
            tenant_id=self.tenant,
            spec=spec,
            created_at=self.clock.now(),
        )
        with self.unit.begin(self.tenant) as tx:
            tx.resources.add(resource)
        return resource

    def schedule(self, spec: Schedule = HOURLY, *, name: str = "nightly") -> ResourceUid:
        resource = self.declare(Kind.SCHEDULE, name, {"number": len(self.specs)})
        self.specs[resource.uid] = spec
        with self.unit.begin(self.tenant) as tx:
            tx.schedules.decide_soon(resource.uid)
        self.loop.step()
        return resource.uid

    def edit(self, uid: ResourceUid, **changes: Any) -> None:  # noqa: ANN401  any field of Schedule
        self.specs[uid] = replace(self.specs[uid], **changes)
        with self.unit.begin(self.tenant, feed=1) as tx:
            stored = tx.resources.get_by_uid(uid)
            assert stored is not None
            after = replace(stored, generation=stored.generation + 1, rv=tx.next_rv())
            assert tx.resources.replace(after, expected_rv=stored.rv)
            tx.schedules.decide_soon(uid)
        self.loop.step()

    def pass_time(self, duration: timedelta) -> None:
        """The loop checks once at the end."""
        self.clock.advance(duration)
        self.loop.step()

    def until(self, minutes: int) -> None:
        """The loop checks every second for so long."""
        for _ in range(minutes * 60):
            self.pass_time(timedelta(seconds=1))

    def runs(self) -> list[Run]:
        rows = self.store.committed(self.tenant).runs.values()
        return sorted(rows, key=lambda run: (run.fire_time or BEGIN, run.run_id))

    def end(self, run: Run, status: RunStatus = RunStatus.COMPLETED) -> None:
        with self.unit.begin(self.tenant, feed=8) as tx:
            locked = tx.runs.for_update(run.run_id)
            assert locked is not None
            tx.runs.save(replace(locked, status=status))

    def ticks(self, uid: ResourceUid) -> list[Tick]:
        with self.unit.begin(self.tenant, read_only=True) as tx:
            return [each.tick for each in reversed(tx.schedules.ticks(uid, limit=100))]

    def outcomes(self, uid: ResourceUid) -> list[tuple[str, TickOutcome]]:
        return [(f"{tick.fire_time:%H:%M}", tick.outcome) for tick in self.ticks(uid)]

    def read(self, spec: Mapping[str, object]) -> Schedule:
        number = spec["number"]
        assert isinstance(number, int)
        return list(self.specs.values())[number]


@pytest.fixture
def here() -> Platform:
    return Platform()


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-03-02T{text}:00+00:00")


def test_a_time_starts_one_run_of_the_job(here: Platform) -> None:
    uid = here.schedule()
    assert here.runs() == []
    here.until(61)
    (run,) = here.runs()
    assert (run.fire_time, run.schedule_uid) == (at("13:00"), uid)
    assert (run.mode, run.triggered_by) == (RunMode.SCHEDULED, SCHEDULED)
    assert (run.job_name, run.spec_hash) == ("books", here.job.spec_hash)
    assert here.outcomes(uid) == [("13:00", TickOutcome.FIRED)]
    (tick,) = here.ticks(uid)
    assert (tick.missed, tick.reason) == (0, None)
    (delay,) = here.metrics.values("schedule_start_delay_seconds")
    assert 0 <= delay < 2


@pytest.mark.case("R46")
def test_two_schedulers_start_a_time_once(here: Platform) -> None:
    uid = here.schedule()
    here.clock.advance(timedelta(minutes=59, seconds=40))
    here.loop.step()
    with here.unit.begin(here.tenant) as tx:
        tx.schedules.decide_soon(uid)  # the claim of a process that died
    here.loop.step()
    assert len(here.runs()) == 1


@pytest.mark.case("R43")
def test_a_time_is_skipped_while_a_run_has_not_ended(here: Platform) -> None:
    uid = here.schedule()
    here.until(121)
    (run,) = here.runs()
    here.end(run)
    here.until(60)
    assert here.outcomes(uid) == [
        ("13:00", TickOutcome.FIRED),
        ("14:00", TickOutcome.SKIPPED_OVERLAP),
        ("15:00", TickOutcome.FIRED),
    ]
    assert here.metrics.total("schedule_ticks_total", outcome="SKIPPED_OVERLAP") == 1


@pytest.mark.case("R44")
def test_a_new_time_replaces_the_run_and_starts_when_it_has_ended(here: Platform) -> None:
    uid = here.schedule(replace(HOURLY, concurrency_policy=ConcurrencyPolicy.REPLACE))
    here.until(121)
    (old,) = here.runs()
    assert old.cancel_requested
    assert (old.cancelled_by, old.cancel_reason) == (SCHEDULED, "replaced by schedule")
    assert here.outcomes(uid) == [("13:00", TickOutcome.FIRED)]
    here.until(5)
    assert len(here.runs()) == 1
    here.end(old, RunStatus.CANCELLED)
    here.until(1)
    assert [run.fire_time for run in here.runs()] == [at("13:00"), at("14:00")]
    assert here.outcomes(uid)[-1] == ("14:00", TickOutcome.FIRED)


def test_of_times_that_wait_for_the_end_of_a_run_the_newest_starts(here: Platform) -> None:
    uid = here.schedule(replace(HOURLY, concurrency_policy=ConcurrencyPolicy.REPLACE))
    here.until(181)
    (old,) = here.runs()
    here.end(old, RunStatus.CANCELLED)
    here.until(1)
    assert here.outcomes(uid) == [
        ("13:00", TickOutcome.FIRED),
        ("14:00", TickOutcome.SKIPPED_OVERLAP),
        ("15:00", TickOutcome.FIRED),
    ]


@pytest.mark.case("R41")
@pytest.mark.parametrize(
    ("catchup", "fired"),
    [
        (Catchup.NONE, []),
        (Catchup.LATEST, ["15:00"]),
        (Catchup.ALL, ["13:00", "14:00", "15:00"]),
    ],
)
def test_after_an_outage_times_start_as_declared(
    here: Platform, catchup: Catchup, fired: list[str]
) -> None:
    allowed = replace(HOURLY, catchup=catchup, concurrency_policy=ConcurrencyPolicy.ALLOW)
    here.schedule(allowed)
    here.pass_time(timedelta(hours=3, minutes=10))
    assert [run.fire_time for run in here.runs()] == [at(text) for text in fired]


def test_a_run_goes_on_if_the_one_in_its_place_cannot_start(here: Platform) -> None:
    uid = here.schedule(replace(HOURLY, concurrency_policy=ConcurrencyPolicy.REPLACE))
    here.until(61)
    here.edit(uid, job="boks")
    here.until(60)
    (run,) = here.runs()
    assert not run.cancel_requested
    assert here.outcomes(uid)[-1] == ("14:00", TickOutcome.ERROR)


@pytest.mark.case("X33")
def test_a_schedule_starts_no_more_runs_than_may_wait(here: Platform) -> None:
    storm = Schedule(
        job="books",
        cron="* * * * *",
        concurrency_policy=ConcurrencyPolicy.ALLOW,
        catchup=Catchup.ALL,
        max_catchup=100,
    )
    uid = here.schedule(storm)
    here.pass_time(timedelta(hours=3))
    assert len(here.runs()) == 3
    last = here.ticks(uid)[-1]
    assert last.outcome is TickOutcome.ERROR
    assert last.reason == "there are 3 waiting runs of this job, as many as may wait"


@pytest.mark.case("X33")
def test_schedules_that_start_together_start_no_more_runs_than_may_wait(here: Platform) -> None:
    uids = [here.schedule(name=f"hourly-{number}") for number in range(5)]
    here.pass_time(timedelta(hours=1))
    assert len(here.runs()) == 3
    ticks = [here.ticks(uid)[-1] for uid in uids]
    assert [tick.outcome for tick in ticks].count(TickOutcome.FIRED) == 3
    refused = {tick.reason for tick in ticks if tick.outcome is TickOutcome.ERROR}
    assert refused == {"there are 3 waiting runs of this job, as many as may wait"}


def test_a_defect_of_one_schedule_stops_no_other_that_is_due_with_it(here: Platform) -> None:
    good = [here.schedule(name=f"hourly-{number}") for number in range(2)]
    bad = here.declare(Kind.SCHEDULE, "bad", {"number": 99})
    here.clock.advance(timedelta(hours=1))
    with here.unit.begin(here.tenant) as tx:
        tx.schedules.decide_soon(bad.uid)
    assert here.loop.step() == 3
    assert [here.ticks(uid)[-1].outcome for uid in good] == [TickOutcome.FIRED] * 2
    assert len(here.runs()) == 2
    assert here.loop.step() == 0
    here.pass_time(timedelta(seconds=12))
    assert here.ticks(bad.uid) == []


@pytest.mark.case("R47")
def test_a_suspended_schedule_starts_nothing_and_resumes_without_a_burst(here: Platform) -> None:
    uid = here.schedule()
    here.edit(uid, suspend=True)
    here.until(125)
    here.edit(uid, suspend=False)
    assert here.runs() == []
    (tick,) = here.ticks(uid)
    assert (tick.outcome, tick.missed) == (TickOutcome.SUSPENDED, 2)
    here.until(56)
    assert [run.fire_time for run in here.runs()] == [at("15:00")]


@pytest.mark.case("R47")
def test_other_times_count_from_the_edit(here: Platform) -> None:
    uid = here.schedule()
    here.clock.advance(timedelta(minutes=30))
    here.edit(uid, cron="15 * * * *")
    assert here.runs() == []
    here.until(46)
    assert [run.fire_time for run in here.runs()] == [at("13:15")]


def test_an_edit_that_changes_no_time_loses_none(here: Platform) -> None:
    uid = here.schedule()
    here.clock.advance(timedelta(minutes=59, seconds=31))
    here.edit(uid, jitter=timedelta(0), max_catchup=7)
    assert [run.fire_time for run in here.runs()] == [at("13:00")]


def test_a_job_that_is_missing_is_reported_by_the_tick_and_the_schedule_goes_on(
    here: Platform,
) -> None:
    uid = here.schedule(replace(HOURLY, job="boks"))
    here.until(121)
    first, second = here.ticks(uid)
    assert (first.outcome, second.outcome) == (TickOutcome.ERROR, TickOutcome.ERROR)
    assert first.reason == "job 'boks' does not exist; apply it, or correct `job`"
    assert here.runs() == []


@pytest.mark.case("R61")
@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (
            Condition(type="ReferencesResolved", status=Truth.FALSE, reason="ConnectionMissing"),
            "connection here does not exist",
        ),
        (valid_condition(WRONG_TYPE), "ABSOLUTE does not fit the text"),
    ],
)
def test_a_job_that_cannot_run_is_explained_by_the_tick(
    here: Platform, condition: Condition, words: str
) -> None:
    uid = here.schedule()
    status = status_with({}, [condition], details={}, generation=1, now=BEGIN)
    with here.unit.begin(here.tenant, feed=1) as tx:
        stored = replace(here.job, status=status, observed_generation=1, rv=tx.next_rv() + 10**9)
        assert tx.resources.replace(stored, expected_rv=here.job.rv)
    here.until(61)
    (tick,) = here.ticks(uid)
    assert tick.outcome is TickOutcome.ERROR
    assert tick.reason is not None
    assert f"job 'books' cannot run: {words}" in tick.reason
    assert here.runs() == []


def test_a_parameter_without_a_default_is_named(here: Platform) -> None:
    spec = {**JOB, "parameters": {"day": {"type": "date"}}}
    here.declare(Kind.RECONCILIATION_JOB, "by-day", spec)
    uid = here.schedule(replace(HOURLY, job="by-day"))
    here.until(61)
    (tick,) = here.ticks(uid)
    assert tick.outcome is TickOutcome.ERROR
    assert tick.reason is not None
    assert "day" in tick.reason


def test_days_that_move_are_those_of_the_time_and_not_of_the_start(here: Platform) -> None:
    spec = {**JOB, "parameters": {"day": {"type": "date", "default": "{{ run.date - 1d }}"}}}
    here.declare(Kind.RECONCILIATION_JOB, "by-day", spec)
    here.schedule(Schedule(job="by-day", cron="0 23 * * *"))
    here.pass_time(timedelta(hours=14))
    (run,) = here.runs()
    assert run.fire_time == at("23:00")
    assert "2026-03-01" in str(run.parameters)


def test_a_schedule_that_is_deleted_is_no_longer_due(here: Platform) -> None:
    uid = here.schedule()
    with here.unit.begin(here.tenant) as tx:
        stored = tx.resources.get_by_uid(uid)
        assert stored is not None
        assert tx.resources.remove(stored, expected_rv=stored.rv)
    here.until(61)
    assert here.runs() == []


@pytest.mark.case("R26")
def test_a_schedule_that_an_upgrade_can_read_again_goes_on(here: Platform) -> None:
    uid = here.schedule()
    here.until(61)
    readable = here.loop.use
    old = StoredSpecs(lambda _: decode_stored(Kind.SCHEDULE, "", {"cron": "later form"}))
    here.loop.use = replace(readable, schedules=old)  # type: ignore[arg-type]  # raises always
    here.until(120)
    assert here.outcomes(uid) == [("13:00", TickOutcome.FIRED)]
    here.end(here.runs()[0])
    here.loop.use = replace(readable, schedules=StoredSpecs(here.read))
    here.until(10)
    assert here.outcomes(uid) == [
        ("13:00", TickOutcome.FIRED),
        ("14:00", TickOutcome.MISSED_CATCHUP),
        ("15:00", TickOutcome.FIRED),
    ]
