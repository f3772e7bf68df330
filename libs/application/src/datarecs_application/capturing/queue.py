"""The queue of captures: each function is one step, inside a transaction of its caller.

Core decides (`captures.decide`); here are locks, the fence of reports, and what one change means
for the rest of the tree. Locks are taken in one order: an item, its ancestors upwards, claim keys;
an item at a barrier is locked after its parent.
"""

from collections.abc import Mapping, Sequence

from datarecs_application.ports.capturing import Added
from datarecs_application.ports.outside import Ids
from datarecs_application.ports.state import Transaction
from datarecs_core.captures import facts
from datarecs_core.captures.decide import (
    Report,
    decide,
    frees_key,
    is_expired,
    is_leased,
    is_repeated,
    may_report,
)
from datarecs_core.captures.items import (
    MAX_CHILDREN,
    CaptureJobId,
    Gate,
    NewWork,
    RetryClass,
    WorkItem,
    WorkKind,
    WorkState,
    WorkToken,
)
from datarecs_core.captures.outcomes import WorkFailed
from datarecs_core.captures.request import CaptureRequest
from datarecs_core.captures.tree import barrier_fact, faults_of, new_children, new_root
from datarecs_core.decision import Event
from datarecs_core.errors.captures import (
    CaptureCode,
    CaptureEndedError,
    CaptureNotFoundError,
    LeaseLostError,
    OutcomeRefusedError,
)


def publish(tx: Transaction, events: Sequence[Event]) -> None:
    """Append the events of a change in its transaction."""
    if events:
        tx.outbox.append(*events)


def enqueue_root(tx: Transaction, ids: Ids, request: CaptureRequest, *, requested_by: str) -> Added:
    """Add a capture, unless an equal one is queued, running or waiting: then this is its id."""
    root = new_root(tx.tenant_id, request, item_id=ids.new(), requested_by=requested_by, now=tx.now)
    (added,) = tx.capture_work.add([root])
    if added.is_new:
        tx.wake()
    return added


def begin(tx: Transaction, token: WorkToken) -> WorkItem | None:
    """The item of a claim, as started; None if it is no longer this worker's, or ended at once."""
    item = tx.capture_work.for_update(token.item_id)
    if item is None or not is_leased(item) or item.epoch != token.epoch:
        return None
    refusal = _refusal(tx, item)
    if refusal is not None:
        apply(tx, item, refusal)
        return None
    return apply(tx, item, facts.Started())


def held(tx: Transaction, token: WorkToken) -> WorkItem:
    """The locked item of a worker that works on it. Raises CaptureNotFoundError, LeaseLostError."""
    item = _existing(tx, token.item_id)
    if not is_leased(item) or item.epoch != token.epoch:
        raise LeaseLostError(item_id=item.id, epoch=token.epoch)
    return item


def unreported(tx: Transaction, token: WorkToken, *, outcome_sha256: str) -> WorkItem | None:
    """The locked item of a worker that reports a result; None: it has reported exactly this.

    Raises CaptureNotFoundError, LeaseLostError.
    """
    item = _existing(tx, token.item_id)
    fact = facts.Succeeded(outcome_sha256=outcome_sha256, counters={})
    return item if _may_report(tx, item, token, fact) else None


def end_succeeded(  # noqa: PLR0913  the parts of one report
    tx: Transaction,
    ids: Ids,
    token: WorkToken,
    *,
    outcome_sha256: str,
    children: Sequence[NewWork] = (),
    counters: Mapping[str, int],
    message: str = "",
    events: Sequence[Event] = (),
) -> WorkItem:
    """The item's own work is done; its children are added in this transaction, all or none.

    Returns:
        The item after it; CANCELLED without children if it, or something above it, was cancelled.

    Raises:
        CaptureNotFoundError, LeaseLostError: see `CaptureControl.end`.
        OutcomeRefusedError: a child is not valid; nothing was changed.
    """
    if len(children) > MAX_CHILDREN:
        return end_failed(tx, token, _too_many(children), outcome_sha256=outcome_sha256, jitter=1.0)
    item = _reported(tx, token)
    fact = facts.Succeeded(
        outcome_sha256=outcome_sha256,
        children=len(children),
        counters=counters,
        message=message,
        is_tree_cancelled=bool(children) and tx.capture_work.is_below_cancelled(item),
    )
    if not _may_report(tx, item, token, fact):
        return item
    faults = faults_of(item, children)
    if faults:
        raise OutcomeRefusedError(item_id=item.id, faults=faults)
    after = apply(tx, item, fact, events=events)
    if after.state is WorkState.WAITING:
        new_ids = [ids.new() for _ in children]
        tx.capture_work.add(list(new_children(after, children, new_ids, tx.now)))
        tx.wake()
    return after


def end_failed(
    tx: Transaction,
    token: WorkToken,
    failure: WorkFailed,
    *,
    outcome_sha256: str,
    jitter: float,
) -> WorkItem:
    """The attempt failed: another one follows, or the item has failed.

    Args:
        tx: of the item's tenant.
        token: of the worker.
        failure: as reported.
        outcome_sha256: of the report.
        jitter: random, from 0.5 to 1.

    Raises CaptureNotFoundError, LeaseLostError.
    """
    item = _reported(tx, token)
    fact = facts.Failed(
        outcome_sha256=outcome_sha256,
        code=failure.code,
        message=failure.message,
        retry=failure.retry,
        retry_after=failure.retry_after,
        jitter=jitter,
        is_tree_cancelled=tx.capture_work.is_below_cancelled(item),
    )
    return _end(tx, item, token, fact)


def end_released(tx: Transaction, token: WorkToken, *, outcome_sha256: str) -> WorkItem:
    """The worker stops and returns the item. Raises CaptureNotFoundError, LeaseLostError."""
    item = _reported(tx, token)
    is_cancelled = tx.capture_work.is_below_cancelled(item)
    fact = facts.Released(outcome_sha256=outcome_sha256, is_tree_cancelled=is_cancelled)
    return _end(tx, item, token, fact)


def end_stopped(tx: Transaction, token: WorkToken, *, outcome_sha256: str) -> WorkItem:
    """The worker followed a cancel. Raises CaptureNotFoundError, LeaseLostError."""
    item = _reported(tx, token)
    return _end(tx, item, token, facts.Stopped(outcome_sha256=outcome_sha256))


def cancel(tx: Transaction, item_id: CaptureJobId, *, by: str, reason: str | None) -> WorkItem:
    """Cancel an item and everything below it; an item that is being cancelled stays unchanged.

    From the commit on nothing below it is leased; `follow_cancels` ends what is below.

    Raises:
        CaptureNotFoundError: there is no such item.
        CaptureEndedError: it has ended.
    """
    item = _existing(tx, item_id)
    if item.has_ended:
        raise CaptureEndedError(item_id=item_id, state=item.state.value)
    after = _cancel(tx, item, by=by, reason=reason)
    if after.state is WorkState.CANCELLING and after.children_final:
        tx.capture_work.mark_cancelled(item_id)
    return after


def release(tx: Transaction, item_id: CaptureJobId) -> WorkItem:
    """End the lease of an item now; `reclaim` queues it again.

    Raises:
        CaptureNotFoundError: there is no such item.
        CaptureEndedError: it has ended.
    """
    item = _existing(tx, item_id)
    if item.has_ended:
        raise CaptureEndedError(item_id=item_id, state=item.state.value)
    return apply(tx, item, facts.LeaseRevoked())


def reclaim_one(tx: Transaction, item_id: CaptureJobId) -> bool:
    """Take an item from an executor that lost it; False if it is current or has ended."""
    item = tx.capture_work.for_update(item_id)
    if item is None or not is_expired(item, tx.now):
        return False
    is_cancelled = tx.capture_work.is_below_cancelled(item)
    apply(tx, item, facts.LeaseExpired(is_tree_cancelled=is_cancelled))
    return True


def cancel_below(tx: Transaction, item_id: CaptureJobId) -> bool:
    """Cancel a descendant of a cancelled item in the name of who cancelled it."""
    item = _locked(tx, item_id)
    if item is None or item.has_ended or item.state is WorkState.CANCELLING:
        return False
    above = (tx.capture_work.get(one) for one in item.ancestors)
    source = next((one for one in above if one is not None and one.cancelled_by is not None), None)
    if source is None:
        return False
    _cancel(tx, item, by=source.cancelled_by or "", reason=source.cancel_reason)
    return True


def totals(tx: Transaction, item_id: CaptureJobId) -> Mapping[str, int]:
    """The counters of the item and everything below it, summed now."""
    return tx.capture_work.counters_below(item_id)


def apply(
    tx: Transaction, item: WorkItem, fact: facts.Fact, *, events: Sequence[Event] = ()
) -> WorkItem:
    """Carry out what follows from a fact about a locked item, up to the root of its tree.

    Args:
        tx: of the item's tenant.
        item: locked.
        fact: what happened.
        events: sent before those of the change. All are numbered last, since their counter is one
            row for the whole tree.
    """
    made = list(events)
    after = _stored(tx, item, fact, made)
    if after.has_ended and not item.has_ended:
        _advance_parents(tx, after, made)
    publish(tx, made)
    return after


def _stored(tx: Transaction, item: WorkItem, fact: facts.Fact, made: list[Event]) -> WorkItem:
    decided = decide(item, fact, tx.now)
    after = decided.state
    if after != item:
        tx.capture_work.save(after)
    made += decided.events
    if frees_key(item, after):
        tx.capture_work.free_key(item)
    if after.state is WorkState.QUEUED:
        tx.wake()
    return after


def _advance_parents(tx: Transaction, child: WorkItem, made: list[Event]) -> None:
    """End each parent without live children; the parent is locked before they are counted."""
    while child.parent_id is not None:
        parent = tx.capture_work.for_update(child.parent_id)
        if parent is None or parent.has_ended or not _have_children_ended(tx, parent, made):
            return
        failed = tx.capture_work.first_failed_child(parent.id)
        states = tx.capture_work.child_states(parent.id)
        first_error = None if failed is None else failed.error
        ended = facts.ChildrenEnded(states=states, first_error=first_error)
        child = _stored(tx, parent, ended, made)
        if not child.has_ended:
            return


def _have_children_ended(tx: Transaction, parent: WorkItem, made: list[Event]) -> bool:
    """Whether none is alive, after the barrier has opened or broken if only it is left."""
    live = tx.capture_work.live_children(parent.id, limit=2)
    if len(live) != 1 or live[0].gate is not Gate.BARRIER:
        return not live
    barrier = tx.capture_work.for_update(live[0].id)
    if barrier is None or barrier.has_ended:
        return True
    states = tx.capture_work.child_states(parent.id)
    return _stored(tx, barrier, barrier_fact(states), made).has_ended


def _end(tx: Transaction, item: WorkItem, token: WorkToken, fact: Report) -> WorkItem:
    return apply(tx, item, fact) if _may_report(tx, item, token, fact) else item


def _may_report(tx: Transaction, item: WorkItem, token: WorkToken, fact: Report) -> bool:
    """False: exactly this was reported before. Raises LeaseLostError."""
    if is_repeated(item, token.epoch, fact):
        return False
    if not may_report(item, token.epoch, fact, tx.now):
        raise LeaseLostError(item_id=item.id, epoch=token.epoch)
    return True


def _cancel(tx: Transaction, item: WorkItem, *, by: str, reason: str | None) -> WorkItem:
    has_live = bool(tx.capture_work.live_children(item.id, limit=1))
    return apply(tx, item, facts.CancelRequested(by=by, reason=reason, has_live_children=has_live))


def _reported(tx: Transaction, token: WorkToken) -> WorkItem:
    """The locked item of a report: an item at a barrier is never leased."""
    item = tx.capture_work.for_update(token.item_id)
    if item is None:
        raise CaptureNotFoundError(item_id=token.item_id)
    return item


def _existing(tx: Transaction, item_id: CaptureJobId) -> WorkItem:
    item = _locked(tx, item_id)
    if item is None:
        raise CaptureNotFoundError(item_id=item_id)
    return item


def _locked(tx: Transaction, item_id: CaptureJobId) -> WorkItem | None:
    """The locked item; at a barrier after its parent, whose other children may open it."""
    seen = tx.capture_work.get(item_id)
    if seen is not None and seen.gate is Gate.BARRIER and seen.parent_id is not None:
        tx.capture_work.for_update(seen.parent_id)
    return tx.capture_work.for_update(item_id)


def _refusal(tx: Transaction, item: WorkItem) -> facts.Failed | None:
    """Why a claimed item cannot begin: no attempt would change it."""
    if item.error is not None and item.error.code == CaptureCode.MISSING_DEFINITION.name:
        return _never(CaptureCode.MISSING_DEFINITION, item.error.message)
    if item.kind is WorkKind.FINALIZE_SNAPSHOT_CAPTURE and _is_early(tx, item):
        text = "the groups of the snapshot have not all succeeded, and its finalizer was leased"
        return _never(CaptureCode.COVERAGE_UNKNOWN, text)
    return None


def _is_early(tx: Transaction, item: WorkItem) -> bool:
    if item.parent_id is None:
        return True
    states = tx.capture_work.child_states(item.parent_id)
    return sum(states.values()) != states.get(WorkState.SUCCEEDED, 0) + 1


def _never(code: CaptureCode, message: str) -> facts.Failed:
    return facts.Failed(
        outcome_sha256="",
        code=code.name,
        message=message,
        retry=RetryClass.TERMINAL,
        jitter=1.0,
    )


def _too_many(children: Sequence[NewWork]) -> WorkFailed:
    return WorkFailed(
        code=CaptureCode.TOO_MANY_CHILDREN.name,
        message=f"{len(children)} parts, and at most {MAX_CHILDREN} fit into the queue at once; "
        "name namespaces or tables in the scope of the capture",
        retry=RetryClass.TERMINAL,
    )
