"""Who follows a run or a tenant in this process: wake-ups, how many at most, the end of service.

Apart from `live`, which says what a follower is sent: this is what all followers share, also those
that wait for an end with `Prefer: wait`.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock

from datarecs_application.ports.outside import Metrics
from datarecs_core.access.principal import Principal
from datarecs_core.errors.api import ApiCode
from datarecs_core_api.problems import ProblemError

MAX_PER_PRINCIPAL, MAX_PER_REPLICA = 20, 500
MAX_PER_TENANT = MAX_PER_REPLICA // 2
"""A tenant can make keys with places of their own: half of a replica is left to the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long a follower waits for what."""

    poll: timedelta = timedelta(seconds=1)
    """The backstop of notifications: nothing is seen later than this."""
    ping: timedelta = timedelta(seconds=15)
    """Of silence, before a comment keeps proxies from closing the stream."""
    check: timedelta = timedelta(seconds=10)
    """Between two checks whether the caller may still see this; a revoked key ends within it."""
    patience: timedelta = timedelta(seconds=30)
    """For a reader that takes nothing; then it is let go, and comes back where it was."""


class LoopWake:
    """A latch that another thread sets and this event loop waits for."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def set(self) -> None:
        """From any thread; nothing happens when the loop is gone."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._event.set)

    async def arrived(self, within: timedelta) -> None:
        """Come back when set, or after the timeout; then it is clear again.

        Whoever waits here reads the table next, so what is set in between is not lost.
        """
        try:
            await asyncio.wait_for(self._event.wait(), within.total_seconds())
        except TimeoutError:
            return
        finally:
            self._event.clear()


class Following:
    """The followers of this process. Safe from several threads."""

    def __init__(self, metrics: Metrics, pace: Pace | None = None) -> None:
        self.pace = pace or Pace()
        self._metrics = metrics
        self.is_over = False
        """The process drains: followers end, and clients come back to another replica."""
        self._lock = Lock()
        self._waiting: dict[str, tuple[LoopWake, ...]] = {}
        self._streams: Counter[tuple[str, str]] = Counter()
        """By tenant and principal."""
        self._kinds: Counter[str] = Counter()

    @contextmanager
    def watching(self, run_id: str) -> Iterator[LoopWake]:
        """A latch that is set whenever the run may have changed; use it on the event loop."""
        wake = LoopWake()
        with self._lock:
            self._waiting[run_id] = (*self._waiting.get(run_id, ()), wake)
        try:
            yield wake
        finally:
            self._leave(run_id, wake)

    def wake_followers(self, run_id: str) -> None:
        """Called from the listening thread, "" for several runs; a hint, followers poll as well."""
        with self._lock:
            followers = self._waiting.get(run_id, ())
            wakes = (
                followers if run_id else tuple(w for some in self._waiting.values() for w in some)
            )
        for wake in wakes:
            wake.set()

    def end(self) -> None:
        """Let every follower go; safe to repeat."""
        self.is_over = True
        self.wake_followers("")

    @contextmanager
    def place(self, caller: Principal, *, kind: str) -> Iterator[None]:
        """One of the streams, `sse` or `ws`, that a principal and a replica may have open.

        Raises:
            ProblemError: 429, all of them are taken.
        """
        who = (str(caller.tenant_id), caller.subject)
        with self._lock:
            if self._are_taken(who):
                raise ProblemError(
                    code=ApiCode.TOO_MANY_REQUESTS,
                    detail="too many streams are open; close some",
                    headers={"Retry-After": "10"},
                )
            self._open(who, kind, 1)
        try:
            yield
        finally:
            with self._lock:
                self._open(who, kind, -1)

    def _are_taken(self, who: tuple[str, str]) -> bool:
        """Under the lock."""
        of_tenant = sum(open_ for (tenant, _), open_ in self._streams.items() if tenant == who[0])
        return (
            self._streams[who] >= MAX_PER_PRINCIPAL
            or of_tenant >= MAX_PER_TENANT
            or self._streams.total() >= MAX_PER_REPLICA
        )

    def _open(self, who: tuple[str, str], kind: str, more: int) -> None:
        """Under the lock."""
        self._streams[who] += more
        if not self._streams[who]:
            del self._streams[who]
        self._kinds[kind] += more
        self._metrics.gauge("feed_connections", self._kinds[kind], kind=kind)

    def _leave(self, run_id: str, wake: LoopWake) -> None:
        with self._lock:
            left = tuple(one for one in self._waiting.get(run_id, ()) if one is not wake)
            if left:
                self._waiting[run_id] = left
            else:
                self._waiting.pop(run_id, None)
