"""Races on the real server: locks, keys and leases that memory can only imitate."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_application.errors import KeyBusyError, RunExistsError, StoreBusyError
from datarecs_application.ports.state import KeyUse, StoredAnswer
from datarecs_core.resources.resource import Resource
from datarecs_core.values import RunId
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.roles import API, CONTROLLER, WORKER_RUN
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_testing.builders import A_TENANT, a_run, an_id
from datarecs_testing.captures import CaptureQueue
from datarecs_testing.clock import FixedIds
from datarecs_testing.conformance.resources import stored
from datarecs_testing.conformance.stores import Stores, carry_out, require_run, triggered
from datarecs_testing.database import PreparedDatabase

pytestmark = pytest.mark.integration

KEY = {"principal": "u-7f3", "route": "POST /jobs/{name}/runs", "key": "k-1"}


class TestIdempotency:
    @pytest.mark.case("L07")
    def test_fifty_concurrent_triggers_with_one_key_make_one_run(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        ids = FixedIds(30_000_000)
        connections = Database(database.url(API), limits=Limits(pool_size=10))
        unit = PostgresUnitOfWork(connections, ids)

        def trigger(_: int) -> bytes:
            run = a_run()
            with unit.begin(A_TENANT, feed=8) as tx:
                use, answer = tx.idempotency.take(request_hash=bytes(32), **KEY)
                if use is KeyUse.REPLAY and answer is not None:
                    return answer.body
                tx.runs.add(run)
                tx.outbox.append(triggered(run))
                made = StoredAnswer(status=202, headers={}, body=str(run.run_id).encode())
                tx.idempotency.store(answer=made, **KEY)
            return made.body

        with closing(connections), ThreadPoolExecutor(10) as pool:
            answers = set(pool.map(trigger, range(50)))
        rows = database.query("SELECT count(*), count(DISTINCT run_id) FROM datarecs.run")
        assert len(answers) == 1
        assert rows == [(1, 1)]
        assert len(stores.unsent()) == 1

    @pytest.mark.case("L07")
    def test_a_second_request_waits_two_seconds_for_the_first(self, stores: Stores) -> None:
        with stores.api.unit.begin(A_TENANT) as first:
            first.idempotency.take(request_hash=bytes(32), **KEY)
            with pytest.raises(KeyBusyError) as failure:
                carry_out(
                    stores.api.unit,
                    A_TENANT,
                    lambda tx: tx.idempotency.take(request_hash=bytes(32), **KEY),
                )
        assert failure.value.retryable
        assert failure.value.__cause__ is not None

    def test_a_slot_fires_once_under_concurrent_schedulers(
        self, database: PreparedDatabase
    ) -> None:
        schedule = an_id()
        connections = Database(database.url(API), limits=Limits(pool_size=4))
        unit = PostgresUnitOfWork(connections, FixedIds())

        def fire(_: int) -> bool:
            run = a_run(schedule_uid=schedule, fire_time=a_run().created_at)
            try:
                carry_out(unit, A_TENANT, lambda tx: tx.runs.add(run))
            except RunExistsError:
                return False
            return True

        with closing(connections), ThreadPoolExecutor(4) as pool:
            assert sorted(pool.map(fire, range(8))) == [False] * 7 + [True]


class TestLeases:
    def test_the_limit_of_a_tenant_holds_under_concurrent_leases(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        database.query("UPDATE datarecs.tenant SET running_limit = 2")
        for _ in range(6):
            stores.queued()
        connections = Database(database.url(WORKER_RUN), limits=Limits(pool_size=6))
        finder = PostgresWorkFinder(connections)
        with closing(connections), ThreadPoolExecutor(6) as pool:
            leased = list(pool.map(lambda n: finder.lease_run(f"w{n}"), range(6)))
        database.query("UPDATE datarecs.tenant SET running_limit = 10")
        assert sum(one is not None for one in leased) == 2

    @pytest.mark.case("L25")
    def test_a_run_flagged_before_its_lease_never_starts(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        for _ in range(10):
            run = stores.queued()
            together = threading.Barrier(2)

            def cancel(run_id: RunId = run.run_id, gate: threading.Barrier = together) -> None:
                gate.wait()
                with stores.api.unit.begin(A_TENANT) as tx:
                    locked = require_run(tx.runs.for_update(run_id))
                    tx.runs.save(replace(locked, cancel_requested=True))

            def lease(gate: threading.Barrier = together) -> object:
                gate.wait()
                return stores.worker.finder.lease_run("worker-1")

            with ThreadPoolExecutor(2) as pool:
                flagged, leased = pool.submit(cancel), pool.submit(lease)
                flagged.result(timeout=10)
                started = leased.result(timeout=10) is not None
            assert (stores.stored(run.run_id).attempt == 1) == started
            with stores.controller.unit.begin(A_TENANT) as tx:
                tx.leases.end(run.run_id)
        rows = database.query(
            "SELECT count(*) FROM datarecs.run WHERE NOT cancel_requested OR status = 'RUNNING'"
            " AND attempt = 0"
        )
        assert rows == [(0,)]


class TestWriters:
    @pytest.mark.slow
    @pytest.mark.case("R06")
    def test_increments_of_many_writers_all_count(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        resource = stored(stores, spec={"n": 0})
        connections = Database(database.url(API), limits=Limits(pool_size=8))
        unit = PostgresUnitOfWork(connections, FixedIds())

        def attempt() -> bool:
            with unit.begin(A_TENANT, feed=1) as tx:
                current = tx.resources.get_by_uid(resource.uid)
                assert isinstance(current, Resource)
                n = current.spec["n"]
                assert isinstance(n, int)
                newer = replace(current, rv=tx.next_rv(), spec={"n": n + 1})
                return tx.resources.replace(newer, expected_rv=current.rv)

        def increment(_: int) -> None:
            for _ in range(25):
                while not attempt():
                    pass

        with closing(connections), ThreadPoolExecutor(8) as pool:
            list(pool.map(increment, range(8)))
        with stores.api.unit.begin(A_TENANT) as tx:
            after = tx.resources.get_by_uid(resource.uid)
        assert after is not None
        assert after.spec == {"n": 200}

    def test_a_row_held_too_long_is_busy_and_nothing_is_written(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        run = stores.triggered()
        with database.connect(CONTROLLER) as holder, holder.transaction():
            holder.execute("SELECT set_config('app.tenant_id', %s, true)", (str(A_TENANT),))
            holder.execute("SELECT 1 FROM datarecs.run FOR UPDATE")
            connections = Database(
                database.url(CONTROLLER), limits=Limits(lock_timeout=timedelta(milliseconds=100))
            )
            unit = PostgresUnitOfWork(connections, FixedIds())
            with closing(connections), pytest.raises(StoreBusyError) as failure:
                carry_out(unit, A_TENANT, lambda tx: tx.runs.for_update(run.run_id))
        assert failure.value.retryable

    def test_a_deadlock_ends_one_of_the_two_as_busy(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        runs = [stores.triggered().run_id for _ in range(2)]
        connections = Database(database.url(CONTROLLER), limits=Limits(pool_size=2))
        unit = PostgresUnitOfWork(connections, FixedIds())
        both = threading.Barrier(2)

        def lock(order: list[RunId]) -> str:
            try:
                with unit.begin(A_TENANT) as tx:
                    tx.runs.for_update(order[0])
                    both.wait(timeout=10)
                    tx.runs.for_update(order[1])
            except StoreBusyError as failure:
                return failure.cause
            return "done"

        with closing(connections), ThreadPoolExecutor(2) as pool:
            ends = sorted(pool.map(lock, [runs, runs[::-1]]))
        assert ends == ["deadlock", "done"]


class TestCaptures:
    def test_numbers_of_events_are_removed_with_the_tree(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        queue = CaptureQueue(stores)
        old, live = queue.put(), queue.put()
        tokens = queue.claim()
        for token in tokens.values():
            queue.begin(token)
        queue.cancel(old)
        queue.stop(tokens[old])
        stores.pass_time(timedelta(hours=25))
        assert queue.remove_old() == 1
        rows = database.query("SELECT root_job_id, last_sequence FROM datarecs.capture_sequence")
        assert rows == [(live, 1)]
