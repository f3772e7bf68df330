"""The warm child of a worker slot: started ahead, used for many runs, replaced when it must be.

Separate from supervision because it lives longer than a run: a Spark session costs seconds, so the
child serves several runs and is replaced after a number of them, and after any abnormal end.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from datarecs_application.child_frames import JAVA_ENDED, NOT_STARTED, READY, STOP
from datarecs_application.ports.outside import Clock
from datarecs_application.ports.supervising import ChildEnd, ChildProcess
from datarecs_core.errors.process import ChildStartError
from datarecs_core.hashing import canonical_json

log = structlog.get_logger()

STEP = timedelta(seconds=10)
"""Between the rungs: stop frame, SIGTERM, SIGKILL."""
GLANCE = timedelta(milliseconds=100)
START_LIMIT = timedelta(seconds=120)
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=0.5), timedelta(seconds=30)
"""After children that ended before they were ready."""
_PROGRAM = "the Spark child"
_MOST_WORDS = 300
"""Characters of a child's own words about its failed start."""


@dataclass(slots=True, kw_only=True)
class WarmChild:
    """One child at a time; not shared between slots."""

    make: Callable[[], ChildProcess]
    """Prepares the place of a child; called when no other child of the slot runs."""
    hello: bytes
    """The first frame: how the session is to be set up."""
    clock: Clock
    recycle_after: int = 50
    _child: ChildProcess | None = field(default=None, init=False)
    _ready: bool = field(default=False, init=False)
    _uses: int = field(default=0, init=False)
    _failures: int = field(default=0, init=False)
    _last_failure: str = field(default="", init=False)
    """Why the last child did not become ready, in one line; empty after one that did."""
    _reported: str = field(default="", init=False)
    """What the child itself reported about its failed start."""
    _not_before: float = field(default=0.0, init=False)

    def warm(self) -> None:
        """Start a child, unless one lives, and do not wait for it.

        After children that ended before they were ready it waits for a growing time, so that
        a broken installation does not start them one after the other.
        """
        try:
            self._start()
        except ChildStartError as failed:
            log.warning("child_not_started", cause=str(failed))

    def _start(self) -> None:
        """Raises ChildStartError where the program itself cannot be started."""
        if self._running():
            return
        now = self.clock.monotonic()
        if self._child is not None and not self._ready:
            self._await(self._child, 0.0)  # its last words
            self._hold_back(_start_failure(self._child.ended(), 0))
            self._child = None
        if now < self._not_before:
            return
        try:
            child = self.make()
            child.start(self.hello)
        except ChildStartError as failed:
            self._hold_back(failed.cause)
            raise
        self._child, self._ready, self._uses, self._reported = child, False, 0, ""

    def _hold_back(self, why: str) -> None:
        self._failures, self._last_failure = self._failures + 1, self._reported or why
        pause = min(FIRST_PAUSE * (1 << min(self._failures, 10)), LONGEST_PAUSE)
        self._not_before = self.clock.monotonic() + pause.total_seconds()

    def ready(self) -> str | None:
        """None once the session responds, else the reason; fits `Process.ready_when`."""
        child = self._child
        if child is None or child.ended() is not None:
            return f"the child is being started{self._failed_before()}"
        return None if self._ready else f"the session is warming up{self._failed_before()}"

    def _failed_before(self) -> str:
        if not self._last_failure:
            return ""
        many = f"; {self._failures} starts have failed" if self._failures > 1 else ""
        return f"{many}; the last start failed: {self._last_failure}"

    def glance(self) -> None:
        """Read a READY frame that has arrived; called between runs."""
        if self._child is not None and not self._ready:
            self._await(self._child, 0.0)

    def ready_within(self, seconds: float) -> ChildProcess:
        """The warm child; waits while it is being started or its start is delayed.

        Raises:
            ChildStartError: it ended while starting, or was not ready in time.
        """
        limit = min(seconds, START_LIMIT.total_seconds())
        ends = self.clock.monotonic() + limit
        if self._child is not None and self._ready and _has_lost_java(self._child):
            self.kill()
        child = self._started_by(ends)
        if child is None:
            raise ChildStartError(program=_PROGRAM, cause="earlier ones ended while they started")
        if not self._ready:
            is_ready = self._await(child, ends - self.clock.monotonic())
            end = child.ended()
            if not is_ready or end is not None:
                self.kill()
                why = _start_failure(end, limit)
                self._hold_back(why)
                raise ChildStartError(program=_PROGRAM, cause=why)
        self._uses += 1
        return child

    def _started_by(self, ends: float) -> ChildProcess | None:
        """The child that runs or was started just now, once no pause holds it back."""
        self._start()
        while self._child is None and self.clock.monotonic() < ends:
            self.clock.wait(GLANCE)
            self._start()
        return self._child

    def used(self, *, clean: bool) -> None:
        """A run is over: keep the child, or replace it at once so that the next is warm too."""
        if clean and self._uses < self.recycle_after and self._running():
            return
        self.kill()
        self.warm()

    def stop(self) -> None:
        """Stop in steps: request, then SIGTERM, then SIGKILL; returns when the child has ended."""
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

    def await_end(self, limit: timedelta) -> None:
        """Give the child time to end by itself; it may still run afterwards."""
        ends = self.clock.monotonic() + limit.total_seconds()
        while self._running() and self.clock.monotonic() < ends:
            if self._child is not None:
                self._child.frames(GLANCE)
            self.clock.wait(GLANCE * 4)

    def end(self) -> None:
        """The worker ends: stop the child in good order."""
        self.stop()
        self.kill()

    def _running(self) -> bool:
        return self._child is not None and self._child.ended() is None

    def _await(self, child: ChildProcess, seconds: float) -> bool:
        ends = self.clock.monotonic() + seconds
        while True:
            frame = child.frames(GLANCE)
            if frame is not None and frame.get("type") == READY:
                self._ready, self._failures, self._last_failure = True, 0, ""
                return True
            if frame is not None and frame.get("type") == NOT_STARTED:
                self._reported = " ".join(str(frame.get("cause")).split())[:_MOST_WORDS]
            has_ended = frame is None and child.ended() is not None
            if has_ended or self.clock.monotonic() >= ends:
                return False

    def _ended_within(self, child: ChildProcess, limit: timedelta) -> bool:
        """Frames are still read, so that a child that sends frames can end."""
        ends = self.clock.monotonic() + limit.total_seconds()
        while child.ended() is None:
            if self.clock.monotonic() >= ends:
                return False
            child.frames(GLANCE)
        return True


def _has_lost_java(child: ChildProcess) -> bool:
    """Whether an idle child reported the end of its Java process; takes its pings as well."""
    while (frame := child.frames(timedelta(0))) is not None:
        if frame.get("type") == JAVA_ENDED:
            return True
    return False


def _start_failure(end: ChildEnd | None, limit_s: float) -> str:
    if end is None:
        return f"it was not ready within {limit_s:.0f} s"
    if end.signal is not None:
        return f"signal {end.signal} ended it before it was ready"
    return f"it ended with exit code {end.exit_code} before it was ready; see its log"
