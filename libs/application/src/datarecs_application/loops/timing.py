"""Fire the due timers of runs; a timer only produces a fact (spec run-lifecycle 11)."""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.execution import Launcher
from datarecs_application.ports.outside import Ids, Wake
from datarecs_application.ports.state import UnitOfWork, WorkFinder
from datarecs_application.runs import DueTimer, fire_timer
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.values import TenantId

log = structlog.get_logger()

BATCH = 100
FEED_NUMBERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """A loop; a claimed timer is held for 30 s, so two loops do not fire it at once."""

    unit: UnitOfWork
    finder: WorkFinder
    launcher: Launcher
    ids: Ids
    rhythm: Rhythm
    jitter: Callable[[], float]
    """A fresh share in [0, 1) at each call; spreads retries."""

    @property
    def name(self) -> str:
        return "timing"

    def run(self, stop: Wake) -> None:
        self.rhythm.repeat(self.step, stop, loop=self.name)

    def step(self) -> int:
        """One pass over at most 100 due timers; how many there were."""
        due = self.finder.due_timers(BATCH)
        for tenant, run_id, reason in due:
            with structlog.contextvars.bound_contextvars(tenant_id=str(tenant), run_id=str(run_id)):
                spread = 0.9 + 0.2 * self.jitter()
                self._fire(tenant, DueTimer(run_id=run_id, reason=reason, jitter=spread))
        return len(due)

    def _fire(self, tenant: TenantId, due: DueTimer) -> None:
        try:
            with self.unit.begin(tenant, feed=FEED_NUMBERS) as tx:
                fire_timer(tx, due, self.launcher, self.ids)
                crash_point(CrashPoint.TIMER_IN_TX)
            crash_point(CrashPoint.TIMER_AFTER_COMMIT)
        except StoreUnavailableError:
            raise
        except StoreBusyError as cause:
            log.warning("timer_repeats", reason=due.reason, code=cause.code.name)
        except Exception:  # one run's defect must not stop the others; it is due again in 30 s
            log.exception("timer_failed", reason=due.reason)
