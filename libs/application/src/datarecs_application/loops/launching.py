"""Make the backend agree with the run rows: submit, stop and observe, as often as needed (D14).

Level-triggered: events only wake it, the rows hold the desired state. One transaction per run,
so a failing run does not affect others.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.launching import (
    NO_REMOTE,
    Backends,
    RemoteCall,
    launch_run,
    perform,
    settle_call,
)
from datarecs_application.loops import Silent, StepSignals
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.execution import Launcher, RemoteLauncher, Unavailable
from datarecs_application.ports.outside import Ids, Wake
from datarecs_application.ports.state import UnitOfWork, WorkFinder
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.values import RunId, TenantId

log = structlog.get_logger()

BATCH = 50
FEED_NUMBERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Launching:
    """A loop; two of them share the work, since claiming moves the due time."""

    unit: UnitOfWork
    finder: WorkFinder
    launcher: Launcher
    ids: Ids
    rhythm: Rhythm
    jitter: Callable[[], float]
    """A fresh share in [0, 1) at each call; spreads retries."""
    remote: RemoteLauncher = NO_REMOTE
    """The backend of runs that are not in the queue."""
    signals: StepSignals = field(default_factory=Silent)

    @property
    def name(self) -> str:
        return "launching"

    def run(self, stop: Wake) -> None:
        self.rhythm.repeat(self.step, stop, loop=self.name)

    def step(self) -> int:
        """One pass over at most 50 due runs; how many there were."""
        claimed = self.finder.claim_runs(BATCH)
        for tenant, run_id in claimed:
            with structlog.contextvars.bound_contextvars(tenant_id=str(tenant), run_id=str(run_id)):
                self._launch(tenant, run_id)
        return len(claimed)

    def _launch(self, tenant: TenantId, run_id: RunId) -> None:
        try:
            with self.unit.begin(tenant, feed=FEED_NUMBERS) as tx:
                backends = Backends(queue=self.launcher, remote=self.remote)
                call = launch_run(tx, run_id, backends, self.ids, jitter=self.jitter())
                self.signals.reached("before_commit")
            if call is not None:
                self._call(tenant, call)
        except StoreUnavailableError:
            raise
        except StoreBusyError as cause:
            log.warning("run_launch_repeats", code=cause.code.name)
        except Exception:  # one run's defect must not stop the others; it is due again in 30 s
            log.exception("run_launch_failed")
        else:
            self.signals.reached("launched")
            crash_point(CrashPoint.SUBMIT_AFTER_COMMIT)

    def _call(self, tenant: TenantId, call: RemoteCall) -> None:
        """Call the remote backend, then commit its answer."""
        crash_point(CrashPoint.SUBMIT_AFTER_INTENT)
        answer = perform(call, self.remote)
        crash_point(CrashPoint.SUBMIT_AFTER_CALL)
        if isinstance(answer, Unavailable):
            log.warning("backend_unavailable", step=call.step.value, reason=answer.reason)
        with self.unit.begin(tenant, feed=FEED_NUMBERS) as tx:
            settle_call(tx, call, answer, self.ids, jitter=self.jitter())
