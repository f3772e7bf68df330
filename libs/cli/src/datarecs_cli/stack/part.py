"""A part of the stack: what to run, when it is ready, how it is stopped."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from time import monotonic

from datarecs_cli.stack.failures import PartNotReadyError
from datarecs_cli.stack.process import Command, Running, start

PROBE_PAUSE_S = 0.05
TAIL_LINES = 30
TAIL_CHARACTERS = 400
"""Of one line; a service puts a whole traceback into one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    name: str
    command: Command
    probe: Callable[[], str | None]
    """None when the part is ready, else why it is not. Called again until then; never raises."""
    ready_limit_s: float
    stop_signal: Signals
    stop_limit_s: float
    may_start: Callable[[], bool] = lambda: True
    """Asked before each start; False postpones it. Does what the last life left undone; never
    raises."""


def start_ready(part: Part) -> Running:
    """Start it and wait until it is ready; on failure nothing of it is left running.

    Raises:
        PartNotReadyError: it ended, or did not answer within its limit.
    """
    running = start(part.command)
    try:
        await_ready(part, running)
    except BaseException:
        running.kill_group()
        raise
    return running


def await_ready(part: Part, running: Running) -> None:
    """Raises PartNotReadyError when it ends first or the limit passes."""
    deadline = monotonic() + part.ready_limit_s
    reason = part.probe()
    while reason is not None:
        code = running.wait(PROBE_PAUSE_S)
        if code is not None or monotonic() >= deadline:
            raise PartNotReadyError(
                part=part.name,
                limit_s=part.ready_limit_s,
                reason=reason if code is None else f"it ended with exit code {code}",
                log_tail=tail(part.command.log),
            )
        reason = part.probe()


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log; empty when there is none."""
    try:
        with log.open(encoding="utf-8", errors="replace") as content:
            return "".join(f"{line.rstrip()[:TAIL_CHARACTERS]}\n" for line in deque(content, lines))
    except OSError:
        return ""
