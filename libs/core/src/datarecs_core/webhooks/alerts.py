"""The texts of alert mails: one for every change of an endpoint that a person must know.

An alert follows from the state before and after a decision, so it is queued with its change and
never twice. Separate from `events`, which are for programs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from datarecs_core.notifications.mail import Notice
from datarecs_core.values import ResourceUid
from datarecs_core.webhooks.health import Disabled, DisabledBy, EndpointState
from datarecs_core.webhooks.overflow import resumes_below


class AlertKind(StrEnum):
    """Part of the unique key of an alert mail; never renamed."""

    FAILING = "failing"
    DISABLED = "disabled"
    RECOVERED = "recovered"
    OVERFLOW = "overflow"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFacts:
    """The facts of an alert in addition to the state."""

    name: str
    host: str
    """Host and port of its URL, because the rest may contain secrets; empty if unknown."""
    last_outcome: str
    """Outcome of the attempt that changed the state; empty without one."""
    disable_after: timedelta | None
    """How long it may fail; None if failures never disable it."""
    max_pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    endpoint_uid: ResourceUid
    kind: AlertKind
    episode: datetime
    """Start of the failures, the disabling or the overflow."""
    notice: Notice

    @property
    def scope(self) -> str:
        """The unique key of the mail, in addition to its recipient."""
        return f"endpoint:{self.endpoint_uid}:{self.kind}:{self.episode.isoformat()}"


def endpoint_alerts(
    before: EndpointState, after: EndpointState, facts: AlertFacts
) -> tuple[Alert, ...]:
    """The alerts of one decision about an endpoint; none without a change that matters."""
    return tuple(
        Alert(endpoint_uid=after.endpoint_uid, kind=kind, episode=episode, notice=notice)
        for kind, episode, notice in _alerts(before, after, facts)
    )


def _alerts(
    before: EndpointState, after: EndpointState, facts: AlertFacts
) -> Iterator[tuple[AlertKind, datetime, Notice]]:
    disabled, since = after.disabled, after.failing_since
    if disabled is not None and disabled != before.disabled:
        if disabled.by is not DisabledBy.USER:
            yield AlertKind.DISABLED, disabled.at, _disabled(disabled, after, facts)
    elif since is not None and after.warned_at is not None and before.warned_at is None:
        yield AlertKind.FAILING, since, _failing(since, after, facts)
    if before.warned_at is not None and before.failing_since is not None and since is None:
        yield AlertKind.RECOVERED, before.failing_since, _recovered(before.failing_since, facts)
    overflow = after.overflow_since
    if overflow is not None and after.is_overflowing and not before.is_overflowing:
        yield AlertKind.OVERFLOW, overflow, _overflow(overflow, after, facts)


_WHY_DISABLED = {
    DisabledBy.AUTO: "No attempt has succeeded within the time that auto_disable allows.",
    DisabledBy.GONE: "The receiver answered 410 Gone.",
    DisabledBy.RECEIVER: "The receiver answered with the header webhook-delivery: disable.",
    DisabledBy.USER: "A person disabled it.",
}


def _disabled(disabled: Disabled, state: EndpointState, facts: AlertFacts) -> Notice:
    name = facts.name
    return Notice(
        subject=f"Webhook {name} is disabled",
        headline=f"Webhook {name} is disabled",
        sentences=(
            _WHY_DISABLED[disabled.by],
            "Nothing is sent to it. Waiting deliveries are kept, and new events are stored.",
            f"When the receiver works again: datarecs webhook enable --endpoint {name}",
            f"Then send the missed events: {_recover(name, disabled.at)}",
        ),
        facts=_facts(state.failing_since, state, facts),
    )


def _failing(since: datetime, state: EndpointState, facts: AlertFacts) -> Notice:
    if facts.disable_after is None:
        consequence = "It is not disabled automatically, because auto_disable is off in its spec."
    else:
        moment = _minute(since + facts.disable_after)
        consequence = f"It is disabled on {moment} if no attempt succeeds until then."
    return Notice(
        subject=f"Webhook {facts.name} has failed for 24 hours",
        headline=f"Webhook {facts.name} has failed for 24 hours",
        sentences=(
            f"No attempt has succeeded since {_minute(since)}.",
            consequence,
            f"Waiting: datarecs webhook deliveries --endpoint {facts.name} --state PENDING",
        ),
        facts=_facts(since, state, facts),
    )


def _recovered(since: datetime, facts: AlertFacts) -> Notice:
    return Notice(
        subject=f"Webhook {facts.name} works again",
        headline=f"Webhook {facts.name} works again",
        sentences=(
            f"It failed from {_minute(since)}; an attempt has now succeeded.",
            f"Send the events that were not delivered: {_recover(facts.name, since)}",
        ),
        facts=_facts(since, None, facts),
        is_good=True,
    )


def _overflow(since: datetime, state: EndpointState, facts: AlertFacts) -> Notice:
    resumed = resumes_below(facts.max_pending)
    return Notice(
        subject=f"Webhook {facts.name} overflows",
        headline=f"Webhook {facts.name} has too many deliveries waiting",
        sentences=(
            f"{state.pending:,} deliveries wait; its limit max_pending is {facts.max_pending:,}.",
            f"Events since {_minute(since)} get no delivery until fewer than {resumed:,} wait.",
            "They are stored, and can be sent for 14 days.",
            f"When fewer wait, send these events: {_recover(facts.name, since)}",
        ),
        facts=_facts(state.failing_since, state, facts),
    )


def _recover(name: str, since: datetime) -> str:
    """The command that sends the missed events, from the full second of `since`."""
    start = since.strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"datarecs webhook recover --endpoint {name} --since {start}"


def _facts(
    since: datetime | None, state: EndpointState | None, facts: AlertFacts
) -> tuple[tuple[str, str], ...]:
    failures = (
        "" if state is None or not state.consecutive_failures else str(state.consecutive_failures)
    )
    known = (
        ("Endpoint", facts.name),
        ("Host", facts.host),
        ("Failing since", "" if since is None else _minute(since)),
        ("Failures in a row", failures),
        ("Last outcome", facts.last_outcome),
    )
    return tuple((label, value) for label, value in known if value)


def _minute(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M UTC")
