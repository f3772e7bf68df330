"""`decide`: every change of a work item, as one pure function.

Called under the lock of the item's row; time and randomness are arguments. A fact that means
nothing in the state of the item leaves it unchanged, so every fact may be repeated. Whether a
worker may report at all is decided before, by `may_report`.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import assert_never

from datarecs_core.captures.ending import cancelled, failed, requeued, succeeded, unleased
from datarecs_core.captures.events import CaptureJobStarted
from datarecs_core.captures.facts import (
    BarrierBroken,
    BarrierMet,
    CancelRequested,
    ChildrenEnded,
    Claimed,
    Fact,
    Failed,
    LeaseExpired,
    LeaseRevoked,
    Opened,
    Parked,
    Released,
    Reported,
    Started,
    Stopped,
    Succeeded,
)
from datarecs_core.captures.items import (
    BASE_BACKOFF,
    CANCEL_GRACE,
    DEADLINES,
    DEPENDENCY_LIMIT,
    HEARTBEAT,
    LEASE,
    LEASED,
    LONGEST_BACKOFF,
    MAX_ATTEMPTS,
    MAX_RELEASES,
    RECLAIM_GRACE,
    Gate,
    RetryClass,
    WorkError,
    WorkItem,
    WorkState,
)
from datarecs_core.captures.tree import facts_of
from datarecs_core.decision import Decision
from datarecs_core.errors.captures import CaptureCode

LONGEST_RETRY_AFTER = timedelta(minutes=15)
Decided = Decision[WorkItem]
Report = Succeeded | Failed | Released | Stopped


def decide(item: WorkItem, fact: Fact, now: datetime) -> Decided:
    """The effect of a fact on an item. Nothing has happened when it returns.

    Args:
        item: the row, locked.
        fact: what happened.
        now: database time of the transaction.
    """
    match fact:
        case Claimed() | Parked() | Opened() | BarrierMet() | BarrierBroken():
            return _queued(item, fact, now) if item.state is WorkState.QUEUED else Decision(item)
        case Started() | Reported() | LeaseExpired() | LeaseRevoked():
            return _leased(item, fact, now) if is_leased(item) else Decision(item)
        case CancelRequested():
            return _cancel(item, fact, now)
        case ChildrenEnded():
            return _children_ended(item, fact, now)
    assert_never(fact)


def is_leased(item: WorkItem) -> bool:
    """Whether an executor holds it; a CANCELLING item that waits for its children has none."""
    return item.state in LEASED and item.lease_until is not None


def may_report(item: WorkItem, epoch: int, fact: Report, now: datetime) -> bool:
    """The fence of every report of a worker.

    A lease that ran out still counts until it is reclaimed, except for reports after which the
    item would be tried again: then reclaiming decides.
    """
    if not is_leased(item) or item.epoch != epoch:
        return False
    is_over = item.lease_until is not None and item.lease_until <= now
    return not (is_over and _returns(fact))


def is_repeated(item: WorkItem, epoch: int, fact: Report) -> bool:
    """Whether the item has exactly this report already."""
    return (item.outcome_epoch, item.outcome_sha256) == (epoch, fact.outcome_sha256)


def frees_key(before: WorkItem, after: WorkItem) -> bool:
    """Whether a change lets another item with the same claim key run."""
    if before.claim_key is None:
        return False
    was_next = before.state is WorkState.QUEUED and before.gate is Gate.OPEN
    return (is_leased(before) and not is_leased(after)) or (was_next and after.has_ended)


def backoff(attempt: int, jitter: float) -> timedelta:
    """The wait after the `attempt`-th failure, from 1."""
    wait: timedelta = BASE_BACKOFF * 2 ** (attempt - 1)
    return min(LONGEST_BACKOFF, wait) * jitter


def is_expired(item: WorkItem, now: datetime) -> bool:
    """Whether the item may be taken from its executor."""
    return is_leased(item) and (item.lease_until or now) + RECLAIM_GRACE <= now


def lease_end(item: WorkItem, now: datetime) -> datetime:
    """Until when a renewal at `now` reaches: never past the deadline or the grace of a cancel."""
    limits = [now + LEASE]
    if item.deadline_at is not None:
        limits.append(item.deadline_at)
    if item.cancel_requested_at is not None:
        limits.append(item.cancel_requested_at + CANCEL_GRACE)
    return min(limits)


def _returns(fact: Report) -> bool:
    match fact:
        case Failed(retry=retry):
            return retry is not RetryClass.TERMINAL
        case Released():
            return True
        case _:
            return False


def _queued(
    item: WorkItem, fact: Claimed | Parked | Opened | BarrierMet | BarrierBroken, now: datetime
) -> Decided:
    match fact:
        case Claimed():
            return Decision(_claimed(item, fact, now)) if item.gate is Gate.OPEN else Decision(item)
        case Parked():
            return Decision(replace(item, gate=Gate.LANE))
        case Opened():
            return Decision(replace(item, gate=Gate.OPEN))
        case BarrierMet():
            return Decision(replace(item, gate=Gate.OPEN, due_at=now))
        case BarrierBroken():
            return cancelled(item, now, f"coverage incomplete: {fact.incomplete} groups failed")
    assert_never(fact)


def _claimed(item: WorkItem, fact: Claimed, now: datetime) -> WorkItem:
    return replace(
        item,
        state=WorkState.RUNNING,
        epoch=item.epoch + 1,
        executor=fact.executor,
        lease_until=now + LEASE,
        deadline_at=now + DEADLINES[item.kind],
    )


def _leased(
    item: WorkItem, fact: Started | Report | LeaseExpired | LeaseRevoked, now: datetime
) -> Decided:
    match fact:
        case Started():
            return _started(item, now)
        case Reported():
            decided = _reported(item, fact, now)
            recorded = replace(
                decided.state, outcome_epoch=item.epoch, outcome_sha256=fact.outcome_sha256
            )
            return Decision(recorded, decided.events)
        case LeaseExpired():
            return _expired(item, fact, now)
        case LeaseRevoked():
            return Decision(replace(item, lease_until=min(now, item.lease_until or now)))
    assert_never(fact)


def _started(item: WorkItem, now: datetime) -> Decided:
    started = replace(item, started_at=item.started_at or now)
    return Decision(started, (CaptureJobStarted(**facts_of(item), attempt=item.attempt + 1),))


def _reported(item: WorkItem, fact: Report, now: datetime) -> Decided:
    match fact:
        case Succeeded():
            return _succeeded(item, fact, now)
        case Failed():
            return _failed(item, fact, now)
        case Released():
            return _released(item, fact, now)
        case Stopped():
            return cancelled(item, now, item.cancel_reason or "the worker stopped it")
    assert_never(fact)


def _succeeded(item: WorkItem, fact: Succeeded, now: datetime) -> Decided:
    counted = replace(
        item,
        counters={**item.counters, **fact.counters},
        message=fact.message,
        error=None,
        children_final=True,
    )
    if item.state is WorkState.CANCELLING or (fact.children and fact.is_tree_cancelled):
        return cancelled(counted, now, item.cancel_reason)
    if fact.children:
        return Decision(replace(unleased(counted), state=WorkState.WAITING))
    return succeeded(counted, now)


def _failed(item: WorkItem, fact: Failed, now: datetime) -> Decided:
    error = WorkError(code=fact.code, message=fact.message, retry=fact.retry)
    if item.state is WorkState.CANCELLING:
        return cancelled(item, now, item.cancel_reason)
    if fact.retry is RetryClass.TERMINAL:
        return failed(replace(item, attempt=item.attempt + 1), error, now)
    if fact.is_tree_cancelled:
        return cancelled(item, now, item.cancel_reason)
    if fact.retry is RetryClass.DEPENDENCY_NOT_READY:
        return _not_ready(item, error, now)
    delay = backoff(item.attempt + 1, fact.jitter)
    if fact.retry_after is not None:
        delay = max(delay, min(fact.retry_after, LONGEST_RETRY_AFTER))
    return _tried(replace(item, waits_since=None), error, due_at=now + delay, now=now)


def _tried(item: WorkItem, error: WorkError, *, due_at: datetime, now: datetime) -> Decided:
    """The end of an attempt: another one follows, or this was the last."""
    tried = replace(item, attempt=item.attempt + 1)
    if tried.attempt >= MAX_ATTEMPTS:
        return failed(tried, error, now)
    return requeued(tried, error, due_at=due_at, attempt=tried.attempt)


def _not_ready(item: WorkItem, error: WorkError, now: datetime) -> Decided:
    since = item.waits_since or now
    waiting = replace(item, waits_since=since)
    if now - since >= DEPENDENCY_LIMIT:
        late = replace(error, code=CaptureCode.DEPENDENCY_TIMEOUT.name, retry=RetryClass.TERMINAL)
        return failed(waiting, late, now)
    return requeued(waiting, error, due_at=now + BASE_BACKOFF, attempt=item.attempt + 1)


def _released(item: WorkItem, fact: Released, now: datetime) -> Decided:
    if item.state is WorkState.CANCELLING or fact.is_tree_cancelled:
        return cancelled(item, now, item.cancel_reason)
    released = replace(item, releases=item.releases + 1)
    if released.releases > MAX_RELEASES:
        text = "its workers stopped again and again before it was done"
        return _tried(released, _lost(CaptureCode.WORK_LEASE_EXPIRED, text), due_at=now, now=now)
    return requeued(released, None, due_at=now, attempt=item.attempt + 1)


def _expired(item: WorkItem, fact: LeaseExpired, now: datetime) -> Decided:
    if item.state is WorkState.CANCELLING or fact.is_tree_cancelled:
        return cancelled(item, now, item.cancel_reason)
    if item.deadline_at is not None and item.deadline_at <= now - RECLAIM_GRACE:
        text = f"the attempt took longer than {DEADLINES[item.kind]}"
        error = _lost(CaptureCode.WORK_DEADLINE_EXCEEDED, text)
    else:
        text = f"the lease of {item.executor} expired"
        error = _lost(CaptureCode.WORK_LEASE_EXPIRED, text)
    return _tried(replace(item, waits_since=None), error, due_at=now, now=now)


def _lost(code: CaptureCode, message: str) -> WorkError:
    return WorkError(code=code.name, message=message, retry=RetryClass.TRANSIENT)


def _cancel(item: WorkItem, fact: CancelRequested, now: datetime) -> Decided:
    if item.has_ended or item.state is WorkState.CANCELLING:
        return Decision(item)
    requested = replace(
        item, cancel_requested_at=now, cancelled_by=fact.by, cancel_reason=fact.reason
    )
    match item.state:
        case WorkState.RUNNING:
            soon = min(item.lease_until or now, now + HEARTBEAT + RECLAIM_GRACE)
            return Decision(replace(requested, state=WorkState.CANCELLING, lease_until=soon))
        case WorkState.WAITING if fact.has_live_children:
            return Decision(replace(requested, state=WorkState.CANCELLING))
        case _:
            return cancelled(requested, now, fact.reason)


def _children_ended(item: WorkItem, fact: ChildrenEnded, now: datetime) -> Decided:
    if item.has_ended or is_leased(item) or not item.children_final:
        return Decision(item)
    if item.state is WorkState.CANCELLING:
        return cancelled(item, now, item.cancel_reason)
    if fact.states.get(WorkState.FAILED):
        return failed(item, fact.first_error or _unknown_failure(), now)
    if fact.states.get(WorkState.CANCELLED):
        return cancelled(item, now, "a part of it was cancelled")
    return succeeded(item, now)


def _unknown_failure() -> WorkError:
    return WorkError(
        code=CaptureCode.COVERAGE_UNKNOWN.name,
        message="a part of it failed",
        retry=RetryClass.TERMINAL,
    )
