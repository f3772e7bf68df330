"""The reconcile of objects: read them, decide, and record the results under their leases.

A controller reads fresh state and returns what it observed. Here are pause, failures, the thrash
guard, and the one transaction that writes the status together with the release of the lease: a
process that lost its lease changes nothing. Objects share the transaction that reads them and,
where nothing changes, the one that releases their leases.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

import structlog

from datarecs_application.capturing.declared_jobs import start_capture
from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.checks import ResourceCheck
from datarecs_application.ports.reconciling import ClaimedResource
from datarecs_application.ports.state import Transaction, UnitOfWork
from datarecs_application.resources import observe_locked, release_resource
from datarecs_core.captures.declared import CaptureStart
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
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind, Resource
from datarecs_core.sink.declared import SinkWish
from datarecs_core.values import ResourceUid

log = structlog.get_logger()

_PAGE = 200


class Controller(Protocol):
    """Makes the objects of one kind come true."""

    @property
    def kind(self) -> Kind: ...

    @property
    def resync(self) -> timedelta:
        """After a success, and without a change."""

    def reconcile(self, seen: "Snapshot", resource: Resource) -> Result:
        """Compare the declaration with what is, and return what is observed and to be done.

        Repeatable: a process may die after it. An exception is a failure. Ends within 60 s;
        effects outside of the result must carry a fence of their own.
        """


@runtime_checkable
class FinalizingController(Protocol):
    """A controller that has something to do before an object of its kind is deleted."""

    @property
    def finalizer(self) -> str:
        """The object remains until this one is released."""

    def finalize(self, seen: "Snapshot", resource: Resource) -> Result:
        """Prepare the deletion; `released` of the result ends it. Repeatable, as a reconcile."""


@runtime_checkable
class PausingController(Protocol):
    """A controller that acts on a paused object; of other kinds a paused object is left alone."""

    def pause(self, seen: "Snapshot", resource: Resource) -> Result:
        """Hold what the object does, with the condition Paused. Repeatable, as a reconcile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A claimed object as it was read."""

    resource: Resource
    work: Work
    now: datetime
    """Database time of the read."""


@dataclass(slots=True, kw_only=True)
class Snapshot:
    """What controllers read of one tenant: a moment that all objects of a batch share."""

    tx: Transaction
    """Reads only."""
    now: datetime
    observed: Mapping[ResourceUid, Observed]
    checks: Mapping[ResourceUid, ResourceCheck]
    """Of these objects."""
    _connections: dict[str, Resource | None] = field(default_factory=dict)
    _sinks: list[Resource] | None = None

    def connection(self, name: str) -> Resource | None:
        """The connection that runs find by this name."""
        if name not in self._connections:
            one = self.tx.resources.get(Kind.CONNECTION, DEFAULT_NAMESPACE, name)
            self._connections[name] = one
        return self._connections[name]

    def sinks(self) -> Sequence[Resource]:
        """Every SinkTable of the tenant, of any namespace."""
        if self._sinks is None:
            self._sinks = list(_every(self.tx, Kind.SINK_TABLE))
        return self._sinks


def _every(tx: Transaction, kind: Kind) -> Iterator[Resource]:
    """Newest first."""
    page = tx.resources.page(kind, limit=_PAGE)
    while page:
        yield from page
        page = tx.resources.page(kind, limit=_PAGE, before=(page[-1].created_at, page[-1].uid))


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
    check: str | None = None
    makes_users_due: bool = False
    capture: CaptureStart | None = None
    sink: SinkWish | None = None
    has_figures: bool = False
    """These five as in `Result`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One reconcile, to be recorded."""

    claim: ClaimedResource
    observed: Observed
    decided: Decided
    began: float = 0.0
    """Monotonic seconds."""

    @property
    def writes_status(self) -> bool:
        before, decided = self.observed.resource, self.decided
        return before.observed_generation != decided.observed_generation or not changes.is_same(
            before.status, decided.status
        )

    @property
    def feed_numbers(self) -> int:
        """Of a status, and of the end of a deletion."""
        return self.writes_status + bool(self.decided.released)

    @property
    def changes_nothing(self) -> bool:
        """Nothing but the next due time."""
        decided = self.decided
        wishes = (decided.check, decided.capture, decided.sink)
        has_wishes = any(one is not None for one in wishes)
        return not has_wishes and not decided.makes_users_due and not self.feed_numbers


def snapshot(tx: Transaction, claims: Collection[ClaimedResource]) -> Snapshot:
    """Without objects that are gone, or whose lease belongs to another process."""
    epochs = {claim.uid: claim for claim in claims}
    observed = {
        work.uid: Observed(resource=resource, work=work, now=tx.now)
        for resource, work in tx.resource_work.observed(epochs)
        if _is_held(work, epochs[work.uid])
    }
    return Snapshot(
        tx=tx, now=tx.now, observed=observed, checks=tx.checks.of_resources(observed.keys())
    )


def read_claimed(unit: UnitOfWork, claim: ClaimedResource) -> Observed | None:
    """One object and its work; None if it is gone or the lease belongs to another process."""
    with unit.begin(claim.tenant_id, read_only=True) as tx:
        return snapshot(tx, [claim]).observed.get(claim.uid)


def idle_decision(controller: Controller, observed: Observed) -> Decided | None:
    """What to record if nothing may act on the object; None: its controller decides.

    A paused object says so in a condition, unless its controller has to act on it. An object that
    is being deleted waits for finalizers that are not its controller's, and one with a terminal
    error for an edit or a request.
    """
    resource, work = observed.resource, observed.work
    status = resource.status
    if is_paused(resource) and not isinstance(controller, PausingController):
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


def reconcile_with(controller: Controller, seen: Snapshot, resource: Resource) -> Result:
    """The controller's result; an exception is a failure of this object alone."""
    try:
        if resource.deletion_at is not None and isinstance(controller, FinalizingController):
            return controller.finalize(seen, resource)
        if is_paused(resource) and isinstance(controller, PausingController):
            return controller.pause(seen, resource)
        return controller.reconcile(seen, resource)
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
        check=result.check,
        makes_users_due=result.makes_users_due,
        capture=result.capture,
        sink=result.sink,
        has_figures=result.has_figures,
    )


def record(unit: UnitOfWork, outcomes: Sequence[Outcome]) -> Collection[ResourceUid]:
    """Write each status that differs, and release the leases; one transaction of one tenant.

    Returns:
        Whose outcomes are recorded. Nothing changes of an object that is gone, or whose lease
        another process has.
    """
    written = [one for one in outcomes if one.feed_numbers]
    recorded = []
    with unit.begin(
        outcomes[0].claim.tenant_id, feed=sum(one.feed_numbers for one in written)
    ) as tx:
        # Rows are locked in one order: objects, then their work.
        locked = {one.claim.uid: _locked(tx, one.observed.resource) for one in written}
        works = tx.resource_work.for_update(*(one.claim.uid for one in outcomes))
        for one in outcomes:
            work = works.get(one.claim.uid)
            if work is None or not _is_held(work, one.claim):
                continue
            is_dirty = _is_dirty(work, one.claim)
            is_gone = not is_dirty and _release(tx, one)
            if one.decided.released:  # which has changed the row
                locked[work.uid] = _locked(tx, one.observed.resource)
            if not is_gone:
                _carry_out(tx, one, locked.get(work.uid))
                tx.resource_work.save(_released(tx, one, is_dirty=is_dirty))
            crash_point(CrashPoint.RECONCILE_IN_TX)
            recorded.append(work.uid)
    return recorded


def _locked(tx: Transaction, one: Resource) -> Resource | None:
    stored = tx.resources.for_update(one.kind, one.namespace, one.name)
    return stored if stored is not None and stored.uid == one.uid else None


def _release(tx: Transaction, one: Outcome) -> bool:
    """Take the finalizer away; True if the object, and with it its work, is gone.

    A change since the finalize, such as a job that names the connection, finalizes it again.
    """
    before, released = one.observed.resource, one.decided.released
    if not released:
        return False
    write = release_resource(tx, before.uid, released, actor=f"controller/{before.kind}")
    if write is None:
        return False
    if before.kind is Kind.SINK_TABLE:
        tx.sinks.remove(before.uid)
    tx.outbox.append(changes.finalized(before, write, now=tx.now))
    return write.is_gone


def _is_held(work: Work, claim: ClaimedResource) -> bool:
    """A lease that ran out counts until another process takes over."""
    return work.epoch == claim.epoch and work.lease_until is not None


def _is_dirty(work: Work, claim: ClaimedResource) -> bool:
    return work.dirty_seq != claim.dirty_seq


def _released(tx: Transaction, one: Outcome, *, is_dirty: bool) -> Work:
    """The work with its next due time: now, if the object changed meanwhile."""
    decided = one.decided
    due_at = decided.work.due_at
    if due_at is not None:  # delays count from the end of the reconcile
        due_at += tx.now - one.observed.now
    if is_dirty and not (decided.is_thrashing and _is_unedited(tx, one.observed.resource)):
        due_at = tx.now
    if due_at is not None and due_at <= tx.now:
        tx.wake()
    return replace(decided.work, due_at=due_at, epoch=one.claim.epoch)


def _is_unedited(tx: Transaction, before: Resource) -> bool:
    resource = tx.resources.get_by_uid(before.uid)
    return resource is not None and resource.generation == before.generation


def _carry_out(tx: Transaction, one: Outcome, locked: Resource | None) -> None:
    """The wishes of the controller, and the status if it differs."""
    before, decided = one.observed.resource, one.decided
    if decided.check is not None:
        tx.checks.request(before.uid, subject=decided.check)
    if decided.sink is not None:
        tx.sinks.want(before.uid, decided.sink)
    if locked is not None and one.writes_status and not _is_late_start(decided, before, locked):
        status = decided.status
        if decided.capture is not None:
            status = start_capture(tx, decided.capture, status)
        after = observe_locked(tx, locked, status, observed_generation=decided.observed_generation)
        if decided.ended is not None and not _are_figures(decided, before, after):
            event = changes.reconciled(before, after, error=decided.error, now=tx.now)
            tx.outbox.append(event)
    if decided.makes_users_due:
        tx.resource_work.reconcile_users_of(before.name)


def _are_figures(decided: Decided, before: Resource, after: Resource) -> bool:
    """Nothing but figures that always move has changed."""
    is_seen = before.observed_generation == after.observed_generation
    is_same = before.status.get("conditions") == after.status.get("conditions")
    return decided.has_figures and is_seen and is_same and not decided.error


def _is_late_start(decided: Decided, before: Resource, locked: Resource) -> bool:
    """A capture of a declaration that was changed or deleted meanwhile is not started."""
    is_same = locked.generation == before.generation and locked.deletion_at is None
    return decided.capture is not None and not is_same


def _status(observed: Observed, result: Result, settled: Settled) -> Mapping[str, object]:
    """The status after a result; a failure leaves what an earlier reconcile observed."""
    resource = observed.resource
    stored = conditions_of(resource.status)
    details: Mapping[str, object] = dict(result.details)
    conditions = {one.type: one for one in result.conditions}
    if not result.conditions:
        conditions = stored
        details = {name: one for name, one in resource.status.items() if name != "conditions"}
    if not is_paused(resource):
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
