"""What an endpoint's own record says: rest, disabling, rate, and when it is looked at next.

Beside `delivery` because several deliveries of one endpoint share it, under one row lock.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from datarecs_core.decision import Decision
from datarecs_core.values import ResourceUid, TenantId
from datarecs_core.webhooks.events import WebhookEndpointAutoDisabled
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome, ReceiverWish, asked_pause

UNPROVEN_RATE = 30
"""Attempts per minute until the first success: a mistyped URL never receives a flood."""
HELD_FOR = timedelta(seconds=30)
"""How often an endpoint that may not be sent to is looked at again."""


class DisabledBy(StrEnum):
    GONE = "gone"
    """It answered 410."""
    RECEIVER = "receiver"
    """It asked for it in `webhook-delivery: disable`."""


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
    """When the sending loop looks; None while nothing waits."""
    rate_paid_until: datetime | None = None
    """The theoretical arrival time of the rate limit (GCRA)."""
    paused_until: datetime | None = None
    """The receiver asked for a rest."""
    failing_since: datetime | None = None
    consecutive_failures: int = 0
    last_success_at: datetime | None = None
    disabled: Disabled | None = None

    def accepts(self, generation: int) -> bool:
        """Whether deliveries are made and sent for this generation of the spec."""
        return self.disabled is None or self.disabled.generation < generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """What the decision needs of the resource behind the state."""

    generation: int
    shown_url: str
    """Without query; scheme, host and port alone where the URL is a secret."""


def decide_endpoint(
    state: EndpointState, end: AttemptEnd, *, receiver: Receiver, now: datetime
) -> Decision[EndpointState]:
    """The endpoint after an attempt: success clears, failures count, 410 disables at once."""
    after = _counted(state, end.outcome, now)
    pause = asked_pause(end, now=now)
    if pause is not None:
        after = replace(after, paused_until=max(now + pause, state.paused_until or now))
    by = _asks_to_be_disabled(end)
    if by is None or not state.accepts(receiver.generation):
        return Decision(after)
    after = replace(after, disabled=Disabled(by=by, at=now, generation=receiver.generation))
    told = WebhookEndpointAutoDisabled(
        tenant_id=after.tenant_id,
        endpoint_id=after.endpoint_uid,
        url=receiver.shown_url,
        consecutive_failures=after.consecutive_failures,
        disabled_at=now,
        reason=by.upper(),
        failing_since=after.failing_since,
    )
    return Decision(after, (told,))


def _counted(state: EndpointState, outcome: Outcome, now: datetime) -> EndpointState:
    if outcome is Outcome.OK:
        return replace(state, failing_since=None, consecutive_failures=0, last_success_at=now)
    if not outcome.counts_as_failure:
        return state
    return replace(
        state,
        failing_since=state.failing_since or now,
        consecutive_failures=state.consecutive_failures + 1,
    )


def _asks_to_be_disabled(end: AttemptEnd) -> DisabledBy | None:
    if end.outcome is Outcome.HTTP_410:
        return DisabledBy.GONE
    return DisabledBy.RECEIVER if end.wish is ReceiverWish.DISABLE else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What of an endpoint's deliveries decides when to look at it again."""

    first_due: datetime | None
    """Of the pending ones."""
    first_lease_end: datetime | None
    """Of the leased ones."""
    leased: int
    first_expiry: datetime | None
    """Of the pending ones: found in time even while nothing may be sent."""
    first_test: datetime | None = None
    """Of the pending tests, which are sent whatever the state of the endpoint."""


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
    """The endpoint's own rate once it has answered 2xx; before, at most 30 a minute."""
    return rate_per_minute if state.last_success_at else min(UNPROVEN_RATE, rate_per_minute)


def sendable_now(state: EndpointState, allowed: Allowance, *, leased: int, now: datetime) -> int:
    """How many attempts may start: free slots, tokens of the rate, none during a rest."""
    if state.paused_until and now < state.paused_until:
        return 0
    ahead = max(state.rate_paid_until or now, now) - now
    tokens = allowed.burst - -(-ahead // allowed.interval)
    return max(0, min(allowed.max_concurrent - leased, tokens))


def paid(state: EndpointState, allowed: Allowance, *, started: int, now: datetime) -> EndpointState:
    """The state after `started` attempts have taken their tokens."""
    until = max(state.rate_paid_until or now, now) + started * allowed.interval
    return replace(state, rate_paid_until=until)


def next_look(
    state: EndpointState, waiting: Waiting, allowed: Allowance | None, *, now: datetime
) -> datetime | None:
    """When the endpoint is to be claimed next; None while nothing waits.

    Args:
        state: after everything else has been decided.
        waiting: its deliveries after this transaction.
        allowed: None while nothing may be sent (disabled); then expiries and leases count, and a
            held endpoint is looked at every 30 s for a change of mind.
        now: database time.
    """
    moments = [waiting.first_lease_end, waiting.first_expiry, waiting.first_test]
    if waiting.first_due is not None:
        if allowed is None:
            moments.append(max(waiting.first_due, now + HELD_FOR))
        elif waiting.leased < allowed.max_concurrent:
            token_at = (state.rate_paid_until or now) - (allowed.burst - 1) * allowed.interval
            # Never earlier than now: a backlog gives no head start over other endpoints.
            moments.append(max(waiting.first_due, token_at, state.paused_until or now, now))
    return min((moment for moment in moments if moment), default=None)
