"""What loops do with the queue of captures: renew leases, reclaim items, follow cancels, remove.

Separate from `queue`, whose functions join a transaction: these open their own, one per item, so
that a long tree holds no lock for long and a step that is interrupted goes on where it stopped.
"""

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta

import structlog

from datarecs_application.capturing.queue import cancel_below, reclaim_one
from datarecs_application.errors import StoreBusyError
from datarecs_application.ports.capturing import CaptureFinder, Renewed
from datarecs_application.ports.state import Transaction, UnitOfWork
from datarecs_core.captures.items import CaptureJobId, WorkToken
from datarecs_core.values import TenantId

log = structlog.get_logger()
PAGE = 1_000
TREES = 50
"""Trees that one transaction removes."""
RETENTION = timedelta(hours=24)
"""How long a tree stays after its root has ended."""


def renew(unit: UnitOfWork, tokens: Collection[WorkToken]) -> Mapping[WorkToken, Renewed]:
    """Extend the leases of a worker, one statement per tenant."""
    renewed = {token: Renewed(is_current=False) for token in tokens}
    for tenant in sorted({token.tenant_id for token in tokens}):
        with unit.begin(tenant) as tx:
            current = tx.capture_work.renew([one for one in tokens if one.tenant_id == tenant])
        for token, is_cancelled in current.items():
            renewed[token] = Renewed(is_current=True, cancel_requested=is_cancelled)
    return renewed


def reclaim(unit: UnitOfWork, finder: CaptureFinder, *, limit: int = PAGE) -> int:
    """Take items from executors that lost them; how many."""
    return sum(
        _for_each(unit, tenant, _expired(unit, tenant, limit), reclaim_one)
        for tenant in finder.tenants_with_work("expired")
    )


def follow_cancels(unit: UnitOfWork, finder: CaptureFinder, *, limit: int = PAGE) -> int:
    """Cancel what is below cancelled items; how many items. Call it until it is 0."""
    return sum(
        _for_each(unit, tenant, _below_cancelled(unit, tenant, limit), cancel_below)
        for tenant in finder.tenants_with_work("cancelled")
    )


def remove_old(unit: UnitOfWork, finder: CaptureFinder, *, limit: int = TREES) -> int:
    """Remove whole trees 24 h after their root ended; how many trees. Call it until it is 0."""
    removed = 0
    for tenant in finder.tenants_with_work("old"):
        with unit.begin(tenant) as tx:
            removed += tx.capture_work.remove_ended(finished_before=tx.now - RETENTION, limit=limit)
    return removed


def _expired(unit: UnitOfWork, tenant: TenantId, limit: int) -> Collection[CaptureJobId]:
    with unit.begin(tenant) as tx:
        return tx.capture_work.expired(limit=limit)


def _below_cancelled(unit: UnitOfWork, tenant: TenantId, limit: int) -> Collection[CaptureJobId]:
    with unit.begin(tenant) as tx:
        return tx.capture_work.live_below_cancelled(limit=limit)


def _for_each(
    unit: UnitOfWork,
    tenant: TenantId,
    items: Collection[CaptureJobId],
    change: Callable[[Transaction, CaptureJobId], bool],
) -> int:
    """One transaction per item; one that meets another transaction is left for the next call."""
    changed = 0
    for item_id in items:
        try:
            with unit.begin(tenant) as tx:
                changed += change(tx, item_id)
        except StoreBusyError as failure:
            log.debug("capture_item_busy", item_id=str(item_id), cause=failure.cause)
    return changed
