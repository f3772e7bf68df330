"""When a consumer must distrust itself: too many records set aside say that its code is at fault.

A rule of its own so that it can be read and tested as one: bad code cannot drain a topic into dead
letters.
"""

from collections import deque
from dataclasses import dataclass, field


@dataclass(slots=True)
class PoisonGauge:
    """Counts what became of the records of one consumer since it started."""

    most_in_a_row: int = 10
    window: int = 1_000
    most_percent: int = 5
    _in_a_row: int = 0
    _last: deque[bool] = field(default_factory=deque)

    def good(self) -> None:
        """A record was handled."""
        self._in_a_row = 0
        self._remember(poisoned=False)

    def poisoned(self) -> None:
        """A record was set aside."""
        self._in_a_row += 1
        self._remember(poisoned=True)

    def verdict(self) -> str | None:
        """Why the consumer must stop, in a few words; None while it may go on."""
        if self._in_a_row > self.most_in_a_row:
            return f"{self._in_a_row} dead letters in a row"
        bad = sum(self._last)
        if bad * 100 > self.window * self.most_percent:
            return f"{bad} dead letters among the last {len(self._last)} records"
        return None

    def _remember(self, *, poisoned: bool) -> None:
        self._last.append(poisoned)
        if len(self._last) > self.window:
            self._last.popleft()
