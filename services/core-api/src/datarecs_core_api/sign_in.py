"""How often somebody may fail to sign in before nobody asks the database for them any more.

Its own module because it is the one piece of state that authentication has. Counted per replica in
memory by the monotonic clock (spec security 3 and 15): ten failures of an address, or of a key id,
within a minute close the door to it for a minute.
"""

import math
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from threading import Lock

from datarecs_application.ports.outside import Clock

FAILURES = 10
WINDOW_S = 60.0
MAX_REMEMBERED = 10_000
"""Addresses and key ids; beyond that the longest silent one is forgotten."""


@dataclass(slots=True)
class _Tries:
    failed_at: deque[float] = field(default_factory=lambda: deque(maxlen=FAILURES))
    closed_until: float = float("-inf")


class SignInFailures:
    """Safe from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._tries: OrderedDict[str, _Tries] = OrderedDict()

    def closed_s(self, *names: str) -> int:
        """Seconds until all of these names may try again; 0 when they may now."""
        now = self._clock.monotonic()
        with self._lock:
            ends = [self._tries[name].closed_until for name in names if name in self._tries]
        return math.ceil(max([now, *ends]) - now)

    def note(self, *names: str) -> None:
        """Somebody failed under these names."""
        now = self._clock.monotonic()
        with self._lock:
            for name in names:
                self._count(name, now)

    def _count(self, name: str, now: float) -> None:
        tries = self._tries.setdefault(name, _Tries())
        self._tries.move_to_end(name)
        tries.failed_at.append(now)
        if len(tries.failed_at) == FAILURES and now - tries.failed_at[0] < WINDOW_S:
            tries.closed_until = now + WINDOW_S
        if len(self._tries) > MAX_REMEMBERED:
            self._tries.popitem(last=False)
