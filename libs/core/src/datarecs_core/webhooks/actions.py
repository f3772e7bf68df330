"""Actions of a user on an endpoint's deliveries: test, resend, recover, replay, and their limits.

An action is a row that the REST API writes and the webhook-service expands into deliveries, a chunk
at a time; its progress is part of the row, so a lost process loses nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from uuid import UUID

from datarecs_core.values import EventId, ResourceUid, TenantId
from datarecs_core.webhooks.delivery import Delivery, Origin
from datarecs_core.webhooks.events import (
    DeliveryEvent,
    WebhookDeliveryReplayed,
    WebhookDeliveryRetried,
)
from datarecs_core.webhooks.globs import glob_matches, short_type
from datarecs_core.webhooks.matching import (
    EndpointFacts,
    EventFacts,
    JobFacts,
    is_operational,
    matches_filter,
)
from datarecs_core.webhooks.payload import Message

MAX_WINDOW = timedelta(days=14)
"""How far back recover and replay reach; events are stored for longer."""
MAX_MESSAGES = 100_000
"""Deliveries that one action may make."""
MAX_RESENT = 1000
"""Deliveries that one resend may name."""
CHUNK = 1000
"""Events that one transaction of the expansion reads."""
TEST_EXPIRES_AFTER = timedelta(minutes=5)

TEST_TYPE = "webhook.test"
"""Without the family that every type begins with."""
TEST_MARK = "testevent"
"""Extension of an example that was sent as a test."""


class ActionState(StrEnum):
    OPEN = "OPEN"
    DONE = "DONE"
    CANCELLED = "CANCELLED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Events received within [since, until)."""

    since: datetime
    until: datetime
    types: tuple[str, ...] = ()
    """Globs that narrow the endpoint's filter; empty for no narrowing."""
    only_missing: bool
    """Only events without a successful or waiting delivery to the endpoint."""


@dataclass(frozen=True, slots=True)
class Position:
    """The key of the last stored event that was read."""

    received_on: date
    event_id: EventId


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAction:
    """A row of `webhook_action`."""

    tenant_id: TenantId
    action_id: UUID
    endpoint_uid: ResourceUid
    kind: Origin
    """Anything but `event`."""
    state: ActionState = ActionState.OPEN
    requested_by: str
    created_at: datetime
    closed_at: datetime | None = None
    window: Window | None = None
    """Of recover and replay."""
    deliveries: tuple[UUID, ...] = ()
    """Of a resend: which ones."""
    example: str | None = None
    """Of a test: the event type of the example that is sent."""
    position: Position | None = None
    """How far the window was read."""
    expected: int
    """Deliveries it makes, as counted when it was requested."""
    made: int = 0
    """Deliveries made so far."""
    first_delivery: UUID | None = None
    """The first delivery that it made."""

    @property
    def is_exclusive(self) -> bool:
        """Whether the endpoint may have no other action of this sort open."""
        return self.kind in {Origin.RECOVER, Origin.REPLAY}


def after_chunk(
    action: WebhookAction, made: Sequence[Delivery], position: Position | None
) -> WebhookAction:
    """The action after one more chunk of its window."""
    first = made[0].delivery_id if made else None
    return replace(
        action,
        position=position or action.position,
        made=action.made + len(made),
        first_delivery=action.first_delivery or first,
    )


def close(action: WebhookAction, state: ActionState, *, now: datetime) -> WebhookAction:
    """The action at its end; one that has ended stays as it is."""
    if action.state is not ActionState.OPEN:
        return action
    return replace(action, state=state, closed_at=now)


def completion_event(action: WebhookAction, first: Delivery) -> DeliveryEvent | None:
    """The event of an expanded action; none for a test."""
    if action.kind is Origin.TEST:
        return None
    event = WebhookDeliveryRetried if action.kind is Origin.RESEND else WebhookDeliveryReplayed
    return event(
        tenant_id=action.tenant_id,
        endpoint_id=action.endpoint_uid,
        delivery_id=first.delivery_id,
        event_id=first.event_id,
        event_type=first.event_type,
        attempts=first.attempt_no,
        action_id=action.action_id,
        count=action.made,
    )


def is_in_window(
    endpoint: EndpointFacts, window: Window, message: Message, *, job: JobFacts | None = None
) -> bool:
    """Whether recover or replay takes a stored event; tests of other days are never repeated."""
    event_type = message.attributes["type"]
    if short_type(event_type) == TEST_TYPE or TEST_MARK in message.attributes:
        return False
    if window.types and not any(glob_matches(glob, event_type) for glob in window.types):
        return False
    return matches_filter(endpoint, event_facts(message, job=job))


def event_facts(message: Message, *, job: JobFacts | None = None) -> EventFacts:
    """The parts of a stored event for matching, without its data."""
    attributes = message.attributes
    event_type = attributes["type"]
    about = None
    if is_operational(event_type) and "partitionkey" in attributes:
        about = ResourceUid(UUID(attributes["partitionkey"]))
    return EventFacts(
        type=event_type,
        time=datetime.fromisoformat(attributes["time"]),
        endpoint_id=about,
        attributes=attributes,
        values=message.values,
        job=job,
    )
