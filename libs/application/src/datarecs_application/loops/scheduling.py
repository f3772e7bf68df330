"""Decide the schedules that are due: one transaction each, one failure never stops the others."""

from dataclasses import dataclass

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.outside import Metrics, Wake
from datarecs_application.ports.state import UnitOfWork, WorkFinder
from datarecs_application.scheduling import FEED_NUMBERS, Scheduling, decide_schedule
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.scheduling.schedule import Tick, TickOutcome
from datarecs_core.values import ResourceUid, TenantId

log = structlog.get_logger()

BATCH = 100


@dataclass(slots=True, kw_only=True)
class ScheduleStarts:
    """A loop; several processes may run it at once."""

    unit: UnitOfWork
    finder: WorkFinder
    use: Scheduling
    metrics: Metrics
    rhythm: Rhythm
    _checked_zones: bool = False

    @property
    def name(self) -> str:
        return "schedules"

    def run(self, stop: Wake) -> None:
        self.rhythm.repeat(self.step, stop, loop=self.name)

    def step(self) -> int:
        """One pass over at most 100 due schedules; how many there were."""
        if not self._checked_zones:
            self.finder.decide_schedules_again(self.use.times.version)
            self._checked_zones = True
        due = self.finder.claim_schedules(BATCH)
        if due:
            crash_point(CrashPoint.FIRE_AFTER_CLAIM)
        for tenant, uid in due:
            with structlog.contextvars.bound_contextvars(
                tenant_id=str(tenant), schedule_uid=str(uid)
            ):
                self._decide(tenant, uid)
        return len(due)

    def _decide(self, tenant: TenantId, uid: ResourceUid) -> None:
        try:
            with self.unit.begin(tenant, feed=FEED_NUMBERS) as tx:
                ticks = decide_schedule(tx, uid, self.use)
                crash_point(CrashPoint.FIRE_IN_TX)
            crash_point(CrashPoint.FIRE_AFTER_COMMIT)
        except StoreUnavailableError:
            raise
        except StoreBusyError as cause:
            log.warning("schedule_repeats", code=cause.code.name)
        except Exception:  # one schedule's defect must not stop the others; it is due again in 30 s
            log.exception("schedule_failed")
        else:
            for tick in ticks:
                self._report(tick)

    def _report(self, tick: Tick) -> None:
        self.metrics.count("schedule_ticks_total", outcome=tick.outcome.value)
        if tick.outcome is TickOutcome.FIRED:
            delay = self.rhythm.clock.now() - tick.fire_time
            self.metrics.observe("schedule_start_delay_seconds", delay.total_seconds())
        log.info("schedule_decided", outcome=tick.outcome.value, fire_time=str(tick.fire_time))
