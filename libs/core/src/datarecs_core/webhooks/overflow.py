"""Overflow: an endpoint with too many waiting deliveries gets no further ones.

Separate from `health`, because it depends on the length of the queue, not on the receiver: an
endpoint that answers every request can overflow, and one that is down need not.
"""

from dataclasses import replace
from datetime import datetime

from datarecs_core.webhooks.health import EndpointState, Waiting

RESUMES_BELOW_PERCENT = 80
"""Share of `max_pending` below which events get deliveries again."""


def resumes_below(max_pending: int) -> int:
    """Number of waiting deliveries below which an overflow ends."""
    return max_pending * RESUMES_BELOW_PERCENT // 100


def room_for_actions(state: EndpointState, max_pending: int) -> int:
    """Number of deliveries that a recover or replay may add now; the rest follows later.

    Up to the number below which an overflow ends, so that live events have room as well.
    """
    return max(0, resumes_below(max_pending) - state.pending)


def check_overflow(state: EndpointState, *, max_pending: int, now: datetime) -> EndpointState:
    """Begin an overflow at `max_pending` waiting deliveries, end it below 80 % of them."""
    if not state.is_overflowing:
        if state.pending < max_pending:
            return state
        return replace(state, overflow_since=now, overflow_until=None)
    if state.pending < resumes_below(max_pending):
        return replace(state, overflow_until=now)
    # Transactions may end in another order than they began: the gap starts with the first event.
    return replace(state, overflow_since=min(now, state.overflow_since or now))


def after_end(
    state: EndpointState, ended: int, *, max_pending: int | None, now: datetime
) -> EndpointState:
    """The state after deliveries have ended.

    Args:
        state: before the ends.
        ended: number of deliveries that reached a terminal state.
        max_pending: limit of the spec; None if the spec cannot be read.
        now: database time.
    """
    after = replace(state, pending=max(0, state.pending - ended))
    if max_pending is None or not after.is_overflowing:
        return after
    return check_overflow(after, max_pending=max_pending, now=now)


def counted_again(state: EndpointState, waiting: Waiting) -> EndpointState:
    """The state with the count 0 if no delivery waits, which corrects a wrong count."""
    is_empty = waiting.first_due is None and not waiting.leased
    return replace(state, pending=0) if is_empty else state
