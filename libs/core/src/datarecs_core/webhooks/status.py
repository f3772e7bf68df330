"""What an endpoint's resource shows: health, consent, and why it was disabled.

Shown at transitions alone (failing, well again, disabled, consented), never per attempt, so that
status events stay few.
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
    DisabledBy.RECEIVER: "The receiver asked for it. Enable it with `datarecs webhook enable`.",
}


def is_failing(state: EndpointState) -> bool:
    return state.consecutive_failures >= FAILING_AFTER


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """The condition of an endpoint that needs consent."""

    consent: Consent
    message: str = ""


def validated(handshake: Handshake | None, *, now: datetime) -> Validated:
    """How far the consent is; the receiver is about to be asked where there is no handshake."""
    if handshake is None:
        return Validated(consent=Consent.PENDING)
    consent = handshake.consent(now)
    answer = handshake.answer or "no answer yet"
    match consent:
        case Consent.GRANTED:
            return Validated(consent=consent)
        case Consent.PENDING:
            until = instant_text(handshake.ends_at)
            return Validated(consent=consent, message=f"{answer}; consent is awaited until {until}")
        case Consent.REFUSED:
            return Validated(
                consent=consent,
                message=f"{answer}; no consent came. Ask again with `datarecs webhook enable`.",
            )
    assert_never(consent)


def is_stale(
    before: Mapping[str, object], state: EndpointState, generation: int, shown: Validated | None
) -> bool:
    """Whether a stored status does not yet say that it is off, or how far its consent is."""
    says_disabled = "disabled" in before
    says = _earlier("Validated", before)
    wanted = (None, None) if shown is None else (shown.consent.value, shown.message)
    return says_disabled == state.accepts(generation) or (
        (says.get("reason"), says.get("message")) != wanted
    )


def endpoint_status(
    state: EndpointState,
    generation: int,
    *,
    before: Mapping[str, object],
    now: datetime,
    shown: Validated | None = None,
) -> Mapping[str, object]:
    """The status to store; equal to `before` when nothing that is shown has changed.

    Args:
        state: the endpoint's row.
        generation: of its resource.
        before: the stored status; times of conditions that stand are kept from it.
        now: database time.
        shown: how far the consent is, where the endpoint needs one.
    """
    disabled = None if state.accepts(generation) else state.disabled
    failing = is_failing(state)
    healthy = ("False", "Failing") if failing else ("True", "Delivering")
    why = _WHY_DISABLED[disabled.by] if disabled else ""
    conditions = [
        _condition("Healthy", healthy, "", before=before, now=now),
        _condition("Ready", _ready(disabled, shown), why, before=before, now=now),
    ]
    if shown is not None:
        stands = (str(shown.consent is Consent.GRANTED), shown.consent.value)
        conditions.append(_condition("Validated", stands, shown.message, before=before, now=now))
    status: dict[str, object] = {"conditions": conditions}
    if disabled is not None:
        status["disabled"] = {"by": disabled.by.value, "at": instant_text(disabled.at)}
    if failing and state.failing_since is not None:
        status["failing_since"] = instant_text(state.failing_since)
    return status


def _ready(disabled: Disabled | None, shown: Validated | None) -> tuple[str, str]:
    if disabled is not None:
        return "False", f"Disabled{disabled.by.capitalize()}"
    if shown is not None and shown.consent is not Consent.GRANTED:
        return "False", "NotValidated"
    return "True", "Enabled"


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
