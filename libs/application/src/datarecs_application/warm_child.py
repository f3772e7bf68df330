"""The child a worker slot keeps warm: started ahead, used for many runs, replaced when it must be.

Apart from supervision because its life is longer than a run's: a Spark session costs seconds, so it
is kept over runs and recycled after a number of them, and after any end that speaks against it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from datarecs_application.child_frames import READY, STOP
from datarecs_application.ports.outside import Clock
from datarecs_application.ports.supervising import ChildProcess
from datarecs_core.errors.process import ChildStartError
from datarecs_core.hashing import canonical_json

log = structlog.get_logger()

STEP = timedelta(seconds=10)
"""Between the rungs: stop frame, SIGTERM, SIGKILL."""
GLANCE = timedelta(milliseconds=100)
START_LIMIT = timedelta(seconds=120)
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=0.5), timedelta(seconds=30)
"""After children that died before they were ready."""


@dataclass(slots=True, kw_only=True)
class WarmChild:
    """One child at a time; not shared between slots."""

    make: Callable[[], ChildProcess]
    hello: bytes
    """The first frame: how the session is to be set up."""
    clock: Clock
    recycle_after: int = 50
    _child: ChildProcess | None = field(default=None, init=False)
    _ready: bool = field(default=False, init=False)
    _uses: int = field(default=0, init=False)
    _failures: int = field(default=0, init=False)
    _not_before: float = field(default=0.0, init=False)

    def warm(self) -> None:
        """Start a child, unless one lives, and do not wait for it.

        After children that died before they were ready it holds back for a growing while, so that
        a broken installation does not start one after the other.
        """
        if self._running():
            return
        now = self.clock.monotonic()
        if self._child is not None and not self._ready:
            self._failures, self._child = self._failures + 1, None
            pause = min(FIRST_PAUSE * (1 << min(self._failures, 10)), LONGEST_PAUSE)
            self._not_before = now + pause.total_seconds()
        if now < self._not_before:
            return
        child = self.make()
        child.start(self.hello)
        self._child, self._ready, self._uses = child, False, 0

    def ready(self) -> str | None:
        """None once the session answers, else why not; fits `Process.ready_when`."""
        child = self._child
        if child is None or child.ended() is not None:
            return "the child is being started"
        return None if self._ready else "the session is warming up"

    def glance(self) -> None:
        """Take a READY that has arrived meanwhile; called while there is no run."""
        if self._child is not None and not self._ready:
            self._await(self._child, 0.0)

    def ready_within(self, seconds: float) -> ChildProcess:
        """The child, warm.

        Raises:
            ChildStartError: it ended while starting, or was not ready in time.
        """
        self.warm()
        child = self._child
        if child is None:
            raise ChildStartError(program="the Spark child", cause="it ended at once")
        limit = min(seconds, START_LIMIT.total_seconds())
        if not self._ready and not self._await(child, limit):
            self.kill()
            raise ChildStartError(program="the Spark child", cause="it was not ready in time")
        self._uses += 1
        return child

    def used(self, *, clean: bool) -> None:
        """A run is over: keep the child, or replace it at once so that the next is warm too."""
        if clean and self._uses < self.recycle_after and self._running():
            return
        self.kill()
        self.warm()

    def stop(self) -> None:
        """The ladder: ask, then SIGTERM, then SIGKILL; comes back when it has ended."""
        child = self._child
        if child is None:
            return
        child.send(canonical_json({"type": STOP}))
        if not self._ended_within(child, STEP):
            child.terminate()
            if not self._ended_within(child, STEP):
                child.kill()
                self._ended_within(child, STEP)

    def kill(self) -> None:
        """At once; safe to repeat."""
        if self._child is not None:
            self._child.kill()
            self._ended_within(self._child, STEP)
            self._child, self._ready = None, False

    def end(self) -> None:
        """The worker ends: let the child go in good order."""
        self.stop()
        self.kill()

    def _running(self) -> bool:
        return self._child is not None and self._child.ended() is None

    def _await(self, child: ChildProcess, seconds: float) -> bool:
        ends = self.clock.monotonic() + seconds
        while True:
            frame = child.frames(GLANCE)
            if frame is not None and frame.get("type") == READY:
                self._ready, self._failures = True, 0
                return True
            if child.ended() is not None or self.clock.monotonic() >= ends:
                return False

    def _ended_within(self, child: ChildProcess, limit: timedelta) -> bool:
        """Frames are read on meanwhile, so that a child that talks can end."""
        ends = self.clock.monotonic() + limit.total_seconds()
        while child.ended() is None:
            if self.clock.monotonic() >= ends:
                return False
            child.frames(GLANCE)
        return True
