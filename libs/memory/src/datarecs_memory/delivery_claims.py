"""Twin of the definer functions that find due endpoints and mails across tenants."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from datarecs_core.values import ResourceUid, TenantId
from datarecs_memory.store import MemoryStore

ENDPOINT_HOLD = timedelta(seconds=5)
MAIL_HOLD = timedelta(seconds=30)


def claim_deliveries(store: MemoryStore, limit: int) -> list[tuple[TenantId, ResourceUid]]:
    """Endpoints that are due, the longest due first; their next check is moved."""
    now = store.clock.now()
    with store.writing_all() as states:
        due = sorted(
            (endpoint.next_claim_at, tenant, uid)
            for tenant, state in states.items()
            for uid, endpoint in state.delivery.endpoints.items()
            if endpoint.next_claim_at is not None and endpoint.next_claim_at <= now
        )[:limit]
        for _, tenant, uid in due:
            endpoints = states[tenant].delivery.endpoints
            endpoints[uid] = replace(endpoints[uid], next_claim_at=now + ENDPOINT_HOLD)
    return [(tenant, uid) for _, tenant, uid in due]


def claim_mails(store: MemoryStore, limit: int) -> list[tuple[TenantId, UUID]]:
    """Mails that are due and not claimed by a notifier, the longest due first."""
    now = store.clock.now()
    with store.writing_all() as states:
        due = sorted(
            (mail.due_at, tenant, delivery_id)
            for tenant, state in states.items()
            for delivery_id, mail in state.delivery.mails.items()
            if mail.due_at is not None
            and mail.due_at <= now
            and state.delivery.mails_claimed_until.get(delivery_id, now) <= now
        )[:limit]
        for _, tenant, delivery_id in due:
            states[tenant].delivery.mails_claimed_until[delivery_id] = now + MAIL_HOLD
    return [(tenant, delivery_id) for _, tenant, delivery_id in due]
