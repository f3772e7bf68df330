"""Followers of runs and tenants in this process: wake-ups, their maximum, the end of service.

Separate from `live`, which decides what a follower gets: this part is common to all followers, also
those that wait for an end with `Prefer: wait`.
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
"""A tenant can create keys with separate limits: half of a replica is left to the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long a follower waits for what."""

    poll: timedelta = timedelta(seconds=1)
    """The fallback of notifications: the longest delay of a change."""
    ping: timedelta = timedelta(seconds=15)
    """Without frames, before a comment stops proxies from closing the stream."""
    bookmark: timedelta = timedelta(seconds=60)
    """Without a change, before a watcher gets a new place."""
    check: timedelta = timedelta(seconds=10)
    """Between two checks of the caller's access; a revoked key ends within it."""
    patience: timedelta = timedelta(seconds=30)
    """For a reader that takes nothing; then its stream ends, and it reconnects at its place."""


class LoopWake:
    """A latch that another thread sets and this event loop waits for."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def set(self) -> None:
        """From any thread; no effect when the loop has ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._event.set)

    async def arrived(self, within: timedelta) -> None:
        """Return when set, or after the timeout; then it is clear again.

        The caller reads the table next, so a change in between is not lost.
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
        """The process drains: followers end, and clients reconnect to another replica."""
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
        """End every follower; safe to repeat."""
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
