"""The record of an endpoint: pauses, disabling, rate, and the time of the next check.

Beside `delivery` because several deliveries of one endpoint share it, under one row lock.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from datarecs_core.decision import Decision
from datarecs_core.values import ResourceUid, TenantId
from datarecs_core.webhooks.backoff import jittered
from datarecs_core.webhooks.events import WebhookEndpointAutoDisabled
from datarecs_core.webhooks.handshake import Handshake
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome, ReceiverWish, requested_pause

UNPROVEN_RATE = 30
"""Attempts per minute until the first success: a mistyped URL never receives a flood."""
HELD_FOR = timedelta(seconds=30)
"""How often an endpoint without permission to send is checked again."""


OPENS_AFTER = 10
"""Failures in a row after which the circuit opens."""
WINDOW = timedelta(minutes=5)
WINDOW_ATTEMPTS = 20
"""Attempts of a window from which on its share of failures counts."""
FIRST_REST = timedelta(seconds=30)
LONGEST_REST = timedelta(minutes=15)
DISABLES_AFTER_FAILURES = 10
"""Failures that an episode needs besides its length."""
WARNS_AFTER = timedelta(hours=24)
"""How long an endpoint fails before people are warned."""


class DisabledBy(StrEnum):
    USER = "user"
    AUTO = "auto"
    """It failed for as long as its spec allows."""
    GONE = "gone"
    """It returned 410."""
    RECEIVER = "receiver"
    """It requested this with `webhook-delivery: disable`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disabled:
    by: DisabledBy
    at: datetime
    generation: int
    """Of the resource it happened to; any later generation is enabled again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointState:
    """The row of `webhook_endpoint_state`; made at the first delivery."""

    tenant_id: TenantId
    endpoint_uid: ResourceUid
    next_claim_at: datetime | None = None
    """When the sending loop checks it; None while nothing waits."""
    rate_paid_until: datetime | None = None
    """The theoretical arrival time of the rate limit (GCRA)."""
    paused_until: datetime | None = None
    """The receiver requested a pause."""
    failing_since: datetime | None = None
    consecutive_failures: int = 0
    last_success_at: datetime | None = None
    disabled: Disabled | None = None
    circuit_openings: int = 0
    """How often in a row the circuit opened; 0 while it is closed."""
    circuit_open_until: datetime | None = None
    """Nothing is sent before this; then one attempt decides."""
    window_started_at: datetime | None = None
    window_attempts: int = 0
    window_failures: int = 0
    handshake: Handshake | None = None
    """The newest request for consent, of endpoints that need consent."""
    warned_at: datetime | None = None
    """When people were warned of this episode of failures."""
    pending: int = 0
    """Deliveries that have not ended."""
    overflow_since: datetime | None = None
    """First event that got no delivery because too many waited."""
    overflow_until: datetime | None = None
    """When events got deliveries again; None while they do not."""

    @property
    def is_overflowing(self) -> bool:
        return self.overflow_since is not None and self.overflow_until is None

    def accepts(self, generation: int) -> bool:
        """Whether deliveries are made and sent for this generation of the spec."""
        return self.disabled is None or self.disabled.generation < generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """The parts of the resource for the decision."""

    generation: int
    shown_url: str
    """Without query; scheme, host and port alone where the URL is a secret."""
    disable_after: timedelta | None = None
    """How long it may fail; None where it is never disabled for that."""


def cleared(state: EndpointState) -> EndpointState:
    """The state after a person has enabled the endpoint: no failure, no pause, no consent."""
    return replace(
        state,
        paused_until=None,
        failing_since=None,
        warned_at=None,
        consecutive_failures=0,
        disabled=None,
        circuit_openings=0,
        circuit_open_until=None,
        window_started_at=None,
        window_attempts=0,
        window_failures=0,
        handshake=None,
    )


def decide_endpoint(
    state: EndpointState, end: AttemptEnd, *, receiver: Receiver, now: datetime, u: float
) -> Decision[EndpointState]:
    """The endpoint after an attempt: success clears, failures count, 410 disables at once.

    Args:
        state: before the attempt's end.
        end: how it ended.
        receiver: what is needed of the resource.
        now: database time.
        u: uniform in [0, 1): the jitter of the circuit's rest.
    """
    after = _circuit(_counted(state, end.outcome, now), end.outcome, now=now, u=u)
    pause = requested_pause(end, now=now)
    if pause is not None:
        after = replace(after, paused_until=max(now + pause, state.paused_until or now))
    by = _disabled_by(end) or _failed_too_long(after, receiver, now=now)
    if by is None or not state.accepts(receiver.generation):
        return Decision(after)
    after = replace(after, disabled=Disabled(by=by, at=now, generation=receiver.generation))
    event = WebhookEndpointAutoDisabled(
        tenant_id=after.tenant_id,
        endpoint_id=after.endpoint_uid,
        url=receiver.shown_url,
        consecutive_failures=after.consecutive_failures,
        disabled_at=now,
        reason="FAILING" if by is DisabledBy.AUTO else by.upper(),
        failing_since=after.failing_since,
    )
    return Decision(after, (event,))


def _counted(state: EndpointState, outcome: Outcome, now: datetime) -> EndpointState:
    if outcome is Outcome.OK:
        return replace(
            state,
            failing_since=None,
            warned_at=None,
            consecutive_failures=0,
            last_success_at=now,
        )
    if not outcome.counts_as_failure:
        return state
    since = state.failing_since or now
    is_long = now - since >= WARNS_AFTER
    return replace(
        state,
        failing_since=since,
        warned_at=state.warned_at or (now if is_long else None),
        consecutive_failures=state.consecutive_failures + 1,
    )


def _circuit(state: EndpointState, outcome: Outcome, *, now: datetime, u: float) -> EndpointState:
    """Opened by failures in a row or by a bad share of a window, closed by one success.

    Attempts that end while it is open were started before and decide nothing.
    """
    if outcome is Outcome.OK and state.circuit_openings:
        return replace(
            state,
            circuit_openings=0,
            circuit_open_until=None,
            window_started_at=None,
            window_attempts=0,
            window_failures=0,
        )
    if outcome is not Outcome.OK and not outcome.counts_as_failure:
        return state
    after = _in_window(state, is_failure=outcome is not Outcome.OK, now=now)
    if outcome is Outcome.OK or (state.circuit_open_until and now < state.circuit_open_until):
        return after
    is_bad_window = (
        after.window_attempts >= WINDOW_ATTEMPTS
        and after.window_failures * 10 >= after.window_attempts * 7
    )
    if state.circuit_openings or state.consecutive_failures >= OPENS_AFTER or is_bad_window:
        rest = min(FIRST_REST * 2 ** min(state.circuit_openings, 10), LONGEST_REST)
        openings, until = state.circuit_openings + 1, now + jittered(rest, u=u)
        return replace(after, circuit_openings=openings, circuit_open_until=until)
    return after


def _in_window(state: EndpointState, *, is_failure: bool, now: datetime) -> EndpointState:
    started = state.window_started_at
    if started is None or now - started >= WINDOW:
        return replace(
            state, window_started_at=now, window_attempts=1, window_failures=int(is_failure)
        )
    return replace(
        state,
        window_attempts=state.window_attempts + 1,
        window_failures=state.window_failures + is_failure,
    )


def _failed_too_long(
    state: EndpointState, receiver: Receiver, *, now: datetime
) -> DisabledBy | None:
    since, limit = state.failing_since, receiver.disable_after
    if since is None or limit is None or state.consecutive_failures < DISABLES_AFTER_FAILURES:
        return None
    return DisabledBy.AUTO if now - since >= limit else None


def _disabled_by(end: AttemptEnd) -> DisabledBy | None:
    if end.outcome is Outcome.HTTP_410:
        return DisabledBy.GONE
    return DisabledBy.RECEIVER if end.wish is ReceiverWish.DISABLE else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The facts of an endpoint's deliveries that decide the time of the next check."""

    first_due: datetime | None
    """Of the pending ones."""
    first_lease_end: datetime | None
    """Of the leased ones."""
    leased: int
    first_expiry: datetime | None
    """Of the pending ones: handled in time even while nothing may be sent."""
    first_test: datetime | None = None
    """Of the pending tests, which are sent in every state of the endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The limits in force: rate and open requests, over all replicas."""

    rate_per_minute: int
    max_concurrent: int

    @property
    def interval(self) -> timedelta:
        return timedelta(minutes=1) / self.rate_per_minute

    @property
    def burst(self) -> int:
        return max(1, self.rate_per_minute // 10)


def rate_in_force(state: EndpointState, rate_per_minute: int) -> int:
    """The endpoint's rate once it has returned 2xx; before, at most 30 a minute."""
    return rate_per_minute if state.last_success_at else min(UNPROVEN_RATE, rate_per_minute)


def sendable_now(state: EndpointState, allowed: Allowance, *, leased: int, now: datetime) -> int:
    """How many attempts may start: free slots, tokens of the rate, none during a rest."""
    if now < max(state.paused_until or now, state.circuit_open_until or now):
        return 0
    most = 1 if state.circuit_openings else allowed.max_concurrent
    ahead = max(state.rate_paid_until or now, now) - now
    tokens = allowed.burst - -(-ahead // allowed.interval)
    return max(0, min(most - leased, tokens))


def paid(state: EndpointState, allowed: Allowance, *, started: int, now: datetime) -> EndpointState:
    """The state after `started` attempts have taken their tokens."""
    until = max(state.rate_paid_until or now, now) + started * allowed.interval
    return replace(state, rate_paid_until=until)


def next_claim_time(
    state: EndpointState, waiting: Waiting, allowed: Allowance | None, *, now: datetime
) -> datetime | None:
    """When the endpoint is to be claimed next; None while nothing waits.

    Args:
        state: after everything else has been decided.
        waiting: its deliveries after this transaction.
        allowed: None while nothing may be sent (disabled); then expiries and leases count, and a
            disabled endpoint is checked every 30 s.
        now: database time.
    """
    moments = [waiting.first_lease_end, waiting.first_expiry, waiting.first_test]
    if waiting.first_due is not None:
        if allowed is None:
            moments.append(max(waiting.first_due, now + HELD_FOR))
        elif waiting.leased < (1 if state.circuit_openings else allowed.max_concurrent):
            token_at = (state.rate_paid_until or now) - (allowed.burst - 1) * allowed.interval
            # Never earlier than now: a backlog gives no head start over other endpoints.
            rests = (state.paused_until or now, state.circuit_open_until or now)
            moments.append(max(waiting.first_due, token_at, *rests, now))
    return min((moment for moment in moments if moment), default=None)
