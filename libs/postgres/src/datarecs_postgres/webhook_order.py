"""The order of a run's events at one endpoint: statements over deliveries and the run's history.

Separate from `webhooks`, because endpoints without an order do not use these statements.
"""

from collections import namedtuple
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    DateTime,
    Integer,
    and_,
    bindparam,
    exists,
    func,
    literal_column,
    or_,
    select,
)

from datarecs_application.ports.delivery import Unblocked
from datarecs_core.runs.model import Disposition
from datarecs_core.values import ResourceUid, RunId
from datarecs_core.webhooks.delivery import NO_ACTION, Delivery, DeliveryState
from datarecs_core.webhooks.ordering import RunPlace
from datarecs_postgres.session import Session
from datarecs_postgres.tables.runs import RUN_EVENT
from datarecs_postgres.tables.webhooks import WEBHOOK_DELIVERY, WEBHOOK_MESSAGE
from datarecs_postgres.webhook_rows import delivery_of, utc

LIVES = timedelta(days=8)
"""A delivery lives at most 7 days, plus one for partial days."""

_COLUMNS = tuple(one.name for one in fields(Delivery))
_Row = namedtuple("_Row", _COLUMNS)  # type: ignore[misc]  # noqa: PYI024  columns by name


class PostgresDeliveryOrder:
    """Port DeliveryOrder."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def has_missing(self, endpoint: ResourceUid, place: RunPlace, *, since: datetime) -> bool:
        of_event = {"run": place.run_id, "sequence": place.sequence, "since": since}
        answer = self._session.answer(_MISSING, self._of(endpoint) | of_event)
        row = answer.fetchone()
        return row is not None and bool(row[0])

    def early(self, endpoint: ResourceUid, run_id: RunId) -> list[Delivery]:
        rows = self._session.answer(_EARLY, self._of(endpoint) | {"run": run_id})
        return [delivery_of(_Row._make(row)) for row in rows]

    def waiting_of_type(
        self, endpoint: ResourceUid, run_id: RunId, event_type: str
    ) -> list[Delivery]:
        wanted = {"run": run_id, "type": event_type}
        rows = self._session.answer(_WAITING_OF_TYPE, self._of(endpoint) | wanted)
        return [delivery_of(_Row._make(row)) for row in rows]

    def due(self, endpoint: ResourceUid, limit: int, *, failing_after: datetime) -> list[Delivery]:
        bounds = {"most": limit, "failing_after": failing_after}
        rows = self._session.answer(_DUE, self._of(endpoint) | bounds)
        return [delivery_of(_Row._make(row)) for row in rows]

    def unblocked(self, endpoint: ResourceUid, *, failing_after: datetime) -> Unblocked:
        bounds = {"failing_after": failing_after}
        row = self._session.answer(_UNBLOCKED, self._of(endpoint) | bounds).fetchone()
        first_due, failing_since = row or (None, None)
        return Unblocked(first_due=utc(first_due), failing_since=utc(failing_since))

    def _of(self, endpoint: ResourceUid) -> dict[str, object]:
        today = self._session.now.astimezone(UTC).date()
        return {
            "tenant": self._session.tenant_id,
            "endpoint": endpoint,
            "first_day": today - LIVES,
            "last_day": today,
        }


_T = WEBHOOK_DELIVERY.c
_EARLIER = WEBHOOK_DELIVERY.alias("earlier")
_M, _E = WEBHOOK_MESSAGE.c, RUN_EVENT.c
# Literals, not parameters: only then does a plan for all values use the indexes of these states.
_PENDING: ColumnElement[str] = literal_column(f"'{DeliveryState.PENDING}'")
_LEASED: ColumnElement[str] = literal_column(f"'{DeliveryState.LEASED}'")
_LIVE: ColumnElement[UUID] = literal_column(f"'{NO_ACTION}'::uuid")
_MOMENT = bindparam("failing_after", type_=DateTime(timezone=True))


def _of_endpoint(columns: Any) -> ColumnElement[bool]:  # noqa: ANN401  columns of the table or an alias
    return and_(
        columns.tenant_id == bindparam("tenant"),
        columns.endpoint_uid == bindparam("endpoint"),
        columns.received_on >= bindparam("first_day"),
        columns.received_on <= bindparam("last_day"),
    )


_IS_BLOCKED = (
    exists()
    .where(
        _of_endpoint(_EARLIER.c),
        _EARLIER.c.run_id == _T.run_id,
        _EARLIER.c.action_id == _T.action_id,
        _EARLIER.c.sequence < _T.sequence,
        _EARLIER.c.state.in_([_PENDING, _LEASED]),
        or_(_EARLIER.c.failing_since.is_(None), _EARLIER.c.failing_since > _MOMENT),
    )
    .correlate(WEBHOOK_DELIVERY)
)
_MAY_GO = and_(_of_endpoint(_T), _T.state == _PENDING, or_(_T.sequence.is_(None), ~_IS_BLOCKED))
_LOCKED = select(*(_T[name] for name in _COLUMNS)).with_for_update(of=WEBHOOK_DELIVERY)
_DUE = (
    _LOCKED.where(_MAY_GO, _T.due_at <= func.now(), _T.expires_at > func.now())
    .order_by(_T.priority, _T.due_at, _T.sequence)
    .limit(bindparam("most", type_=Integer))
)
_UNBLOCKED = select(
    select(_T.due_at).where(_MAY_GO).order_by(_T.due_at).limit(1).scalar_subquery(),
    select(func.min(_T.failing_since))
    .where(
        _of_endpoint(_T),
        _T.sequence.is_not(None),
        _T.state.in_([_PENDING, _LEASED]),
        _T.failing_since > _MOMENT,
    )
    .scalar_subquery(),
)
_EARLY = _LOCKED.where(
    _of_endpoint(_T),
    _T.run_id == bindparam("run"),
    _T.sequence.is_not(None),
    _T.is_early,
    _T.state == _PENDING,
).order_by(_T.sequence)
_WAITING_OF_TYPE = _LOCKED.where(
    _of_endpoint(_T),
    _T.run_id == bindparam("run"),
    _T.sequence.is_not(None),
    _T.event_type == bindparam("type"),
    _T.action_id == _LIVE,
    _T.state == _PENDING,
).order_by(_T.sequence)
_SEEN_UP_TO = (
    select(func.coalesce(func.max(_T.sequence), 0))
    .where(
        _of_endpoint(_T),
        _T.run_id == bindparam("run"),
        _T.sequence.is_not(None),
        _T.action_id == _LIVE,
        ~_T.is_early,
    )
    .scalar_subquery()
)
_HAS_COME = exists().where(
    _M.tenant_id == bindparam("tenant"),
    _M.received_on >= bindparam("first_day"),
    _M.received_on <= bindparam("last_day"),
    _M.message_id == _E.event_id,
)
_MISSING = select(
    exists().where(
        _E.tenant_id == bindparam("tenant"),
        _E.run_id == bindparam("run"),
        _E.sequence > _SEEN_UP_TO,
        _E.sequence < bindparam("sequence", type_=BigInteger),
        _E.time >= bindparam("since", type_=DateTime(timezone=True)),
        _E.disposition != Disposition.SYNTHESISED.value,
        ~_HAS_COME.correlate(RUN_EVENT),
    )
)
