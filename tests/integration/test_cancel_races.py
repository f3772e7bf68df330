"""A cancel against an end, and against a lease: whatever comes first, one authoritative event.

The real use cases of API, controller and worker under their database roles, each on a separate
thread that starts a random moment late.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from random import Random
from typing import TypeVar

import pytest

from datarecs_application.errors import StoreBusyError
from datarecs_application.launching import Backends, launch_run
from datarecs_application.ports.state import LeasedRun, Transaction, UnitOfWork
from datarecs_application.runs import EventRecord, record_end, request_cancel, trigger_run
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.events import RunCompleted, RunEnd
from datarecs_core.runs.model import Run, RunStatus
from datarecs_core.runs.refusals import RunAlreadyTerminalError
from datarecs_core.runs.start import TriggerRun
from datarecs_core.values import EventId, JobId, RunId
from datarecs_events.event_types import DataRecsEventType
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.queries import PostgresQueries
from datarecs_postgres.run_queue import QueueLauncher
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import UuidV7Ids
from datarecs_testing.builders import A_TENANT
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.run_facts import a_completion, an_errored

pytestmark = [pytest.mark.integration, pytest.mark.slow]

Result = TypeVar("Result")
SCHEDULES = 200
"""Rounds of each race in every test run; more are run by hand."""
LATEST_S = 0.006
"""A transaction takes about as long, so that either side may be first."""


def commit(unit: UnitOfWork, work: Callable[[Transaction], Result]) -> Result:
    """Repeated while the database is busy, as every caller does."""
    while True:
        try:
            with unit.begin(A_TENANT, feed=8) as tx:
                return work(tx)
        except StoreBusyError:
            continue


class Parties:
    """Who acts on a run, each under its role."""

    def __init__(self, database: PreparedDatabase, open_things: ExitStack) -> None:
        def opened(role: str) -> Database:
            made = Database(database.url(role), limits=Limits(pool_size=2))
            open_things.callback(made.close)
            return made

        self.ids = UuidV7Ids()
        self.random = Random(20261121)  # noqa: S311  schedules that can be repeated
        api = opened("datarecs_api")
        self.api = PostgresUnitOfWork(api, self.ids)
        self.queries = PostgresQueries(api)
        self.controller = PostgresUnitOfWork(opened("datarecs_controller"), self.ids)
        worker = opened("datarecs_worker_run")
        self.worker, self.finder = PostgresUnitOfWork(worker, self.ids), PostgresWorkFinder(worker)
        self.pool = open_things.enter_context(ThreadPoolExecutor(2))

    def queued(self) -> Run:
        command = TriggerRun(
            tenant_id=A_TENANT,
            run_id=RunId(self.ids.new()),
            job_id=JobId(self.ids.new()),
            job_name="raced",
            job_generation=1,
            spec_hash="sha256:" + 64 * "0",
            spec={},
            triggered_by="test",
        )
        run = commit(self.api, lambda tx: trigger_run(tx, command))
        self.launch(run)
        return self.now(run)

    def cancel(self, run: Run) -> None:
        """Requested at the API, executed by the launching loop."""
        fact = EventId(self.ids.new())
        try:
            commit(
                self.api,
                lambda tx: request_cancel(tx, run.run_id, by="test", reason=None, fact_id=fact),
            )
        except RunAlreadyTerminalError:
            return
        self.launch(run)

    def launch(self, run: Run) -> None:
        commit(
            self.controller,
            lambda tx: launch_run(
                tx, run.run_id, Backends(queue=QueueLauncher()), self.ids, jitter=0.5
            ),
        )

    def lease(self) -> LeasedRun | None:
        return self.finder.lease_run("test/0")

    def end(self, run: Run, end: RunEnd) -> None:
        """Written by the worker, then handled by the controller."""

        def write(tx: Transaction) -> None:
            tx.runs.for_update(run.run_id)
            tx.leases.end(run.run_id)
            tx.outbox.append(end)

        commit(self.worker, write)
        completed = isinstance(end, RunCompleted)
        wire = DataRecsEventType.RUN_COMPLETED if completed else DataRecsEventType.RUN_ERRORED
        history = self.queries.run_events(A_TENANT, run.run_id, after=0, limit=100)
        (entry,) = (one for one in history if one.type == wire)
        event = EventRecord(
            event_id=entry.event_id,
            type=entry.type,
            source=entry.source,
            time=entry.time,
            data=entry.data,
        )
        commit(self.controller, lambda tx: record_end(tx, end, event))

    def now(self, run: Run) -> Run:
        state = self.queries.run(A_TENANT, run.run_id)
        assert state is not None
        return state

    def finals(self, run: Run) -> list[str]:
        history = self.queries.run_events(A_TENANT, run.run_id, after=0, limit=100)
        names = [one.type.rpartition("run.")[2] for one in history]
        return [name for name in names if name in {"finalised", "cancelled"}]

    def race(self, *sides: Callable[[], object]) -> list[object]:
        """All at once, each a random moment late; what they came to."""
        gate = threading.Barrier(len(sides))

        def start(side: Callable[[], object], late_s: float) -> object:
            gate.wait()
            threading.Event().wait(late_s)
            return side()

        begun = [self.pool.submit(start, side, self.random.random() * LATEST_S) for side in sides]
        return [one.result(timeout=30) for one in begun]


@pytest.fixture
def parties(database: PreparedDatabase) -> Iterator[Parties]:
    with ExitStack() as open_things:
        yield Parties(database, open_things)


@pytest.mark.case("X77")
@pytest.mark.case("L25")
def test_a_cancel_and_an_end_leave_one_authoritative_event(parties: Parties) -> None:
    seen: Counter[tuple[RunStatus, bool]] = Counter()
    for number in range(SCHEDULES):
        run = parties.queued()
        assert parties.lease() is not None
        running = parties.now(run)
        end = a_completion(running) if number % 2 else an_errored(running)
        parties.race(partial(parties.cancel, running), partial(parties.end, running, end))
        after = parties.now(run)
        expected = "cancelled" if after.status is RunStatus.CANCELLED else "finalised"
        assert parties.finals(run) == [expected]
        seen[after.status, after.cancel_requested] += 1
    assert seen[RunStatus.COMPLETED, True], f"no cancel came before an end: {seen}"
    assert seen[RunStatus.CANCELLED, True], f"no error met a flag: {seen}"
    assert seen[RunStatus.ERRORED, False], f"no end came before a cancel: {seen}"


@pytest.mark.case("L25")
def test_a_run_that_is_cancelled_before_its_lease_never_starts(parties: Parties) -> None:
    seen: Counter[bool] = Counter()
    for _ in range(SCHEDULES):
        run = parties.queued()
        _, leased = parties.race(partial(parties.cancel, run), parties.lease)
        after = parties.now(run)
        seen[leased is not None] += 1
        assert after.cancel_requested
        if leased is None:
            assert (after.status, parties.finals(run)) == (RunStatus.CANCELLED, ["cancelled"])
        else:
            assert (after.status, parties.finals(run)) == (RunStatus.RUNNING, [])
            parties.end(after, an_errored(after, detail_code=RunDetail.STOPPED.name))
            assert (parties.now(run).status, parties.finals(run)) == (
                RunStatus.CANCELLED,
                ["cancelled"],
            )
    assert min(seen[True], seen[False]) > 0, f"one side always came first: {seen}"
