"""What an endpoint's resource shows of its health: two conditions and why it was disabled.

Shown at transitions alone (failing, well again, disabled, enabled), never per attempt, so that
status events stay few.
"""

from collections.abc import Mapping
from datetime import datetime

from datarecs_core.values import instant_text
from datarecs_core.webhooks.health import Disabled, DisabledBy, EndpointState

FAILING_AFTER = 4
"""Failures in a row after which an endpoint is shown as failing."""

_WHY_DISABLED = {
    DisabledBy.USER: "A person disabled it. Enable it with `datarecs webhook enable`.",
    DisabledBy.AUTO: "It failed for too long. Enable it with `datarecs webhook enable`.",
    DisabledBy.GONE: "The receiver answered 410. Enable it with `datarecs webhook enable`.",
    DisabledBy.RECEIVER: "The receiver requested it. Enable it with `datarecs webhook enable`.",
}

_WHY_OVERFLOWING = (
    "Too many deliveries wait, so new events get none. When it is over, send them with "
    "`datarecs webhook recover --since`."
)


def is_failing(state: EndpointState) -> bool:
    return state.consecutive_failures >= FAILING_AFTER


def endpoint_status(
    state: EndpointState, generation: int, *, before: Mapping[str, object], now: datetime
) -> Mapping[str, object]:
    """The status to store; equal to `before` when nothing that is shown has changed.

    Args:
        state: the endpoint's row.
        generation: of its resource.
        before: the stored status; times of unchanged conditions are taken from it.
        now: database time.
    """
    disabled = None if state.accepts(generation) else state.disabled
    failing = is_failing(state)
    healthy = ("False", "Failing") if failing else ("True", "Delivering")
    ready, why_not = _ready(state, disabled)
    status: dict[str, object] = {
        "conditions": [
            _condition("Healthy", healthy, "", before=before, now=now),
            _condition(
                "Ready",
                ready,
                why_not,
                before=before,
                now=now,
            ),
        ]
    }
    if disabled is not None:
        status["disabled"] = {"by": disabled.by.value, "at": instant_text(disabled.at)}
    if failing and state.failing_since is not None:
        status["failing_since"] = instant_text(state.failing_since)
    if gap := _last_overflow(state):
        status["last_overflow"] = gap
    return status


def is_stale(state: EndpointState, generation: int, shown: Mapping[str, object]) -> bool:
    """Whether a change that no attempt made is not shown yet: disabled, enabled, an overflow."""
    is_disabled = not state.accepts(generation)
    return ("disabled" in shown) != is_disabled or shown.get("last_overflow") != _last_overflow(
        state
    )


def _last_overflow(state: EndpointState) -> Mapping[str, object] | None:
    """Which events got no delivery; `until` is there once it is over."""
    since, until = state.overflow_since, state.overflow_until
    if since is None:
        return None
    gap = {"since": instant_text(since)}
    return gap if until is None else gap | {"until": instant_text(until)}


def _ready(state: EndpointState, disabled: Disabled | None) -> tuple[tuple[str, str], str]:
    """Status and reason of the condition Ready, and what to do."""
    if disabled is not None:
        return ("False", f"Disabled{disabled.by.capitalize()}"), _WHY_DISABLED[disabled.by]
    if state.is_overflowing:
        return ("False", "Overflow"), _WHY_OVERFLOWING
    return ("True", "Enabled"), ""


def _condition(
    kind: str,
    stands: tuple[str, str],
    message: str,
    *,
    before: Mapping[str, object],
    now: datetime,
) -> Mapping[str, object]:
    """One condition; its time moves only when its status flips."""
    status, reason = stands
    earlier = _earlier(kind, before)
    transition_time = (
        earlier.get("last_transition_time") if earlier.get("status") == status else None
    )
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "last_transition_time": transition_time or instant_text(now),
    }


def _earlier(kind: str, before: Mapping[str, object]) -> Mapping[str, object]:
    conditions = before.get("conditions")
    for one in conditions if isinstance(conditions, list) else ():
        if isinstance(one, Mapping) and one.get("type") == kind:
            return one
    return {}
