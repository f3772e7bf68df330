"""Reclaim expired leases: the run's next attempt, or its end (spec run-lifecycle 7, 12-13).

Database time decides; a worker's clock is not used.
"""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.outside import Ids, Wake
from datarecs_application.ports.state import Lease, UnitOfWork, WorkFinder
from datarecs_application.runs import lose_attempt
from datarecs_core.values import TenantId

log = structlog.get_logger()

PER_TENANT = 50
FEED_NUMBERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescue:
    """A loop; every step checks the lease again under its lock, so two loops are safe."""

    unit: UnitOfWork
    finder: WorkFinder
    ids: Ids
    rhythm: Rhythm
    jitter: Callable[[], float]
    """A fresh share in [0, 1) at each call; spreads retries."""

    @property
    def name(self) -> str:
        return "rescue"

    def run(self, stop: Wake) -> None:
        self.rhythm.repeat(self.step, stop, loop=self.name)

    def step(self) -> int:
        """One pass over the tenants with expired leases; how many leases were taken back."""
        taken = 0
        for tenant, _ in self.finder.due_tenants("run_leases"):
            with self.unit.begin(tenant, read_only=True) as tx:
                expired = tx.leases.expired(PER_TENANT)
            for lease in expired:
                with structlog.contextvars.bound_contextvars(
                    tenant_id=str(tenant), run_id=str(lease.run_id)
                ):
                    taken += self._take_back(tenant, lease)
        return taken

    def _take_back(self, tenant: TenantId, lease: Lease) -> int:
        try:
            with self.unit.begin(tenant, feed=FEED_NUMBERS) as tx:
                lose_attempt(tx, lease, self.ids, jitter=0.5 + 0.5 * self.jitter())
        except StoreUnavailableError:
            raise
        except StoreBusyError as cause:
            log.warning("lease_rescue_repeats", code=cause.code.name)
            return 0
        except Exception:  # one run's defect must not stop the others; its lease stays expired
            log.exception("lease_rescue_failed")
            return 0
        return 1
