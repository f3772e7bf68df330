"""The processes of a child: the list, their memory, and kills by the kernel.

They are found by the session, not by parents: Spark's Python workers leave the process group, and
orphans change their parent, but no process leaves the session.
"""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # publishes no types

_CGROUP_LINE = re.compile(r"[0-9]+:(?P<controllers>[^:]*):(?P<path>.*)")
_OOM_KILL = re.compile(r"^oom_kill (?P<count>[0-9]+)$", re.MULTILINE)


def members(session: int) -> Iterator[int]:
    """Current processes of the session; a snapshot, processes may start and end."""
    for pid in psutil.pids():
        try:
            if os.getsid(pid) == session:
                yield pid
        except (ProcessLookupError, PermissionError):
            continue


def leaves_below(pid: int) -> tuple[int, ...]:
    """Processes below a process that have no child, oldest first."""
    try:
        below = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return ()
    parents = {one.ppid() for one in below if one.is_running()}
    leaves = [one for one in below if one.pid not in parents and one.is_running()]
    return tuple(one.pid for one in sorted(leaves, key=lambda one: one.create_time()))


def kill_all(session: int) -> None:
    """Send SIGKILL to every process of the session, twice, since the first may miss a fork."""
    for _ in range(2):
        for pid in members(session):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue


def resident_bytes(session: int) -> int:
    """Sum of the resident memory; shared pages count in each process."""
    total = 0
    for pid in members(session):
        try:
            total += psutil.Process(pid).memory_info().rss
        except psutil.Error:
            continue
    return total


def oom_kills(proc: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> int:
    """Number of kills for lack of memory in this memory group; 0 if the kernel does not count.

    Both versions of control groups are read. The count of version 2 includes groups below.
    """
    try:
        lines = proc.read_text().splitlines()
    except OSError:
        return 0
    return max((_counted(line, root) for line in lines), default=0)


def _counted(line: str, root: Path) -> int:
    match = _CGROUP_LINE.fullmatch(line)
    if match is None:
        return 0
    path = match["path"].lstrip("/")
    if match["controllers"] == "":
        file = root / path / "memory.events"
    elif "memory" in match["controllers"].split(","):
        file = root / "memory" / path / "memory.oom_control"
    else:
        return 0
    try:
        kills = _OOM_KILL.search(file.read_text())
    except OSError:
        return 0
    return int(kills["count"]) if kills else 0
