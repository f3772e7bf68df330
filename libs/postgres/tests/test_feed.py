"""Feed numbers: drawn before everything else, read in commit order, none skipped (R14, L11)."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from psycopg.errors import InvalidParameterValue, ObjectNotInPrerequisiteState

from datarecs_application.errors import StoreBusyError
from datarecs_core.runs.model import Run
from datarecs_postgres.database import Database, Limits
from datarecs_postgres.roles import API, CONTROLLER
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_testing.builders import A_TENANT, B_TENANT, a_resource
from datarecs_testing.clock import FixedIds
from datarecs_testing.conformance.runs import a_fact
from datarecs_testing.conformance.stores import Stores, carry_out, queued
from datarecs_testing.database import PreparedDatabase

pytestmark = pytest.mark.integration

DRAW = "SELECT datarecs.draw_rv(8)"


def followed(stores: Stores, cursor: int, done: threading.Event) -> list[int]:
    """Every number a reader of the feed meets until the writers are done, in its order."""
    read: list[int] = []
    while True:
        last = done.is_set()
        numbers = [rv for _, rv in stores.api.finder.feed_after("run", cursor, 50)]
        read += numbers
        cursor = numbers[-1] if numbers else cursor
        if last and not numbers:
            return read


def followed_plainly(database: PreparedDatabase, cursor: int, done: threading.Event) -> list[int]:
    """The same only by `rv > cursor`, for comparison: the naive version."""
    read: list[int] = []
    with database.connect() as connection:
        while True:
            last = done.is_set()
            rows = connection.execute(
                "SELECT rv FROM datarecs.run_event WHERE rv > %s ORDER BY rv LIMIT 50", (cursor,)
            ).fetchall()
            read += [rv for (rv,) in rows]
            cursor = read[-1] if rows else cursor
            if last and not rows:
                return read


def write(database: PreparedDatabase, run: Run, *, transactions: int) -> None:
    """Four changes per transaction with random waits between them."""
    chance = random.Random(run.run_id.int)  # noqa: S311  waits, no secrets
    pool = Database(database.url(CONTROLLER), limits=Limits(pool_size=1))
    unit = PostgresUnitOfWork(pool, FixedIds(20_000_000))
    with closing(pool):
        for _ in range(transactions):
            with unit.begin(run.tenant_id, feed=4) as tx:
                tx.runs.for_update(run.run_id)
                for _ in range(4):
                    tx.runs.record(run.run_id, a_fact())
                    threading.Event().wait(chance.random() / 1000)


class TestDrawing:
    @pytest.mark.case("R14")
    def test_a_number_drawn_after_a_write_is_refused(self, database: PreparedDatabase) -> None:
        with database.connect() as connection, connection.transaction():
            connection.execute("UPDATE datarecs.relay_shard SET epoch = epoch")
            with pytest.raises(ObjectNotInPrerequisiteState, match="before every write"):
                connection.execute(DRAW)

    @pytest.mark.case("R14")
    def test_a_number_drawn_after_a_row_lock_is_refused(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        stores.triggered()
        with database.connect(CONTROLLER) as connection, connection.transaction():
            connection.execute("SELECT set_config('app.tenant_id', %s, true)", (str(A_TENANT),))
            connection.execute("SELECT 1 FROM datarecs.run FOR UPDATE")
            with pytest.raises(ObjectNotInPrerequisiteState):
                connection.execute(DRAW)

    def test_a_tenant_may_be_set_and_rows_be_read_before(self, database: PreparedDatabase) -> None:
        with database.connect(CONTROLLER) as connection, connection.transaction():
            connection.execute("SELECT set_config('app.tenant_id', %s, true)", (str(A_TENANT),))
            connection.execute("SELECT count(*) FROM datarecs.run")
            first = connection.execute(DRAW).fetchone()
        assert first is not None

    @pytest.mark.parametrize("block", [0, -1, 10_001])
    def test_a_block_has_a_sensible_size(self, database: PreparedDatabase, block: int) -> None:
        with database.connect(API) as connection, pytest.raises(InvalidParameterValue):
            connection.execute("SELECT datarecs.draw_rv(%s)", (block,))

    def test_the_lock_of_a_draw_is_free_afterwards(self, database: PreparedDatabase) -> None:
        with database.connect(API) as first, database.connect(API) as second:
            with first.transaction():
                first.execute(DRAW)
                second.execute("SET lock_timeout = '1s'")
                second.execute(DRAW)
            held = database.query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'")
        assert held == [(0,)]

    @pytest.mark.case("R14")
    def test_numbers_follow_transaction_ids(self, database: PreparedDatabase) -> None:
        seen: list[tuple[int, int]] = []

        def draw(_: int) -> None:
            with database.connect(API) as connection:
                for _ in range(25):
                    with connection.transaction():
                        row = connection.execute(
                            "SELECT pg_current_xact_id()::text::bigint, first"
                            " FROM (SELECT datarecs.draw_rv(3) AS first) drawn"
                        ).fetchone()
                    assert row is not None
                    seen.append(row)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(draw, range(4)))
        by_xid = sorted(seen)
        assert [rv for _, rv in by_xid] == sorted(rv for _, rv in seen)
        assert len({rv for _, rv in seen}) == len(seen) == 100


class TestReading:
    @pytest.mark.case("R14")
    @pytest.mark.case("L42")
    def test_a_slower_commit_with_the_lower_number_holds_the_feed_until_it_is_in(
        self, stores: Stores
    ) -> None:
        slow, fast = stores.triggered(), stores.triggered(tenant_id=B_TENANT)
        cursor = stores.api.finder.feed_after("run", 0, 100)[-1][1]
        with stores.controller.unit.begin(A_TENANT, feed=1) as tx:
            tx.outbox.append(queued(slow))
            with stores.controller.unit.begin(B_TENANT, feed=1) as other:
                other.outbox.append(queued(fast))
            assert stores.api.finder.feed_after("run", cursor, 100) == []
        later = stores.api.finder.feed_after("run", cursor, 100)
        assert [tenant for tenant, _ in later] == [A_TENANT, B_TENANT]
        assert later[0][1] < later[1][1]

    @pytest.mark.case("R14")
    def test_a_run_written_with_newer_numbers_restarts_the_older_writer(
        self, stores: Stores
    ) -> None:
        run = stores.triggered()
        fact = a_fact()
        with stores.controller.unit.begin(A_TENANT, feed=1) as older:
            assert older.now.tzinfo is not None  # it has begun, and drawn its number
            carry_out(stores.worker.unit, A_TENANT, lambda tx: tx.runs.record(run.run_id, a_fact()))
            with pytest.raises(StoreBusyError, match="newer feed numbers"):
                older.runs.record(run.run_id, fact)
        again = carry_out(
            stores.controller.unit, A_TENANT, lambda tx: tx.runs.record(run.run_id, fact)
        )
        assert again == 3

    @pytest.mark.slow
    @pytest.mark.case("R14")
    @pytest.mark.case("L42")
    def test_eight_writers_skip_nothing_and_preserve_the_order(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        runs = [stores.triggered(tenant_id=(A_TENANT, B_TENANT)[n % 2]) for n in range(8)]
        cursor = stores.api.finder.feed_after("run", 0, 100)[-1][1]
        done = threading.Event()
        with ThreadPoolExecutor(len(runs) + 2) as pool:
            reader = pool.submit(followed, stores, cursor, done)
            plain = pool.submit(followed_plainly, database, cursor, done)
            list(pool.map(lambda run: write(database, run, transactions=313), runs))
            done.set()
            read = reader.result(timeout=30)
        written = database.query("SELECT rv FROM datarecs.run_event WHERE rv > %s", (cursor,))
        assert len(read) == 8 * 313 * 4
        assert read == sorted(rv for (rv,) in written)
        assert len(plain.result(timeout=30)) < len(read)

    @pytest.mark.case("R14")
    def test_the_resource_feed_has_the_same_order(self, stores: Stores) -> None:
        with stores.api.unit.begin(A_TENANT, feed=1) as slow:
            first = a_resource(rv=slow.next_rv())
            slow.resources.add(first)
            slow.resources.record_change(first, op="CREATED", changed=["spec"], actor="u")
            with stores.api.unit.begin(B_TENANT, feed=1) as fast:
                second = a_resource(tenant_id=B_TENANT, rv=fast.next_rv())
                fast.resources.add(second)
                fast.resources.record_change(second, op="CREATED", changed=["spec"], actor="u")
            assert stores.api.finder.feed_after("resource", 0, 100) == []
        assert stores.api.finder.feed_after("resource", 0, 100) == [
            (A_TENANT, first.rv),
            (B_TENANT, second.rv),
        ]


class TestOutboxOrder:
    @pytest.mark.case("L11")
    def test_a_lower_position_that_commits_after_a_higher_one_was_sent_is_sent_too(
        self, stores: Stores
    ) -> None:
        slow, fast = stores.triggered(), stores.triggered(tenant_id=B_TENANT)
        stores.relay.mark_sent([row.event_id for row in stores.unsent()])
        with stores.controller.unit.begin(A_TENANT, feed=1) as tx:
            tx.outbox.append(queued(slow))
            tx.runs.get(slow.run_id)  # with a question goes what was only written
            carry_out(stores.controller.unit, B_TENANT, lambda tx: tx.outbox.append(queued(fast)))
            (higher,) = stores.unsent()
            stores.relay.mark_sent([higher.event_id])
        (lower,) = stores.unsent()
        assert lower.position < higher.position
        assert lower.partition_key == str(slow.run_id)
