"""One reconcile of one object: read it, decide, and record the result under the lease.

A controller reads fresh state and returns what it observed. Here are pause, failures, the thrash
guard, and the one transaction that writes the status together with the release of the lease: a
process that lost its lease changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.reconciling import ClaimedResource
from datarecs_application.ports.state import Transaction, UnitOfWork
from datarecs_application.resources import observe_resource, release_resource
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.errors.base import DatarecsError
from datarecs_core.resources import changes
from datarecs_core.resources.conditions import (
    Condition,
    ConditionType,
    Truth,
    conditions_of,
    status_with,
)
from datarecs_core.resources.reconciling import (
    PAUSED,
    Ended,
    Pace,
    Result,
    Settled,
    Work,
    conflict,
    failed,
    is_paused,
    is_settled,
    settle,
    success,
)
from datarecs_core.resources.refusals import WriteConflictError
from datarecs_core.resources.resource import Kind, Resource

log = structlog.get_logger()

_FEED_NUMBERS = 2
"""Of a status, and of the end of a deletion."""


class Controller(Protocol):
    """Makes the objects of one kind come true."""

    @property
    def kind(self) -> Kind: ...

    @property
    def resync(self) -> timedelta:
        """After a success, and without a change."""

    def reconcile(self, resource: Resource) -> Result:
        """Compare the declaration with what is, act, and return what is observed.

        Repeatable: a process may die after it acted. An exception is a failure. Ends within 60 s;
        later effects must carry a fence of their own.
        """


@runtime_checkable
class FinalizingController(Protocol):
    """A controller that has something to do before an object of its kind is deleted."""

    @property
    def finalizer(self) -> str:
        """The object remains until this one is released."""

    def finalize(self, resource: Resource) -> Result:
        """Prepare the deletion; `released` of the result ends it. Repeatable, as a reconcile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A claimed object as it was read."""

    resource: Resource
    work: Work
    now: datetime
    """Database time of the read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What to record of a reconcile."""

    work: Work
    status: Mapping[str, object]
    """As stored, if nothing differs."""
    observed_generation: int
    is_thrashing: bool = False
    ended: Ended | None = None
    """None: nothing acted on the object."""
    error: str = ""
    released: str = ""
    """The finalizer to take away; empty: none."""


def read_claimed(unit: UnitOfWork, claim: ClaimedResource) -> Observed | None:
    """The object and its work; None if it is gone or the lease belongs to another process."""
    with unit.begin(claim.tenant_id, read_only=True) as tx:
        resource = tx.resources.get_by_uid(claim.uid)
        work = tx.resource_work.get(claim.uid)
        if resource is None or work is None or not _is_held(work, claim):
            return None
        return Observed(resource=resource, work=work, now=tx.now)


def idle_decision(controller: Controller, observed: Observed) -> Decided | None:
    """What to record if nothing may act on the object; None: its controller decides.

    A paused object says so in a condition. An object that is being deleted waits for finalizers
    that are not its controller's, and one with a terminal error for an edit or a request.
    """
    resource, work = observed.resource, observed.work
    status = resource.status
    if is_paused(resource):
        status = _paused_status(observed)
    elif _acts(controller, resource) and not is_settled(work, resource):
        return None
    return Decided(
        work=replace(work, due_at=None, lease_until=None),
        status=status,
        observed_generation=resource.observed_generation,
    )


def _acts(controller: Controller, resource: Resource) -> bool:
    """Whether the controller reconciles the object, or finalizes it."""
    if resource.deletion_at is None:
        return True
    return (
        isinstance(controller, FinalizingController) and controller.finalizer in resource.finalizers
    )


def reconcile_with(controller: Controller, resource: Resource) -> Result:
    """The controller's result; an exception is a failure of this object alone."""
    try:
        if resource.deletion_at is not None and isinstance(controller, FinalizingController):
            return controller.finalize(resource)
        return controller.reconcile(resource)
    except StoreUnavailableError:
        raise
    except (StoreBusyError, WriteConflictError):
        return conflict()
    except DatarecsError as cause:
        log.warning("reconcile_failed", code=cause.code.name)
        return failed(str(cause))
    except Exception as cause:  # a defect of one controller must not stop the others
        log.exception("reconcile_defect")
        return failed(
            f"the controller of {resource.kind} failed with {type(cause).__name__}; it tries again,"
            " and the log of resource-controller has the details"
        )


def timed_out(timeout: timedelta) -> Result:
    """The result of a reconcile that did not end."""
    return Result(
        ended=Ended.TIMEOUT,
        error=f"the reconcile did not end within {timeout.total_seconds():g} s; it is tried again",
    )


def unreadable(resource: Resource) -> Result:
    """Of a stored declaration that this release cannot read."""
    message = (
        f"this release cannot read the stored spec of {resource.kind} {resource.name};"
        " apply its declaration again"
    )
    return success(
        Condition(
            type=ConditionType.VALID, status=Truth.FALSE, reason="Unreadable", message=message
        ),
        Condition(type=ConditionType.READY, status=Truth.FALSE, reason="Invalid", message=message),
    )


def decide(observed: Observed, result: Result, pace: Pace) -> Decided:
    """What a result changes; pure."""
    resource = observed.resource
    settled = settle(observed.work, resource, result, now=observed.now, pace=pace)
    is_complete = settled.ended is not Ended.CONFLICT and (
        not settled.ended.is_failure or settled.ended is Ended.TERMINAL
    )
    status = resource.status
    if settled.ended is not Ended.CONFLICT:
        status = _status(observed, result, settled)
    return Decided(
        work=settled.work,
        status=status,
        observed_generation=resource.generation if is_complete else resource.observed_generation,
        is_thrashing=settled.is_thrashing,
        ended=settled.ended,
        error=result.error if settled.ended.is_failure else "",
        released="" if settled.ended.is_failure else result.released,
    )


def record(unit: UnitOfWork, claim: ClaimedResource, observed: Observed, decided: Decided) -> bool:
    """Write the status, if it differs, and release the lease; one transaction.

    False without any change: the object is gone, or another process has its lease.
    """
    before = observed.resource
    is_changed = (
        not changes.is_same(before.status, decided.status)
        or before.observed_generation != decided.observed_generation
    )
    writes = is_changed or bool(decided.released)
    with unit.begin(claim.tenant_id, feed=_FEED_NUMBERS if writes else 0) as tx:
        if writes:  # rows are locked in one order: the object, then its work
            tx.resources.for_update(before.kind, before.namespace, before.name)
        work = tx.resource_work.for_update(claim.uid)
        if work is None or not _is_held(work, claim):
            return False
        is_dirty = _is_dirty(work, claim)
        is_gone = bool(decided.released) and not is_dirty and _release(tx, before, decided)
        if is_changed and not is_gone:
            _write_status(tx, before, decided)
        if not is_gone:
            tx.resource_work.save(_released(tx, claim, observed, decided, is_dirty=is_dirty))
        crash_point(CrashPoint.RECONCILE_IN_TX)
    return True


def _release(tx: Transaction, before: Resource, decided: Decided) -> bool:
    """Take the finalizer away; True if the object, and with it its work, is gone.

    A change since the finalize, such as a job that names the connection, finalizes it again.
    """
    actor = f"controller/{before.kind}"
    write = release_resource(tx, before.uid, decided.released, actor=actor)
    if write is None:
        return False
    tx.outbox.append(changes.finalized(before, write, now=tx.now))
    return write.is_gone


def _is_held(work: Work, claim: ClaimedResource) -> bool:
    """A lease that ran out counts until another process takes over."""
    return work.epoch == claim.epoch and work.lease_until is not None


def _is_dirty(work: Work, claim: ClaimedResource) -> bool:
    return work.dirty_seq != claim.dirty_seq


def _released(
    tx: Transaction,
    claim: ClaimedResource,
    observed: Observed,
    decided: Decided,
    *,
    is_dirty: bool,
) -> Work:
    """The work with its next due time: now, if the object changed meanwhile."""
    due_at = decided.work.due_at
    if due_at is not None:  # delays count from the end of the reconcile
        due_at += tx.now - observed.now
    if is_dirty and not (decided.is_thrashing and _is_unedited(tx, claim, observed)):
        due_at = tx.now
    if due_at is not None and due_at <= tx.now:
        tx.wake()
    return replace(decided.work, due_at=due_at, epoch=claim.epoch)


def _is_unedited(tx: Transaction, claim: ClaimedResource, observed: Observed) -> bool:
    resource = tx.resources.get_by_uid(claim.uid)
    return resource is not None and resource.generation == observed.resource.generation


def _write_status(tx: Transaction, before: Resource, decided: Decided) -> None:
    after = observe_resource(
        tx, before.uid, decided.status, observed_generation=decided.observed_generation
    )
    if after is not None and decided.ended is not None:
        event = changes.reconciled(before, after, error=decided.error, now=tx.now)
        tx.outbox.append(event)


def _status(observed: Observed, result: Result, settled: Settled) -> Mapping[str, object]:
    """The status after a result; a failure leaves what an earlier reconcile observed."""
    resource = observed.resource
    stored = conditions_of(resource.status)
    details: Mapping[str, object] = dict(result.details)
    conditions = {one.type: one for one in result.conditions}
    if not result.conditions:
        conditions = stored
        details = {name: one for name, one in resource.status.items() if name != "conditions"}
    conditions.pop(ConditionType.PAUSED, None)
    conditions.pop(ConditionType.THRASHING, None)
    if result.released:
        conditions.pop(ConditionType.DELETION_BLOCKED, None)
    if settled.ended.is_failure:
        conditions[ConditionType.READY] = _failure(settled.ended, result.error)
    if settled.is_thrashing:
        conditions[ConditionType.THRASHING] = Condition(
            type=ConditionType.THRASHING,
            status=Truth.TRUE,
            reason="TooManyReconciles",
            message="the controller acted more than 20 times in 60 s without a change of the"
            " declaration; it waits 300 s",
        )
    return status_with(
        resource.status,
        list(conditions.values()),
        details=details,
        generation=resource.generation,
        now=observed.now,
    )


def _failure(ended: Ended, error: str) -> Condition:
    status, reason = {
        Ended.TERMINAL: (Truth.FALSE, "Terminal"),
        Ended.TIMEOUT: (Truth.UNKNOWN, "Timeout"),
    }.get(ended, (Truth.UNKNOWN, "ReconcileFailed"))
    return Condition(type=ConditionType.READY, status=status, reason=reason, message=error)


def _paused_status(observed: Observed) -> Mapping[str, object]:
    resource = observed.resource
    conditions = conditions_of(resource.status)
    conditions[ConditionType.PAUSED] = Condition(
        type=ConditionType.PAUSED,
        status=Truth.TRUE,
        reason="Annotated",
        message=f'the annotation {PAUSED} is "true"; remove it, or use `datarecs resume`',
    )
    details = {name: one for name, one in resource.status.items() if name != "conditions"}
    return status_with(
        resource.status,
        list(conditions.values()),
        details=details,
        generation=resource.observed_generation,
        now=observed.now,
    )
