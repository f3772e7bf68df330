"""A process as a list of loops that are started, watched and drained together.

All services end in the same way: SIGTERM sets one latch, loops finish or release their work,
resources are closed, and the exit code shows the kind of end. If a loop fails, the process ends, so
that its supervisor starts a new one.
"""

import contextlib
import math
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum
from queue import Empty, SimpleQueue

import structlog

from datarecs_application.loops import Loop
from datarecs_application.ports.outside import Wake
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.process import InsecureStartError
from datarecs_runtime.clock import Latch, SystemClock
from datarecs_runtime.health import Health, ReadyCheck, SideServer
from datarecs_runtime.metrics import PrometheusMetrics
from datarecs_runtime.sections import Side

StartCheck = Callable[[], None]
"""Raises a DatarecsError while loops must not start; a retryable one is checked again."""


class ProcessExit(IntEnum):
    """Exit codes of a service."""

    DRAINED = 0
    """Stopped on request; all work was finished or released."""
    LOOP_DIED = 70
    DRAIN_OVERDUE = 75
    """Stopped on request, but a loop did not end within the grace period; its leases expire."""
    SETTINGS = 78


@dataclass(frozen=True, slots=True)
class _Signal:
    signal: int


@dataclass(frozen=True, slots=True)
class _Ended:
    loop: str
    error: Exception | None


_News = _Signal | _Ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The result of a service's `build`; `run` blocks until the process ends."""

    name: str
    loops: Sequence[Loop]
    ready_when: Mapping[str, ReadyCheck] = field(default_factory=dict)
    """Readiness checks by name: `database`, `broker`. None = ready, else the reason."""
    start_checks: Sequence[StartCheck] = ()
    """Checked in order before the loops start, while the side port already answers, so that
    servers may start in any order. A check must end within seconds."""
    wakes: Sequence[Wake] = ()
    """Latches that loops wait on besides `stop`; set at stop, so that every loop wakes up."""
    closing: Sequence[Callable[[], None]] = ()
    """Called in order after the last loop has ended, also if one of them fails."""
    grace: timedelta = timedelta(seconds=20)
    """Time limit for the end of loops; below the 25 s that the local stack and the chart wait."""
    side: Side | None = None
    """Address of the side port; None in tests."""
    metrics: PrometheusMetrics = field(default_factory=PrometheusMetrics)

    def run(self) -> int:
        """Start all loops, wait for SIGTERM, SIGINT or the end of a loop, then drain.

        Call once, on the main thread, because it receives signals.
        """
        return _Running(self).until_over()

    def check_start(self) -> None:
        """Run every start check once.

        Raises:
            DatarecsError: of the first check that fails.
        """
        for check in self.start_checks:
            check()


class _Running:
    """One run of a process: its threads and their reports."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._stop = Latch()
        # A handler may interrupt the main thread while it has a lock; this put never blocks.
        self._news: SimpleQueue[_News] = SimpleQueue()
        self._threads = {
            loop.name: threading.Thread(
                target=self._work, args=(loop,), name=loop.name, daemon=True
            )
            for loop in process.loops
        }
        self._working = set(self._threads)
        self._clock = SystemClock()
        self._log = structlog.get_logger()
        self._health = Health(
            dead_loops=self._dead,
            ready_when=process.ready_when,
            exposition=process.metrics.exposition,
        )

    def until_over(self) -> int:
        side = self._serve_health()
        before = {number: signal.signal(number, self._on_signal) for number in _ENDING}
        try:
            exit_code = self._end_before_start()
            if exit_code is None:
                self._start_loops()
                exit_code = self._drained_after(self._next_news(math.inf))
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        self._close()
        if side is not None:
            side.close()
        self._log.info("process_ended", exit_code=int(exit_code))
        return int(exit_code)

    def _end_before_start(self) -> ProcessExit | None:
        """Wait until all start checks pass; the exit code if one refuses or a stop is requested."""
        failures = 0
        while True:
            try:
                self._process.check_start()
            except DatarecsError as cause:
                if isinstance(cause, InsecureStartError):
                    self._log.error("start_refused", code=cause.code.docs_id, message=str(cause))
                    return ProcessExit.SETTINGS
                if not cause.retryable:
                    self._log.exception("start_refused", code=cause.code.docs_id)
                    return ProcessExit.LOOP_DIED
                failures += 1
                self._health.starting = f"is starting: {cause}"
                self._log.warning("start_waits", code=cause.code.docs_id, cause=str(cause))
            else:
                return None
            news = self._next_news(self._clock.monotonic() + min(failures, _LONGEST_PAUSE_S))
            if news is not None:
                self._noted(news)
                return ProcessExit.DRAINED

    def _start_loops(self) -> None:
        for name, thread in self._threads.items():
            self._process.metrics.gauge("loop_alive", 1, loop=name)
            thread.start()
        self._health.started = True
        self._log.info("process_started", loops=sorted(self._threads))

    def _serve_health(self) -> SideServer | None:
        at = self._process.side
        if at is None:
            return None
        side = SideServer(at.host, at.port, self._health.answer)
        side.start()
        self._log.info("side_port_open", host=at.host, port=side.port)
        return side

    def _drained_after(self, first: _News | None) -> ProcessExit:
        died = first is not None and self._noted(first)
        self._health.draining = True
        self._stop.set()
        for wake in self._process.wakes:
            wake.set()
        deadline = self._clock.monotonic() + self._process.grace.total_seconds()
        while self._working:
            news = self._next_news(deadline)
            if news is None or isinstance(news, _Signal):
                return self._overdue()
            died |= self._noted(news)
        return ProcessExit.LOOP_DIED if died else ProcessExit.DRAINED

    def _next_news(self, deadline: float) -> _News | None:
        """The next report; None if the deadline of the monotonic clock comes first.

        The kernel may deliver a signal to any thread, and Python runs the handler only when the
        main thread wakes up, so the waits are short.
        """
        while (left := deadline - self._clock.monotonic()) > 0:
            with contextlib.suppress(Empty):
                return self._news.get(timeout=min(left, _POLL_S))
        return None

    def _noted(self, news: _News) -> bool:
        """Log it; True if a loop ended unexpectedly."""
        if isinstance(news, _Signal):
            self._log.info("process_draining", signal=signal.Signals(news.signal).name)
            return False
        self._working.discard(news.loop)
        self._process.metrics.gauge("loop_alive", 0, loop=news.loop)
        if news.error is not None:
            self._log.error("loop_died", loop=news.loop, exc_info=news.error)
            return True
        if not self._stop.is_set():
            self._log.error("loop_returned", loop=news.loop)
            return True
        return False

    def _overdue(self) -> ProcessExit:
        self._log.error("drain_overdue", loops=sorted(self._working))
        return ProcessExit.DRAIN_OVERDUE

    def _work(self, loop: Loop) -> None:
        error: Exception | None = None
        try:
            loop.run(self._stop)
        except Exception as raised:  # noqa: BLE001  a process entry: decided in _noted
            error = raised
        finally:
            self._news.put(_Ended(loop.name, error))

    def _dead(self) -> tuple[str, ...]:
        if not self._health.started or self._health.draining:
            return ()
        return tuple(name for name, thread in self._threads.items() if not thread.is_alive())

    def _close(self) -> None:
        for close in self._process.closing:
            try:
                close()
            except Exception:  # noqa: BLE001  a process entry: the other resources are also closed
                self._log.exception("closing_failed")

    def _on_signal(self, number: int, _frame: object) -> None:
        self._news.put(_Signal(number))


_ENDING = (signal.SIGTERM, signal.SIGINT)
_POLL_S = 0.25
_LONGEST_PAUSE_S = 5
"""Between two tries of the start checks: a pause grows by a second with each failure."""
