"""A declared capture: when it is due, and what its status says of the last one.

Pure: the declaration, the stored status and the time in, a decision out. The resource-controller
carries it out. Spec queue-capture 15.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from datarecs_core.captures.document import CaptureDocument
from datarecs_core.captures.items import ENDED, CaptureJobId, WorkItem, WorkState
from datarecs_core.captures.request import CaptureRequest
from datarecs_core.values import instant_text

LEAST_INTERVAL = timedelta(minutes=1)
LAST_CAPTURE = "last_capture"
"""Field of the status."""
NEXT_DUE = "next_due_at"
"""Field of the status; missing if nothing is due before a change or a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture(CaptureDocument):
    """The spec of the kind."""

    interval: timedelta | None = None
    """From one start to the next; None: one capture for each change of the spec."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureStart:
    """The wish of the controller to add a capture to the queue."""

    job_id: CaptureJobId
    """Of the new job; an equal capture that has not ended is followed instead."""
    request: CaptureRequest
    requested_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCapture:
    """The last capture of a declaration, as its status has it."""

    job_id: CaptureJobId
    state: WorkState
    generation: int
    """Of the declaration that it captured."""
    reconcile_at: str
    """Value of the annotation that requests a reconcile, when it started."""
    requested_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    counters: Mapping[str, int] | None = None
    """Of the whole tree; None before its end."""
    error_code: str = ""
    message: str = ""
    """Of a failure, or who cancelled it and why."""

    @property
    def has_ended(self) -> bool:
        return self.state in ENDED

    def after(self, root: WorkItem) -> "LastCapture":
        """As the root of its tree is now, without counters."""
        is_cancelled = root.cancelled_by is not None
        message = f"cancelled by {root.cancelled_by}" if is_cancelled else root.message
        if is_cancelled and root.cancel_reason:
            message = f"{message}: {root.cancel_reason}"
        return replace(
            self,
            state=root.state,
            started_at=root.started_at,
            finished_at=root.finished_at,
            error_code="" if root.error is None else root.error.code,
            message=message if root.error is None else root.error.message,
        )

    def written(self) -> Mapping[str, object]:
        """The field of the status."""
        times = {
            "requested_at": self.requested_at,
            "started_at": self.started_at,
            "finished_at": self.finished_at,
        }
        return {
            "job_id": str(self.job_id),
            "state": self.state.value,
            "generation": self.generation,
            "reconcile_at": self.reconcile_at,
            **{name: instant_text(at) for name, at in times.items() if at is not None},
            **({} if self.counters is None else {"counters": dict(self.counters)}),
            **({"error_code": self.error_code} if self.error_code else {}),
            **({"message": self.message} if self.message else {}),
        }


def last_capture(status: Mapping[str, object]) -> LastCapture | None:
    """Of a stored status; None before the first one."""
    written = status.get(LAST_CAPTURE)
    if not isinstance(written, Mapping):
        return None
    counters = written.get("counters")
    requested_at = _time(written, "requested_at")
    if requested_at is None:
        return None
    return LastCapture(
        job_id=CaptureJobId(UUID(str(written["job_id"]))),
        state=WorkState(str(written["state"])),
        generation=int(str(written["generation"])),
        reconcile_at=str(written["reconcile_at"]),
        requested_at=requested_at,
        started_at=_time(written, "started_at"),
        finished_at=_time(written, "finished_at"),
        counters={str(name): int(count) for name, count in counters.items()}
        if isinstance(counters, Mapping)
        else None,
        error_code=str(written.get("error_code", "")),
        message=str(written.get("message", "")),
    )


def next_due(capture: Capture, last: LastCapture) -> datetime | None:
    """When the next capture of an unchanged declaration starts, unless one is still running."""
    return None if capture.interval is None else last.requested_at + capture.interval


def is_due(
    capture: Capture,
    last: LastCapture | None,
    *,
    generation: int,
    reconcile_at: str,
    now: datetime,
) -> bool:
    """Whether a capture starts now; never while the last one of the declaration has not ended.

    Args:
        capture: the declaration.
        last: as it is now.
        generation: of the declaration.
        reconcile_at: value of the annotation that requests a reconcile.
        now: database time.
    """
    if last is None:
        return True
    if not last.has_ended:
        return False
    if last.generation != generation or last.reconcile_at != reconcile_at:
        return True
    due = next_due(capture, last)
    return due is not None and now >= due


def _time(written: Mapping[str, object], name: str) -> datetime | None:
    text = written.get(name)
    return datetime.fromisoformat(text) if isinstance(text, str) else None
