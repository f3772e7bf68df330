"""The loops beside the slots: reclaim items of dead workers, follow cancels, remove what is old.

Each is correct when several workers run it: every step decides under the lock of its item.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from uuid import UUID

import structlog

from datarecs_application.capturing import maintaining
from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.collecting import Collected, Collector
from datarecs_application.catalogue.pointer_store import PointerStore
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.outside import BlobStores, Metrics, Wake
from datarecs_application.ports.state import UnitOfWork, WorkFinder
from datarecs_core.captures.items import CaptureJobId
from datarecs_core.errors.base import DatarecsError
from datarecs_core.values import TenantId

log = structlog.get_logger()

INTERVAL = timedelta(seconds=5)
"""Of reclaiming and of following cancels, besides wake-ups."""
REMOVAL_INTERVAL = timedelta(minutes=10)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepLoop:
    """A loop around one step, which returns how many items it changed."""

    name: str
    step: Callable[[], int]
    rhythm: Rhythm

    def run(self, stop: Wake) -> None:
        self.rhythm.repeat(self.step, stop, loop=self.name)


@dataclass(slots=True, kw_only=True)
class Upkeep:
    """The steps of these loops."""

    unit: UnitOfWork
    finder: WorkFinder
    blobs: BlobStores
    rhythm: Rhythm
    metrics: Metrics
    _uncollected: set[TenantId] = field(default_factory=set, init=False)

    def reclaim(self) -> int:
        """Return items of workers that lost them to the queue."""
        reclaimed = maintaining.reclaim(self.unit, self.finder)
        if reclaimed:
            self.metrics.count("leases_expired_total", reclaimed, queue="capture")
            log.info("capture_leases_expired", items=reclaimed)
        return reclaimed

    def follow_cancels(self) -> int:
        """Cancel what is below cancelled items."""
        return maintaining.follow_cancels(self.unit, self.finder)

    def remove_old(self) -> int:
        """Remove old trees, and then the blobs that nothing reaches any more, of the same tenants.

        A blob is collected a day after its last use, and a tree is removed a day after its end, so
        the removal of trees is the time at which a tenant has something to be collected. Always 0:
        the next pass is due after the interval.
        """
        self._uncollected |= set(self.finder.tenants_with_work("old"))
        while removed := maintaining.remove_old(self.unit, self.finder):
            log.info("captures_removed", captures=removed)
        for tenant in sorted(self._uncollected):
            self._collect(tenant)
            self._uncollected.discard(tenant)
        return 0

    def _collect(self, tenant: TenantId) -> None:
        account = CatalogueAccount(
            tenant=tenant,
            pointers=PointerStore(unit=self.unit, tenant=tenant),
            blobs=self.blobs.of(tenant),
            clock=self.rhythm.clock,
        )
        collector = Collector(account=account, is_live_job=partial(self._is_live, tenant))
        began = self.rhythm.clock.monotonic()
        try:
            collected = collector.collect()
        except DatarecsError as cause:
            if cause.code.entry.retryable:
                raise
            log.warning("catalogue_not_collected", tenant_id=str(tenant), code=cause.code.name)
            return
        self._report(collected, self.rhythm.clock.monotonic() - began)
        log.info(
            "catalogue_collected",
            tenant_id=str(tenant),
            scanned=collected.scanned,
            deleted=collected.deleted,
            failed_owners=len(collected.failed_owners),
        )

    def _report(self, collected: Collected, seconds: float) -> None:
        count = self.metrics.count
        self.metrics.observe("catalog_gc_seconds", seconds)
        count("catalog_gc_scanned_total", collected.scanned)
        count("catalog_gc_deleted_total", collected.deleted)
        count("catalog_gc_rescued_total", collected.rescued)
        count("catalog_gc_generations_total", collected.generations)
        count("catalog_gc_failed_owners_total", len(collected.failed_owners))

    def _is_live(self, tenant: TenantId, job: UUID) -> bool:
        with self.unit.begin(tenant, read_only=True) as tx:
            return tx.capture_work.get(CaptureJobId(job)) is not None
