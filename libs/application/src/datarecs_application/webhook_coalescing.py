"""`coalesce`: the newest waiting event of a run replaces the earlier ones of its type.

Separate from `webhook_order`, because nothing waits here. The caller holds the lock of the
endpoint's state, so no delivery of the endpoint is leased at the same time.
"""

from collections.abc import Iterable

from datarecs_application.ports.state import Transaction
from datarecs_core.resources.resource import Resource
from datarecs_core.webhooks.delivery import Delivery, Superseded, decide_delivery
from datarecs_core.webhooks.endpoint import WebhookEndpoint, coalesces
from datarecs_core.webhooks.ordering import RunPlace


def discard_superseded(
    tx: Transaction,
    endpoints: Iterable[tuple[Resource, WebhookEndpoint]],
    event_type: str,
    place: RunPlace | None,
) -> list[Delivery]:
    """Discard all but the newest waiting delivery of the run at endpoints that coalesce the type.

    Call after the delivery of the new event was added. An event that arrives late is discarded
    itself. Deliveries of actions are not affected.
    """
    closed: list[Delivery] = []
    for resource, spec in endpoints:
        if place is None or not coalesces(spec, event_type):
            continue
        waiting = tx.delivery_order.waiting_of_type(resource.uid, place.run_id, event_type)
        superseded = [
            decide_delivery(one, Superseded(), retry=spec.retry, now=tx.now).state
            for one in waiting[:-1]
        ]
        tx.deliveries.save(superseded)
        tx.deliveries.hasten([resource.uid], added=-len(superseded))
        closed += superseded
    return closed
