"""Detects progress of a part that is not ready: new log lines, processor time, other answers.

A start may be slow on a busy machine, so time alone is no criterion: a part is late if nothing
about it changes within its limit. A part that repeats the same is late after many limits.
"""

from collections.abc import Callable
from dataclasses import dataclass

MOST_LIMITS = 10
"""A part that works without becoming ready is late after so many of its limits."""
WORK_S = 1.0
"""Least processor time that counts as work: loading a program needs it, waiting does not."""
MEASURE_EVERY_S = 1.0


@dataclass(slots=True)
class Progress:
    """Progress of one process since its start."""

    began: float | None = None
    """Monotonic time of the first observation."""
    changed_at: float = 0.0
    log_bytes: int = 0
    reason: str = ""
    """Why it was not ready: for example, its port is closed or it waits for a database."""
    worked_s: float = 0.0
    measured_at: float = 0.0

    def note(
        self, log_bytes: int, reason: str, *, worked_s: Callable[[], float], now: float
    ) -> None:
        """Record its current state; its processor time is read once per second."""
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
        """Whether nothing changed within the limit, or only work without change for many limits."""
        if self.began is None:
            return False
        return now >= min(self.changed_at + limit_s, self.began + MOST_LIMITS * limit_s)
