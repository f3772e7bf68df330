"""The status of an endpoint's resource: health, consent, overflow, and why it was disabled.

Written at transitions only (failing, healthy again, disabled, consented), never per attempt, which
keeps status events few.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from datarecs_core.values import instant_text
from datarecs_core.webhooks.handshake import Consent, Handshake
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """The condition of an endpoint that needs consent."""

    consent: Consent
    message: str = ""


def validated(handshake: Handshake | None, *, now: datetime) -> Validated:
    """The state of the consent; pending without a handshake, because its request comes next."""
    if handshake is None:
        return Validated(consent=Consent.PENDING)
    consent = handshake.consent(now)
    answer = handshake.answer or "no answer yet"
    match consent:
        case Consent.GRANTED:
            return Validated(consent=consent)
        case Consent.PENDING:
            until = instant_text(handshake.ends_at)
            message = f"{answer}; waiting for consent until {until}"
            return Validated(consent=consent, message=message)
        case Consent.REFUSED:
            return Validated(
                consent=consent,
                message=f"{answer}; no consent. Request it again with `datarecs webhook enable`.",
            )
    assert_never(consent)


def is_stale(
    state: EndpointState,
    generation: int,
    stored: Mapping[str, object],
    consent: Validated | None = None,
) -> bool:
    """Whether a change that no attempt made is not shown yet.

    These are: disabled, enabled, an overflow, the consent.
    """
    condition = _earlier("Validated", stored)
    current = (None, None) if consent is None else (consent.consent.value, consent.message)
    is_disabled = not state.accepts(generation)
    return (
        ("disabled" in stored) != is_disabled
        or stored.get("last_overflow") != _last_overflow(state)
        or (condition.get("reason"), condition.get("message")) != current
    )


def endpoint_status(
    state: EndpointState,
    generation: int,
    *,
    before: Mapping[str, object],
    now: datetime,
    consent: Validated | None = None,
) -> Mapping[str, object]:
    """The status to store; equal to `before` when nothing that is shown has changed.

    Args:
        state: the endpoint's row.
        generation: of its resource.
        before: the stored status; times of unchanged conditions are taken from it.
        now: database time.
        consent: state of the consent, if the endpoint needs one.
    """
    disabled = None if state.accepts(generation) else state.disabled
    failing = is_failing(state)
    healthy = ("False", "Failing") if failing else ("True", "Delivering")
    ready, why_not = _ready(state, disabled, consent)
    conditions = [
        _condition("Healthy", healthy, "", before=before, now=now),
        _condition("Ready", ready, why_not, before=before, now=now),
    ]
    if consent is not None:
        is_granted = consent.consent is Consent.GRANTED
        stands = (str(is_granted), consent.consent.value)
        conditions.append(_condition("Validated", stands, consent.message, before=before, now=now))
    status: dict[str, object] = {"conditions": conditions}
    if disabled is not None:
        status["disabled"] = {"by": disabled.by.value, "at": instant_text(disabled.at)}
    if failing and state.failing_since is not None:
        status["failing_since"] = instant_text(state.failing_since)
    if gap := _last_overflow(state):
        status["last_overflow"] = gap
    return status


def _last_overflow(state: EndpointState) -> Mapping[str, object] | None:
    """Which events got no delivery; `until` is there once it is over."""
    since, until = state.overflow_since, state.overflow_until
    if since is None:
        return None
    gap = {"since": instant_text(since)}
    return gap if until is None else gap | {"until": instant_text(until)}


def _ready(
    state: EndpointState, disabled: Disabled | None, consent: Validated | None
) -> tuple[tuple[str, str], str]:
    """Status and reason of the condition Ready, and what to do."""
    if disabled is not None:
        return ("False", f"Disabled{disabled.by.capitalize()}"), _WHY_DISABLED[disabled.by]
    if consent is not None and consent.consent is not Consent.GRANTED:
        return ("False", "NotValidated"), ""
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
