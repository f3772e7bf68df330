"""Conformance suite of the queue of captures: what is added and what is claimed.

Leases as such are checked by `leased_captures`, ends and trees by `capture_trees`. Cases of spec
queue-capture 19.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType

import pytest

from datarecs_core.captures.items import (
    LEASE,
    MAX_CHILDREN,
    RECLAIM_GRACE,
    CaptureJobId,
    Gate,
    NewWork,
    WorkKind,
    WorkState,
    WorkToken,
)
from datarecs_core.captures.request import (
    CaptureRequest,
    ExecutionClass,
    ExecutionPolicy,
    SnapshotChoice,
    SnapshotSelection,
)
from datarecs_core.errors.captures import (
    CaptureNotFoundError,
    LeaseLostError,
    OutcomeRefusedError,
)
from datarecs_core.values import ResourceUid
from datarecs_testing.builders import A_TENANT, B_TENANT, an_id
from datarecs_testing.captures import (
    CaptureQueue,
    a_request,
    a_snapshot,
    a_table,
    groups,
)
from datarecs_testing.conformance.stores import Stores

SECOND = timedelta(seconds=1)
LOST = LEASE + RECLAIM_GRACE + SECOND
TABLE_KIND, GROUP = WorkKind.PLAN_TABLE, WorkKind.EXEC_FILE_GROUP
S = WorkState


class CaptureSuite:
    @pytest.fixture
    def queue(self, stores: Stores) -> CaptureQueue:
        return CaptureQueue(stores)


class WorkItemsConformance(CaptureSuite):
    """Subclass with a fixture `stores`."""

    @pytest.mark.case("Q01")
    def test_an_equal_root_is_one_item_until_it_has_ended(self, queue: CaptureQueue) -> None:
        first = queue.enqueue(a_request("orders"))
        assert first.is_new
        assert queue.enqueue(a_request("orders")) == replace(first, is_new=False)
        token = queue.take(first.id)
        assert queue.enqueue(a_request("orders")) == replace(first, is_new=False)
        queue.succeed(token)
        assert queue.enqueue(a_request("orders")).id != first.id

    @pytest.mark.case("Q01")
    def test_a_root_that_is_being_cancelled_absorbs_no_request(self, queue: CaptureQueue) -> None:
        first = queue.put(a_request("orders"))
        token = queue.take(first)
        assert queue.cancel(first).state is S.CANCELLING
        second = queue.enqueue(a_request("orders"))
        assert second.is_new
        queue.stop(token)
        assert queue.states([first, second.id]) == {"CANCELLED", "QUEUED"}

    @pytest.mark.case("Q02")
    def test_another_request_is_another_item(self, queue: CaptureQueue) -> None:
        base = a_request("orders")
        others = [
            replace(base, is_full_rescan=True),
            replace(base, selection=SnapshotSelection(kind=SnapshotChoice.LATEST_N, latest=3)),
            replace(base, execution=ExecutionPolicy(execution_class=ExecutionClass.HEAVY)),
            replace(base, execution=ExecutionPolicy(lane="night")),
            replace(base, connection_uid=ResourceUid(an_id())),
        ]
        ids = {queue.put(one) for one in (base, *others)}
        assert len(ids) == 6
        assert queue.put(base, B_TENANT) not in ids

    @pytest.mark.case("Q02")
    def test_another_executor_or_a_name_beside_an_id_is_the_same_item(
        self, queue: CaptureQueue
    ) -> None:
        table, snapshot = a_table("orders"), a_snapshot(1, a_request("orders"))
        named = replace(snapshot, task=replace(snapshot.task, object=table.task.object))
        root, children = queue.planned(
            table, replace(table, pinned_executor="worker-9"), snapshot, named
        )
        assert [queue.item(one).kind for one in children] == [TABLE_KIND, WorkKind.PLAN_SNAPSHOT]
        assert queue.item(root).state is S.WAITING

    @pytest.mark.case("Q03")
    def test_requests_at_once_are_one_item(self, queue: CaptureQueue) -> None:
        request = a_request("orders")
        with ThreadPoolExecutor(8) as pool:
            added = list(pool.map(lambda _: queue.enqueue(request), range(50)))
        assert len({one.id for one in added}) == 1
        assert sum(one.is_new for one in added) == 1

    @pytest.mark.case("Q03")
    def test_equal_items_of_one_call_are_one_item(self, queue: CaptureQueue) -> None:
        _, children = queue.planned(*(a_table("orders", a_request("t")) for _ in range(50)))
        assert len(children) == 1

    @pytest.mark.case("Q04")
    def test_a_repeated_outcome_adds_nothing(self, queue: CaptureQueue) -> None:
        root = queue.put()
        token = queue.take(root)
        queue.succeed(token, a_table("a"), a_table("b"), sha="one")
        first, second = queue.children(root)
        queue.succeed(queue.take(first.id))
        before, events = queue.item(root), list(queue.events)
        queue.succeed(token, a_table("a"), a_table("b"), sha="one")
        assert queue.item(root) == before
        assert [one.id for one in queue.children(root)] == [first.id, second.id]
        assert queue.events == events

    @pytest.mark.case("Q04")
    def test_another_outcome_of_ended_work_is_refused(self, queue: CaptureQueue) -> None:
        root = queue.put()
        token = queue.take(root)
        queue.succeed(token, a_table("a"))
        before = queue.item(root)
        with pytest.raises(LeaseLostError):
            queue.succeed(token, a_table("b"))
        assert queue.item(root) == before
        assert len(queue.children(root)) == 1

    @pytest.mark.case("Q05")
    def test_an_invalid_child_refuses_all_and_leaves_the_item_leased(
        self, queue: CaptureQueue
    ) -> None:
        root = queue.put()
        token = queue.take(root)
        broken = replace(a_table("b"), kind=GROUP)
        with pytest.raises(OutcomeRefusedError, match="EXEC_FILE_GROUP has no table_id, snapshot"):
            queue.succeed(token, a_table("a"), broken)
        assert queue.item(root).state is S.RUNNING
        assert queue.children(root) == []
        queue.succeed(token, a_table("a"))

    @pytest.mark.case("Q05")
    def test_too_many_children_fail_the_item_for_good(self, queue: CaptureQueue) -> None:
        root = queue.put()
        child = a_table("a")
        queue.succeed(queue.take(root), *([child] * (MAX_CHILDREN + 1)))
        item = queue.item(root)
        assert (item.state, item.error and item.error.code) == (S.FAILED, "TOO_MANY_CHILDREN")
        assert "name namespaces or tables" in item.message
        assert queue.children(root) == []

    @pytest.mark.case("Q05")
    def test_a_stale_epoch_adds_no_child(self, queue: CaptureQueue) -> None:
        root = queue.put()
        token = queue.take(root)
        with pytest.raises(LeaseLostError):
            queue.succeed(replace(token, epoch=token.epoch - 1), a_table("a"))
        assert queue.children(root) == []

    def test_a_report_about_an_unknown_item_is_refused(self, queue: CaptureQueue) -> None:
        token = WorkToken(tenant_id=A_TENANT, item_id=CaptureJobId(an_id()), epoch=1)
        assert queue.begin(token) is None
        for report in (queue.succeed, queue.fail, queue.release, queue.stop):
            with pytest.raises(CaptureNotFoundError):
                report(token)

    def test_every_field_of_an_item_is_read_back(self, queue: CaptureQueue) -> None:
        request = a_request("orders", execution=ExecutionPolicy(lane="night"))
        root = queue.put(request)
        token = queue.take(root)
        queue.succeed(token, a_table("orders", request, pinned_executor="worker-7"), files_total=7)
        stored, (child,) = queue.item(root), queue.children(root)
        assert (stored.task.request, stored.counters) == (request, {"files_total": 7})
        assert (child.parent_id, child.root_id, child.ancestors) == (root, root, (root,))
        assert (child.pinned_executor, child.lane) == ("worker-7", "night")
        assert child.claim_key is not None
        assert queue.stored(root, B_TENANT) is None


class CaptureFinderConformance(CaptureSuite):
    """Subclass with a fixture `stores`."""

    @pytest.mark.case("Q06")
    def test_items_are_claimed_in_the_order_of_their_due_times(self, queue: CaptureQueue) -> None:
        assert queue.claim() == {}
        roots = [queue.put() for _ in range(3)]
        for root, seconds in zip(roots, (3, 1, 2), strict=True):
            _changed(queue, root, seconds)
        assert queue.claim() == {}
        queue.stores.pass_time(4 * SECOND)
        claimed = [next(iter(queue.claim(limit=1))) for _ in roots]
        assert claimed == [roots[1], roots[2], roots[0]]
        assert queue.claim() == {}

    @pytest.mark.case("Q07")
    def test_the_filters_of_a_claim_hold(self, queue: CaptureQueue) -> None:
        heavy = ExecutionPolicy(execution_class=ExecutionClass.HEAVY)
        night = ExecutionPolicy(lane="night")
        plain, slow, late = (
            queue.put(a_request(execution=one)) for one in (ExecutionPolicy(), heavy, night)
        )
        assert queue.claim("w", TABLE_KIND) == {}
        assert set(queue.claim("w", execution_classes=[ExecutionClass.HEAVY])) == {slow}
        assert set(queue.claim("w", lanes=["night", "day"])) == {late}
        assert set(queue.claim("w", WorkKind.PLAN_CONNECTOR)) == {plain}

    @pytest.mark.case("Q07")
    def test_a_pinned_item_is_only_for_its_executor_whatever_its_lane(
        self, queue: CaptureQueue
    ) -> None:
        _, (child,) = queue.planned(a_table("a", pinned_executor="worker-7"))
        assert queue.claim("worker-1") == {}
        assert set(queue.claim("worker-7", lanes=["night"])) == {child}

    @pytest.mark.case("Q08")
    def test_no_kind_starves_another(self, queue: CaptureQueue) -> None:
        _, children = queue.planned(*(a_table(f"t{number}") for number in range(30)))
        root = queue.put()
        taken = [next(iter(queue.claim(limit=1))) for _ in range(2)]
        assert root in taken
        assert set(taken) & set(children)

    @pytest.mark.case("Q08")
    def test_no_tenant_starves_another_even_if_work_ends_at_once(self, queue: CaptureQueue) -> None:
        for _ in range(10):
            queue.put()
        theirs = queue.put(tenant=B_TENANT)
        taken = []
        for _ in range(2):
            ((item_id, token),) = queue.claim(limit=1).items()
            queue.succeed(token)
            taken.append(item_id)
        assert theirs in taken

    @pytest.mark.case("Q09")
    def test_claims_at_once_share_no_item(self, queue: CaptureQueue) -> None:
        roots = {queue.put() for _ in range(60)}

        def drain(worker: int) -> list[CaptureJobId]:
            taken: list[CaptureJobId] = []
            while claimed := queue.claim(f"worker-{worker}", limit=5):
                taken += claimed
            return taken

        with ThreadPoolExecutor(8) as pool:
            taken = [one for part in pool.map(drain, range(8)) for one in part]
        taken += queue.claim()
        assert sorted(taken) == sorted(roots)

    @pytest.mark.case("Q10")
    @pytest.mark.parametrize("ending", ["succeed", "fail", "stop", "reclaim"])
    def test_two_plans_of_one_table_run_one_after_the_other(
        self, queue: CaptureQueue, ending: str
    ) -> None:
        first, second = _two_of(queue, lambda request: a_table("orders", request))
        claimed = queue.claim()
        (leader,) = claimed
        (parked,) = {first, second} - {leader}
        assert queue.item(parked).gate is Gate.LANE
        assert queue.claim() == {}
        if ending == "reclaim":
            queue.stores.pass_time(LOST)
            assert queue.reclaim() == 1
        else:
            getattr(queue, ending)(claimed[leader])
        assert queue.item(parked).gate is Gate.OPEN
        assert parked in queue.claim()

    @pytest.mark.case("Q10")
    def test_groups_of_a_snapshot_run_at_once(self, queue: CaptureQueue) -> None:
        _, children = queue.planned(*groups(4))
        assert set(queue.claim()) == set(children[:4])

    @pytest.mark.case("Q11")
    def test_one_capture_of_a_snapshot_runs_at_a_time(self, queue: CaptureQueue) -> None:
        first, second = _two_of(queue, lambda request: a_snapshot(1, request))
        assert len({first, second} & set(queue.claim())) == 1
        other = queue.planned(a_snapshot(2))[1]
        assert set(other) <= set(queue.claim())
        theirs = queue.put(a_request("x"), B_TENANT)
        queue.succeed(queue.claim()[theirs], a_snapshot(1))
        assert len(queue.claim()) == 1

    @pytest.mark.case("Q54")
    def test_a_cancelled_head_of_a_lane_lets_the_next_one_run(self, queue: CaptureQueue) -> None:
        items = _parked_behind(queue, 3)
        leader, head, last = items
        queue.succeed(queue.held[leader])
        assert [queue.item(one).gate for one in (head, last)] == [Gate.OPEN, Gate.LANE]
        queue.cancel(head)
        assert queue.item(last).gate is Gate.OPEN
        assert last in queue.claim()

    @pytest.mark.case("Q54")
    def test_a_head_for_an_absent_executor_delays_nobody_else(self, queue: CaptureQueue) -> None:
        leader, head, last = _parked_behind(queue, 3, pinned={1: "worker-9"})
        queue.succeed(queue.held[leader])
        assert last in queue.claim("worker-1")
        assert queue.claim("worker-9") == {}
        assert queue.item(head).state is S.QUEUED

    def test_a_cancelled_item_in_the_lane_frees_nothing(self, queue: CaptureQueue) -> None:
        _, head, last = _parked_behind(queue, 3)
        queue.cancel(head)
        assert queue.item(last).gate is Gate.LANE
        assert queue.claim() == {}


def _changed(queue: CaptureQueue, item_id: CaptureJobId, seconds: int) -> None:
    with queue.stores.api.unit.begin(A_TENANT) as tx:
        item = tx.capture_work.for_update(item_id)
        assert item is not None
        tx.capture_work.save(replace(item, due_at=tx.now + seconds * SECOND))


def _two_of(
    queue: CaptureQueue, child: Callable[[CaptureRequest], NewWork]
) -> tuple[CaptureJobId, CaptureJobId]:
    """Equal work below two roots that wait."""
    request = a_request("same")
    first, second = (queue.planned(child(request))[1][0] for _ in range(2))
    return first, second


def _parked_behind(
    queue: CaptureQueue, size: int, pinned: Mapping[int, str] = MappingProxyType({})
) -> list[CaptureJobId]:
    """Plans of one table in the order of their due times: the first runs, the others are parked."""
    request, items = a_request("same"), []
    for number in range(size):
        child = a_table("same", request, pinned_executor=pinned.get(number))
        items += queue.planned(child)[1]
        queue.stores.pass_time(SECOND)
    assert set(queue.claim("worker-1")) == {items[0]}
    for executor in pinned.values():
        assert queue.claim(executor) == {}
    assert {queue.item(one).gate for one in items[1:]} == {Gate.LANE}
    return items
