"""How a work item leaves its executor: ended, or queued for another attempt, with its event."""

from dataclasses import replace
from datetime import datetime

from datarecs_core.captures.events import (
    CaptureJobCancelled,
    CaptureJobFailed,
    CaptureJobRequeued,
    CaptureJobSucceeded,
)
from datarecs_core.captures.items import Gate, WorkError, WorkItem, WorkState
from datarecs_core.captures.tree import facts_of
from datarecs_core.decision import Decision
from datarecs_core.messages import shortened

Decided = Decision[WorkItem]


def unleased(item: WorkItem) -> WorkItem:
    """The item without a holder; its epoch stays and fences the former one."""
    return replace(item, executor=None, lease_until=None, deadline_at=None)


def succeeded(item: WorkItem, now: datetime) -> Decided:
    ended = replace(_ended(item, WorkState.SUCCEEDED, now), error=None)
    return Decision(ended, (CaptureJobSucceeded(**facts_of(item)),))


def failed(item: WorkItem, error: WorkError, now: datetime) -> Decided:
    ended = replace(_ended(item, WorkState.FAILED, now), error=error, message=error.message)
    event = CaptureJobFailed(
        **facts_of(item), error_code=error.code, error_message=shortened(error.message)
    )
    return Decision(ended, (event,))


def cancelled(item: WorkItem, now: datetime, reason: str | None) -> Decided:
    ended = replace(_ended(item, WorkState.CANCELLED, now), message=reason or "")
    event = CaptureJobCancelled(**facts_of(item), reason=reason and shortened(reason))
    return Decision(ended, (event,))


def requeued(item: WorkItem, error: WorkError | None, *, due_at: datetime, attempt: int) -> Decided:
    """Queue the item for its next attempt.

    Args:
        item: with the numbers of the attempt that ended.
        error: why it ended; None if a worker returned it.
        due_at: of the next one.
        attempt: the one that ended, from 1.
    """
    waiting = replace(
        unleased(item),
        state=WorkState.QUEUED,
        gate=Gate.OPEN,
        due_at=due_at,
        error=error,
        message="" if error is None else error.message,
    )
    event = CaptureJobRequeued(
        **facts_of(item),
        attempt=attempt,
        due_at=due_at,
        error_code=None if error is None else error.code,
        error_message=None if error is None else shortened(error.message),
    )
    return Decision(waiting, (event,))


def _ended(item: WorkItem, state: WorkState, now: datetime) -> WorkItem:
    return replace(unleased(item), state=state, finished_at=now)
