"""How fast workflows are created: Argo's controller does not scale out (spec deploy 8.2).

Nobody sleeps: who comes too early hears when to come back, so that a stop never waits behind a
burst of new runs.
"""

import threading
from datetime import timedelta

from datarecs_application.ports.outside import Clock

LONGEST_WAIT = timedelta(seconds=30)


class CreationPace:
    """At most `per_second` creations in any second, and as many at once."""

    def __init__(self, per_second: float, clock: Clock) -> None:
        self._per_second, self._clock = per_second, clock
        self._lock = threading.Lock()
        self._burst = max(per_second, 1.0)
        self._credit = self._burst
        self._waiting = 0
        self._counted_at = clock.monotonic()

    def take(self) -> timedelta:
        """Zero, and one creation is used up; else how long to wait, behind those who wait."""
        with self._lock:
            now = self._clock.monotonic()
            earned = (now - self._counted_at) * self._per_second
            self._credit = min(self._burst, self._credit + earned)
            self._counted_at = now
            if self._credit >= 1.0:
                self._credit -= 1.0
                self._waiting = max(self._waiting - 1, 0)
                return timedelta()
            self._waiting += 1
            return min(timedelta(seconds=self._waiting / self._per_second), LONGEST_WAIT)
