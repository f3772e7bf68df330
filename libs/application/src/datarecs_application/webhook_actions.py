"""Actions on an endpoint's deliveries: what a user requests, and how it becomes deliveries.

A request and its event are written in one transaction by core-api. The webhook-service expands open
actions, at most 1,000 stored events in a transaction, and stores its progress with them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from uuid import UUID

from datarecs_application.filter_facts import JobLookup, names_jobs
from datarecs_application.ports.outside import Ids
from datarecs_application.ports.state import Transaction
from datarecs_application.stored_specs import StoredSpecs
from datarecs_application.webhook_order import is_ordered
from datarecs_core.resources.resource import Resource
from datarecs_core.values import EventId
from datarecs_core.webhooks.actions import (
    CHUNK,
    MAX_MESSAGES,
    TEST_EXPIRES_AFTER,
    ActionState,
    Position,
    WebhookAction,
    Window,
    after_chunk,
    close,
    completion_event,
    is_in_window,
)
from datarecs_core.webhooks.delivery import Delivery, Origin
from datarecs_core.webhooks.endpoint import WebhookEndpoint
from datarecs_core.webhooks.events import (
    ActionRequested,
    WebhookDeliveryReplayRequested,
    WebhookDeliveryResendRequested,
    WebhookEndpointTestRequested,
)
from datarecs_core.webhooks.matching import EndpointFacts
from datarecs_core.webhooks.ordering import place_of, run_of
from datarecs_core.webhooks.overflow import room_for_actions
from datarecs_core.webhooks.payload import Message
from datarecs_core.webhooks.refusals import ActionOpenError, TooManyMessagesError

REMEMBERED = timedelta(days=30)
"""How long a closed action can be read."""


MakeTest = Callable[[WebhookAction, EventId], Message]
"""Makes the event of a test, as it is sent."""


def count_window(tx: Transaction, endpoint: EndpointFacts, window: Window) -> int:
    """How many deliveries a recover or replay makes: the preview, and the limit.

    Raises:
        TooManyMessagesError: more than one action may make.
    """
    count = 0
    for chosen, _ in _chunks(tx, endpoint, window, after=None):
        count += len(chosen)
        if count > MAX_MESSAGES:  # The rest of two weeks would be read without need.
            raise TooManyMessagesError(most=MAX_MESSAGES)
    return count


def request_action(tx: Transaction, endpoint: Resource, action: WebhookAction) -> WebhookAction:
    """Write the action and its event.

    Raises:
        ActionOpenError: the endpoint has another open recover or replay.
    """
    if not tx.webhook_actions.add(action):
        raise ActionOpenError(endpoint=endpoint.name)
    tx.outbox.append(_requested(action))
    return action


def cancel_action(tx: Transaction, action_id: UUID) -> WebhookAction | None:
    """Stop what is left of an action; deliveries that it has made stay. None for an unknown one."""
    action = tx.webhook_actions.get(action_id)
    if action is None:
        return None
    cancelled = close(action, ActionState.CANCELLED, now=tx.now)
    if cancelled is not action:
        tx.webhook_actions.save(cancelled)
    return cancelled


def _requested(action: WebhookAction) -> ActionRequested:
    common = {
        "tenant_id": action.tenant_id,
        "endpoint_id": action.endpoint_uid,
        "requested_by": action.requested_by,
        "action_id": action.action_id,
    }
    if action.kind is Origin.TEST:
        return WebhookEndpointTestRequested(**common, example=action.example)  # type: ignore[arg-type]  # the four above
    window = action.window
    if window is None:
        only = action.deliveries[0] if len(action.deliveries) == 1 else None
        return WebhookDeliveryResendRequested(**common, delivery_id=only)  # type: ignore[arg-type]  # the four above
    return WebhookDeliveryReplayRequested(
        **common,  # type: ignore[arg-type]  # the four above
        since=window.since,
        until=window.until,
        types=window.types or None,
        only_missing=window.only_missing,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expanding:
    """How an open action becomes deliveries."""

    specs: StoredSpecs[WebhookEndpoint]
    ids: Ids
    make_test: MakeTest

    def expand(self, tx: Transaction, action: WebhookAction) -> WebhookAction:
        """One chunk of an action that is locked; its row and its deliveries share the commit.

        Returns the action itself while its endpoint has no room for more deliveries.
        """
        resource = tx.resources.get_by_uid(action.endpoint_uid)
        spec = self.specs.of(resource) if resource else None
        if resource is None or resource.deletion_at is not None or spec is None:
            return self._close(tx, close(action, ActionState.CANCELLED, now=tx.now))
        (state,) = tx.deliveries.states([resource.uid])
        room = room_for_actions(state, spec.limits.max_pending)
        if action.window is not None and not room:
            return action
        expires = tx.now + (
            TEST_EXPIRES_AFTER if action.kind is Origin.TEST else spec.retry.max_age
        )
        template = self._template(tx, action, expires_at=expires)
        if action.window is None:
            made = self._named(tx, action, template)
            after = close(after_chunk(action, made, None), ActionState.DONE, now=tx.now)
        else:
            endpoint = EndpointFacts(uid=resource.uid, created_at=resource.created_at, spec=spec)
            made, position = self._windowed(tx, action, endpoint, template, limit=room)
            after = after_chunk(action, made, position)
            if position is None:
                after = close(after, ActionState.DONE, now=tx.now)
        tx.deliveries.add(made)
        if made:
            tx.deliveries.hasten([resource.uid], added=len(made))
            tx.wake()
        return self._close(tx, after)

    def _close(self, tx: Transaction, action: WebhookAction) -> WebhookAction:
        tx.webhook_actions.save(action)
        if action.state is ActionState.DONE and action.first_delivery is not None:
            first = tx.deliveries.by_id([action.first_delivery])
            event = completion_event(action, first[0]) if first else None
            if event is not None:
                tx.outbox.append(event)
        if action.state is not ActionState.OPEN:
            tx.webhook_actions.forget(tx.now - REMEMBERED)
        return action

    def _template(self, tx: Transaction, action: WebhookAction, **times: object) -> Delivery:
        """A delivery of the action, without its event and its id."""
        return Delivery(
            tenant_id=tx.tenant_id,
            received_on=tx.now.date(),
            delivery_id=action.action_id,
            endpoint_uid=action.endpoint_uid,
            event_id=EventId(action.action_id),
            event_type="",
            due_at=tx.now,
            created_at=tx.now,
            origin=action.kind,
            priority=action.kind.priority,
            action_id=action.action_id,
            **times,  # type: ignore[arg-type]  # expires_at, from the caller above
        )

    def _named(
        self, tx: Transaction, action: WebhookAction, template: Delivery
    ) -> Sequence[Delivery]:
        """The delivery of a test, or copies of the deliveries that a resend names."""
        if action.kind is Origin.TEST:
            return [self._test(tx, action, template)]
        chosen = [
            one
            for one in tx.deliveries.by_id(action.deliveries)
            if one.endpoint_uid == action.endpoint_uid
        ]
        stored = tx.deliveries.messages(chosen)
        return [
            replace(
                template,
                delivery_id=self.ids.new(),
                event_id=one.event_id,
                event_type=one.event_type,
                run_id=one.run_id,
                event_on=_other_day(one.stored_on, template),
            )
            for one in _once_per_event(chosen)
            if one.event_id in stored
        ]

    def _test(self, tx: Transaction, action: WebhookAction, template: Delivery) -> Delivery:
        event_id = EventId(self.ids.new())
        message = self.make_test(action, event_id)
        day = tx.deliveries.store_event(event_id, message)
        return replace(
            template,
            delivery_id=self.ids.new(),
            event_id=event_id,
            event_type=message.attributes["type"],
            event_on=_other_day(day, template),
        )

    def _windowed(
        self,
        tx: Transaction,
        action: WebhookAction,
        endpoint: EndpointFacts,
        template: Delivery,
        *,
        limit: int,
    ) -> tuple[Sequence[Delivery], Position | None]:
        """Deliveries of the next chunk, and its last event; no position after the last chunk."""
        if action.window is None:
            raise ValueError("recover and replay have a window")
        chunks = _chunks(
            tx, endpoint, action.window, after=action.position, limit=min(CHUNK, limit)
        )
        chosen, position = next(chunks, ([], None))
        made = [
            replace(
                template,
                delivery_id=self.ids.new(),
                event_id=where.event_id,
                event_type=message.attributes["type"],
                run_id=run_of(message.attributes),
                sequence=_sequence_of(message, endpoint),
                event_on=_other_day(where.received_on, template),
            )
            for where, message in chosen
        ]
        return made, position


_Stored = tuple[Position, Message]


def _chunks(
    tx: Transaction,
    endpoint: EndpointFacts,
    window: Window,
    *,
    after: Position | None,
    limit: int = CHUNK,
) -> Iterator[tuple[list[_Stored], Position | None]]:
    """The window's events for the endpoint, a chunk at a time, with the chunk's last position."""
    position = after
    jobs = JobLookup(tx, is_needed=names_jobs(endpoint.spec))
    while True:
        read = tx.deliveries.stored(window.since, window.until, after=position, limit=limit)
        chosen = [
            one
            for one in read
            if is_in_window(endpoint, window, one[1], job=jobs.job_of(one[1].values))
        ]
        if window.only_missing:
            served = tx.deliveries.served(endpoint.uid, [where for where, _ in chosen])
            chosen = [one for one in chosen if one[0].event_id not in served]
        position = read[-1][0] if len(read) == limit else None
        yield chosen, position
        if position is None:
            return


def _once_per_event(deliveries: Sequence[Delivery]) -> Sequence[Delivery]:
    """One of several deliveries of one event: an action sends an event once."""
    return list({one.event_id: one for one in deliveries}.values())


def _other_day(stored_on: date, delivery: Delivery) -> date | None:
    return None if stored_on == delivery.received_on else stored_on


def _sequence_of(message: Message, endpoint: EndpointFacts) -> int | None:
    """The number of an ordered event; the deliveries of one action keep this order."""
    place = place_of(message.attributes) if is_ordered(endpoint.spec) else None
    return None if place is None else place.sequence
