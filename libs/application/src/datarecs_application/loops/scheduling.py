"""Decide the schedules that are due, those of a tenant in one transaction.

One that fails never stops the others: then each is decided in its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.outside import Metrics, Wake
from datarecs_application.ports.state import UnitOfWork, WorkFinder
from datarecs_application.scheduling import FEED_NUMBERS, Scheduling, decide_schedules
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.scheduling.schedule import Tick, TickOutcome
from datarecs_core.values import ResourceUid, TenantId

log = structlog.get_logger()

BATCH = 50
"""A tenant's triggers wait while its schedules start."""


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
        """One pass over at most 50 due schedules; how many there were."""
        if not self._checked_zones:
            self.finder.decide_schedules_again(self.use.times.version)
            self._checked_zones = True
        due = self.finder.claim_schedules(BATCH)
        if due:
            crash_point(CrashPoint.FIRE_AFTER_CLAIM)
        for tenant, items in groupby(sorted(due), key=lambda item: item[0]):
            self._decide(tenant, [uid for _, uid in items])
        return len(due)

    def _decide(self, tenant: TenantId, uids: Sequence[ResourceUid]) -> None:
        """In one transaction; after a failure each in its own, so that it concerns one alone."""
        names = {"tenant_id": str(tenant), "schedule_uid": str(uids[0])}
        try:
            with self.unit.begin(tenant, feed=FEED_NUMBERS) as tx:
                decided = decide_schedules(tx, uids, self.use)
            crash_point(CrashPoint.FIRE_AFTER_COMMIT)
        except StoreUnavailableError:
            raise
        except StoreBusyError as cause:
            if not self._decide_each(tenant, uids):
                log.warning("schedule_repeats", code=cause.code.name, **names)
        except Exception:  # a defect must not stop the others; it is due again in 12 s
            if not self._decide_each(tenant, uids):
                log.exception("schedule_failed", **names)
        else:
            for uid, ticks in decided.items():
                with structlog.contextvars.bound_contextvars(**names | {"schedule_uid": str(uid)}):
                    self._report(ticks)

    def _decide_each(self, tenant: TenantId, uids: Sequence[ResourceUid]) -> bool:
        """False for a single one, which has failed already."""
        if len(uids) == 1:
            return False
        for uid in uids:
            self._decide(tenant, [uid])
        return True

    def _report(self, ticks: Sequence[Tick]) -> None:
        for tick in ticks:
            self.metrics.count("schedule_ticks_total", outcome=tick.outcome.value)
            if tick.outcome is TickOutcome.FIRED:
                delay = self.rhythm.clock.now() - tick.fire_time
                self.metrics.observe("schedule_start_delay_seconds", delay.total_seconds())
            log.info("schedule_decided", outcome=tick.outcome.value, fire_time=str(tick.fire_time))
