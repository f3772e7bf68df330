"""Deliveries of an endpoint's events with their attempt log, read only.

Sending them again is in `webhook_actions`.
"""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from datarecs_application.ports.delivery import DeliveryKey
from datarecs_application.ports.state import Transaction
from datarecs_core.access.permissions import Permission
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind
from datarecs_core.webhooks.delivery import Delivery, DeliveryState
from datarecs_core_api.addressing import read_resource
from datarecs_core_api.auth import Reader
from datarecs_core_api.conditional import json_answer
from datarecs_core_api.dependencies import Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.inputs import Namespace, canonical_uuid
from datarecs_core_api.outputs import DeliveryOut, Page
from datarecs_core_api.pagination import Cursor, Position, next_link
from datarecs_core_api.problems import not_found
from datarecs_core_api.published_types import DeliveryIdPath, ObjectName
from datarecs_core_api.views import attempt_view, delivery_view
from datarecs_specs.kinds import KINDS

router = APIRouter(prefix="/api/v1", tags=["webhooks"], route_class=GuardedRoute)
ENDPOINT = KINDS[Kind.WEBHOOK_ENDPOINT]
MAX_DELIVERIES, DEFAULT_DELIVERIES = 50, 20


@router.get(
    f"/{ENDPOINT.path}/{{name}}/deliveries",
    operation_id="list_deliveries",
    responses={200: {"model": Page[DeliveryOut]}},
)
def list_deliveries(
    name: ObjectName,
    caller: Reader,
    request: Request,
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
    state: DeliveryState | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_DELIVERIES)] = DEFAULT_DELIVERIES,
    cursor: Cursor | None = None,
) -> Response:
    """Newest first with every attempt; headers and bodies for those who read samples."""
    samples, now = caller.may(Permission.SAMPLE_READ), use.clock.now()
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        endpoint = read_resource(tx, ENDPOINT, name, namespace=namespace)
        scope = {"list": "deliveries", "endpoint": str(endpoint.uid), "state": str(state)}
        before = None
        if cursor is not None:
            at = use.cursors.read(cursor, tenant=caller.tenant_id, where=scope, now=now)
            before = (at.created_at, at.id)
        newest = tx.deliveries.of_endpoint(endpoint.uid, limit + 1, state=state, before=before)
        items = [_with_attempts(tx, one, samples=samples) for one in newest[:limit]]
    following = None
    if len(newest) > limit:
        position = Position(created_at=items[-1].created_at, id=items[-1].delivery_id)
        following = use.cursors.write(position, tenant=caller.tenant_id, where=scope, now=now)
    page = Page(items=items, next=following)
    return json_answer(page, headers=next_link(request, page.next))


@router.get(
    "/webhook-deliveries/{delivery_id}",
    operation_id="get_delivery",
    responses={200: {"model": DeliveryOut}},
)
def get_delivery(delivery_id: DeliveryIdPath, caller: Reader, use: Using) -> Response:
    """One delivery with every attempt; headers and bodies for those who read samples."""
    samples = caller.may(Permission.SAMPLE_READ)
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        delivery = known_delivery(tx, delivery_id)
        return json_answer(_with_attempts(tx, delivery, samples=samples))


def known_delivery(tx: Transaction, text: str) -> Delivery:
    """404 for an unknown id, another tenant's, and every spelling but the canonical one."""
    delivery_id = canonical_uuid(text)
    matching = [] if delivery_id is None else tx.deliveries.by_id([delivery_id])
    if not matching:
        raise not_found("delivery")
    return matching[0]


def _with_attempts(tx: Transaction, delivery: Delivery, *, samples: bool) -> DeliveryOut:
    key = DeliveryKey(delivery.received_on, delivery.delivery_id)
    attempts = tx.deliveries.attempts(key)
    return delivery_view(delivery, [attempt_view(one, samples=samples) for one in attempts])
