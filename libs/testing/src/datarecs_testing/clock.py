"""Time and ids that a test controls: a manual clock and predictable ids.

A separate module because every rule takes `now` and ids as arguments, and loops take these two
ports.
"""

import threading
from datetime import UTC, datetime, timedelta
from uuid import UUID

from datarecs_application.ports.outside import Wake

NOON = datetime(2026, 1, 15, 12, tzinfo=UTC)
"""An arbitrary time, the same in every test."""

_LATCH_POLL_S = 0.005
"""How often a waiting thread polls its latch, in real seconds."""
_LONGEST_WAIT_S = 30.0
"""Real seconds after which a wait fails the test."""


class ManualClock:
    """The Clock port, constant until `advance`. Safe from several threads.

    With `by_itself=True` a wait returns at once and moves the clock by its length, for loops that a
    test runs in its own thread.
    """

    def __init__(self, now: datetime = NOON, *, by_itself: bool = False) -> None:
        self._now = now
        self._start = now
        self._by_itself = by_itself
        self._moved = threading.Condition()

    def now(self) -> datetime:
        with self._moved:
            return self._now

    def monotonic(self) -> float:
        return (self.now() - self._start).total_seconds()

    def advance(self, duration: timedelta) -> None:
        """Advance the time and wake all waits that are due."""
        with self._moved:
            self._now += duration
            self._moved.notify_all()

    def wait(self, duration: timedelta, *, until: Wake | None = None) -> bool:
        if self._by_itself:
            if until is None or not until.is_set():
                self.advance(duration)
            return until is not None and until.is_set()
        return self._wait_for(self.now() + duration, until)

    def _wait_for(self, moment: datetime, until: Wake | None) -> bool:
        polls = round(_LONGEST_WAIT_S / _LATCH_POLL_S)
        with self._moved:
            for _ in range(polls):
                if until is not None and until.is_set():
                    return True
                if self._now >= moment:
                    return False
                self._moved.wait(_LATCH_POLL_S)
        raise AssertionError(f"the clock was not moved to {moment} and the latch was not set")


class FixedIds:
    """The Ids port with predictable UUIDv7s: `FixedIds.nth(1)`, `nth(2)`, … in this order."""

    def __init__(self, start: int = 1) -> None:
        self._next = start
        self._lock = threading.Lock()

    def new(self) -> UUID:
        with self._lock:
            made = self.nth(self._next)
            self._next += 1
            return made

    @staticmethod
    def nth(number: int) -> UUID:
        """The `number`-th id: a valid UUIDv7 that increases with the number."""
        return UUID(int=(0x019BC000_0000_7000_8000 << 48) + number)
