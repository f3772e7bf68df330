"""The wait before the next try: doubling from a first delay to a cap, with jitter.

Separate from consumer and relay because both use the same rule for the broker and the database.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from random import SystemRandom

HANDLER_DELAYS = tuple(timedelta(seconds=s) for s in (0.5, 1, 2, 4, 8))
"""Waits between the tries of a record with an unclassified failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """`first` x 2 per failure up to `cap`; half of it is random.

    So processes that fail at the same time do not retry at the same time.
    """

    first: timedelta = timedelta(seconds=0.2)
    cap: timedelta = timedelta(seconds=30)
    draw: Callable[[], float] = SystemRandom().random
    """A number in [0, 1)."""

    def after(self, failures: int) -> timedelta:
        """The wait after a number of failures in a row, between half of the step and the step."""
        step = min(self.first * (1 << min(max(failures - 1, 0), 16)), self.cap)
        return step * (0.5 + self.draw() / 2)
