"""Which events are sent to an endpoint: filter, creation time, and exclusions that prevent loops.

R1: events about deliveries and tests need `operational: true`. R2: an event about an endpoint is
never sent to that endpoint. R3 (a delivery of such an event creates no further ones) is in
`delivery`. R2 and R3 together exclude loops of any length.
"""

from dataclasses import dataclass
from datetime import datetime

from datarecs_core.values import ResourceUid
from datarecs_core.webhooks.endpoint import Filter, WebhookEndpoint
from datarecs_core.webhooks.globs import glob_matches

_WEBHOOKS = "webhook.**"
_OPT_IN_EVENTS = ("webhook.delivery.**", "webhook.endpoint.test_requested")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFacts:
    """What matching reads of an event."""

    type: str
    time: datetime
    endpoint_id: ResourceUid | None = None
    """`data.endpoint_id`: which endpoint the event is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointFacts:
    """What matching reads of a stored endpoint."""

    uid: ResourceUid
    created_at: datetime
    spec: WebhookEndpoint


def is_operational(event_type: str) -> bool:
    """Whether the event is about webhooks themselves."""
    return glob_matches(_WEBHOOKS, event_type)


def match_endpoint(endpoint: EndpointFacts, event: EventFacts) -> bool:
    """Whether the event becomes a delivery to the endpoint; judged once, at fan-out.

    Events from before the endpoint was created do not count, so the set depends neither on the
    consumer's lag nor on a new consumer group.
    """
    if not endpoint.spec.enabled or event.time < endpoint.created_at:
        return False
    return matches_filter(endpoint, event)


def matches_filter(endpoint: EndpointFacts, event: EventFacts) -> bool:
    """Whether today's filter takes the event, whenever it happened: for recover and replay."""
    if is_operational(event.type) and event.endpoint_id == endpoint.uid:
        return False
    return _passes(endpoint.spec.filter, event.type)


def _passes(chosen: Filter, event_type: str) -> bool:
    if not chosen.operational and any(glob_matches(glob, event_type) for glob in _OPT_IN_EVENTS):
        return False
    wanted = any(glob_matches(glob, event_type) for glob in chosen.types)
    return wanted and not any(glob_matches(glob, event_type) for glob in chosen.exclude_types)
