"""The states of a work item: each row of the table, and what no fact may do."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.captures import facts
from datarecs_core.captures.decide import (
    LONGEST_RETRY_AFTER,
    backoff,
    decide,
    frees_key,
    is_expired,
    is_leased,
    is_repeated,
    lease_end,
    may_report,
)
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
    ENDED,
    HEARTBEAT,
    LEASE,
    LONGEST_BACKOFF,
    MAX_ATTEMPTS,
    MAX_RELEASES,
    RECLAIM_GRACE,
    CaptureJobId,
    Gate,
    RetryClass,
    WorkError,
    WorkItem,
    WorkKind,
    WorkState,
)
from datarecs_core.captures.tree import new_root
from datarecs_testing.builders import A_TENANT, NOON
from datarecs_testing.captures import a_request

S = WorkState
SECOND = timedelta(seconds=1)
SHA = "a" * 64
ROOT = new_root(A_TENANT, a_request("t"), item_id=UUID(int=1), requested_by="u", now=NOON)
QUEUED = replace(ROOT, parent_id=CaptureJobId(UUID(int=2)))
RUNNING = decide(QUEUED, facts.Claimed(executor="w"), NOON).state
WAITING = decide(RUNNING, facts.Succeeded(outcome_sha256=SHA, children=2, counters={}), NOON).state
CANCEL = facts.CancelRequested(by="u-2", reason="not needed")
CANCELLING = decide(RUNNING, CANCEL, NOON).state
SUCCEEDED = decide(RUNNING, facts.Succeeded(outcome_sha256=SHA, counters={}), NOON).state
STATES = (QUEUED, RUNNING, WAITING, CANCELLING, SUCCEEDED)


def failure(retry: RetryClass = RetryClass.TRANSIENT, **changes: Any) -> facts.Failed:  # noqa: ANN401  any field
    fields: dict[str, Any] = {
        "outcome_sha256": SHA,
        "code": "SOURCE_UNAVAILABLE",
        "message": "no answer",
        "retry": retry,
        "jitter": 1.0,
    }
    return facts.Failed(**fields | changes)


REPORTS = (
    facts.Succeeded(outcome_sha256=SHA, counters={"files_total": 1}),
    failure(),
    failure(RetryClass.TERMINAL),
    failure(RetryClass.DEPENDENCY_NOT_READY),
    facts.Released(outcome_sha256=SHA),
    facts.Stopped(outcome_sha256=SHA),
)
FACTS: tuple[facts.Fact, ...] = (
    *REPORTS,
    facts.Claimed(executor="w2"),
    facts.Parked(),
    facts.Opened(),
    facts.Started(),
    facts.LeaseExpired(),
    facts.LeaseRevoked(),
    CANCEL,
    facts.ChildrenEnded(states={S.SUCCEEDED: 1}),
    facts.BarrierMet(),
    facts.BarrierBroken(incomplete=1),
)


def state(item: WorkItem, fact: facts.Fact, now: datetime = NOON) -> WorkState:
    return decide(item, fact, now).state.state


def test_a_claim_leases_with_a_new_epoch_without_using_an_attempt() -> None:
    assert (RUNNING.state, RUNNING.epoch, RUNNING.attempt) == (S.RUNNING, 1, 0)
    assert RUNNING.lease_until == NOON + LEASE
    assert RUNNING.deadline_at == NOON + DEADLINES[WorkKind.PLAN_CONNECTOR]
    for gate in (Gate.LANE, Gate.BARRIER):
        closed = replace(QUEUED, gate=gate)
        assert decide(closed, facts.Claimed(executor="w"), NOON).state == closed


def test_gates_open_and_close() -> None:
    parked = decide(QUEUED, facts.Parked(), NOON).state
    assert parked.gate is Gate.LANE
    assert decide(parked, facts.Opened(), NOON).state == QUEUED
    barrier, later = replace(QUEUED, gate=Gate.BARRIER), NOON + SECOND
    opened = decide(barrier, facts.BarrierMet(), later).state
    assert (opened.gate, opened.due_at) == (Gate.OPEN, later)
    broken = decide(barrier, facts.BarrierBroken(incomplete=3), later)
    assert broken.state.message == "coverage incomplete: 3 groups failed"
    assert isinstance(broken.events[0], CaptureJobCancelled)


def test_a_start_is_an_event_with_the_number_of_the_attempt() -> None:
    decided = decide(replace(RUNNING, attempt=2), facts.Started(), NOON)
    (event,) = decided.events
    assert isinstance(event, CaptureJobStarted)
    assert (event.attempt, event.job_id, event.kind) == (3, ROOT.id, WorkKind.PLAN_CONNECTOR)
    assert decided.state.started_at == NOON
    again = decide(decided.state, facts.Started(), NOON + SECOND).state
    assert again.started_at == NOON


def test_a_success_ends_the_item_or_lets_it_wait_for_its_children() -> None:
    assert (SUCCEEDED.state, SUCCEEDED.finished_at) == (S.SUCCEEDED, NOON)
    assert (WAITING.state, WAITING.children_final, WAITING.finished_at) == (S.WAITING, True, None)
    for item in (SUCCEEDED, WAITING):
        assert (item.executor, item.lease_until, item.deadline_at) == (None, None, None)
        assert is_repeated(item, 1, REPORTS[0])
        assert not is_repeated(item, 2, REPORTS[0])


@pytest.mark.parametrize("children", [0, 2])
def test_a_success_while_cancelling_is_a_cancel(children: int) -> None:
    fact = facts.Succeeded(outcome_sha256=SHA, children=children, counters={"files_total": 2})
    ended = decide(CANCELLING, fact, NOON).state
    assert (ended.state, ended.counters) == (S.CANCELLED, {"files_total": 2})


def test_below_a_cancelled_item_a_leaf_may_succeed_and_a_planner_may_not() -> None:
    fact = facts.Succeeded(outcome_sha256=SHA, counters={}, is_tree_cancelled=True)
    assert state(RUNNING, fact) is S.SUCCEEDED
    assert state(RUNNING, replace(fact, children=1)) is S.CANCELLED


@pytest.mark.parametrize(
    "fact",
    [
        failure(is_tree_cancelled=True),
        facts.Released(outcome_sha256=SHA, is_tree_cancelled=True),
        facts.LeaseExpired(is_tree_cancelled=True),
    ],
)
def test_nothing_is_queued_again_below_a_cancelled_item(fact: facts.Fact) -> None:
    assert state(RUNNING, fact) is S.CANCELLED


@pytest.mark.case("Q16")
@given(st.floats(min_value=0.5, max_value=1, exclude_max=True))
def test_waits_double_from_half_a_second_to_thirty(jitter: float) -> None:
    item, waits = RUNNING, []
    for _ in range(MAX_ATTEMPTS - 1):
        item = decide(item, failure(jitter=jitter), NOON).state
        assert item.state is S.QUEUED
        waits.append((item.due_at - NOON).total_seconds())
        item = decide(replace(item, due_at=NOON), facts.Claimed(executor="w"), NOON).state
    expected = [jitter * base for base in (0.5, 1, 2, 4, 8, 16, 30)]
    assert waits == pytest.approx(expected, abs=1e-5)
    last = decide(item, failure(jitter=jitter), NOON)
    assert (last.state.state, last.state.attempt) == (S.FAILED, MAX_ATTEMPTS)
    assert isinstance(last.events[0], CaptureJobFailed)


def test_a_source_may_need_a_longer_wait_but_not_an_endless_one() -> None:
    for requested, wait in ((40 * SECOND, 40 * SECOND), (timedelta(days=1), LONGEST_RETRY_AFTER)):
        item = decide(RUNNING, failure(retry_after=requested), NOON).state
        assert item.due_at == NOON + wait
    assert decide(RUNNING, failure(retry_after=timedelta()), NOON).state.due_at == NOON + SECOND / 2
    assert backoff(MAX_ATTEMPTS, 1.0) == LONGEST_BACKOFF


def test_a_terminal_failure_ends_the_item_with_its_error() -> None:
    decided = decide(RUNNING, failure(RetryClass.TERMINAL), NOON)
    assert (decided.state.state, decided.state.attempt) == (S.FAILED, 1)
    (event,) = decided.events
    assert isinstance(event, CaptureJobFailed)
    assert (event.error_code, event.error_message) == ("SOURCE_UNAVAILABLE", "no answer")


def test_a_dependency_may_be_missing_for_a_day() -> None:
    fact = failure(RetryClass.DEPENDENCY_NOT_READY)
    waiting = decide(RUNNING, fact, NOON).state
    assert (waiting.attempt, waiting.waits_since, waiting.due_at) == (0, NOON, NOON + SECOND / 2)
    leased = decide(waiting, facts.Claimed(executor="w"), NOON).state
    late = decide(leased, fact, NOON + DEPENDENCY_LIMIT).state
    assert late.error is not None
    assert (late.state, late.error.code) == (S.FAILED, "DEPENDENCY_TIMEOUT")
    other = decide(leased, failure(), NOON).state
    assert other.waits_since is None


def test_a_return_costs_nothing_five_times() -> None:
    released = decide(RUNNING, facts.Released(outcome_sha256=SHA), NOON)
    (event,) = released.events
    assert isinstance(event, CaptureJobRequeued)
    assert (released.state.attempt, released.state.due_at, event.error_code) == (0, NOON, None)
    often = replace(RUNNING, releases=MAX_RELEASES)
    assert decide(often, facts.Released(outcome_sha256=SHA), NOON).state.attempt == 1


def test_an_expired_lease_is_a_failure_that_names_its_cause() -> None:
    decided = decide(RUNNING, facts.LeaseExpired(), NOON)
    assert (decided.state.state, decided.state.due_at) == (S.QUEUED, NOON)
    assert decided.state.error == WorkError(
        code="WORK_LEASE_EXPIRED", message="the lease of w expired", retry=RetryClass.TRANSIENT
    )
    late = NOON + DEADLINES[WorkKind.PLAN_CONNECTOR] + RECLAIM_GRACE
    item = decide(RUNNING, facts.LeaseExpired(), late).state
    assert item.error is not None
    assert item.error.code == "WORK_DEADLINE_EXCEEDED"
    assert item.message == "the attempt took longer than 0:30:00"


def test_a_lease_expires_after_its_grace_and_is_never_renewed_past_its_limits() -> None:
    assert not is_expired(RUNNING, NOON + LEASE + RECLAIM_GRACE - SECOND)
    assert is_expired(RUNNING, NOON + LEASE + RECLAIM_GRACE)
    assert not is_expired(WAITING, NOON + timedelta(days=1))
    assert lease_end(RUNNING, NOON) == NOON + LEASE
    deadline = NOON + DEADLINES[WorkKind.PLAN_CONNECTOR]
    assert lease_end(RUNNING, deadline - SECOND) == deadline
    assert lease_end(CANCELLING, NOON + SECOND) == NOON + CANCEL_GRACE
    assert lease_end(replace(RUNNING, deadline_at=None), deadline) == deadline + LEASE


def test_an_operator_ends_a_lease_but_never_prolongs_it() -> None:
    revoked = decide(RUNNING, facts.LeaseRevoked(), NOON + SECOND).state
    assert revoked.lease_until == NOON + SECOND
    late = NOON + LEASE + SECOND
    assert decide(RUNNING, facts.LeaseRevoked(), late).state == RUNNING


def test_a_cancel_ends_what_nobody_works_on() -> None:
    for item in (QUEUED, WAITING):
        decided = decide(item, CANCEL, NOON)
        assert (decided.state.state, decided.state.message) == (S.CANCELLED, "not needed")
    live = replace(CANCEL, has_live_children=True)
    assert state(WAITING, live) is S.CANCELLING


def test_a_cancel_of_a_running_item_shortens_its_lease() -> None:
    assert CANCELLING.state is S.CANCELLING
    assert CANCELLING.lease_until == NOON + HEARTBEAT + RECLAIM_GRACE
    short = replace(RUNNING, lease_until=NOON + SECOND)
    assert decide(short, CANCEL, NOON).state.lease_until == NOON + SECOND


@pytest.mark.parametrize("fact", [*REPORTS, facts.LeaseExpired()])
def test_whatever_a_worker_does_a_cancelling_item_ends_cancelled(fact: facts.Fact) -> None:
    assert state(CANCELLING, fact) is S.CANCELLED


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ({S.SUCCEEDED: 3}, S.SUCCEEDED),
        ({S.SUCCEEDED: 3, S.CANCELLED: 1}, S.CANCELLED),
        ({S.CANCELLED: 1, S.FAILED: 1}, S.FAILED),
    ],
)
def test_children_decide_how_their_parent_ends(
    states: dict[WorkState, int], expected: WorkState
) -> None:
    fact = facts.ChildrenEnded(states=states)
    decided = decide(WAITING, fact, NOON)
    assert decided.state.state is expected
    assert len(decided.events) == 1
    cancelling = decide(WAITING, replace(CANCEL, has_live_children=True), NOON).state
    assert state(cancelling, fact) is S.CANCELLED


def test_the_parent_has_the_error_of_the_first_child_that_failed() -> None:
    error = WorkError(code="SNAPSHOT_LOST", message="gone", retry=RetryClass.TERMINAL)
    fact = facts.ChildrenEnded(states={S.FAILED: 1}, first_error=error)
    ended = decide(WAITING, fact, NOON).state
    assert (ended.error, ended.message) == (error, "gone")


def test_an_item_that_works_is_not_ended_by_children() -> None:
    fact = facts.ChildrenEnded(states={})
    for item in (QUEUED, RUNNING, CANCELLING, SUCCEEDED):
        assert decide(item, fact, NOON).state == item


def test_a_report_needs_the_epoch_and_a_lease() -> None:
    for report in REPORTS:
        assert may_report(RUNNING, 1, report, NOON)
        assert not may_report(RUNNING, 2, report, NOON)
        assert not may_report(WAITING, 1, report, NOON)


def test_only_an_end_may_be_reported_after_the_lease() -> None:
    late = NOON + LEASE
    accepted = [may_report(RUNNING, 1, report, late) for report in REPORTS]
    assert accepted == [True, False, True, False, False, True]


def test_a_claim_key_is_free_when_its_holder_leaves_or_the_next_one_ends() -> None:
    assert frees_key(RUNNING, SUCCEEDED)
    assert frees_key(RUNNING, WAITING)
    assert not frees_key(RUNNING, CANCELLING)
    assert frees_key(QUEUED, decide(QUEUED, CANCEL, NOON).state)
    parked = replace(QUEUED, gate=Gate.LANE)
    assert not frees_key(parked, decide(parked, CANCEL, NOON).state)
    assert not frees_key(replace(RUNNING, claim_key=None), SUCCEEDED)


@given(st.lists(st.sampled_from(FACTS), max_size=12))
def test_an_ended_item_never_changes_and_epochs_never_fall(some: list[facts.Fact]) -> None:
    item, ends = QUEUED, 0
    for fact in some:
        decided = decide(item, fact, NOON)
        if item.has_ended:
            assert decided.state == item
            assert decided.events == ()
        assert decided.state.epoch >= item.epoch
        assert is_leased(decided.state) == (decided.state.executor is not None)
        kinds = (CaptureJobSucceeded, CaptureJobFailed, CaptureJobCancelled)
        ends += sum(isinstance(one, kinds) for one in decided.events)
        item = decided.state
        assert ends == (item.state in ENDED)


@pytest.mark.parametrize("item", STATES, ids=lambda item: item.state.value)
@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: type(fact).__name__)
def test_identity_and_task_never_change(item: WorkItem, fact: facts.Fact) -> None:
    after = decide(item, fact, NOON).state
    names = ("id", "tenant_id", "kind", "parent_id", "root_id", "ancestors", "task", "dedupe")
    assert [getattr(after, name) for name in names] == [getattr(item, name) for name in names]
