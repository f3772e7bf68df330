"""Twin of webhook deliveries: stored events, deliveries, the attempt log, endpoint state."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from uuid import UUID

from datarecs_application.ports.delivery import DeliveryKey, WebhookAttempt
from datarecs_core.values import EventId, ResourceUid
from datarecs_core.webhooks.actions import ActionState, Position, WebhookAction
from datarecs_core.webhooks.delivery import Delivery, DeliveryState, Origin
from datarecs_core.webhooks.health import EndpointState, Waiting
from datarecs_core.webhooks.payload import Message
from datarecs_memory.scope import Scope


class MemoryDeliveries:
    """Port Deliveries."""

    def __init__(self, scope: Scope) -> None:
        self._scope, self._rows = scope, scope.state.delivery

    def store_event(self, event_id: EventId, message: Message) -> date:
        day = self._scope.now.astimezone(UTC).date()
        self._rows.messages.setdefault((day, event_id), message)
        self._rows.received_at.setdefault((day, event_id), self._scope.now)
        return day

    def messages(self, deliveries: Sequence[Delivery]) -> Mapping[EventId, Message]:
        keys = {(one.stored_on, one.event_id) for one in deliveries}
        return {key[1]: self._rows.messages[key] for key in keys if key in self._rows.messages}

    def add(self, deliveries: Iterable[Delivery]) -> int:
        added = 0
        for delivery in deliveries:
            if not any(_same_event(delivery, one) for one in self._rows.deliveries.values()):
                self.save([delivery])
                added += 1
        return added

    def states(self, endpoints: Iterable[ResourceUid]) -> list[EndpointState]:
        return [
            self._rows.endpoints.setdefault(
                uid, EndpointState(tenant_id=self._scope.tenant_id, endpoint_uid=uid)
            )
            for uid in sorted(endpoints)
        ]

    def save_state(self, state: EndpointState) -> None:
        self._rows.endpoints[state.endpoint_uid] = state

    def hasten(self, endpoints: Iterable[ResourceUid], *, added: int = 0) -> None:
        for uid in endpoints:
            state = self._rows.endpoints[uid]
            claim_at = min(state.next_claim_at or self._scope.now, self._scope.now)
            pending = max(0, state.pending + added)
            self._rows.endpoints[uid] = replace(state, next_claim_at=claim_at, pending=pending)

    def get(self, keys: Iterable[DeliveryKey]) -> Mapping[DeliveryKey, Delivery]:
        rows = self._rows.deliveries
        return {key: rows[key] for key in sorted(keys) if key in rows}

    def due(self, endpoint: ResourceUid, limit: int, *, tests_only: bool = False) -> list[Delivery]:
        now = self._scope.now
        return self._some(
            endpoint,
            limit,
            lambda one: (
                one.state is DeliveryState.PENDING
                and one.due_at <= now
                and one.expires_at > now
                and (not tests_only or one.origin is Origin.TEST)
            ),
            oldest_first=True,
        )

    def overdue(self, endpoint: ResourceUid, limit: int) -> list[Delivery]:
        return self._some(endpoint, limit, lambda one: _is_overdue(one, self._scope.now))

    def pending(self, endpoint: ResourceUid, limit: int) -> list[Delivery]:
        return self._some(endpoint, limit, lambda one: not one.state.is_terminal)

    def save(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            key = DeliveryKey(delivery.received_on, delivery.delivery_id)
            self._rows.deliveries[key] = delivery

    def waiting(self, endpoint: ResourceUid) -> Waiting:
        mine = self._of(endpoint)
        pending = [one for one in mine if one.state is DeliveryState.PENDING]
        leases = [one.lease_until for one in mine if one.lease_until is not None]
        tests = [one.due_at for one in pending if one.origin is Origin.TEST]
        return Waiting(
            first_due=min((one.due_at for one in pending), default=None),
            first_lease_end=min(leases, default=None),
            leased=len(leases),
            first_expiry=min((one.expires_at for one in pending), default=None),
            first_test=min(tests, default=None),
        )

    def open_attempts(self, attempts: Sequence[WebhookAttempt]) -> None:
        for attempt in attempts:
            self._rows.attempts[attempt.key, attempt.attempt_no] = attempt

    def close_attempts(self, attempts: Sequence[WebhookAttempt]) -> None:
        for attempt in attempts:
            opened = self._rows.attempts.get((attempt.key, attempt.attempt_no))
            if opened is not None and opened.finished_at is None:
                self._rows.attempts[attempt.key, attempt.attempt_no] = replace(
                    attempt,
                    lease_epoch=opened.lease_epoch,
                    worker=opened.worker,
                    reason=opened.reason,
                    started_at=opened.started_at,
                )

    def attempts(self, key: DeliveryKey) -> list[WebhookAttempt]:
        mine = (one for one in self._rows.attempts.values() if one.key == key)
        return sorted(mine, key=lambda one: one.attempt_no)

    def of_endpoint(
        self,
        endpoint: ResourceUid,
        limit: int,
        *,
        state: DeliveryState | None = None,
        before: tuple[datetime, UUID] | None = None,
    ) -> list[Delivery]:
        newest = sorted(self._of(endpoint), key=_position, reverse=True)
        wanted = [
            one
            for one in newest
            if state in (None, one.state) and (before is None or _position(one) < before)
        ]
        return wanted[:limit]

    def by_id(self, ids: Iterable[UUID]) -> list[Delivery]:
        wanted = set(ids)
        rows = self._rows.deliveries
        return [rows[key] for key in sorted(rows) if key.delivery_id in wanted]

    def stored(
        self, since: datetime, until: datetime, *, after: Position | None, limit: int
    ) -> list[tuple[Position, Message]]:
        rows = self._rows
        behind = None if after is None else (after.received_on, after.event_id)
        keys = [
            key
            for key in sorted(rows.messages)
            if since <= rows.received_at[key] < until and (behind is None or key > behind)
        ]
        return [(Position(*key), replace(rows.messages[key], data=b"")) for key in keys[:limit]]

    def served(self, endpoint: ResourceUid, events: Sequence[Position]) -> set[EventId]:
        wanted = {one.event_id for one in events}
        return {
            one.event_id
            for one in self._of(endpoint)
            if one.event_id in wanted and _is_served(one.state)
        }

    def _of(self, endpoint: ResourceUid) -> list[Delivery]:
        return [one for one in self._rows.deliveries.values() if one.endpoint_uid == endpoint]

    def _some(
        self,
        endpoint: ResourceUid,
        limit: int,
        wanted: Callable[[Delivery], bool],
        *,
        oldest_first: bool = False,
    ) -> list[Delivery]:
        deliveries = sorted(filter(wanted, self._of(endpoint)), key=lambda one: one.delivery_id)
        if oldest_first:
            deliveries.sort(key=lambda one: (one.priority, one.due_at))
        return deliveries[:limit]


def _position(delivery: Delivery) -> tuple[datetime, UUID]:
    return delivery.created_at, delivery.delivery_id


def _is_served(state: DeliveryState) -> bool:
    return state is not DeliveryState.DEAD_LETTERED


class MemoryWebhookActions:
    """Port WebhookActions."""

    def __init__(self, scope: Scope) -> None:
        self._rows = scope.state.delivery.actions

    def add(self, action: WebhookAction) -> bool:
        if action.is_exclusive and any(
            one.is_exclusive and one.endpoint_uid == action.endpoint_uid for one in self.open(1000)
        ):
            return False
        self._rows[action.action_id] = action
        return True

    def get(self, action_id: UUID) -> WebhookAction | None:
        return self._rows.get(action_id)

    def read(self, action_id: UUID) -> WebhookAction | None:
        return self._rows.get(action_id)

    def open(self, limit: int) -> list[WebhookAction]:
        still_open = [one for one in self._rows.values() if one.state is ActionState.OPEN]
        return sorted(still_open, key=lambda one: one.created_at)[:limit]

    def save(self, action: WebhookAction) -> None:
        self._rows[action.action_id] = action

    def forget(self, before: datetime) -> None:
        for action in list(self._rows.values()):
            if action.closed_at is not None and action.closed_at < before:
                del self._rows[action.action_id]


def _same_event(one: Delivery, other: Delivery) -> bool:
    return (one.received_on, one.endpoint_uid, one.event_id, one.action_id) == (
        other.received_on,
        other.endpoint_uid,
        other.event_id,
        other.action_id,
    )


def _is_overdue(delivery: Delivery, now: datetime) -> bool:
    if delivery.state is DeliveryState.LEASED:
        return delivery.lease_until is not None and delivery.lease_until <= now
    return delivery.state is DeliveryState.PENDING and delivery.expires_at <= now
