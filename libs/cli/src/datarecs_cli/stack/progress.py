"""Whether a part that is not ready still gets on: its log grows, or its answer changes.

On a busy machine a start takes as long as it takes, so time alone says nothing: a part is late once
nothing about it has changed for its limit. One that only repeats itself is late in the end.
"""

from dataclasses import dataclass

MOST_LIMITS = 10
"""A part that logs on and on without becoming ready is late after so many of its limits."""


@dataclass(slots=True)
class Progress:
    """Of one process, from its start."""

    began: float | None = None
    """Monotonic time of the first note."""
    changed_at: float = 0.0
    log_bytes: int = 0
    reason: str = ""
    """Why it was not ready: its port is closed, a database is awaited, a session warms up."""

    def note(self, log_bytes: int, reason: str, *, now: float) -> None:
        """What is seen of it at this moment."""
        if self.began is None:
            self.began = self.changed_at = now
        if (log_bytes, reason) != (self.log_bytes, self.reason):
            self.changed_at, self.log_bytes, self.reason = now, log_bytes, reason

    def is_over(self, limit_s: float, *, now: float) -> bool:
        """Nothing changed for the limit, or only the same went on for many of them."""
        if self.began is None:
            return False
        return now >= min(self.changed_at + limit_s, self.began + MOST_LIMITS * limit_s)
