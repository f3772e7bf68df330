"""What became of an endpoint's events: deliveries with their attempt log, read only."""

from typing import Annotated

from fastapi import APIRouter, Query

from datarecs_application.ports.delivery import DeliveryKey
from datarecs_application.ports.state import Transaction
from datarecs_core.access.permissions import Permission
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind
from datarecs_core.webhooks.delivery import Delivery
from datarecs_core_api.addressing import found_resource
from datarecs_core_api.auth import Reader
from datarecs_core_api.dependencies import Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.inputs import Namespace
from datarecs_core_api.outputs import DeliveryOut, Page
from datarecs_core_api.views import attempt_view, delivery_view
from datarecs_specs.kinds import KINDS

router = APIRouter(prefix="/api/v1", tags=["webhooks"], route_class=GuardedRoute)
ENDPOINT = KINDS[Kind.WEBHOOK_ENDPOINT]
MAX_DELIVERIES, DEFAULT_DELIVERIES = 50, 20


@router.get(f"/{ENDPOINT.path}/{{name}}/deliveries", operation_id="list_deliveries")
def deliveries(
    name: str,
    caller: Reader,
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
    limit: Annotated[int, Query(ge=1, le=MAX_DELIVERIES)] = DEFAULT_DELIVERIES,
) -> Page[DeliveryOut]:
    """The newest deliveries with every attempt; headers and bodies for those who read samples."""
    samples = caller.may(Permission.SAMPLE_READ)

    def shown(tx: Transaction, delivery: Delivery) -> DeliveryOut:
        key = DeliveryKey(delivery.received_on, delivery.delivery_id)
        attempts = tx.deliveries.attempts(key)
        return delivery_view(delivery, [attempt_view(one, samples=samples) for one in attempts])

    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        endpoint = found_resource(tx, ENDPOINT, name, namespace=namespace)
        newest = tx.deliveries.of_endpoint(endpoint.uid, limit)
        return Page(items=[shown(tx, one) for one in newest])
