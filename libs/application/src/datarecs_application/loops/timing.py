"""Fire the due timers of runs; a timer only produces a fact (spec run-lifecycle 11)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.launching import NO_REMOTE
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.execution import Gone, Launcher, RemoteLauncher, Unavailable
from datarecs_application.ports.outside import Ids, Wake
from datarecs_application.ports.state import UnitOfWork, WorkFinder
from datarecs_application.runs import DueTimer, fire_timer, repair_run
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.runs.model import Run
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
    remote: RemoteLauncher = NO_REMOTE
    """The backend of runs that are not in the queue."""

    @property
    def name(self) -> str:
        return "timing"

    def run(self, stop: Wake) -> None:
        self.rhythm.repeat(self.step, stop, loop=self.name)

    def step(self) -> int:
        """One pass over at most 100 due timers; how many there were."""
        due = self.finder.due_timers(BATCH)
        to_observe = []
        for tenant, run_id, reason in due:
            with structlog.contextvars.bound_contextvars(tenant_id=str(tenant), run_id=str(run_id)):
                spread = 0.9 + 0.2 * self.jitter()
                run = self._fire(tenant, DueTimer(run_id=run_id, reason=reason, jitter=spread))
            if run is not None:
                to_observe.append(run)
        if to_observe:
            self._observe(to_observe)
        return len(due)

    def _fire(self, tenant: TenantId, due: DueTimer) -> Run | None:
        """The run if a remote backend has to be asked for it."""
        run = None
        with self._contained(due.reason):
            with self.unit.begin(tenant, feed=FEED_NUMBERS) as tx:
                run = fire_timer(tx, due, self.launcher, self.ids)
                crash_point(CrashPoint.TIMER_IN_TX)
            crash_point(CrashPoint.TIMER_AFTER_COMMIT)
        return run

    def _observe(self, runs: Sequence[Run]) -> None:
        """One question for all runs of this pass, without a transaction."""
        seen = self.remote.observe([run.execution_name for run in runs])
        if isinstance(seen, Unavailable):
            log.warning("backend_unavailable", step="OBSERVE", reason=seen.reason)
            return
        for run in runs:
            ids = {"tenant_id": str(run.tenant_id), "run_id": str(run.run_id)}
            with (
                structlog.contextvars.bound_contextvars(**ids),
                self._contained("repair"),
                self.unit.begin(run.tenant_id, feed=FEED_NUMBERS) as tx,
            ):
                repair_run(tx, run.run_id, seen.get(run.execution_name, Gone()), self.ids)

    @contextmanager
    def _contained(self, reason: str) -> Iterator[None]:
        """A failure of one run, which only the store itself spreads to others."""
        try:
            yield
        except StoreUnavailableError:
            raise
        except StoreBusyError as cause:
            log.warning("timer_repeats", reason=reason, code=cause.code.name)
        except Exception:  # one run's defect must not stop the others; it is due again in 30 s
            log.exception("timer_failed", reason=reason)
