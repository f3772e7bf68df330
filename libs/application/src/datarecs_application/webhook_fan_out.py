"""From an event to deliveries: one row for each endpoint that matches and has room.

Separate from `webhooks`, because nothing is leased or sent here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import NamedTuple
from uuid import UUID

from datarecs_application import webhook_order
from datarecs_application.filter_facts import JobLookup, names_jobs
from datarecs_application.ports.outside import Ids
from datarecs_application.ports.state import Transaction
from datarecs_application.stored_specs import StoredSpecs
from datarecs_application.webhook_alerts import alert_facts, queue_alerts
from datarecs_application.webhook_coalescing import discard_superseded
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.errors.delivery import EventTooLargeError
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.values import EventId, ResourceUid, RunId
from datarecs_core.webhooks.delivery import Delivery
from datarecs_core.webhooks.endpoint import WebhookEndpoint, coalesces
from datarecs_core.webhooks.health import EndpointState
from datarecs_core.webhooks.matching import EndpointFacts, EventFacts, match_endpoint
from datarecs_core.webhooks.ordering import place_of
from datarecs_core.webhooks.overflow import check_overflow
from datarecs_core.webhooks.payload import MAX_DATA_BYTES, Message, with_absolute_dataref

MAX_ENDPOINTS = 1000
"""Endpoints checked per event; the quota per tenant is far below."""

_Endpoint = tuple[Resource, WebhookEndpoint]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingEvent:
    """An event as the consumer decoded it."""

    event_id: EventId
    type: str
    time: datetime | None
    attributes: Mapping[str, str]
    data: bytes
    endpoint_id: ResourceUid | None = None
    run_id: RunId | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    """Values of the data that filters read."""


class FanOut(NamedTuple):
    """What an event changed."""

    added: int = 0
    """Deliveries that were created."""
    superseded: tuple[Delivery, ...] = ()
    """Waiting deliveries that were discarded, because the event is newer."""


def fan_out(
    tx: Transaction,
    event: IncomingEvent,
    *,
    specs: StoredSpecs[WebhookEndpoint],
    ids: Ids,
    base_url: str,
) -> FanOut:
    """Keep the event if its tenant has an endpoint, and make one delivery per matching one.

    Runs in the transaction that holds the inbox mark, so it happens once per event.

    Raises:
        EventTooLargeError: the data breaks the event contract; the record is set aside.
    """
    if len(event.data) > MAX_DATA_BYTES:
        raise EventTooLargeError(size_bytes=len(event.data), most=MAX_DATA_BYTES)
    declared = tx.resources.page(Kind.WEBHOOK_ENDPOINT, limit=MAX_ENDPOINTS)
    if not declared:
        return FanOut()
    attributes = with_absolute_dataref(event.attributes, base_url)
    message = Message(attributes=attributes, data=event.data, values=event.values)
    day = tx.deliveries.store_event(event.event_id, message)
    readable = [
        (resource, spec)
        for resource in declared
        if resource.deletion_at is None and (spec := specs.of(resource)) is not None
    ]
    matching = _matching(tx, event, attributes, readable)
    place = place_of(attributes)
    ordered = [one for one, spec in readable if place and webhook_order.is_ordered(spec)]
    accepting = [
        matching[state.endpoint_uid]
        for state in tx.deliveries.states({*matching, *(one.uid for one in ordered)})
        if state.endpoint_uid in matching
        and state.accepts(matching[state.endpoint_uid][0].generation)
        and _has_room(tx, state, *matching[state.endpoint_uid], ids=ids)
    ]
    made = [_delivery(tx, event, one, received_on=day, delivery_id=ids.new()) for one in accepting]
    added = tx.deliveries.add(webhook_order.placed(tx, made, ordered, place))
    webhook_order.release_early(tx, ordered, place)
    tx.deliveries.hasten([resource.uid for resource, _ in accepting], added=1)
    superseded = discard_superseded(tx, accepting, event.type, place)
    if added:
        tx.wake()
        crash_point(CrashPoint.DELIVER_AFTER_INSERT)
    return FanOut(added=added, superseded=tuple(superseded))


def _matching(
    tx: Transaction,
    event: IncomingEvent,
    attributes: Mapping[str, str],
    readable: Sequence[_Endpoint],
) -> Mapping[ResourceUid, _Endpoint]:
    """The endpoints that match the event."""
    jobs = JobLookup(tx, is_needed=any(names_jobs(spec) for _, spec in readable))
    facts = EventFacts(
        type=event.type,
        time=event.time or tx.now,
        endpoint_id=event.endpoint_id,
        attributes=attributes,
        values=event.values,
        job=jobs.job_of(event.values),
    )
    return {
        one.uid: (one, spec)
        for one, spec in readable
        if match_endpoint(EndpointFacts(uid=one.uid, created_at=one.created_at, spec=spec), facts)
    }


def _delivery(
    tx: Transaction,
    event: IncomingEvent,
    endpoint: _Endpoint,
    *,
    received_on: date,
    delivery_id: UUID,
) -> Delivery:
    """A delivery of the event that is due now."""
    resource, spec = endpoint
    place = place_of(event.attributes) if coalesces(spec, event.type) else None
    return Delivery(
        tenant_id=tx.tenant_id,
        received_on=received_on,
        delivery_id=delivery_id,
        endpoint_uid=resource.uid,
        event_id=event.event_id,
        event_type=event.type,
        run_id=place.run_id if place else event.run_id,
        sequence=place.sequence if place else None,
        due_at=tx.now,
        expires_at=tx.now + spec.retry.max_age,
        created_at=tx.now,
    )


def _has_room(
    tx: Transaction, state: EndpointState, resource: Resource, spec: WebhookEndpoint, *, ids: Ids
) -> bool:
    """Whether the endpoint gets a delivery; where too many wait, the event stays in its gap."""
    after = check_overflow(state, max_pending=spec.limits.max_pending, now=tx.now)
    if after != state:
        # The sending loop comes by and shows it.
        tx.deliveries.save_state(replace(after, next_claim_at=tx.now))
        queue_alerts(tx, (state, after), spec, alert_facts(resource, spec), ids=ids)
    return not after.is_overflowing
