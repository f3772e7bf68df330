"""One maintenance task at an interval, such as making tomorrow's partitions."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.outside import Clock, Wake

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Periodic:
    """A loop around an idempotent act; it runs at start and then at the interval."""

    name: str
    act: Callable[[], None]
    every: timedelta
    clock: Clock

    def run(self, stop: Wake) -> None:
        while not stop.is_set():
            try:
                self.act()
            except (StoreUnavailableError, StoreBusyError) as cause:
                log.warning("periodic_waits", loop=self.name, code=cause.code.name)
            self.clock.wait(self.every, until=stop)
