"""Whether a part that is not ready still gets on: it logs, works, or answers something else.

On a busy machine a start takes as long as it takes, so time alone says nothing: a part is late once
nothing about it has changed for its limit. One that only repeats itself is late in the end.
"""

from collections.abc import Callable
from dataclasses import dataclass

MOST_LIMITS = 10
"""A part that works on and on without becoming ready is late after so many of its limits."""
WORK_S = 1.0
"""Processor time that counts as work: to load a program takes it, to wait does not."""
MEASURE_EVERY_S = 1.0


@dataclass(slots=True)
class Progress:
    """Of one process, from its start."""

    began: float | None = None
    """Monotonic time of the first note."""
    changed_at: float = 0.0
    log_bytes: int = 0
    reason: str = ""
    """Why it was not ready: its port is closed, a database is awaited, a session warms up."""
    worked_s: float = 0.0
    measured_at: float = 0.0

    def note(
        self, log_bytes: int, reason: str, *, worked_s: Callable[[], float], now: float
    ) -> None:
        """What is seen of it at this moment; its processor time is asked for once a second."""
        if self.began is None:
            self.began = self.changed_at = now
        if (log_bytes, reason) != (self.log_bytes, self.reason):
            self.changed_at, self.log_bytes, self.reason = now, log_bytes, reason
        elif now >= self.measured_at + MEASURE_EVERY_S:
            self.measured_at = now
            seconds = worked_s()
            if seconds >= self.worked_s + WORK_S:
                self.changed_at, self.worked_s = now, seconds

    def is_over(self, limit_s: float, *, now: float) -> bool:
        """Nothing changed for the limit, or only the same went on for many of them."""
        if self.began is None:
            return False
        return now >= min(self.changed_at + limit_s, self.began + MOST_LIMITS * limit_s)
