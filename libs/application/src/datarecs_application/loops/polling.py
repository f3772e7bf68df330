"""The rhythm that database loops share: work while there is some, else wait for a wake-up.

A hint wakes the loop, a poll is authoritative. The loop waits for an unavailable store with a
growing pause; any other exception of a step is a defect and ends the process, which is restarted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.outside import Clock, Metrics, Wake

log = structlog.get_logger()

FIRST_PAUSE = timedelta(milliseconds=200)
LONGEST_PAUSE = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """How a loop waits. `wake` is set by a notification; `idle` is the interval of polls."""

    clock: Clock
    wake: Wake
    idle: timedelta = timedelta(seconds=1)
    metrics: Metrics | None = None
    """Counts the passes of loops that act when a time comes."""

    def repeat(self, step: Callable[[], int], stop: Wake, *, loop: str) -> None:
        """Call `step` until `stop`; it returns the number of items it processed, 0 means wait.

        The process sets `wake` together with `stop`, so a waiting loop ends at once.
        """
        failures = 0
        while not stop.is_set():
            self.wake.clear()
            try:
                worked = self._measured(step, loop)
            except (StoreUnavailableError, StoreBusyError) as cause:
                failures += 1
                log.warning("loop_waits", loop=loop, code=cause.code.name, failures=failures)
                doubled = FIRST_PAUSE * (1 << min(failures - 1, 10))
                self.clock.wait(min(doubled, LONGEST_PAUSE), until=stop)
                continue
            failures = 0
            if not worked and not stop.is_set():
                self.clock.wait(self.idle, until=self.wake)

    def _measured(self, step: Callable[[], int], loop: str) -> int:
        if self.metrics is None:
            return step()
        began = self.clock.monotonic()
        worked = step()
        self.metrics.count("scheduler_ticks_total", phase=loop)
        self.metrics.count("scheduler_processed_total", worked, phase=loop)
        self.metrics.observe("scheduler_tick_seconds", self.clock.monotonic() - began, phase=loop)
        return worked
