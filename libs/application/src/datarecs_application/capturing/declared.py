"""The controller of Capture: it starts a capture when one is due, and reports the last one.

A start and the status that names its job are one transaction under the lease of the object, so
each due time has one job, however many controllers run and whenever one of them dies.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from datarecs_application.capturing.declared_jobs import requester
from datarecs_application.controllers import Snapshot, unreadable
from datarecs_application.ports.outside import Ids
from datarecs_application.ports.state import Transaction
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.captures.declared import (
    LAST_CAPTURE,
    NEXT_DUE,
    Capture,
    CaptureStart,
    LastCapture,
    is_due,
    last_capture,
    next_due,
)
from datarecs_core.captures.items import CaptureJobId, WorkState
from datarecs_core.errors.base import ErrorCode
from datarecs_core.errors.captures import CaptureCode
from datarecs_core.resources.checks import FAMILIES
from datarecs_core.resources.conditions import (
    Condition,
    ConditionType,
    Truth,
    conditions_of,
    is_current,
)
from datarecs_core.resources.reconciling import (
    RESYNC,
    Result,
    reconcile_request,
    requeue_after,
    success,
)
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind, Resource
from datarecs_core.values import instant_text

FOLLOW_EVERY = timedelta(seconds=10)
"""How often the state of a running capture is read."""
_CAPTURED, _FAILED, _CANCELLED = "Captured", "CaptureFailed", "CaptureCancelled"
_ENDS = frozenset({_CAPTURED, _FAILED, _CANCELLED})
_FAMILIES: tuple[type[ErrorCode], ...] = (CaptureCode, *FAMILIES)
_Details = tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureController:
    """The controller of Capture."""

    captures: StoredSpecs[Capture]
    ids: Ids
    kind: Kind = Kind.CAPTURE
    resync: timedelta = RESYNC

    def reconcile(self, seen: Snapshot, resource: Resource) -> Result:
        """Valid, ReferencesResolved, Progressing and Ready, with the last capture."""
        capture = self.captures.of(resource)
        if capture is None:
            return unreadable(resource)
        last = _followed(seen.tx, resource)
        connection = seen.connection(capture.connection)
        if connection is None:
            return _unresolved(capture, last)
        resolved = _resolved(connection)
        if not is_due(
            capture,
            last,
            generation=resource.generation,
            reconcile_at=reconcile_request(resource),
            now=seen.now,
        ):
            return _unchanged(capture, last, resource, resolved, now=seen.now)
        start = CaptureStart(
            job_id=CaptureJobId(self.ids.new()),
            request=capture.request(connection.uid),
            requested_by=requester(resource),
        )
        begun = LastCapture(
            job_id=start.job_id,
            state=WorkState.QUEUED,
            generation=resource.generation,
            reconcile_at=reconcile_request(resource),
            requested_at=seen.now,
        )
        return replace(_unchanged(capture, begun, resource, resolved, now=seen.now), capture=start)


def _followed(tx: Transaction, resource: Resource) -> LastCapture | None:
    """The last capture as it is now; None for one that was removed before its end was read."""
    last = last_capture(resource.status)
    if last is None or last.has_ended:
        return last
    job = tx.capture_work.get(last.job_id)
    if job is None:
        return None
    last = last.after(job)
    if not last.has_ended:
        return last
    return replace(last, counters=tx.capture_work.counters_below(last.job_id))


def _unchanged(
    capture: Capture,
    last: LastCapture | None,
    resource: Resource,
    resolved: Condition,
    *,
    now: datetime,
) -> Result:
    """The status without another start; read again when the next one is due."""
    if last is None:
        raise TypeError("a declaration without a capture is due")
    due = next_due(capture, last)
    conditions = (_VALID, resolved, _progressing(last), _ready(last, resource, due))
    details = _details(last, due)
    if not last.has_ended:
        return requeue_after(FOLLOW_EVERY, *conditions, details=details)
    if due is None:
        return success(*conditions, details=details)
    return requeue_after(max(due - now, timedelta()), *conditions, details=details)


def _unresolved(capture: Capture, last: LastCapture | None) -> Result:
    """Nothing starts without the connection; its creation makes the object due."""
    fault = (
        f"connection {capture.connection} does not exist in namespace {DEFAULT_NAMESPACE};"
        " apply it, or name another one in the capture"
    )
    conditions = [
        _VALID,
        *(
            Condition(type=name, status=Truth.FALSE, reason="ConnectionMissing", message=fault)
            for name in (ConditionType.REFERENCES_RESOLVED, ConditionType.READY)
        ),
    ]
    if last is None:
        return success(*conditions)
    conditions.append(_progressing(last))
    if last.has_ended:
        return success(*conditions, details=_details(last, None))
    return requeue_after(FOLLOW_EVERY, *conditions, details=_details(last, None))


_VALID = Condition(type=ConditionType.VALID, status=Truth.TRUE, reason="Accepted")


def _resolved(connection: Resource) -> Condition:
    name = ConditionType.REFERENCES_RESOLVED
    if connection.deletion_at is None:
        return Condition(type=name, status=Truth.TRUE, reason="AllResolved")
    return Condition(
        type=name,
        status=Truth.TRUE,
        reason="ConnectionBeingDeleted",
        message=f"connection {connection.name} is being deleted, which waits for this capture;"
        " name another connection in the capture, or delete the capture",
    )


def _progressing(last: LastCapture) -> Condition:
    name = ConditionType.PROGRESSING
    if last.has_ended:
        return Condition(type=name, status=Truth.FALSE, reason="Idle")
    return Condition(
        type=name,
        status=Truth.TRUE,
        reason="Capturing",
        message=f"see `datarecs capture tree {last.job_id}`",
    )


def _ready(last: LastCapture, resource: Resource, due: datetime | None) -> Condition:
    """How the last capture ended; while one runs, what the one before it showed."""
    if last.has_ended:
        return _ended(last, resource, due)
    stored = conditions_of(resource.status).get(ConditionType.READY)
    if stored is not None and stored.reason in _ENDS and is_current(resource):
        return stored
    return Condition(
        type=ConditionType.READY,
        status=Truth.UNKNOWN,
        reason="Capturing",
        message="the first capture of this declaration has not ended",
    )


def _ended(last: LastCapture, resource: Resource, due: datetime | None) -> Condition:
    name = ConditionType.READY
    if last.state is WorkState.SUCCEEDED:
        return Condition(type=name, status=Truth.TRUE, reason=_CAPTURED)
    repeated = "`datarecs reconcile capture " + resource.name + "` captures again"
    again = repeated if due is None else f"the next one is due at {instant_text(due)}; {repeated}"
    code = last.error_code
    if last.state is WorkState.CANCELLED:
        message = f"job {last.job_id} was {last.message or 'cancelled'}; {again}"
        return Condition(type=name, status=Truth.FALSE, reason=_CANCELLED, message=message)
    fix = next((f" {one[code].entry.remedy}" for one in _FAMILIES if code in one.__members__), "")
    message = f"job {last.job_id} failed with {code}: {last.message.rstrip('.')}.{fix} {again}"
    return Condition(type=name, status=Truth.FALSE, reason=_FAILED, message=message)


def _details(last: LastCapture, due: datetime | None) -> _Details:
    written: _Details = ((LAST_CAPTURE, last.written()),)
    return written if due is None else (*written, (NEXT_DUE, instant_text(due)))
