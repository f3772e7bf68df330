"""The processes of the demo's sink: which task each runs, and who coordinates.

A process does not show its task. The service logs the number of each task that ends or begins a
cycle, so after the first kill it is known which process is which.
"""

import json
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from datarecs_runtime.tree import leaves_below


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskHistory:
    """What a log says of the tasks of one sink."""

    coordinator: int | None = None
    """Number of the task that began the newest cycle."""
    cycles: int = 0
    ended: tuple[int, ...] = ()
    """Numbers of tasks, in the order in which their processes died."""


def history_of(lines: Iterable[str], sink_uid: str) -> TaskHistory:
    """Lines that are no JSON, or of other sinks, are left out."""
    cycles, coordinator, ended = 0, None, list[int]()
    for line in lines:
        if sink_uid not in line:
            continue
        match _fields(line):
            case {"message": "sink_cycle_started", "task": int(number)}:
                cycles, coordinator = cycles + 1, number
            case {"event": "sink_task_ended", "task": int(number), "ending": "DIED"}:
                ended.append(number)
    return TaskHistory(coordinator=coordinator, cycles=cycles, ended=tuple(ended))


def _fields(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A task that was killed."""

    number: int
    is_coordinator: bool

    @property
    def role(self) -> str:
        return "worker and coordinator" if self.is_coordinator else "worker"


@dataclass(slots=True, kw_only=True)
class SinkProcesses:
    """The two processes of one sink, below the service that runs them."""

    service_pid: int
    others: frozenset[int]
    """Processes below the service that were there before the sink."""
    log: Path
    """Of the service, one JSON object a line."""
    sink_uid: str
    wait_until: Callable[[Callable[[], bool], str], None]
    """Waits until it holds; the text says for what. Raises DemoFailedError."""
    _numbers: dict[int, int] = field(default_factory=dict)
    """Task by process."""

    def history(self) -> TaskHistory:
        with self.log.open(encoding="utf-8", errors="replace") as lines:
            return history_of(lines, self.sink_uid)

    def pids(self) -> tuple[int, ...]:
        """Oldest first."""
        return tuple(one for one in leaves_below(self.service_pid) if one not in self.others)

    def kill_any(self) -> Victim:
        """Kill one of the two; the log says which it was."""
        before, pids = self.history(), self.pids()
        os.kill(pids[0], signal.SIGKILL)
        self.wait_until(lambda: len(self.history().ended) > len(before.ended), "the end of a task")
        number = self.history().ended[-1]
        self.wait_until(lambda: len(set(self.pids()) - set(pids)) == 1, "a new process")
        (begun,) = set(self.pids()) - set(pids)
        self._numbers = {begun: number, pids[1]: 1 - number}
        return Victim(number=number, is_coordinator=number == before.coordinator)

    def kill(self, *, coordinator: bool) -> Victim:
        """Kill the process that coordinates, or the other one; `kill_any` was before it."""
        leader = self.history().coordinator
        (pid,) = (pid for pid, number in self._numbers.items() if (number == leader) is coordinator)
        os.kill(pid, signal.SIGKILL)
        return Victim(number=self._numbers[pid], is_coordinator=coordinator)
