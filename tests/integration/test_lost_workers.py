"""Workers that are dead, unreachable or blocked: their runs still end, once and in time.

The controller's loops and the supervisor's are real, on a real database; stored times are moved
where production would wait for minutes.
"""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import LiteralString

import psutil  # type: ignore[import-untyped]  # publishes no types
import pytest
from psycopg.conninfo import conninfo_to_dict

from datarecs_application.loops.heartbeat import Heartbeat
from datarecs_application.loops.launching import Launching
from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.rescue import Rescue
from datarecs_application.loops.timing import Timing
from datarecs_application.ports.state import HeldLease, LeasedRun
from datarecs_application.runs import request_cancel, trigger_run
from datarecs_application.supervision import Limits, Supervising
from datarecs_application.warm_child import WarmChild
from datarecs_core.errors.run import RunDetail
from datarecs_core.hashing import JsonValue, canonical_json
from datarecs_core.runs.model import Run, RunStatus
from datarecs_core.runs.start import TriggerRun
from datarecs_core.values import EventId, JobId, RunId
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_postgres.database import Database
from datarecs_postgres.queries import PostgresQueries
from datarecs_postgres.run_queue import QueueLauncher
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.urls import conninfo
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.child import SpawnedChild
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids
from datarecs_runtime.environment import process_environment
from datarecs_testing.builders import A_TENANT
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.metrics import RecordedMetrics
from datarecs_testing.platform import FolderScratch, NoSecrets, OneJob, ScriptedPreparing

pytestmark = [pytest.mark.integration, pytest.mark.slow]

POLL_S = 0.05
SWEEP = timedelta(seconds=2)
CHILD = "datarecs_testing.querying_child"


@dataclass(kw_only=True)
class Controller:
    """The loops that make rows, timers and leases come true, each on its thread."""

    database: PreparedDatabase
    open_things: ExitStack
    clock: SystemClock = field(default_factory=SystemClock)
    ids: UuidV7Ids = field(default_factory=UuidV7Ids)

    def __post_init__(self) -> None:
        api, worker = self.opened("datarecs_api"), self.opened("datarecs_worker_run")
        self.api, self.queries = PostgresUnitOfWork(api, self.ids), PostgresQueries(api)
        self.worker, self.finder = PostgresUnitOfWork(worker, self.ids), PostgresWorkFinder(worker)

    def opened(self, role: str) -> Database:
        made = Database(self.database.url(role))
        self.open_things.callback(made.close)
        return made

    @contextmanager
    def at_work(self) -> Iterator[None]:
        database = self.opened("datarecs_controller")
        unit, finder = PostgresUnitOfWork(database, self.ids), PostgresWorkFinder(database)
        wakes = [Latch() for _ in range(3)]
        rhythms = [Rhythm(clock=self.clock, wake=wake) for wake in wakes]
        rhythms[2] = Rhythm(clock=self.clock, wake=wakes[2], idle=SWEEP)
        launcher, ids = QueueLauncher(), self.ids
        launching = Launching(
            unit=unit,
            finder=finder,
            launcher=launcher,
            ids=ids,
            rhythm=rhythms[0],
            jitter=lambda: 0.5,
        )
        timing = Timing(
            unit=unit,
            finder=finder,
            launcher=launcher,
            ids=ids,
            rhythm=rhythms[1],
            jitter=lambda: 0.5,
        )
        rescue = Rescue(unit=unit, finder=finder, ids=ids, rhythm=rhythms[2], jitter=lambda: 0.5)
        stop = Latch()
        threads = [
            threading.Thread(target=loop.run, args=(stop,)) for loop in (launching, timing, rescue)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for wake in wakes:
                wake.set()
            for thread in threads:
                thread.join(20)

    # --- what people and workers do

    def trigger(self, *, deadline_seconds: int = 3600) -> Run:
        command = TriggerRun(
            tenant_id=A_TENANT,
            run_id=RunId(self.ids.new()),
            job_id=JobId(self.ids.new()),
            job_name="lost",
            job_generation=1,
            spec_hash="sha256:" + 64 * "0",
            spec={},
            triggered_by="test",
            deadline_seconds=deadline_seconds,
        )
        with self.api.begin(A_TENANT, feed=8) as tx:
            return trigger_run(tx, command)

    def leased(self, **fields: int) -> tuple[Run, LeasedRun]:
        """A run and the lease of a worker that does nothing for it."""
        run = self.trigger(**fields)
        self.until(lambda: self.now(run).status is RunStatus.QUEUED)
        leased = self.finder.lease_run("dead/0")
        assert leased is not None
        return run, leased

    def cancel(self, run: Run) -> None:
        fact = EventId(self.ids.new())
        with self.api.begin(A_TENANT, feed=8) as tx:
            request_cancel(tx, run.run_id, by="u-8", reason="test", fact_id=fact)

    def now(self, run: Run) -> Run:
        state = self.queries.run(A_TENANT, run.run_id)
        assert state is not None
        return state

    def event_names(self, run: Run) -> list[str]:
        history = self.queries.run_events(A_TENANT, run.run_id, after=0, limit=100)
        return [one.type.rpartition("run.")[2] for one in history]

    def announced(self, run: Run) -> list[str]:
        """Final events on their way to the world."""
        return [one for one in self.event_names(run) if one in {"finalised", "cancelled"}]

    def until(self, holds: Callable[[], bool], *, seconds: float = 20) -> None:
        pause, ends = threading.Event(), self.clock.monotonic() + seconds
        while not holds():
            assert self.clock.monotonic() < ends, f"not within {seconds} s"
            pause.wait(POLL_S)

    def due(self, run: Run, reason: LiteralString) -> None:
        """The timer's time has come, and no other's."""
        self.database.query(
            "UPDATE datarecs.run_timer SET due_at = now() WHERE run_id = %s AND reason = %s",
            (run.run_id, reason),
        )


@pytest.fixture
def controller(database: PreparedDatabase) -> Iterator[Controller]:
    with ExitStack() as open_things:
        made = Controller(database=database, open_things=open_things)
        with made.at_work():
            yield made


# --- a cancel without an answer


@pytest.mark.case("L27")
def test_a_cancel_of_a_run_whose_worker_is_dead_ends_it_within_seventy_seconds(
    controller: Controller,
) -> None:
    run, _ = controller.leased()
    controller.cancel(run)
    controller.until(lambda: controller.now(run).next_reconcile_at is None)
    assert controller.now(run).status is RunStatus.RUNNING, "the worker may still answer"
    controller.database.pass_time(timedelta(seconds=66))
    controller.until(lambda: controller.now(run).status is RunStatus.CANCELLED, seconds=4)
    assert controller.announced(run) == ["cancelled"]


@pytest.mark.case("R54")
@pytest.mark.case("L27")
def test_a_worker_that_ignores_the_stop_is_cut_off_after_five_minutes_and_fenced(
    controller: Controller,
) -> None:
    run, leased = controller.leased()
    held = HeldLease(tenant_id=A_TENANT, run_id=run.run_id, lease_epoch=leased.lease_epoch)
    controller.cancel(run)
    assert controller.finder.renew([held])[run.run_id].stop
    controller.due(run, "cancel_force")
    controller.until(lambda: controller.now(run).status is RunStatus.CANCELLED, seconds=5)
    assert controller.announced(run) == ["cancelled"]
    assert not controller.finder.renew([held])[run.run_id].current
    with controller.worker.begin(A_TENANT, feed=8) as tx:
        assert not tx.leases.is_current(run.run_id, leased.lease_epoch), "later writes are fenced"


@pytest.mark.case("L27")
def test_a_cancel_between_two_attempts_ends_the_run_at_once(controller: Controller) -> None:
    run, _ = controller.leased()
    controller.database.pass_time(timedelta(seconds=66))
    controller.until(lambda: controller.event_names(run)[-1] == "attempt_lost")
    controller.cancel(run)
    controller.until(lambda: controller.now(run).status is RunStatus.CANCELLED, seconds=2)
    assert controller.announced(run) == ["cancelled"]
    assert controller.finder.lease_run("late/0") is None


# --- a worker with a wrong clock


class WrongClock(SystemClock):
    """The clock of a host that is hours off."""

    def __init__(self, shift: timedelta) -> None:
        self._shift = shift

    def now(self) -> datetime:
        return super().now() + self._shift


@pytest.mark.case("X75")
@pytest.mark.parametrize("shift", [timedelta(hours=-1), timedelta(hours=1)], ids=["slow", "fast"])
def test_a_worker_with_a_wrong_clock_retains_its_lease_and_no_other_takes_the_run(
    controller: Controller, shift: timedelta, tmp_path: Path
) -> None:
    controller.clock = WrongClock(shift)
    run = controller.trigger()
    controller.until(lambda: controller.now(run).status is RunStatus.QUEUED)
    worker = Worker(controller=controller, folder=tmp_path, signals=Blocked("never"))
    until_renewed = (
        "SELECT 1 FROM datarecs.run_lease WHERE lease_until > %s"
        " AND lease_until BETWEEN now() AND now() + interval '5 minutes'"
    )
    with worker.at_work() as working:
        controller.until(worker.is_querying)
        ((granted,),) = controller.database.query("SELECT lease_until FROM datarecs.run_lease")
        controller.until(lambda: bool(controller.database.query(until_renewed, (granted,))))
        assert controller.finder.lease_run("another/0") is None
        assert controller.event_names(run) == ["triggered", "queued"]
        worker.stop.set()
        working.join(20)
        assert not working.is_alive()
    assert controller.now(run).attempt == 1


# --- a deadline


@dataclass
class Blocked:
    """Stops the supervisor in a step, as a paused host would, until it is let go."""

    step: str
    arrived: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def reached(self, step: str) -> None:
        if step == self.step:
            self.arrived.set()
            assert self.go_on.wait(60)


@dataclass(kw_only=True)
class Worker:
    """One slot with a child that runs a query of an hour."""

    controller: Controller
    folder: Path
    signals: Blocked
    drain: timedelta = timedelta(0)
    stop: Latch = field(default_factory=Latch)
    """Set by SIGTERM in production."""

    def __post_init__(self) -> None:
        here, worker = self.controller, self.controller.opened("datarecs_worker_run")
        self.heartbeat = Heartbeat(
            finder=PostgresWorkFinder(worker),
            clock=here.clock,
            metrics=RecordedMetrics(),
            every=timedelta(milliseconds=500),
        )
        self.slot = Supervising(
            name="slot_0",
            executor="test/0",
            unit=here.worker,
            finder=here.finder,
            blobs=MemoryBlobStores(here.clock),
            heartbeat=self.heartbeat,
            preparing=ScriptedPreparing(
                decode=OneJob(),
                secrets=NoSecrets(),
                connect=lambda *_: (_ for _ in ()).throw(LookupError("nothing is opened")),
                break_key=lambda _: "00" * 32,
            ),
            scratch=FolderScratch(self.folder),
            child=WarmChild(
                make=self._child, hello=canonical_json(self._where()), clock=here.clock
            ),
            clock=here.clock,
            ids=here.ids,
            metrics=RecordedMetrics(),
            jitter=lambda: 0.5,
            wake=Latch(),
            limits=Limits(memory_bytes=10**12, drain=self.drain),
            signals=self.signals,
        )

    def _where(self) -> dict[str, JsonValue]:
        fields = conninfo_to_dict(conninfo(self.controller.database.admin_url))
        return {
            "host": "127.0.0.1",
            "port": str(fields["port"]),
            "database": str(fields["dbname"]),
            "user": str(fields["user"]),
            "password": str(fields["password"]),
        }

    def _child(self) -> SpawnedChild:
        environment = process_environment()
        inherited = {one: value for one, value in environment.items() if one in {"PATH", "HOME"}}
        return SpawnedChild([sys.executable, "-m", CHILD], inherited)

    @contextmanager
    def at_work(self) -> Iterator[threading.Thread]:
        """Its child is warm; the thread ends with the one run it takes."""
        stop = Latch()
        beating = threading.Thread(target=self.heartbeat.run, args=(stop,))
        self.slot.child.warm()
        self.controller.until(self._is_warm, seconds=40)
        working = threading.Thread(target=self.slot.step, args=(self.stop,))
        beating.start()
        working.start()
        try:
            yield working
        finally:
            self.signals.go_on.set()
            working.join(40)
            stop.set()
            beating.join(10)
            self.slot.child.kill()

    def _is_warm(self) -> bool:
        self.slot.child.glance()
        return self.slot.child.ready() is None

    def is_querying(self) -> bool:
        """The source works on the question."""
        rows = self.controller.database.query(
            "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%%pg_sleep(3600)%%'"
            " AND pid <> pg_backend_pid() AND state = 'active'"
        )
        return bool(rows)


def children() -> list[int]:
    """Processes of children that live."""
    return [
        one.pid
        for one in psutil.Process().children(recursive=True)
        if CHILD in " ".join(one.cmdline())
    ]


@pytest.mark.case("L33")
def test_the_deadline_covers_all_attempts_and_leaves_no_query_and_no_process(
    controller: Controller, tmp_path: Path
) -> None:
    """The second attempt gets what the first one left of sixty seconds."""
    run, first = controller.leased(deadline_seconds=60)
    assert first.remaining > timedelta(seconds=59)
    controller.database.pass_time(timedelta(seconds=52))
    controller.database.query("UPDATE datarecs.run_lease SET lease_until = now() - interval '6 s'")
    controller.until(lambda: controller.event_names(run)[-1] == "attempt_lost")
    worker = Worker(controller=controller, folder=tmp_path, signals=Blocked("never"))
    worker.signals.go_on.set()
    controller.database.query("UPDATE datarecs.run_lease SET due_at = now()")
    with worker.at_work() as working:
        controller.until(worker.is_querying)
        working.join(40)
        assert not working.is_alive()
        controller.until(lambda: not worker.is_querying(), seconds=10)
    assert controller.now(run).attempt == 2
    errors = [
        one.data["error"]
        for one in controller.queries.run_events(A_TENANT, run.run_id, after=0, limit=100)
        if one.type.endswith("run.errored")
    ]
    assert [(error["code"], error["detail_code"]) for error in errors] == [  # type: ignore[index]  # a JSON object
        ("TIMED_OUT", RunDetail.DEADLINE_EXCEEDED.name)
    ]
    assert children() == []


@pytest.mark.case("L33")
def test_a_blocked_supervisor_is_overtaken_by_the_platform_and_ends_its_child(
    controller: Controller, tmp_path: Path
) -> None:
    """Its heartbeat lives, so no lease runs out; a minute behind the deadline the run is closed."""
    run = controller.trigger(deadline_seconds=60)
    controller.until(lambda: controller.now(run).status is RunStatus.QUEUED)
    blocked = Blocked("child.started")
    worker = Worker(controller=controller, folder=tmp_path, signals=blocked)
    with worker.at_work() as working:
        assert blocked.arrived.wait(20)
        controller.until(worker.is_querying)
        controller.due(run, "deadline")
        controller.until(lambda: controller.now(run).status is RunStatus.ERRORED)
        assert worker.is_querying(), "nobody has told the child yet"
        blocked.go_on.set()
        working.join(20)
        assert not working.is_alive()
        controller.until(lambda: not worker.is_querying(), seconds=10)
    error = controller.now(run).error
    assert error is not None
    assert (error.code, error.detail_code) == ("TIMED_OUT", RunDetail.DEADLINE_EXCEEDED.name)
    assert controller.announced(run) == ["finalised"]
    assert "errored" not in controller.event_names(run), "its late word is fenced"
    assert children() == []


# --- a requested end


@pytest.mark.case("L45")
def test_a_drain_beyond_its_limit_returns_the_run_with_its_attempt(
    controller: Controller, tmp_path: Path
) -> None:
    """The child is ended, its query too, and the next worker starts attempt 1 again."""
    run = controller.trigger()
    controller.until(lambda: controller.now(run).status is RunStatus.QUEUED)
    limit = timedelta(seconds=2)
    worker = Worker(controller=controller, folder=tmp_path, signals=Blocked("never"), drain=limit)
    with worker.at_work() as working:
        controller.until(worker.is_querying)
        began = controller.clock.monotonic()
        worker.stop.set()
        working.join(20)
        assert not working.is_alive()
        assert controller.clock.monotonic() - began >= limit.total_seconds()
        controller.until(lambda: not worker.is_querying(), seconds=10)
    assert children() == []
    assert controller.now(run).status is RunStatus.RUNNING
    controller.database.query("UPDATE datarecs.run_lease SET due_at = now()")
    again = controller.finder.lease_run("next/0")
    assert again is not None
    assert (again.run_id, again.attempt) == (run.run_id, 1)
    assert controller.announced(run) == []
