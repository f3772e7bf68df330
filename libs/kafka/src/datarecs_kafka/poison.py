"""When a consumer must stop itself: too many dead letters mean that its code is the cause.

A separate rule, so that it can be read and tested alone: faulty code cannot move a whole topic to
dead letters.
"""

from collections import deque
from dataclasses import dataclass, field

UNRELATED_TO_CODE = frozenset({"UNKNOWN_RUN", "ATTEMPT_AHEAD", "RUN_NOT_FINISHED"})
"""Reasons of dead letters that do not count: the record contradicts the rows. After a restore of
the database every event of a lost run is one, and a consumer that stopped would end nothing."""


@dataclass(slots=True)
class PoisonGauge:
    """Counts the results of the records of one consumer since its start."""

    most_in_a_row: int = 10
    window: int = 1_000
    most_percent: int = 5
    _in_a_row: int = 0
    _last: deque[bool] = field(default_factory=deque)

    def good(self) -> None:
        """A record was handled."""
        self._in_a_row = 0
        self._remember(poisoned=False)

    def poisoned(self, reason: str) -> None:
        """A record became a dead letter, for this reason."""
        if reason in UNRELATED_TO_CODE:
            return
        self._in_a_row += 1
        self._remember(poisoned=True)

    def verdict(self) -> str | None:
        """Why the consumer must stop, as a short text; None while it may continue."""
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
