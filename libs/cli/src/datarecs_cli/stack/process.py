"""Starts and ends one process of the stack, with a process group, a log file and a leash.

The system reuses pids, so an `Identity` is a pid with its start time, and no signal is sent to a
pid with another start time.
"""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from datarecs_cli.stack import leash
from datarecs_cli.stack.accounts import Account

LEASH_BY_KERNEL = sys.platform == "linux"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Identifies one process permanently: a reused pid has another start time."""

    pid: int
    started: str
    """Start time as reported by the system: clock ticks since boot on Linux, else a date."""

    def is_alive(self) -> bool:
        return start_time(self.pid) == self.started


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The command of a process, and the signal at the death of its supervisor."""

    argv: tuple[str, ...]
    """The absolute path of the program, then its arguments, without secrets."""
    environment: Mapping[str, str]
    log: Path
    directory: Path = Path("/")
    """The working directory; the account must be able to reach it."""
    account: Account | None = None
    """The account to switch to; only root can."""
    death_signal: signal.Signals = signal.SIGKILL
    """Sent when the supervisor dies. Postgres gets SIGINT, its fast shutdown."""


class Running:
    """A started process. The thread that started it must live as long as its parent."""

    def __init__(
        self, popen: subprocess.Popen[bytes], identity: Identity, pipe: int | None
    ) -> None:
        self._popen = popen
        self._pipe = pipe
        self.identity = identity

    @property
    def pid(self) -> int:
        return self.identity.pid

    def exit_code(self) -> int | None:
        """None while it runs; negative signal number if a signal ended it."""
        return self._popen.poll()

    def worked_s(self) -> float:
        """Processor time of the process and its living descendants; 0 if unknown."""
        return tree_work_s(self.pid)

    def wait(self, timeout_s: float) -> int | None:
        """Wait for its end until the limit; None if it still runs."""
        try:
            code = self._popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        self._close_pipe()
        return code

    def send(self, number: signal.Signals) -> None:
        """Send a signal only to the process; no effect if it has ended."""
        self._popen.send_signal(number)

    def kill_group(self) -> None:
        """Send SIGKILL to its process group; safe to repeat."""
        kill_group(self.pid)
        self.wait(5)

    def stop(self, number: signal.Signals, timeout_s: float) -> bool:
        """Signal, wait, then SIGKILL to the whole group. False if it had to be killed."""
        self.send(number)
        obeyed = self.wait(timeout_s) is not None
        self.kill_group()
        return obeyed

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


def start(command: Command, *, leash_by_kernel: bool = LEASH_BY_KERNEL) -> Running:
    """Start it in a new process group, with both outputs appended to its log."""
    read_end, write_end = (None, None) if leash_by_kernel else os.pipe()
    order = {
        "argv": command.argv,
        "account": command.account and (command.account.uid, command.account.gid),
        "death_signal": int(command.death_signal),
        "parent": os.getpid(),
        "pipe": read_end,
    }
    descriptor = os.open(command.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    try:
        popen = subprocess.Popen(
            [sys.executable, "-I", "-S", leash.__file__, json.dumps(order)],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            env=dict(command.environment),
            cwd=command.directory,
            process_group=0,
            pass_fds=() if read_end is None else (read_end,),
        )
    finally:
        os.close(descriptor)
        if read_end is not None:
            os.close(read_end)
    return Running(popen, Identity(pid=popen.pid, started=start_time(popen.pid) or ""), write_end)


def start_time(pid: int) -> str | None:
    """Start time of the process in the system's format; None for no process or a zombie."""
    if LEASH_BY_KERNEL:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    shown = subprocess.run(
        ["/bin/ps", "-o", "state=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return None if not shown or shown.startswith("Z") else shown.partition(" ")[2].strip()


def tree_work_s(pid: int) -> float:
    """Processor seconds of a process and its descendants; Linux only, else 0."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat") if LEASH_BY_KERNEL else ():
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        number = int(stat.parent.name)
        parents[number], ticks[number] = int(fields[1]), sum(map(int, fields[11:15]))
    below = {number for number in parents if pid in _line(number, parents)}
    return sum(ticks[number] for number in below) / os.sysconf("SC_CLK_TCK")


def _line(pid: int, parents: Mapping[int, int]) -> set[int]:
    """The process and its ancestors."""
    line: set[int] = set()
    while pid in parents and pid not in line:
        line.add(pid)
        pid = parents[pid]
    return line


def kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    except PermissionError:  # macOS raises it for a group of zombies
        return


def end(identity: Identity, number: signal.Signals, timeout_s: float) -> None:
    """Stop a process that is not a child: signal, watch, then SIGKILL to its group."""
    if not identity.is_alive():
        return
    os.kill(identity.pid, number)
    if not gone_within(identity, timeout_s):
        kill_group(identity.pid)
        gone_within(identity, 5)


def gone_within(identity: Identity, timeout_s: float) -> bool:
    """Watch a process that is not a child; True when it has ended."""
    deadline = monotonic() + timeout_s
    while identity.is_alive():
        if monotonic() >= deadline:
            return False
        _pause()
    return True


def _pause() -> None:
    select.select([], [], [], 0.05)  # the end of a process that is not a child can only be polled


def run_text(
    argv: Sequence[str], *, environment: Mapping[str, str], timeout_s: float = 30
) -> subprocess.CompletedProcess[str]:
    """Run a short program to its end, with both outputs as one text in `stdout`."""
    return subprocess.run(
        list(argv),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        text=True,
        timeout=timeout_s,
        check=False,
    )
