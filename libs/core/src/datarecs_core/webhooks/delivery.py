"""The states of a delivery: leased, succeeded, tried again at a time, or dead-lettered.

One event for one endpoint, from PENDING to a terminal state. Every change of its row is decided
here, from facts and database time; the health of the endpoint is in `health`.
"""

from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import assert_never
from uuid import UUID

from datarecs_core.decision import Decision
from datarecs_core.values import EventId, ResourceUid, RunId, TenantId
from datarecs_core.webhooks.backoff import next_delay
from datarecs_core.webhooks.endpoint import Retry
from datarecs_core.webhooks.events import WebhookDeliveryDeadLettered, WebhookDeliveryFailed
from datarecs_core.webhooks.matching import is_operational
from datarecs_core.webhooks.outcome import AttemptEnd, Outcome, ReceiverWish, requested_wait

LEASE_TTL = timedelta(seconds=60)
"""Longer than any attempt (30 s), so a lease is never renewed."""
WARN_AFTER = 4
"""Failed attempts after which `webhook.delivery.failed` is sent, once."""
FREE_LOSSES = 3
"""Lost workers that cost no delay of the schedule; later ones count as failures."""
SECRET_PAUSE = timedelta(seconds=60)


class DeliveryState(StrEnum):
    PENDING = "PENDING"
    LEASED = "LEASED"
    SUCCEEDED = "SUCCEEDED"
    DEAD_LETTERED = "DEAD_LETTERED"
    DISCARDED = "DISCARDED"

    @property
    def is_terminal(self) -> bool:
        return self not in {DeliveryState.PENDING, DeliveryState.LEASED}


class Origin(StrEnum):
    """Why a delivery exists; sent as `datarecs-reason`."""

    EVENT = "event"
    TEST = "test"
    RESEND = "resend"
    RECOVER = "recover"
    REPLAY = "replay"

    @property
    def priority(self) -> int:
        """Within one endpoint: tests first, then live events, then resent events."""
        return {Origin.TEST: 0, Origin.EVENT: 1}.get(self, 2)


NO_ACTION = UUID(int=0)
"""`action_id` of a delivery that a live event made."""
_ONE_ATTEMPT = Retry(delays=())


class DeliveryReason(StrEnum):
    """Why a delivery ended without success."""

    EXHAUSTED = "EXHAUSTED"
    EXPIRED = "EXPIRED"
    GONE = "GONE"
    ABORTED_BY_RECEIVER = "ABORTED_BY_RECEIVER"
    ENDPOINT_DELETED = "ENDPOINT_DELETED"
    SUPERSEDED = "SUPERSEDED"
    """A newer event of the run replaced it before it was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A row of `webhook_delivery` for the rules."""

    tenant_id: TenantId
    received_on: date
    """UTC day on which the delivery was made: first part of the key, and its partition."""
    delivery_id: UUID
    endpoint_uid: ResourceUid
    event_id: EventId
    event_type: str
    run_id: RunId | None = None
    """From the event's data; repeated in events about this delivery."""
    sequence: int | None = None
    """Number of the event within its run; None if its endpoint neither orders nor coalesces it."""
    is_early: bool = False
    """It waits for a missing earlier event of its run, at most until it is due."""
    state: DeliveryState = DeliveryState.PENDING
    reason: DeliveryReason | None = None
    attempt_no: int = 0
    """Attempts started."""
    schedule_index: int = 0
    """Delays of the schedule used up."""
    losses: int = 0
    """Attempts with a lost worker."""
    failing_since: datetime | None = None
    """First failure that used up a delay of the schedule."""
    due_at: datetime
    expires_at: datetime
    created_at: datetime
    origin: Origin = Origin.EVENT
    priority: int = Origin.EVENT.priority
    """Of the origin, as a separate column for the order of sending."""
    action_id: UUID = NO_ACTION
    """The user's action that made it."""
    event_on: date | None = None
    """UTC day under which the event is stored, where it is an earlier one than `received_on`."""
    lease_epoch: int = 0
    lease_owner: str | None = None
    lease_until: datetime | None = None
    last_outcome: Outcome | None = None
    last_status: int | None = None

    @property
    def stored_on(self) -> date:
        """UTC day under which its event is stored."""
        return self.event_on or self.received_on

    @property
    def is_reported(self) -> bool:
        """R3: the end of a test or of an operational event makes no further event."""
        return self.origin is not Origin.TEST and not is_operational(self.event_type)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """An attempt has ended, reported under the epoch of its lease."""

    lease_epoch: int
    end: AttemptEnd
    u: float
    """Uniform in [0, 1): the jitter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseExpired:
    """No end was reported in time."""

    u: float


@dataclass(frozen=True, slots=True)
class Expired:
    """`max_age` has passed."""


@dataclass(frozen=True, slots=True)
class EndpointDeleted:
    pass


@dataclass(frozen=True, slots=True)
class Superseded:
    """A newer event of the run waits for the endpoint, which coalesces events of this type."""


Fact = Ended | LeaseExpired | Expired | EndpointDeleted | Superseded


def lease(delivery: Delivery, *, owner: str, now: datetime) -> Delivery:
    """The delivery under a new lease; its attempt is counted before a byte is sent."""
    return replace(
        delivery,
        state=DeliveryState.LEASED,
        attempt_no=delivery.attempt_no + 1,
        lease_epoch=delivery.lease_epoch + 1,
        is_early=False,
        lease_owner=owner,
        lease_until=now + LEASE_TTL,
    )


def decide_delivery(
    delivery: Delivery, fact: Fact, *, retry: Retry, now: datetime
) -> Decision[Delivery]:
    """The delivery after a fact. Terminal states and stale epochs absorb everything."""
    if delivery.state.is_terminal:
        return Decision(delivery)
    if delivery.origin is Origin.TEST:
        retry = _ONE_ATTEMPT
    match fact:
        case Ended(lease_epoch=epoch):
            current = delivery.state is DeliveryState.LEASED and epoch == delivery.lease_epoch
            return _ended(delivery, fact, retry=retry, now=now) if current else Decision(delivery)
        case LeaseExpired(u=u):
            if delivery.state is not DeliveryState.LEASED:
                return Decision(delivery)
            return _lost(delivery, u, retry=retry, now=now)
        case Expired():
            return _dead(delivery, DeliveryReason.EXPIRED, None)
        case EndpointDeleted() | Superseded():
            return Decision(_discarded(delivery, fact))
    assert_never(fact)


def _discarded(delivery: Delivery, fact: EndpointDeleted | Superseded) -> Delivery:
    """A delivery that is being sent is not superseded: the receiver may have it already."""
    if isinstance(fact, EndpointDeleted):
        return _closed(delivery, DeliveryState.DISCARDED, DeliveryReason.ENDPOINT_DELETED)
    if delivery.state is not DeliveryState.PENDING:
        return delivery
    return _closed(delivery, DeliveryState.DISCARDED, DeliveryReason.SUPERSEDED)


def _ended(delivery: Delivery, fact: Ended, *, retry: Retry, now: datetime) -> Decision[Delivery]:
    end = fact.end
    seen = replace(delivery, last_outcome=end.outcome, last_status=end.status)
    if end.outcome is Outcome.OK:
        return Decision(_closed(seen, DeliveryState.SUCCEEDED, None))
    if end.outcome is Outcome.HTTP_410 or end.wish is ReceiverWish.DISABLE:
        return _dead(seen, DeliveryReason.GONE, end)
    if end.wish is ReceiverWish.ABORT_MESSAGE:
        return _dead(seen, DeliveryReason.ABORTED_BY_RECEIVER, end)
    if end.outcome is Outcome.SECRET_UNAVAILABLE and delivery.origin is not Origin.TEST:
        return Decision(_pending(seen, now + SECRET_PAUSE))
    return _failed(seen, fact, retry=retry, now=now)


def _failed(delivery: Delivery, fact: Ended, *, retry: Retry, now: datetime) -> Decision[Delivery]:
    """The next delay of the schedule, or the receiver's Retry-After where that is longer."""
    delay = next_delay(retry.delays, delivery.schedule_index, u=fact.u)
    if delay is None:
        return _dead(delivery, DeliveryReason.EXHAUSTED, fact.end)
    wait = max(delay, requested_wait(fact.end, now=now) or delay)
    waiting = replace(
        _pending(delivery, now + wait),
        schedule_index=delivery.schedule_index + 1,
        failing_since=delivery.failing_since or now,
    )
    if waiting.schedule_index == WARN_AFTER:
        return _warned(waiting, fact.end)
    return Decision(waiting)


def _lost(delivery: Delivery, u: float, *, retry: Retry, now: datetime) -> Decision[Delivery]:
    """Tried again at once: the request may not have been sent, and receivers recognise the id."""
    end = AttemptEnd(outcome=Outcome.WORKER_LOST)
    lost = replace(delivery, last_outcome=end.outcome, last_status=None, losses=delivery.losses + 1)
    if lost.losses <= FREE_LOSSES:
        return Decision(_pending(lost, now))
    fact = Ended(lease_epoch=lost.lease_epoch, end=end, u=u)
    return _failed(lost, fact, retry=retry, now=now)


def _pending(delivery: Delivery, due_at: datetime) -> Delivery:
    """Due again, at the latest when it expires, so that the expiry is found in time."""
    return replace(
        delivery,
        state=DeliveryState.PENDING,
        due_at=min(due_at, delivery.expires_at),
        lease_owner=None,
        lease_until=None,
    )


def _closed(delivery: Delivery, state: DeliveryState, reason: DeliveryReason | None) -> Delivery:
    return replace(delivery, state=state, reason=reason, lease_owner=None, lease_until=None)


def _dead(delivery: Delivery, reason: DeliveryReason, end: AttemptEnd | None) -> Decision[Delivery]:
    dead = _closed(delivery, DeliveryState.DEAD_LETTERED, reason)
    if not delivery.is_reported:
        return Decision(dead)
    event = WebhookDeliveryDeadLettered(
        tenant_id=dead.tenant_id,
        endpoint_id=dead.endpoint_uid,
        delivery_id=dead.delivery_id,
        event_id=dead.event_id,
        event_type=dead.event_type,
        attempts=dead.attempt_no,
        run_id=dead.run_id,
        outcome=dead.last_outcome,
        status_code=dead.last_status,
        error=(end.error or None) if end else None,
        reason=reason,
    )
    return Decision(dead, (event,))


def _warned(waiting: Delivery, end: AttemptEnd) -> Decision[Delivery]:
    if not waiting.is_reported:
        return Decision(waiting)
    event = WebhookDeliveryFailed(
        tenant_id=waiting.tenant_id,
        endpoint_id=waiting.endpoint_uid,
        delivery_id=waiting.delivery_id,
        event_id=waiting.event_id,
        event_type=waiting.event_type,
        attempts=waiting.attempt_no,
        run_id=waiting.run_id,
        outcome=waiting.last_outcome,
        status_code=waiting.last_status,
        error=end.error or None,
        next_attempt_at=waiting.due_at,
    )
    return Decision(waiting, (event,))
