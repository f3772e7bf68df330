"""When a lost attempt is tried again, and how long submission and retries wait.

Randomness is an argument. Separate from the state machine because the numbers are published
settings and the same arithmetic serves both backends.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from datarecs_core.runs.model import Run

MAX_RELEASES = 5
"""How often a drain may return a run without using up an attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """Doubling waits: `first`, 2·first, 4·first … up to `cap`."""

    first: timedelta
    cap: timedelta

    def wait(self, number: int, *, jitter: float) -> timedelta:
        """Before try `number` + 1, `number` from 1; `jitter` is the share of the wait to take."""
        doubled = self.first * (1 << min(max(number - 1, 0), 30))
        return min(doubled, self.cap) * jitter


ATTEMPTS = BackOff(first=timedelta(seconds=10), cap=timedelta(seconds=120))
"""Between attempts; jitter in [0.5, 1.0]."""

SUBMISSIONS = BackOff(first=timedelta(seconds=1), cap=timedelta(seconds=60))
"""Between submissions to a backend that did not respond; full jitter, [0.0, 1.0]."""


def may_try_again(run: Run, *, now: datetime, free: bool = False) -> bool:
    """Whether a lost attempt is repeated: one is left, no cancel is requested, time remains.

    With `free` the lost one uses none up.
    """
    left = free or run.attempt < run.max_attempts
    return left and not run.cancel_requested and not overdue(run, now=now)


def overdue(run: Run, *, now: datetime) -> bool:
    """The run's deadline has passed; it covers all attempts."""
    return run.deadline_at is not None and now >= run.deadline_at
