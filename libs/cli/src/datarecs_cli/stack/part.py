"""A part of the stack: its command, its readiness check and its stop."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from time import monotonic

from datarecs_cli.stack.failures import PartNotReadyError
from datarecs_cli.stack.process import Command, Running, start

PROBE_PAUSE_S = 0.05
START_LIMIT_S = 120.0
"""Limit for a start without progress; a busy machine stops every program for a while."""
TAIL_LINES = 30
TAIL_CHARACTERS = 400
"""Longest line in characters; a service writes a whole traceback into one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    name: str
    command: Command
    probe: Callable[[], str | None]
    """None if the part is ready, else the reason. Called repeatedly until then; never raises."""
    ready_limit_s: float = START_LIMIT_S
    """Limit for a start without progress; see `progress.py`."""
    stop_signal: Signals
    stop_limit_s: float
    may_start: Callable[[], bool] = lambda: True
    """Called before each start, to clean up after the previous process; False postpones the
    start. Never raises."""


def start_ready(part: Part) -> Running:
    """Start it and wait until it is ready; on failure its processes are ended.

    Raises:
        PartNotReadyError: it ended, or did not answer within its limit.
    """
    log_from = size_of(part.command.log)
    running = start(part.command)
    try:
        await_ready(part, running, log_from=log_from)
    except BaseException:
        running.kill_group()
        raise
    return running


def await_ready(part: Part, running: Running, *, log_from: int = 0) -> None:
    """Raises PartNotReadyError if it ends first or the limit passes; for tests and tools."""
    deadline = monotonic() + part.ready_limit_s
    reason = part.probe()
    while reason is not None:
        code = running.wait(PROBE_PAUSE_S)
        if code is not None or monotonic() >= deadline:
            raise PartNotReadyError(
                part=part.name,
                limit_s=part.ready_limit_s,
                reason=reason if code is None else f"it ended with exit code {code}",
                log=part.command.log,
                log_tail=tail(part.command.log, since=log_from),
            )
        reason = part.probe()


def size_of(log: Path) -> int:
    """Size in bytes; 0 if there is no log yet."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def tail(log: Path, lines: int = TAIL_LINES, *, since: int = 0) -> str:
    """The last lines of a log after a position in bytes; empty if there are none.

    A log that was truncated since then is read from its beginning.
    """
    start = since if since <= size_of(log) else 0
    try:
        with log.open(encoding="utf-8", errors="replace") as content:
            content.seek(start)
            return "".join(f"{line.rstrip()[:TAIL_CHARACTERS]}\n" for line in deque(content, lines))
    except OSError:
        return ""
