"""Rows of webhook deliveries as values: one function for each table.

Separate from the statements, for shorter modules.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from datarecs_application.ports.delivery import DeliveryKey, WebhookAttempt
from datarecs_core.values import EventId, ResourceUid, RunId, TenantId, aware, instant_text
from datarecs_core.webhooks.delivery import Delivery, DeliveryReason, DeliveryState, Origin
from datarecs_core.webhooks.handshake import Handshake
from datarecs_core.webhooks.health import Disabled, DisabledBy, EndpointState
from datarecs_core.webhooks.outcome import Outcome


def utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else aware(moment)


def delivery_of(row: Any) -> Delivery:  # noqa: ANN401  a row of SQLAlchemy or of the driver
    """Read column by column, because hundreds of rows are read per second."""
    return Delivery(
        tenant_id=TenantId(row.tenant_id),
        received_on=row.received_on,
        delivery_id=row.delivery_id,
        endpoint_uid=ResourceUid(row.endpoint_uid),
        event_id=EventId(row.event_id),
        event_type=row.event_type,
        run_id=None if row.run_id is None else RunId(row.run_id),
        sequence=row.sequence,
        is_early=row.is_early,
        failing_since=utc(row.failing_since),
        state=DeliveryState(row.state),
        reason=None if row.reason is None else DeliveryReason(row.reason),
        attempt_no=row.attempt_no,
        schedule_index=row.schedule_index,
        losses=row.losses,
        due_at=aware(row.due_at),
        expires_at=aware(row.expires_at),
        created_at=aware(row.created_at),
        origin=Origin(row.origin),
        priority=row.priority,
        action_id=row.action_id,
        event_on=row.event_on,
        lease_epoch=row.lease_epoch,
        lease_owner=row.lease_owner,
        lease_until=utc(row.lease_until),
        last_outcome=None if row.last_outcome is None else Outcome(row.last_outcome),
        last_status=row.last_status,
    )


def state_of(row: Row[Any]) -> EndpointState:
    state = EndpointState(
        tenant_id=TenantId(row.tenant_id),
        endpoint_uid=ResourceUid(row.endpoint_uid),
        next_claim_at=utc(row.next_claim_at),
        rate_paid_until=utc(row.rate_paid_until),
        paused_until=utc(row.paused_until),
        failing_since=utc(row.failing_since),
        consecutive_failures=row.consecutive_failures,
        last_success_at=utc(row.last_success_at),
        circuit_openings=row.circuit_openings,
        circuit_open_until=utc(row.circuit_open_until),
        window_started_at=utc(row.window_started_at),
        window_attempts=row.window_attempts,
        window_failures=row.window_failures,
        handshake=_handshake_of(row.handshake),
        warned_at=utc(row.warned_at),
        pending=row.pending,
        overflow_since=utc(row.overflow_since),
        overflow_until=utc(row.overflow_until),
    )
    if row.disabled_by is None:
        return state
    disabled = Disabled(
        by=DisabledBy(row.disabled_by),
        at=aware(row.disabled_at),
        generation=row.disabled_generation,
    )
    return replace(state, disabled=disabled)


def _handshake_of(stored: Mapping[str, Any] | None) -> Handshake | None:
    if stored is None:
        return None
    times = {
        name: None if stored[name] is None else datetime.fromisoformat(stored[name])
        for name in _HANDSHAKE_TIMES
    }
    return Handshake(**{**stored, **times})


def handshake_column(handshake: Handshake | None) -> Mapping[str, object] | None:
    """The handshake as JSON, with times as text."""
    if handshake is None:
        return None
    times = {
        name: None if moment is None else instant_text(moment)
        for name in _HANDSHAKE_TIMES
        for moment in (getattr(handshake, name),)
    }
    return {**asdict(handshake), **times}


_HANDSHAKE_TIMES = ("began_at", "sent_at", "granted_at")


def attempt_of(row: Row[Any], key: DeliveryKey) -> WebhookAttempt:
    return WebhookAttempt(
        key=key,
        attempt_no=row.attempt_no,
        lease_epoch=row.lease_epoch,
        worker=row.worker,
        reason=row.reason,
        started_at=aware(row.started_at),
        trace_id=row.trace_id,
        finished_at=utc(row.finished_at),
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
