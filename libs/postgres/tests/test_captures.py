"""The queue of captures of PostgreSQL, under the suite of every queue, and what it alone has."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import LiteralString

import pytest

from datarecs_core.captures.events import CaptureJobSucceeded
from datarecs_core.captures.items import LONGEST_BACKOFF, Gate, WorkState, WorkToken
from datarecs_core.errors.captures import LeaseLostError
from datarecs_postgres import captures
from datarecs_postgres.roles import CAPTURE
from datarecs_testing.captures import CONNECTION, CaptureQueue, a_request, a_table
from datarecs_testing.conformance.capture_queue import (
    LOST,
    CaptureFinderConformance,
    WorkItemsConformance,
)
from datarecs_testing.conformance.capture_trees import (
    CancelConformance,
    ReportConformance,
    TreeConformance,
)
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.database import PreparedDatabase

pytestmark = pytest.mark.integration

FILL: LiteralString = """
INSERT INTO datarecs.capture_work (tenant_id, id, kind, root_id, ancestors, task, connection_uid,
    dedupe, execution_class, lane, claim_key, pinned_executor, requested_by, state, gate, due_at,
    created_at, finished_at, counters)
SELECT t.tenant_id, n.id, 'PLAN_CONNECTOR', n.id, '{}', '{}', n.id, n.id::text, 'DEFAULT', '', 'k',
    '', 'u', %s, %s, now(), now(), CASE WHEN %s THEN now() END, '{}'
FROM datarecs.tenant t, (SELECT gen_random_uuid() AS id FROM generate_series(1, 10000)) n
"""
CLAIM: LiteralString = """
EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM datarecs.claim_work(
    'w', '{PLAN_CONNECTOR,PLAN_TABLE}', '{"30 minutes","15 minutes"}', '{}', '{}', '60 s', 20,
    NULL)
"""


class TestEnqueue(WorkItemsConformance):
    pass


class TestClaim(CaptureFinderConformance):
    pass


class TestReport(ReportConformance):
    pass


class TestCancel(CancelConformance):
    pass


class TestTree(TreeConformance):
    pass


class TestPostgres:
    @pytest.mark.case("Q12")
    def test_nothing_stays_parked_behind_a_free_key(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        """Claims park items while the holder of their key ends, 60 times with four workers."""
        queue, request = CaptureQueue(stores), a_request("same")
        items = [queue.planned(a_table("same", request))[1][0] for _ in range(60)]

        def work(worker: int) -> None:
            for _ in range(40):
                for token in queue.claim(f"worker-{worker}", limit=3).values():
                    queue.succeed(token)
                    check = "SELECT item_id FROM datarecs.capture_claim WHERE item_id = %s"
                    assert database.query(check, (token.item_id,)) == []

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        left = [one for one in items if not queue.item(one).has_ended]
        assert not left or Gate.OPEN in {queue.item(one).gate for one in left}
        for worker in range(2):  # 80 claims, one for each item that is left
            work(worker)
        assert queue.states(items) == {"SUCCEEDED"}

    @pytest.mark.case("Q52")
    def test_a_tree_larger_than_a_statement_is_removed_as_a_whole(
        self, stores: Stores, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(captures, "REMOVED_AT_ONCE", 3)
        queue = CaptureQueue(stores)
        root, tables = queue.planned(*(a_table(f"t{number}") for number in range(8)))
        for table in tables:
            queue.succeed(queue.take(table))
        live, (running,) = queue.planned(a_table("b"))
        stores.pass_time(timedelta(hours=25))
        assert queue.remove_old() == 1
        assert [queue.stored(one) for one in (root, *tables)] == [None] * 9
        assert [queue.item(one).id for one in (live, running)] == [live, running]

    @pytest.mark.case("Q55")
    def test_a_task_that_cannot_be_read_fails_its_item(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        queue = CaptureQueue(stores)
        root = queue.put()
        database.query("UPDATE datarecs.capture_work SET task = task || '{\"depth\": 3}'")
        assert queue.begin(queue.claim()[root]) is None
        item = queue.item(root)
        assert (item.state, item.attempt) == (WorkState.FAILED, 1)
        assert item.error is not None
        assert item.error.code == "MISSING_DEFINITION"
        assert "no field 'depth'" in item.message
        assert queue.events[-1].connection_uid == CONNECTION

    @pytest.mark.case("Q51")
    def test_workers_that_die_lose_no_item_and_double_none(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        """Four workers: a third of the items is forgotten, a third dies before its commit."""
        queue = CaptureQueue(stores)
        items = [queue.put() for _ in range(60)]
        lost: list[WorkToken] = []

        def work(worker: int) -> None:
            for _ in range(5):
                for token in queue.claim(f"worker-{worker}", limit=4).values():
                    _work_or_die(queue, token, lost)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        died = list(lost)
        assert died
        for _ in range(4):  # each item is taken from a worker that has died at most twice
            stores.pass_time(LOST)
            queue.reclaim()
            stores.pass_time(LONGEST_BACKOFF)
            work(0)
        assert queue.states(items) == {"SUCCEEDED"}
        for token in died:
            with pytest.raises(LeaseLostError):
                queue.succeed(token)
        ends = Counter(one.job_id for one in queue.events if isinstance(one, CaptureJobSucceeded))
        assert ends == dict.fromkeys(items, 1)
        sent = "SELECT count(*) FROM datarecs.outbox WHERE type LIKE '%%.job.succeeded'"
        assert database.query(sent) == [(len(items),)]

    @pytest.mark.case("Q51")
    def test_parked_and_ended_items_cost_a_claim_nothing(
        self, stores: Stores, database: PreparedDatabase
    ) -> None:
        queue = CaptureQueue(stores)
        _claim_pages(database)  # compiles the function and reads the catalogue
        for _ in range(40):
            queue.put()
        before = _claim_pages(database)
        database.query(FILL, ("SUCCEEDED", "OPEN", True))
        database.query(FILL, ("QUEUED", "LANE", False))
        database.query("VACUUM ANALYZE datarecs.capture_work")
        after = _claim_pages(database)
        assert after < 1.5 * before + 100
        assert len(queue.held) == 0


def _work_or_die(queue: CaptureQueue, token: WorkToken, lost: list[WorkToken]) -> None:
    """A third of the items forgets its first two workers, a third kills them before the commit."""
    fate = token.item_id.int % 3
    if fate == 0 or token.epoch > 2:
        queue.succeed(token)
        return
    lost.append(token)
    if fate == 1:
        with pytest.raises(ZeroDivisionError):
            queue.succeed_and_die(token)


def _claim_pages(database: PreparedDatabase) -> int:
    """Pages that a claim of up to 20 items reads."""
    with database.connect(CAPTURE) as connection:
        (row,) = connection.execute(CLAIM).fetchall()
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
