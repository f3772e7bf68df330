"""The rows of webhook deliveries: kept events, deliveries, the attempt log, endpoint state.

Reads name the days a delivery can live, so that a query touches ten partitions and not forty.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Date,
    Row,
    Select,
    Table,
    Update,
    Uuid,
    any_,
    bindparam,
    cast,
    column,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from datarecs_application.ports.delivery import DeliveryKey, WebhookAttempt
from datarecs_core.values import EventId, ResourceUid, RunId, TenantId, aware
from datarecs_core.webhooks.delivery import Delivery, DeliveryReason, DeliveryState
from datarecs_core.webhooks.health import Disabled, DisabledBy, EndpointState, Waiting
from datarecs_core.webhooks.outcome import Outcome
from datarecs_core.webhooks.payload import Message
from datarecs_postgres.session import Session
from datarecs_postgres.tables.webhooks import (
    WEBHOOK_ATTEMPT,
    WEBHOOK_DELIVERY,
    WEBHOOK_ENDPOINT_STATE,
    WEBHOOK_MESSAGE,
)

LIVES = timedelta(days=8)
"""A delivery lives at most 7 days; one more for the edges of days."""

_DELIVERY = tuple(one.name for one in fields(Delivery))
_ATTEMPT_AT_START = (*("attempt_no", "lease_epoch", "worker", "reason", "started_at", "trace_id"),)
_ATTEMPT_AT_END = (
    *("finished_at", "outcome", "phases", "url", "request_headers", "body_sha256", "status"),
    *("response_headers", "response_body", "truncated", "error", "address_class", "trace_id"),
)


class PostgresDeliveries:
    """Port Deliveries."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def keep(self, event_id: EventId, message: Message) -> date:
        day = self._session.now.astimezone(UTC).date()
        self._session.execute(
            insert(WEBHOOK_MESSAGE)
            .values(
                tenant_id=self._session.tenant_id,
                received_on=day,
                message_id=event_id,
                attributes=dict(message.attributes),
                data=message.data,
            )
            .on_conflict_do_nothing()
            .inline()
        )
        return day

    def messages(self, deliveries: Sequence[Delivery]) -> Mapping[EventId, Message]:
        table = WEBHOOK_MESSAGE.c
        keys = {(one.received_on, one.event_id) for one in deliveries}
        rows = self._session.execute(
            select(table.message_id, table.attributes, table.data).where(
                self._session.own(WEBHOOK_MESSAGE),
                table.received_on.in_({day for day, _ in keys}),
                table.message_id.in_({event for _, event in keys}),
            )
        )
        return {
            EventId(row.message_id): Message(attributes=row.attributes, data=bytes(row.data))
            for row in rows
        }

    def add(self, deliveries: Iterable[Delivery]) -> int:
        rows = [_delivery_row(delivery) for delivery in deliveries]
        if not rows:
            return 0
        added = self._session.execute(
            insert(WEBHOOK_DELIVERY).values(rows).on_conflict_do_nothing().inline()
        )
        return added.rowcount

    def states(self, endpoints: Iterable[ResourceUid]) -> list[EndpointState]:
        uids = sorted(endpoints)
        if not uids:
            return []
        table = WEBHOOK_ENDPOINT_STATE
        wanted = (
            select(table)
            .where(self._session.own(table), table.c.endpoint_uid.in_(uids))
            .order_by(table.c.endpoint_uid)
            .with_for_update()
        )
        rows = self._session.execute(wanted).all()
        if len(rows) < len(uids):
            self._session.execute(
                insert(table)
                .values([{"tenant_id": self._session.tenant_id, "endpoint_uid": u} for u in uids])
                .on_conflict_do_nothing()
                .inline()
            )
            rows = self._session.execute(wanted).all()
        return [_state_of(row) for row in rows]

    def save_state(self, state: EndpointState) -> None:
        disabled = state.disabled
        self._session.execute(
            update(WEBHOOK_ENDPOINT_STATE)
            .where(*self._state(state.endpoint_uid))
            .values(
                next_claim_at=state.next_claim_at,
                rate_paid_until=state.rate_paid_until,
                paused_until=state.paused_until,
                failing_since=state.failing_since,
                consecutive_failures=state.consecutive_failures,
                last_success_at=state.last_success_at,
                disabled_by=disabled.by.value if disabled else None,
                disabled_at=disabled.at if disabled else None,
                disabled_generation=disabled.generation if disabled else None,
            )
        )

    def hasten(self, endpoints: Iterable[ResourceUid]) -> None:
        uids = list(endpoints)
        if uids:
            table = WEBHOOK_ENDPOINT_STATE
            self._session.execute(
                update(table)
                .where(self._session.own(table), table.c.endpoint_uid.in_(uids))
                .values(next_claim_at=func.least(table.c.next_claim_at, func.now()))
            )

    def get(self, keys: Iterable[DeliveryKey]) -> Mapping[DeliveryKey, Delivery]:
        table = WEBHOOK_DELIVERY.c
        wanted = set(keys)
        # Arrays, whatever their length: one text, so the server plans it once.
        days = cast(bindparam("days", list({key.received_on for key in wanted})), ARRAY(Date))
        ids = cast(bindparam("ids", [key.delivery_id for key in wanted]), ARRAY(Uuid))
        rows = self._session.execute(
            select(WEBHOOK_DELIVERY)
            .where(
                self._session.own(WEBHOOK_DELIVERY),
                table.received_on == any_(days),
                table.delivery_id == any_(ids),
            )
            .order_by(table.received_on, table.delivery_id)
            .with_for_update()
        )
        return {DeliveryKey(row.received_on, row.delivery_id): _delivery_of(row) for row in rows}

    def due(self, endpoint: ResourceUid, limit: int) -> list[Delivery]:
        table = WEBHOOK_DELIVERY.c
        return self._locked(
            select(WEBHOOK_DELIVERY)
            .where(
                *self._alive(endpoint),
                table.state == DeliveryState.PENDING.value,
                table.due_at <= func.now(),
                table.expires_at > func.now(),
            )
            .order_by(table.due_at, table.delivery_id)
            .limit(limit)
        )

    def overdue(self, endpoint: ResourceUid, limit: int) -> list[Delivery]:
        table = WEBHOOK_DELIVERY.c
        ended = (table.state == DeliveryState.LEASED.value) & (table.lease_until <= func.now())
        expired = (table.state == DeliveryState.PENDING.value) & (table.expires_at <= func.now())
        return self._locked(
            select(WEBHOOK_DELIVERY)
            .where(*self._alive(endpoint), or_(ended, expired))
            .order_by(table.delivery_id)
            .limit(limit)
        )

    def pending(self, endpoint: ResourceUid, limit: int) -> list[Delivery]:
        table = WEBHOOK_DELIVERY.c
        open_ones = table.state.in_([DeliveryState.PENDING.value, DeliveryState.LEASED.value])
        return self._locked(
            select(WEBHOOK_DELIVERY)
            .where(*self._alive(endpoint), open_ones)
            .order_by(table.delivery_id)
            .limit(limit)
        )

    def save(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            self._session.execute(_SAVE, _columns(deliveries))

    def waiting(self, endpoint: ResourceUid) -> Waiting:
        """One statement of four index probes: an endpoint may have 100,000 rows waiting."""
        table = WEBHOOK_DELIVERY.c
        of_endpoint = self._alive(endpoint)
        pending = table.state == DeliveryState.PENDING.value
        leased = table.state == DeliveryState.LEASED.value

        def first(moment: ColumnElement[datetime], state: ColumnElement[bool]) -> Any:  # noqa: ANN401  a scalar subquery
            rows = select(moment).where(*of_endpoint, state).order_by(moment).limit(1)
            return rows.scalar_subquery()

        row = self._session.execute(
            select(
                first(table.due_at, pending).label("first_due"),
                first(table.expires_at, pending).label("first_expiry"),
                first(table.lease_until, leased).label("first_lease_end"),
                select(func.count())
                .select_from(WEBHOOK_DELIVERY)
                .where(*of_endpoint, leased)
                .scalar_subquery()
                .label("leased"),
            )
        ).one()
        return Waiting(
            first_due=_utc(row.first_due),
            first_lease_end=_utc(row.first_lease_end),
            leased=row.leased,
            first_expiry=_utc(row.first_expiry),
        )

    def open_attempts(self, attempts: Sequence[WebhookAttempt]) -> None:
        rows = [
            {
                "tenant_id": self._session.tenant_id,
                "received_on": attempt.key.received_on,
                "delivery_id": attempt.key.delivery_id,
                **{name: getattr(attempt, name) for name in _ATTEMPT_AT_START},
            }
            for attempt in attempts
        ]
        if rows:
            self._session.execute(insert(WEBHOOK_ATTEMPT).values(rows).inline())

    def close_attempts(self, attempts: Sequence[WebhookAttempt]) -> None:
        if attempts:
            tenant = self._session.tenant_id
            self._session.execute(_CLOSE, [_closing(one, tenant) for one in attempts])

    def attempts(self, key: DeliveryKey) -> list[WebhookAttempt]:
        rows = self._session.execute(
            select(WEBHOOK_ATTEMPT)
            .where(*self._attempts(key))
            .order_by(WEBHOOK_ATTEMPT.c.attempt_no)
        )
        return [_attempt_of(row, key) for row in rows]

    def of_endpoint(self, endpoint: ResourceUid, limit: int) -> list[Delivery]:
        table = WEBHOOK_DELIVERY.c
        rows = self._session.execute(
            select(WEBHOOK_DELIVERY)
            .where(self._session.own(WEBHOOK_DELIVERY), table.endpoint_uid == endpoint)
            .order_by(table.created_at.desc(), table.delivery_id.desc())
            .limit(limit)
        )
        return [_delivery_of(row) for row in rows]

    def _locked(self, statement: Select[tuple[Any, ...]]) -> list[Delivery]:
        rows = self._session.execute(statement.with_for_update())
        return [_delivery_of(row) for row in rows]

    def _alive(self, endpoint: ResourceUid) -> tuple[ColumnElement[bool], ...]:
        """Deliveries of an endpoint on the days on which one that is not terminal can be."""
        today = self._session.now.astimezone(UTC).date()
        table = WEBHOOK_DELIVERY.c
        return (
            self._session.own(WEBHOOK_DELIVERY),
            table.endpoint_uid == endpoint,
            table.received_on >= today - LIVES,
            table.received_on <= today,
        )

    def _attempts(self, key: DeliveryKey) -> tuple[ColumnElement[bool], ...]:
        table = WEBHOOK_ATTEMPT.c
        return (
            self._session.own(WEBHOOK_ATTEMPT),
            table.received_on == key.received_on,
            table.delivery_id == key.delivery_id,
        )

    def _state(self, endpoint: ResourceUid) -> tuple[ColumnElement[bool], ...]:
        table = WEBHOOK_ENDPOINT_STATE
        return (self._session.own(table), table.c.endpoint_uid == endpoint)


_CHANGING = (
    *("state", "reason", "attempt_no", "schedule_index", "losses", "due_at", "lease_epoch"),
    *("lease_owner", "lease_until", "last_outcome", "last_status"),
)
_KEY = ("tenant_id", "received_on", "delivery_id")


def _update(table: Table, key: Sequence[str], values: Sequence[str]) -> Update:
    """An update for many rows at once; a parameter may not be called like a column."""
    return (
        update(table)
        .where(*(table.c[name] == bindparam(f"p_{name}") for name in key))
        .values({name: bindparam(f"p_{name}") for name in values})
    )


def _update_all() -> Update:
    """One statement for a batch: fifty single ones cost thirty times as much.

    The days are named apart, so that only their partitions are looked into.
    """
    table = WEBHOOK_DELIVERY.c
    arrays = (cast(bindparam(f"p_{name}"), ARRAY(table[name].type)) for name in (*_KEY, *_CHANGING))
    named = (column(name, table[name].type) for name in (*_KEY, *_CHANGING))
    changed = func.unnest(*arrays).table_valued(*named).render_derived("changed")
    days = cast(bindparam("p_received_on"), ARRAY(table.received_on.type))
    return (
        update(WEBHOOK_DELIVERY)
        .where(table.received_on == any_(days))
        .where(*(table[name] == changed.c[name] for name in _KEY))
        .values({name: changed.c[name] for name in _CHANGING})
    )


def _columns(deliveries: Sequence[Delivery]) -> dict[str, list[Any]]:
    """In the order of keys, in which every transaction locks them."""
    ordered = sorted(deliveries, key=attrgetter(*_KEY))
    return {
        f"p_{name}": [_written(getattr(one, name)) for one in ordered]
        for name in (*_KEY, *_CHANGING)
    }


_SAVE = _update_all()
_CLOSE = _update(WEBHOOK_ATTEMPT, (*_KEY, "attempt_no"), (*_ATTEMPT_AT_END, "key_ids")).where(
    WEBHOOK_ATTEMPT.c.finished_at.is_(None)
)


def _closing(attempt: WebhookAttempt, tenant: TenantId) -> dict[str, Any]:
    values = {name: _written(getattr(attempt, name)) for name in _ATTEMPT_AT_END}
    key = {
        "tenant_id": tenant,
        "received_on": attempt.key.received_on,
        "delivery_id": attempt.key.delivery_id,
        "attempt_no": attempt.attempt_no,
        "key_ids": list(attempt.key_ids),
    }
    return {f"p_{name}": value for name, value in (values | key).items()}


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else aware(moment)


def _written(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


def _delivery_row(delivery: Delivery) -> dict[str, Any]:
    return {name: _written(getattr(delivery, name)) for name in _DELIVERY}


def _delivery_of(row: Row[Any]) -> Delivery:
    """Column by column: a batch reads hundreds of rows a second."""
    return Delivery(
        tenant_id=TenantId(row.tenant_id),
        received_on=row.received_on,
        delivery_id=row.delivery_id,
        endpoint_uid=ResourceUid(row.endpoint_uid),
        event_id=EventId(row.event_id),
        event_type=row.event_type,
        run_id=None if row.run_id is None else RunId(row.run_id),
        state=DeliveryState(row.state),
        reason=None if row.reason is None else DeliveryReason(row.reason),
        attempt_no=row.attempt_no,
        schedule_index=row.schedule_index,
        losses=row.losses,
        due_at=aware(row.due_at),
        expires_at=aware(row.expires_at),
        created_at=aware(row.created_at),
        lease_epoch=row.lease_epoch,
        lease_owner=row.lease_owner,
        lease_until=_utc(row.lease_until),
        last_outcome=None if row.last_outcome is None else Outcome(row.last_outcome),
        last_status=row.last_status,
    )


def _state_of(row: Row[Any]) -> EndpointState:
    state = EndpointState(
        tenant_id=TenantId(row.tenant_id),
        endpoint_uid=ResourceUid(row.endpoint_uid),
        next_claim_at=_utc(row.next_claim_at),
        rate_paid_until=_utc(row.rate_paid_until),
        paused_until=_utc(row.paused_until),
        failing_since=_utc(row.failing_since),
        consecutive_failures=row.consecutive_failures,
        last_success_at=_utc(row.last_success_at),
    )
    if row.disabled_by is None:
        return state
    disabled = Disabled(
        by=DisabledBy(row.disabled_by),
        at=aware(row.disabled_at),
        generation=row.disabled_generation,
    )
    return replace(state, disabled=disabled)


def _attempt_of(row: Row[Any], key: DeliveryKey) -> WebhookAttempt:
    return WebhookAttempt(
        key=key,
        attempt_no=row.attempt_no,
        lease_epoch=row.lease_epoch,
        worker=row.worker,
        reason=row.reason,
        started_at=aware(row.started_at),
        trace_id=row.trace_id,
        finished_at=_utc(row.finished_at),
        outcome=None if row.outcome is None else Outcome(row.outcome),
        phases=row.phases or {},
        url=row.url,
        request_headers=row.request_headers or {},
        body_sha256=row.body_sha256,
        key_ids=tuple(row.key_ids),
        status=row.status,
        response_headers=row.response_headers or {},
        response_body=bytes(row.response_body or b""),
        truncated=row.truncated,
        error=row.error,
        address_class=row.address_class,
    )
