"""`ordering: run` in transactions: what an event waits for, and which deliveries may be leased.

Separate from `webhooks`, because endpoints without an order need none of these steps. The caller
holds the lock of the endpoint's state, so two events of a run are decided one after the other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from datarecs_application.ports.state import Transaction
from datarecs_core.resources.resource import Resource
from datarecs_core.values import ResourceUid, RunId
from datarecs_core.webhooks.delivery import Delivery
from datarecs_core.webhooks.endpoint import Ordering, WebhookEndpoint
from datarecs_core.webhooks.health import Waiting
from datarecs_core.webhooks.ordering import GAP_WAIT, RunPlace

_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
"""No failure is older than this, so every earlier delivery blocks."""


def is_ordered(spec: WebhookEndpoint) -> bool:
    return spec.ordering is Ordering.RUN


def placed(
    tx: Transaction,
    deliveries: Iterable[Delivery],
    ordered: Iterable[Resource],
    place: RunPlace | None,
) -> list[Delivery]:
    """Deliveries of one event; those to ordered endpoints get its number within its run."""
    endpoints = {} if place is None else {one.uid: one for one in ordered}
    return [
        one
        if place is None or one.endpoint_uid not in endpoints
        else _in_order(tx, one, endpoints[one.endpoint_uid], place)
        for one in deliveries
    ]


def _in_order(tx: Transaction, delivery: Delivery, endpoint: Resource, place: RunPlace) -> Delivery:
    """The delivery with its number; early while an earlier event of the run is missing."""
    is_early = tx.delivery_order.has_missing(endpoint.uid, place, since=endpoint.created_at)
    due_at = tx.now + GAP_WAIT if is_early else delivery.due_at
    return replace(
        delivery,
        run_id=place.run_id,
        sequence=place.sequence,
        is_early=is_early,
        due_at=min(due_at, delivery.expires_at),
    )


def release_early(tx: Transaction, ordered: Iterable[Resource], place: RunPlace | None) -> None:
    """Release the deliveries that waited only for this event of the run."""
    if place is None:
        return
    for endpoint in ordered:
        if _release_next(tx, endpoint, place.run_id):
            tx.deliveries.hasten([endpoint.uid])


def _release_next(tx: Transaction, endpoint: Resource, run_id: RunId) -> bool:
    """Release deliveries up to the next missing event; whether any was released."""
    is_released = False
    for one in tx.delivery_order.early(endpoint.uid, run_id):
        place = RunPlace(run_id, one.sequence or 0)
        if tx.delivery_order.has_missing(endpoint.uid, place, since=endpoint.created_at):
            break
        tx.deliveries.save([replace(one, is_early=False, due_at=tx.now)])
        is_released = True
    return is_released


def skip_gaps(tx: Transaction, endpoint: ResourceUid, leased: Sequence[Delivery]) -> int:
    """Release early deliveries of runs with a gap; returns the number of gaps.

    A gap is a leased delivery without an earlier event of its run.

    Args:
        tx: the transaction of the lease.
        endpoint: of the deliveries.
        leased: the deliveries before their lease.
    """
    gaps = {one.run_id for one in leased if one.is_early and one.run_id is not None}
    for run_id in gaps:
        waiting = tx.delivery_order.early(endpoint, run_id)
        tx.deliveries.save([replace(one, is_early=False, due_at=tx.now) for one in waiting])
    return len(gaps)


def due(
    tx: Transaction, endpoint: ResourceUid, spec: WebhookEndpoint, limit: int
) -> list[Delivery]:
    """Deliveries that may be leased now; at most one per run of an ordered endpoint."""
    if not is_ordered(spec):
        return tx.deliveries.due(endpoint, limit)
    return tx.delivery_order.due(endpoint, limit, failing_after=_failing_after(tx, spec))


def waiting(tx: Transaction, endpoint: ResourceUid, spec: WebhookEndpoint | None) -> Waiting:
    """The waiting deliveries; a delivery that an earlier one blocks is not due."""
    left = tx.deliveries.waiting(endpoint)
    if spec is None or not is_ordered(spec) or left.first_due is None:
        return left
    unblocked = tx.delivery_order.unblocked(endpoint, failing_after=_failing_after(tx, spec))
    moments = [unblocked.first_due]
    if spec.max_block is not None and unblocked.failing_since is not None:
        moments.append(unblocked.failing_since + spec.max_block)
    first_due = min((moment for moment in moments if moment is not None), default=None)
    return replace(left, first_due=first_due)


def _failing_after(tx: Transaction, spec: WebhookEndpoint) -> datetime:
    """A delivery that has failed since before this time does not block."""
    return _NEVER if spec.max_block is None else tx.now - spec.max_block
