"""Sweep the retention policies that are due; one failure never stops the others."""

from dataclasses import dataclass

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.outside import Wake
from datarecs_application.ports.state import WorkFinder
from datarecs_application.retention import Sweeping
from datarecs_core.errors.storage import BlobStoreUnavailableError
from datarecs_core.values import ResourceUid, TenantId

log = structlog.get_logger()

BATCH = 10
"""Policies of a claim: with half a second for each it outlasts the pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSweeps:
    """A loop; several processes may run it at once."""

    finder: WorkFinder
    sweeping: Sweeping
    rhythm: Rhythm

    @property
    def name(self) -> str:
        return "retention"

    def run(self, stop: Wake) -> None:
        self.rhythm.repeat(self.step, stop, loop=self.name)

    def step(self) -> int:
        """One pass over the due policies; how many there were."""
        due = self.finder.claim_sweeps(BATCH)
        for tenant, uid in due:
            with structlog.contextvars.bound_contextvars(
                tenant_id=str(tenant), policy_uid=str(uid)
            ):
                self._sweep(tenant, uid)
        return len(due)

    def _sweep(self, tenant: TenantId, uid: ResourceUid) -> None:
        try:
            self.sweeping.work(tenant, uid)
        except StoreUnavailableError:
            raise
        except StoreBusyError as cause:
            log.warning("retention_repeats", code=cause.code.name)
        except BlobStoreUnavailableError as cause:
            log.warning("retention_waits", code=cause.code.name, problem=str(cause))
            self.sweeping.report_problem(tenant, uid)
        except Exception:  # one policy's defect must not stop the others; it is due again in 30 s
            log.exception("retention_failed")
