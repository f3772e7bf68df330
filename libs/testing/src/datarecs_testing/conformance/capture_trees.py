"""Conformance suite of the queue of captures: how items end, and what that means for their tree.

Cases of spec queue-capture 19.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_core.captures.events import (
    CaptureJobCancelled,
    CaptureJobFailed,
    CaptureJobRequeued,
    CaptureJobStarted,
    CaptureJobSucceeded,
)
from datarecs_core.captures.items import (
    CANCEL_GRACE,
    DEADLINES,
    DEPENDENCY_LIMIT,
    LEASE,
    LONGEST_BACKOFF,
    MAX_ATTEMPTS,
    RECLAIM_GRACE,
    CaptureJobId,
    Gate,
    RetryClass,
    WorkKind,
    WorkState,
)
from datarecs_core.errors.captures import CaptureEndedError, CaptureNotFoundError, LeaseLostError
from datarecs_testing.builders import A_TENANT, B_TENANT, an_id
from datarecs_testing.captures import CaptureQueue, a_snapshot, a_table, groups
from datarecs_testing.conformance.capture_queue import LOST, SECOND, CaptureSuite
from datarecs_testing.conformance.stores import Stores

HOUR = timedelta(hours=1)
FINALIZE = WorkKind.FINALIZE_SNAPSHOT_CAPTURE
S = WorkState


class ReportConformance(CaptureSuite):
    """Subclass with a fixture `stores`."""

    @pytest.mark.case("Q13")
    def test_a_lease_is_renewed_until_it_expires_and_by_its_epoch_alone(
        self, queue: CaptureQueue
    ) -> None:
        root = queue.put()
        token = queue.take(root)
        for _ in range(3):  # each one reaches further than the one before
            queue.stores.pass_time(LEASE - 10 * SECOND)
            assert queue.renew(token).is_current
        stale = replace(token, epoch=token.epoch + 1)
        row = queue.item(root)
        assert not queue.renew(stale).is_current
        assert queue.item(root) == row
        queue.stores.pass_time(LEASE + SECOND)
        row = queue.item(root)
        assert not queue.renew(token).is_current
        assert queue.item(root) == row

    @pytest.mark.case("Q13")
    def test_a_late_success_counts_until_the_item_is_reclaimed(self, queue: CaptureQueue) -> None:
        first, second = queue.put(), queue.put()
        tokens = [queue.take(first), queue.take(second)]
        queue.stores.pass_time(LOST)
        queue.succeed(tokens[0])
        assert queue.item(first).state is S.SUCCEEDED
        for report in (queue.fail, queue.release):
            with pytest.raises(LeaseLostError):
                report(tokens[1])
        assert queue.reclaim() == 1
        before = queue.item(second)
        for report in (queue.succeed, queue.fail, queue.release, queue.stop):
            with pytest.raises(LeaseLostError):
                report(tokens[1])
        assert queue.item(second) == before

    @pytest.mark.case("Q14")
    def test_an_expired_item_is_queued_again_after_the_grace(self, queue: CaptureQueue) -> None:
        root = queue.put()
        queue.take(root)
        queue.stores.pass_time(LEASE + RECLAIM_GRACE - SECOND)
        assert queue.reclaim() == 0
        queue.stores.pass_time(2 * SECOND)
        assert queue.reclaim() == 1
        item = queue.item(root)
        assert (item.state, item.attempt, item.executor) == (S.QUEUED, 1, None)
        assert root in queue.claim()

    @pytest.mark.case("Q14")
    def test_an_item_whose_workers_always_vanish_fails(self, queue: CaptureQueue) -> None:
        root = queue.put()
        for _ in range(MAX_ATTEMPTS):
            queue.take(root)
            queue.stores.pass_time(LOST)
            assert queue.reclaim() == 1
        item = queue.item(root)
        assert (item.state, item.error and item.error.code) == (S.FAILED, "WORK_LEASE_EXPIRED")

    @pytest.mark.case("Q15")
    def test_a_stalled_worker_changes_nothing_after_another_one(self, queue: CaptureQueue) -> None:
        root = queue.put()
        stalled = queue.take(root)
        queue.stores.pass_time(LOST)
        queue.reclaim()
        queue.succeed(queue.take(root, "worker-2"), files_total=2)
        with pytest.raises(LeaseLostError):
            queue.succeed(stalled, files_total=1)
        assert queue.item(root).counters == {"files_total": 2}

    @pytest.mark.case("Q16")
    def test_failures_are_repeated_with_growing_waits_and_then_fail(
        self, queue: CaptureQueue
    ) -> None:
        root, waits = queue.put(), []
        for _ in range(MAX_ATTEMPTS - 1):
            item = queue.fail(queue.take(root))
            with queue.stores.api.unit.begin(A_TENANT, read_only=True) as tx:
                waits.append((item.due_at - tx.now).total_seconds())
            queue.stores.pass_time(LONGEST_BACKOFF)
        expected = [0.75 * base for base in (0.5, 1, 2, 4, 8, 16, 30)]
        assert waits == pytest.approx(expected, abs=0.3)
        item = queue.fail(queue.take(root))
        assert (item.state, item.attempt) == (S.FAILED, MAX_ATTEMPTS)
        requeued = [one for one in queue.events if isinstance(one, CaptureJobRequeued)]
        assert [one.attempt for one in requeued] == list(range(1, MAX_ATTEMPTS))
        assert isinstance(queue.events[-1], CaptureJobFailed)

    @pytest.mark.case("Q17")
    def test_waiting_for_a_dependency_costs_no_attempt_for_a_day(self, queue: CaptureQueue) -> None:
        root = queue.put()
        for _ in range(100):
            queue.fail(queue.take(root), RetryClass.DEPENDENCY_NOT_READY)
            queue.stores.pass_time(SECOND)
        assert queue.item(root).attempt == 0
        queue.stores.pass_time(DEPENDENCY_LIMIT)
        item = queue.fail(queue.take(root), RetryClass.DEPENDENCY_NOT_READY)
        assert (item.state, item.error and item.error.code) == (S.FAILED, "DEPENDENCY_TIMEOUT")

    @pytest.mark.case("Q17")
    def test_a_terminal_failure_ends_at_once_and_a_source_may_need_time(
        self, queue: CaptureQueue
    ) -> None:
        refused, busy = queue.put(), queue.put()
        assert queue.fail(queue.take(refused), RetryClass.TERMINAL).state is S.FAILED
        queue.fail(queue.take(busy), retry_after=timedelta(seconds=40))
        queue.stores.pass_time(timedelta(seconds=38))
        assert queue.claim() == {}
        queue.stores.pass_time(timedelta(seconds=3))
        assert busy in queue.claim()

    @pytest.mark.case("Q18")
    def test_a_success_whose_answer_was_lost_is_repeated(self, queue: CaptureQueue) -> None:
        root = queue.put()
        token = queue.take(root)
        for _ in range(2):
            queue.succeed(token, sha="same", files_total=3)
        assert queue.item(root).counters == {"files_total": 3}
        assert [type(one) for one in queue.events] == [CaptureJobStarted, CaptureJobSucceeded]

    def test_a_worker_may_return_an_item_five_times_for_nothing(self, queue: CaptureQueue) -> None:
        root = queue.put()
        attempts = [queue.release(queue.take(root)).attempt for _ in range(7)]
        assert attempts == [0, 0, 0, 0, 0, 1, 2]

    @pytest.mark.case("Q28")
    def test_a_deadline_passes_although_the_lease_is_renewed(self, queue: CaptureQueue) -> None:
        root = queue.put()
        token = queue.take(root)
        passed = timedelta()
        while passed + 50 * SECOND < DEADLINES[WorkKind.PLAN_CONNECTOR]:
            assert queue.renew(token).is_current
            queue.stores.pass_time(50 * SECOND)
            passed += 50 * SECOND
        queue.renew(token)
        queue.stores.pass_time(59 * SECOND)
        assert not queue.renew(token).is_current
        assert queue.reclaim() == 1
        item = queue.item(root)
        assert (item.state, item.attempt) == (S.QUEUED, 1)
        assert item.error is not None
        assert item.error.code == "WORK_DEADLINE_EXCEEDED"
        with pytest.raises(LeaseLostError):
            queue.succeed(token)

    @pytest.mark.case("Q55")
    def test_a_store_that_does_not_answer_costs_no_attempt(self, queue: CaptureQueue) -> None:
        root = queue.put()
        item = queue.release(queue.take(root))
        assert (item.state, item.attempt) == (S.QUEUED, 0)
        assert root in queue.claim()

    @pytest.mark.case("Q55")
    def test_a_missing_definition_is_never_repeated(self, queue: CaptureQueue) -> None:
        root = queue.put()
        item = queue.fail(queue.take(root), RetryClass.TERMINAL, code="MISSING_DEFINITION")
        assert (item.state, item.attempt) == (S.FAILED, 1)


class CancelConformance(CaptureSuite):
    """Subclass with a fixture `stores`."""

    @pytest.mark.case("Q19")
    def test_a_cancelled_item_is_never_leased(self, queue: CaptureQueue) -> None:
        root = queue.put()
        item = queue.cancel(root)
        assert (item.state, item.cancelled_by, item.message) == (S.CANCELLED, "u-2", "not needed")
        assert queue.claim() == {}
        with pytest.raises(CaptureEndedError, match="CANCELLED"):
            queue.cancel(root)
        with pytest.raises(CaptureNotFoundError):
            queue.cancel(CaptureJobId(an_id()))
        with pytest.raises(CaptureNotFoundError):
            queue.cancel(root, B_TENANT)

    @pytest.mark.case("Q19")
    def test_a_second_cancel_changes_nothing(self, queue: CaptureQueue) -> None:
        root = queue.put()
        queue.take(root)
        first = queue.cancel(root)
        assert queue.cancel(root) == first
        assert queue.item(root) == first

    @pytest.mark.case("Q20")
    def test_a_renewal_reports_a_cancel_and_success_becomes_cancelled(
        self, queue: CaptureQueue
    ) -> None:
        root = queue.put()
        token = queue.take(root)
        assert not queue.renew(token).cancel_requested
        queue.cancel(root)
        assert queue.renew(token).cancel_requested
        assert queue.succeed(token, a_table("a"), sha="s").state is S.CANCELLED
        assert queue.children(root) == []
        queue.succeed(token, a_table("a"), sha="s")
        assert isinstance(queue.events[-1], CaptureJobCancelled)

    @pytest.mark.case("Q21")
    def test_a_silent_worker_does_not_hold_a_cancel(self, queue: CaptureQueue) -> None:
        root = queue.put()
        queue.take(root)
        queue.cancel(root)
        queue.stores.pass_time(timedelta(seconds=31))
        assert queue.reclaim() == 1
        assert queue.item(root).state is S.CANCELLED

    @pytest.mark.case("Q21")
    def test_a_worker_that_renews_for_ever_does_not_hold_a_cancel(
        self, queue: CaptureQueue
    ) -> None:
        root = queue.put()
        token = queue.take(root)
        queue.cancel(root)
        for _ in range(5):
            assert queue.renew(token).is_current
            queue.stores.pass_time(11 * SECOND)
        assert queue.renew(token).is_current
        queue.stores.pass_time(CANCEL_GRACE + RECLAIM_GRACE - 54 * SECOND)
        assert not queue.renew(token).is_current
        assert queue.reclaim() == 1
        assert queue.item(root).state is S.CANCELLED

    @pytest.mark.case("Q22")
    def test_a_cancelled_tree_is_not_leased_and_its_root_ends_last(
        self, queue: CaptureQueue
    ) -> None:
        root, tables = queue.planned(*(a_table(f"t{number}") for number in range(20)))
        running = [queue.take(one) for one in tables[:3]]
        queue.succeed(running[0], *(a_snapshot(number) for number in range(10)))
        (leased,) = [queue.take(one.id) for one in queue.children(tables[0])[:1]]
        queue.release(leased)
        queue.cancel(root)
        assert queue.claim("worker-2") == {}
        queue.follow()
        assert queue.item(root).state is S.CANCELLING
        for token in list(queue.held.values()):
            if queue.item(token.item_id).state is S.CANCELLING and token.item_id != root:
                _stopped(queue, token.item_id)
        queue.follow()
        below = [*tables, *(one.id for one in queue.children(tables[0]))]
        assert queue.states([root, *below]) == {"CANCELLED"}
        assert queue.events[-1].job_id == root
        assert queue.item(below[-1]).cancel_reason == "not needed"

    @pytest.mark.case("Q23")
    def test_a_planner_below_a_cancelled_item_adds_no_children(self, queue: CaptureQueue) -> None:
        root, (table,) = queue.planned(a_table("a"))
        token = queue.take(table)
        queue.cancel(root)
        assert queue.succeed(token, a_snapshot(1)).state is S.CANCELLED
        assert queue.children(table) == []
        assert queue.item(root).state is S.CANCELLED

    @pytest.mark.case("Q23")
    @pytest.mark.parametrize("report", ["fail", "release"])
    def test_nothing_below_a_cancelled_item_is_tried_again(
        self, queue: CaptureQueue, report: str
    ) -> None:
        root, (table,) = queue.planned(a_table("a"))
        token = queue.take(table)
        queue.cancel(root)
        getattr(queue, report)(token)
        assert queue.states([root, table]) == {"CANCELLED"}

    @pytest.mark.case("Q23")
    def test_a_planner_with_live_children_cannot_fail(self, queue: CaptureQueue) -> None:
        root, (table,) = queue.planned(a_table("a"))
        for report in (queue.fail, queue.stop, queue.release):
            with pytest.raises(LeaseLostError):
                report(queue.held[root])
        assert (queue.item(root).state, queue.item(table).state) == (S.WAITING, S.QUEUED)

    def test_the_marks_of_a_cancelled_tree_go_with_its_last_item(
        self, queue: CaptureQueue, stores: Stores
    ) -> None:
        root, _ = queue.planned(a_table("a"))
        queue.cancel(root)
        assert stores.capture.finder.tenants_with_work("cancelled") == [A_TENANT]
        queue.follow()
        assert stores.capture.finder.tenants_with_work("cancelled") == []

    def test_an_operator_ends_a_lease(self, queue: CaptureQueue) -> None:
        root = queue.put()
        token = queue.take(root)
        queue.revoke(root)
        assert not queue.renew(token).is_current
        queue.stores.pass_time(RECLAIM_GRACE + SECOND)
        assert queue.reclaim() == 1
        assert queue.item(root).state is S.QUEUED
        queue.cancel(root)
        with pytest.raises(CaptureEndedError):
            queue.revoke(root)


class TreeConformance(CaptureSuite):
    """Subclass with a fixture `stores`."""

    @pytest.mark.case("Q24")
    def test_a_failed_group_fails_its_parents_after_its_siblings(self, queue: CaptureQueue) -> None:
        root, (table,) = queue.planned(a_table("a"))
        queue.succeed(queue.take(table), a_snapshot(1))
        (snapshot,) = queue.children(table)
        queue.succeed(queue.take(snapshot.id), *groups(3))
        *parts, final = (one.id for one in queue.children(snapshot.id))
        tokens = [queue.take(one) for one in parts]
        queue.fail(tokens[0], RetryClass.TERMINAL, message="the file is damaged")
        assert queue.item(parts[1]).state is S.RUNNING
        queue.succeed(tokens[1])
        assert queue.item(snapshot.id).state is S.WAITING
        queue.succeed(tokens[2])
        end = queue.item(final)
        assert (end.state, end.epoch) == (S.CANCELLED, 0)
        assert end.message == "coverage incomplete: 1 groups failed"
        for one in (snapshot.id, table, root):
            item = queue.item(one)
            assert (item.state, item.message) == (S.FAILED, "the file is damaged")
        assert isinstance(queue.events[-1], CaptureJobFailed)
        assert queue.events[-1].job_id == root

    @pytest.mark.case("Q25")
    @pytest.mark.parametrize("attempt", range(10))
    def test_two_last_siblings_end_their_parent_once(
        self, queue: CaptureQueue, attempt: int
    ) -> None:
        del attempt
        root, (*parts, final) = queue.planned(*groups(2))
        tokens = [queue.take(one) for one in parts]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(queue.succeed, tokens))
        assert (queue.item(final).gate, queue.item(final).state) == (Gate.OPEN, S.QUEUED)
        queue.succeed(queue.take(final))
        assert queue.item(root).state is S.SUCCEEDED
        ends = [one for one in queue.events if one.job_id == root]
        assert [type(one) for one in ends] == [CaptureJobStarted, CaptureJobSucceeded]

    @pytest.mark.case("Q26")
    def test_the_barrier_opens_with_the_commit_of_the_last_group(self, queue: CaptureQueue) -> None:
        _, (*parts, final) = queue.planned(*groups(2))
        tokens = [queue.take(one) for one in parts]
        queue.succeed(tokens[0])
        assert queue.claim("w", FINALIZE) == {}
        with pytest.raises(ZeroDivisionError):
            queue.succeed_and_die(tokens[1])
        assert queue.item(parts[1]).state is S.RUNNING
        assert queue.item(final).gate is Gate.BARRIER
        queue.succeed(tokens[1])
        assert final in queue.claim("w", FINALIZE)

    @pytest.mark.case("Q26")
    def test_a_finalizer_before_its_barrier_fails(self, queue: CaptureQueue) -> None:
        _, (part, final) = queue.planned(*groups(1))
        with queue.stores.api.unit.begin(A_TENANT) as tx:
            item = tx.capture_work.for_update(final)
            assert item is not None
            tx.capture_work.save(replace(item, gate=Gate.OPEN))
        token = queue.claim("w", FINALIZE)[final]
        assert queue.begin(token) is None
        end = queue.item(final)
        assert (end.state, end.error and end.error.code) == (S.FAILED, "COVERAGE_UNKNOWN")
        assert queue.item(part).state is S.QUEUED

    def test_an_empty_plan_is_finalized_at_once(self, queue: CaptureQueue) -> None:
        root, (final,) = queue.planned(*groups(0))
        queue.succeed(queue.take(final))
        assert queue.item(root).state is S.SUCCEEDED

    @pytest.mark.case("Q30")
    @pytest.mark.case("Q31")
    def test_totals_are_the_sums_of_the_tree(self, queue: CaptureQueue) -> None:
        root, (*parts, final) = queue.planned(*groups(3))
        for number, part in enumerate(parts[:2]):
            queue.succeed(queue.take(part), files_completed=number + 1, bytes_read=10)
        queue.fail(queue.take(parts[2]), RetryClass.TERMINAL)
        other, _ = queue.planned(a_table("b"))
        assert queue.totals(root) == {
            "files_completed": 3,
            "bytes_read": 20,
            "file_groups_completed": 2,
            "file_groups_failed": 1,
        }
        assert queue.totals(parts[0])["files_completed"] == 1
        assert queue.totals(other) == {}
        assert queue.item(final).state is S.CANCELLED

    def test_totals_count_the_tables_and_views_that_have_failed(self, queue: CaptureQueue) -> None:
        root, parts = queue.planned(a_table("a"), a_table("b"), a_table("c"))
        for part in parts[:2]:
            queue.fail(queue.take(part), RetryClass.TERMINAL)
        queue.succeed(queue.take(parts[2]))
        assert queue.item(root).state is S.FAILED
        assert queue.totals(root)["tables_failed"] == 2
        assert queue.totals(parts[0])["tables_failed"] == 1
        assert "tables_failed" not in queue.totals(parts[2])

    @pytest.mark.case("Q52")
    def test_a_tree_is_removed_a_day_after_its_root_ended(self, queue: CaptureQueue) -> None:
        root, (table,) = queue.planned(a_table("a"))
        live, (running,) = queue.planned(a_table("b"))
        queue.succeed(queue.take(table))
        queue.take(running)
        queue.stores.pass_time(23 * HOUR)
        assert queue.remove_old() == 0
        queue.stores.pass_time(2 * HOUR)
        assert queue.remove_old() == 1
        assert [queue.stored(one) for one in (root, table)] == [None, None]
        assert queue.item(live).state is S.WAITING
        assert queue.remove_old() == 0

    def test_lists_are_newest_first_and_filtered(self, queue: CaptureQueue) -> None:
        root, (table,) = queue.planned(a_table("a"))
        queue.stores.pass_time(SECOND)
        last = queue.put()
        theirs = queue.put(tenant=B_TENANT)
        listed = queue.matching()
        assert listed[0].id == last
        assert {one.id for one in listed} == {root, table, last}
        assert theirs not in {one.id for one in listed}
        assert [one.id for one in queue.matching(roots_only=True, states=[S.WAITING])] == [root]
        assert [one.id for one in queue.matching(kinds=[WorkKind.PLAN_TABLE])] == [table]
        assert queue.matching(connection_uid=str(an_id())) == []
        rest = queue.matching(before=(listed[0].created_at, listed[0].id))
        assert [one.id for one in rest] == [one.id for one in listed[1:]]


def _stopped(queue: CaptureQueue, item_id: CaptureJobId) -> None:
    """The worker of an item follows its cancel, unless the item only waits for its children."""
    if queue.item(item_id).lease_until is not None:
        queue.stop(queue.held[item_id])
