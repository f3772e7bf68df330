"""Drain a deleted endpoint: discard waiting deliveries, let running ones end, then remove it.

Separate from `webhooks`, because nothing is sent here. core-api marks an endpoint with open
deliveries; the webhook-service drains it and removes the mark.
"""

from dataclasses import dataclass, replace

from datarecs_application.ports.state import Transaction
from datarecs_application.resources import release_resource
from datarecs_core.values import ResourceUid
from datarecs_core.webhooks.delivery import (
    Delivery,
    DeliveryState,
    EndpointDeleted,
    decide_delivery,
)
from datarecs_core.webhooks.endpoint import DRAIN, Retry
from datarecs_core.webhooks.health import HELD_FOR, EndpointState

DISCARDED_AT_ONCE = 500
"""Deliveries that one transaction discards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    closed: tuple[Delivery, ...]
    is_drained: bool
    """The endpoint is marked, and no delivery is open."""


def discard_waiting(tx: Transaction, state: EndpointState, *, is_marked: bool) -> Drained:
    """Discard the waiting deliveries of a deleted endpoint in batches; safe to repeat.

    Args:
        tx: of the endpoint's tenant; holds the lock of `state`.
        state: of the endpoint.
        is_marked: whether its resource still exists; it does until the endpoint is drained.
    """
    endpoint = state.endpoint_uid
    still_open = tx.deliveries.pending(endpoint, DISCARDED_AT_ONCE)
    closed = [
        decide_delivery(one, EndpointDeleted(), retry=Retry(), now=tx.now).state
        for one in still_open
        if one.state is DeliveryState.PENDING or (one.lease_until and one.lease_until <= tx.now)
    ]
    tx.deliveries.save(closed)
    left = tx.deliveries.waiting(endpoint)
    is_empty = left.first_due is None and not left.leased
    claim_at = left.first_lease_end if left.first_due is None else tx.now
    if is_empty and is_marked:
        claim_at = tx.now + HELD_FOR  # Again, in case the resource could not be released.
    pending = max(0, state.pending - len(closed))
    tx.deliveries.save_state(replace(state, next_claim_at=claim_at, pending=pending))
    return Drained(closed=tuple(closed), is_drained=is_empty and is_marked)


def release_endpoint(tx: Transaction, endpoint: ResourceUid) -> None:
    """Delete a drained endpoint with its secrets; safe to repeat.

    Begin the transaction with `feed=1`, because a deletion is a change of the resource.
    """
    release_resource(tx, endpoint, DRAIN, actor="controller/WebhookEndpoint")
