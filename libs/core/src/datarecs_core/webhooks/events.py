"""Events of deliveries and endpoints, and requests of users to the webhook-service.

All are operational: none is ever delivered to the endpoint it is about, and none holds the URL's
query, a header or a body.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated
from uuid import UUID

from datarecs_core.fields import Known
from datarecs_core.values import EventId, ResourceUid, RunId, TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointEvent:
    """What every event about an endpoint carries."""

    tenant_id: TenantId
    """The owner, equal to the envelope's `tenantid`."""
    endpoint_id: ResourceUid
    """The uid of the WebhookEndpoint; the key of the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryEvent(EndpointEvent):
    """What every event about a delivery carries."""

    delivery_id: UUID
    """The delivery; of an expanded action, its first."""
    event_id: EventId
    """The delivered event, which is also the receiver's `webhook-id`."""
    event_type: str
    """The delivered event's type, prefix included."""
    attempts: int
    """Attempts made so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDeliveryFailed(DeliveryEvent):
    """Early warning after the fourth failed attempt, once per delivery, never final."""

    run_id: RunId | None = None
    """The run the delivered event is about."""
    outcome: str | None = None
    """How the last attempt ended."""
    status_code: int | None = None
    """The receiver's HTTP status, if received."""
    error: str | None = None
    """Class of the failure, without address or body."""
    next_attempt_at: datetime | None = None
    """When it is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDeliveryDeadLettered(DeliveryEvent):
    """Final: no automatic attempt follows."""

    run_id: RunId | None = None
    """The run the delivered event is about."""
    outcome: str | None = None
    """How the last attempt ended."""
    status_code: int | None = None
    """The receiver's HTTP status, if received."""
    error: str | None = None
    """Class of the failure, without address or body."""
    reason: str | None = None
    """The reason why the delivery was given up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDeliveryRetried(DeliveryEvent):
    """A resend was expanded: one event per action."""

    action_id: UUID | None = None
    """The user's action."""
    count: int | None = None
    """Deliveries it made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDeliveryReplayed(DeliveryEvent):
    """A recover or replay was expanded: one event per action."""

    action_id: UUID | None = None
    """The user's action."""
    count: int | None = None
    """Deliveries it made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEndpointAutoDisabled(EndpointEvent):
    """An endpoint was switched off after days of failure; once per episode."""

    url: str
    """Where it points, without query; the host alone where the URL is a secret."""
    consecutive_failures: int
    """Failures in a row that counted."""
    disabled_at: datetime
    """When it was switched off."""
    reason: Annotated[str, Known(("FAILING", "GONE", "RECEIVER"))] | None = None
    """Why."""
    failing_since: datetime | None = None
    """The first failure of the episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequested(EndpointEvent):
    """What every request of a user to the webhook-service carries."""

    requested_by: str
    """Who requested it."""
    action_id: UUID | None = None
    """The action's row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDeliveryResendRequested(ActionRequested):
    """Send chosen deliveries again."""

    delivery_id: UUID | None = None
    """The delivery, where it is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDeliveryReplayRequested(ActionRequested):
    """Send a window again."""

    since: datetime | None = None
    """Start of the window, inclusive."""
    until: datetime | None = None
    """End of the window, exclusive."""
    types: tuple[str, ...] | None = None
    """Only these event types."""
    only_missing: bool | None = None
    """True: only what the endpoint has not received (recover)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookEndpointTestRequested(ActionRequested):
    """Make one attempt with a test event."""

    example: str | None = None
    """The event type of the catalogue example that is sent; else `webhook.test`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTest(EndpointEvent):
    """The test event itself: sent over HTTP, never to a topic."""

    message: str
    """A text with characters outside ASCII, so that encodings show."""
    probe: Decimal
    """A number with a trailing zero, so that re-serialisation shows."""
    requested_by: str
    """Who requested it."""
