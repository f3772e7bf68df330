"""The rows of `webhook_action`: actions on an endpoint's deliveries that users requested.

Separate from the deliveries, because core-api writes these rows and the webhook-service executes
them.
"""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Row, delete, select, update
from sqlalchemy.dialects.postgresql import insert

from datarecs_core.values import EventId, ResourceUid, TenantId, aware
from datarecs_core.webhooks.actions import ActionState, Position, WebhookAction, Window
from datarecs_core.webhooks.delivery import Origin
from datarecs_postgres.session import Session
from datarecs_postgres.tables.webhooks import WEBHOOK_ACTION

_T = WEBHOOK_ACTION.c


class PostgresWebhookActions:
    """Port WebhookActions."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add(self, action: WebhookAction) -> bool:
        window = action.window
        added = self._session.execute(
            insert(WEBHOOK_ACTION)
            .values(
                tenant_id=self._session.tenant_id,
                action_id=action.action_id,
                endpoint_uid=action.endpoint_uid,
                kind=action.kind.value,
                requested_by=action.requested_by,
                created_at=action.created_at,
                since=window and window.since,
                until=window and window.until,
                types=list(window.types) if window else [],
                deliveries=list(action.deliveries),
                example=action.example,
                expected=action.expected,
                **_progress(action),
            )
            .on_conflict_do_nothing()
            .inline()
        )
        return bool(added.rowcount)

    def get(self, action_id: UUID) -> WebhookAction | None:
        row = self._session.execute(
            select(WEBHOOK_ACTION).where(*self._by_id(action_id)).with_for_update()
        ).one_or_none()
        return None if row is None else _action_of(row)

    def read(self, action_id: UUID) -> WebhookAction | None:
        row = self._session.execute(
            select(WEBHOOK_ACTION).where(*self._by_id(action_id))
        ).one_or_none()
        return None if row is None else _action_of(row)

    def open(self, limit: int) -> list[WebhookAction]:
        rows = self._session.execute(
            select(WEBHOOK_ACTION)
            .where(self._session.tenant_rows(WEBHOOK_ACTION), _T.state == ActionState.OPEN.value)
            .order_by(_T.created_at)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
        return [_action_of(row) for row in rows]

    def save(self, action: WebhookAction) -> None:
        self._session.execute(
            update(WEBHOOK_ACTION).where(*self._by_id(action.action_id)).values(**_progress(action))
        )

    def forget(self, before: datetime) -> None:
        self._session.execute(
            delete(WEBHOOK_ACTION).where(
                self._session.tenant_rows(WEBHOOK_ACTION), _T.closed_at < before
            )
        )

    def _by_id(self, action_id: UUID) -> tuple[ColumnElement[bool], ...]:
        return (self._session.tenant_rows(WEBHOOK_ACTION), _T.action_id == action_id)


def _progress(action: WebhookAction) -> dict[str, object]:
    position = action.position
    return {
        "state": action.state.value,
        "closed_at": action.closed_at,
        "position_on": position and position.received_on,
        "position_id": position and position.event_id,
        "made": action.made,
        "first_delivery": action.first_delivery,
    }


def _action_of(row: Row[Any]) -> WebhookAction:
    kind = Origin(row.kind)
    window = None
    if row.since is not None:
        window = Window(
            since=aware(row.since),
            until=aware(row.until),
            types=tuple(row.types),
            only_missing=kind is Origin.RECOVER,
        )
    position = None
    if row.position_on is not None:
        position = Position(row.position_on, EventId(row.position_id))
    return WebhookAction(
        tenant_id=TenantId(row.tenant_id),
        action_id=row.action_id,
        endpoint_uid=ResourceUid(row.endpoint_uid),
        kind=kind,
        state=ActionState(row.state),
        requested_by=row.requested_by,
        created_at=aware(row.created_at),
        closed_at=None if row.closed_at is None else aware(row.closed_at),
        window=window,
        deliveries=tuple(row.deliveries),
        example=row.example,
        position=position,
        expected=row.expected,
        made=row.made,
        first_delivery=row.first_delivery,
    )
