"""Wait for a step of a loop instead of sleeping: the recording twin of `loops.Silent`.

A separate module because tests of all loops in all members need it.
"""

import threading
from collections import Counter


class Signals:
    """Counts the steps that loops reach; safe from several threads."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._changed = threading.Condition()

    def reached(self, step: str) -> None:
        with self._changed:
            self._counts[step] += 1
            self._changed.notify_all()

    def count(self, step: str) -> int:
        with self._changed:
            return self._counts[step]

    def wait_for(self, step: str, count: int = 1, *, timeout: float = 10.0) -> None:
        """Return once the step was reached `count` times in all; real seconds until it fails."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._counts[step] >= count, timeout):
                seen = dict(self._counts)
                raise AssertionError(f"{step!r} was not reached {count} times; seen: {seen}")
