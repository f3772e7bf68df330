"""How long to wait before the next try: doubling from a first delay to a cap, with jitter.

Apart from consumer and relay because both owe the broker and the database the same manners.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from random import SystemRandom

HANDLER_DELAYS = tuple(timedelta(seconds=s) for s in (0.5, 1, 2, 4, 8))
"""Waits between the tries of a record whose failure nobody has classified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """`first` x 2 per failure up to `cap`, of which half is drawn.

    So processes that failed together do not return together.
    """

    first: timedelta = timedelta(seconds=0.2)
    cap: timedelta = timedelta(seconds=30)
    draw: Callable[[], float] = SystemRandom().random
    """A number in [0, 1)."""

    def after(self, failures: int) -> timedelta:
        """The wait after so many failures in a row, between half of the step and the step."""
        step = min(self.first * (1 << min(max(failures - 1, 0), 16)), self.cap)
        return step * (0.5 + self.draw() / 2)
