"""The rows of webhook deliveries: stored events, deliveries, the attempt log, endpoint state.

Reads name the possible days of a delivery, so that a query reads ten partitions and not forty.
"""

from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Date,
    Executable,
    Integer,
    ScalarSelect,
    Table,
    TableValuedAlias,
    Update,
    Uuid,
    any_,
    bindparam,
    cast,
    column,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import Insert, insert

from datarecs_application.ports.delivery import DeliveryKey, WebhookAttempt
from datarecs_core.values import EventId, ResourceUid, TenantId
from datarecs_core.webhooks.actions import Position
from datarecs_core.webhooks.delivery import Delivery, DeliveryState, Origin
from datarecs_core.webhooks.health import EndpointState, Waiting
from datarecs_core.webhooks.payload import Message
from datarecs_postgres.session import Session
from datarecs_postgres.tables.webhooks import (
    WEBHOOK_ATTEMPT,
    WEBHOOK_DELIVERY,
    WEBHOOK_ENDPOINT_STATE,
    WEBHOOK_MESSAGE,
)
from datarecs_postgres.webhook_rows import (
    attempt_of,
    delivery_of,
    handshake_column,
    state_of,
    utc,
)

LIVES = timedelta(days=8)
"""A delivery lives at most 7 days, plus one for partial days."""

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
        self._known: dict[DeliveryKey, Delivery] = {}
        """Deliveries that this transaction has read or saved, under its locks."""

    def store_event(self, event_id: EventId, message: Message) -> date:
        day = self._session.now.astimezone(UTC).date()
        self._session.execute(
            insert(WEBHOOK_MESSAGE)
            .values(
                tenant_id=self._session.tenant_id,
                received_on=day,
                message_id=event_id,
                attributes=dict(message.attributes),
                data=message.data,
                filter_values=dict(message.values),
            )
            .on_conflict_do_nothing()
            .inline()
        )
        return day

    def messages(self, deliveries: Sequence[Delivery]) -> Mapping[EventId, Message]:
        table = WEBHOOK_MESSAGE.c
        keys = {(one.stored_on, one.event_id) for one in deliveries}
        rows = self._session.execute(
            select(table.message_id, table.attributes, table.data).where(
                self._session.tenant_rows(WEBHOOK_MESSAGE),
                table.received_on.in_({day for day, _ in keys}),
                table.message_id.in_({event for _, event in keys}),
            )
        )
        return {
            EventId(row.message_id): Message(attributes=row.attributes, data=bytes(row.data))
            for row in rows
        }

    def add(self, deliveries: Iterable[Delivery]) -> int:
        rows = list(deliveries)
        if not rows:
            return 0
        return self._session.answer(_ADD, _columns(rows, _DELIVERY)).rowcount

    def states(self, endpoints: Iterable[ResourceUid]) -> list[EndpointState]:
        uids = sorted(endpoints)
        if not uids:
            return []
        table = WEBHOOK_ENDPOINT_STATE
        wanted = (
            select(table)
            .where(self._session.tenant_rows(table), table.c.endpoint_uid.in_(uids))
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
        return [state_of(row) for row in rows]

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
                circuit_openings=state.circuit_openings,
                circuit_open_until=state.circuit_open_until,
                window_started_at=state.window_started_at,
                window_attempts=state.window_attempts,
                window_failures=state.window_failures,
                handshake=handshake_column(state.handshake),
                warned_at=state.warned_at,
                pending=state.pending,
                overflow_since=state.overflow_since,
                overflow_until=state.overflow_until,
            )
        )

    def hasten(self, endpoints: Iterable[ResourceUid], *, added: int = 0) -> None:
        uids = list(endpoints)
        if uids:
            table = WEBHOOK_ENDPOINT_STATE
            self._session.execute(
                update(table)
                .where(self._session.tenant_rows(table), table.c.endpoint_uid.in_(uids))
                .values(
                    next_claim_at=func.least(table.c.next_claim_at, func.now()),
                    pending=func.greatest(0, table.c.pending + added),
                )
            )

    def get(self, keys: Iterable[DeliveryKey]) -> Mapping[DeliveryKey, Delivery]:
        wanted = set(keys)
        named = {
            "tenant": self._session.tenant_id,
            "days": list({key.received_on for key in wanted}),
            "ids": [key.delivery_id for key in wanted],
        }
        return {_key_of(one): one for one in self._locked(_NAMED, named)}

    def due(self, endpoint: ResourceUid, limit: int, *, tests_only: bool = False) -> list[Delivery]:
        statement = _DUE_TESTS if tests_only else _DUE
        return self._locked(statement, self._alive(endpoint, limit))

    def overdue(self, endpoint: ResourceUid, limit: int) -> list[Delivery]:
        return self._locked(_OVERDUE, self._alive(endpoint, limit))

    def pending(self, endpoint: ResourceUid, limit: int) -> list[Delivery]:
        return self._locked(_OPEN, self._alive(endpoint, limit))

    def save(self, deliveries: Sequence[Delivery]) -> None:
        changed = self._changed(deliveries) if deliveries else ()
        if changed:
            columns = _columns(deliveries, (*_KEY_OF_TENANT, *changed))
            self._session.later(
                _update_all(changed), {"tenant": self._session.tenant_id, **columns}
            )
            self._known |= {_key_of(one): one for one in deliveries}

    def waiting(self, endpoint: ResourceUid) -> Waiting:
        """One statement of four index probes: an endpoint may have 100,000 rows waiting."""
        row = self._session.answer(_WAITING, self._alive(endpoint)).fetchone()
        due, expiry, lease_end, leased, test = row or (None, None, None, 0, None)
        return Waiting(
            first_due=utc(due),
            first_lease_end=utc(lease_end),
            leased=leased,
            first_expiry=utc(expiry),
            first_test=utc(test),
        )

    def open_attempts(self, attempts: Sequence[WebhookAttempt]) -> None:
        if not attempts:
            return
        rows = {name: [getattr(one, name) for one in attempts] for name in _ATTEMPT_AT_START} | {
            "tenant_id": [self._session.tenant_id] * len(attempts),
            "received_on": [one.key.received_on for one in attempts],
            "delivery_id": [one.key.delivery_id for one in attempts],
        }
        self._session.later(_OPEN_ATTEMPTS, {f"p_{name}": them for name, them in rows.items()})

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
        return [attempt_of(row, key) for row in rows]

    def of_endpoint(
        self,
        endpoint: ResourceUid,
        limit: int,
        *,
        state: DeliveryState | None = None,
        before: tuple[datetime, UUID] | None = None,
    ) -> list[Delivery]:
        table = WEBHOOK_DELIVERY.c
        statement = select(WEBHOOK_DELIVERY).where(
            self._session.tenant_rows(WEBHOOK_DELIVERY), table.endpoint_uid == endpoint
        )
        if state is not None:
            statement = statement.where(table.state == state.value)
        if before is not None:
            statement = statement.where(tuple_(table.created_at, table.delivery_id) < before)
        newest = statement.order_by(table.created_at.desc(), table.delivery_id.desc())
        return [delivery_of(row) for row in self._session.execute(newest.limit(limit))]

    def by_id(self, ids: Iterable[UUID]) -> list[Delivery]:
        """Every day is searched: one probe of a primary key each."""
        rows = self._session.execute(
            select(WEBHOOK_DELIVERY)
            .where(self._session.tenant_rows(WEBHOOK_DELIVERY), _T.delivery_id.in_(list(ids)))
            .order_by(_T.received_on, _T.delivery_id)
        )
        return [delivery_of(row) for row in rows]

    def stored(
        self, since: datetime, until: datetime, *, after: Position | None, limit: int
    ) -> list[tuple[Position, Message]]:
        table = WEBHOOK_MESSAGE.c
        statement = select(
            table.received_on, table.message_id, table.attributes, table.filter_values
        ).where(
            self._session.tenant_rows(WEBHOOK_MESSAGE),
            table.received_on >= since.astimezone(UTC).date(),
            table.received_on <= until.astimezone(UTC).date(),
            table.created_at >= since,
            table.created_at < until,
        )
        if after is not None:
            key = (after.received_on, after.event_id)
            statement = statement.where(
                table.received_on >= after.received_on,
                tuple_(table.received_on, table.message_id) > key,
            )
        in_order = statement.order_by(table.received_on, table.message_id).limit(limit)
        return [
            (
                Position(row.received_on, EventId(row.message_id)),
                Message(attributes=row.attributes, data=b"", values=row.filter_values),
            )
            for row in self._session.execute(in_order)
        ]

    def served(self, endpoint: ResourceUid, events: Sequence[Position]) -> set[EventId]:
        if not events:
            return set()
        rows = self._session.execute(
            select(_T.event_id).where(
                self._session.tenant_rows(WEBHOOK_DELIVERY),
                _T.endpoint_uid == endpoint,
                _T.received_on >= min(one.received_on for one in events),
                _T.event_id.in_([one.event_id for one in events]),
                _T.state != DeliveryState.DEAD_LETTERED,
            )
        )
        return {EventId(row.event_id) for row in rows}

    def _locked(self, statement: Executable, parameters: Mapping[str, object]) -> list[Delivery]:
        rows = self._session.answer(statement, parameters)
        deliveries = [delivery_of(_Row._make(row)) for row in rows]
        self._known |= {_key_of(one): one for one in deliveries}
        return deliveries

    def _changed(self, deliveries: Sequence[Delivery]) -> tuple[str, ...]:
        """Columns with a changed value in any of them."""
        known = [self._known.get(_key_of(one)) for one in deliveries]
        before = [one for one in known if one is not None]
        if len(before) < len(deliveries):
            return _CHANGING
        old, new = (zip(*map(_VALUES, those), strict=True) for those in (before, deliveries))
        columns = zip(_CHANGING, old, new, strict=True)
        return tuple(name for name, was, now in columns if was != now)

    def _alive(self, endpoint: ResourceUid, limit: int | None = None) -> dict[str, object]:
        """Deliveries of an endpoint on the days that may have one that is not terminal."""
        today = self._session.now.astimezone(UTC).date()
        of_endpoint: dict[str, object] = {
            "tenant": self._session.tenant_id,
            "endpoint": endpoint,
            "first_day": today - LIVES,
            "last_day": today,
        }
        return of_endpoint if limit is None else of_endpoint | {"most": limit}

    def _attempts(self, key: DeliveryKey) -> tuple[ColumnElement[bool], ...]:
        table = WEBHOOK_ATTEMPT.c
        return (
            self._session.tenant_rows(WEBHOOK_ATTEMPT),
            table.received_on == key.received_on,
            table.delivery_id == key.delivery_id,
        )

    def _state(self, endpoint: ResourceUid) -> tuple[ColumnElement[bool], ...]:
        table = WEBHOOK_ENDPOINT_STATE
        return (self._session.tenant_rows(table), table.c.endpoint_uid == endpoint)


_CHANGING = (
    *("state", "reason", "attempt_no", "schedule_index", "losses", "due_at", "lease_epoch"),
    *("lease_owner", "lease_until", "last_outcome", "last_status", "is_early", "failing_since"),
)
_VALUES = attrgetter(*_CHANGING)
_KEY_OF_TENANT = ("received_on", "delivery_id")
_KEY = ("tenant_id", *_KEY_OF_TENANT)
_T = WEBHOOK_DELIVERY.c
_Row = namedtuple("_Row", _DELIVERY)  # type: ignore[misc]  # noqa: PYI024  columns by name
# Literals, not parameters: only then does a plan for all values use the indexes of these states.
_IS_PENDING = _T.state == literal_column(f"'{DeliveryState.PENDING}'")
_IS_LEASED = _T.state == literal_column(f"'{DeliveryState.LEASED}'")
_OF_ENDPOINT = (
    _T.tenant_id == bindparam("tenant"),
    _T.endpoint_uid == bindparam("endpoint"),
    _T.received_on >= bindparam("first_day"),
    _T.received_on <= bindparam("last_day"),
)
_LOCKED_ROWS = select(*(_T[name] for name in _DELIVERY)).with_for_update()
_LOCKED_BATCH = _LOCKED_ROWS.where(*_OF_ENDPOINT).limit(bindparam("most", type_=Integer))
_IS_TEST = _T.priority == literal_column(str(Origin.TEST.priority))
_DUE = _LOCKED_BATCH.where(
    _IS_PENDING, _T.due_at <= func.now(), _T.expires_at > func.now()
).order_by(_T.priority, _T.due_at)
_DUE_TESTS = _DUE.where(_IS_TEST)
_OVERDUE = _LOCKED_BATCH.where(
    or_(_IS_LEASED & (_T.lease_until <= func.now()), _IS_PENDING & (_T.expires_at <= func.now()))
).order_by(_T.delivery_id)
_OPEN = _LOCKED_BATCH.where(or_(_IS_PENDING, _IS_LEASED)).order_by(_T.delivery_id)
# Arrays of any length: one text, so the server plans it once.
_NAMED = _LOCKED_ROWS.where(
    _T.tenant_id == bindparam("tenant"),
    _T.received_on == any_(cast(bindparam("days", type_=ARRAY(Date)), ARRAY(Date))),
    _T.delivery_id == any_(cast(bindparam("ids", type_=ARRAY(Uuid)), ARRAY(Uuid))),
).order_by(_T.received_on, _T.delivery_id)


def _first(moment: ColumnElement[Any], state: ColumnElement[bool]) -> ScalarSelect[Any]:
    rows = select(moment).where(*_OF_ENDPOINT, state).order_by(moment).limit(1)
    return rows.scalar_subquery()


_WAITING = select(
    _first(_T.due_at, _IS_PENDING),
    _first(_T.expires_at, _IS_PENDING),
    _first(_T.lease_until, _IS_LEASED),
    select(func.count())
    .select_from(WEBHOOK_DELIVERY)
    .where(*_OF_ENDPOINT, _IS_LEASED)
    .scalar_subquery(),
    _first(_T.due_at, _IS_PENDING & _IS_TEST),
)


def _update(table: Table, key: Sequence[str], values: Sequence[str]) -> Update:
    """An update for many rows at once; a parameter must not have the name of a column."""
    return (
        update(table)
        .where(*(table.c[name] == bindparam(f"p_{name}") for name in key))
        .values({name: bindparam(f"p_{name}") for name in values})
    )


def _unnest(table: Table, names: Sequence[str]) -> TableValuedAlias:
    """The rows of a call, one parameter per column: one text for any number of rows."""
    arrays = (cast(bindparam(f"p_{name}"), ARRAY(table.c[name].type)) for name in names)
    named = (column(name, table.c[name].type) for name in names)
    return func.unnest(*arrays).table_valued(*named).render_derived("given")


def _insert_all(table: Table, names: Sequence[str]) -> Insert:
    rows = _unnest(table, names)
    return insert(table).from_select(list(names), select(*(rows.c[name] for name in names)))


@cache
def _update_all(changed: tuple[str, ...]) -> Update:
    """One statement for a batch: fifty single statements cost thirty times as much.

    The days are a separate condition, so that only their partitions are read.
    """
    rows = _unnest(WEBHOOK_DELIVERY, (*_KEY_OF_TENANT, *changed))
    days = cast(bindparam("p_received_on"), ARRAY(_T.received_on.type))
    return (
        update(WEBHOOK_DELIVERY)
        .where(_T.tenant_id == bindparam("tenant"), _T.received_on == any_(days))
        .where(*(_T[name] == rows.c[name] for name in _KEY_OF_TENANT))
        .values({name: rows.c[name] for name in changed})
    )


def _columns(deliveries: Sequence[Delivery], names: Sequence[str]) -> dict[str, list[Any]]:
    """Sorted by key, the order in which every transaction locks them."""
    ordered = sorted(deliveries, key=attrgetter(*_KEY))
    columns = zip(*map(attrgetter(*names), ordered), strict=True)
    return {
        f"p_{name}": [_written(value) for value in column] if name in _ENUMS else list(column)
        for name, column in zip(names, columns, strict=True)
    }


_ENUMS = {"state", "reason", "last_outcome", "origin"}
_ADD = _insert_all(WEBHOOK_DELIVERY, _DELIVERY).on_conflict_do_nothing()
_OPEN_ATTEMPTS = _insert_all(
    WEBHOOK_ATTEMPT, ("tenant_id", "received_on", "delivery_id", *_ATTEMPT_AT_START)
)
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


def _written(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


def _key_of(delivery: Delivery) -> DeliveryKey:
    return DeliveryKey(delivery.received_on, delivery.delivery_id)
