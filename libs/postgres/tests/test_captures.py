"""The queue of captures of PostgreSQL, under the suite of every queue, and what it alone has."""

from concurrent.futures import ThreadPoolExecutor
from typing import LiteralString

import pytest

from datarecs_core.captures.items import Gate, WorkState
from datarecs_postgres.roles import CAPTURE
from datarecs_testing.captures import CONNECTION, CaptureQueue, a_request, a_table
from datarecs_testing.conformance.capture_queue import (
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


def _claim_pages(database: PreparedDatabase) -> int:
    """Pages that a claim of up to 20 items reads."""
    with database.connect(CAPTURE) as connection:
        (row,) = connection.execute(CLAIM).fetchall()
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
