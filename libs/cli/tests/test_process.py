import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from datarecs_cli.stack.process import (
    Command,
    Identity,
    Running,
    end,
    gone_within,
    start,
    start_time,
)

SLEEPER = ("/bin/sh", "-c", "sleep 60 & wait")
PARENT = """
import sys
from pathlib import Path
from datarecs_cli.stack.process import Command, start
running = start(
    Command(argv=("/bin/sleep", "60"), environment={}, log=Path(sys.argv[1])),
    leash_by_kernel=sys.argv[2] == "kernel",
)
print(running.pid, running.identity.started, flush=True)
sys.stdin.read()
"""


def started(tmp_path: Path, *argv: str, kernel: bool = True) -> Running:
    command = Command(argv=argv, environment={"PATH": "/bin:/usr/bin"}, log=tmp_path / "log")
    return start(command, leash_by_kernel=kernel)


@pytest.mark.case("K17")
@pytest.mark.parametrize("leash", ["kernel", "pipe"])
def test_a_part_dies_with_its_killed_supervisor(tmp_path: Path, leash: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "log"), leash],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    pid, begun = parent.stdout.readline().split()
    child = Identity(pid=int(pid), started=begun)
    assert child.is_alive()
    parent.kill()
    parent.communicate()
    assert gone_within(child, 10)


@pytest.mark.parametrize("kernel", [True, False])
def test_output_goes_to_the_log_and_the_exit_code_comes_back(tmp_path: Path, kernel: bool) -> None:
    running = started(tmp_path, "/bin/sh", "-c", "echo out; echo err >&2; exit 7", kernel=kernel)
    assert running.wait(10) == 7
    assert (tmp_path / "log").read_text() == "out\nerr\n"


@pytest.mark.parametrize("kernel", [True, False])
def test_a_signal_reaches_the_program(tmp_path: Path, kernel: bool) -> None:
    script = "trap 'echo bye; exit 3' TERM; echo on; while :; do sleep 0.05; done"
    running = started(tmp_path, "/bin/sh", "-c", script, kernel=kernel)
    while "on" not in (tmp_path / "log").read_text():
        running.wait(0.05)
    assert running.stop(signal.SIGTERM, 10)
    assert running.exit_code() == 3
    assert "bye" in (tmp_path / "log").read_text()


def test_what_ignores_the_signal_is_killed_with_its_whole_group(tmp_path: Path) -> None:
    running = started(tmp_path, "/bin/sh", "-c", "trap '' TERM; sleep 60 & echo $!; wait; wait")
    while not (tmp_path / "log").read_text():
        running.wait(0.05)
    grandchild = int((tmp_path / "log").read_text())
    begun = start_time(grandchild)
    assert begun is not None
    assert not running.stop(signal.SIGTERM, 0.2)
    assert gone_within(Identity(pid=grandchild, started=begun), 5)


def test_a_reused_pid_is_somebody_else(tmp_path: Path) -> None:
    running = started(tmp_path, *SLEEPER)
    end(Identity(pid=running.pid, started="another start"), signal.SIGKILL, 1)
    assert running.exit_code() is None
    end(running.identity, signal.SIGKILL, 1)
    assert running.wait(5) == -signal.SIGKILL
    running.kill_group()


def test_every_part_has_a_separate_process_group(tmp_path: Path) -> None:
    running = started(tmp_path, *SLEEPER)
    assert os.getpgid(running.pid) == running.pid
    running.kill_group()


def test_nothing_of_a_process_that_never_was(tmp_path: Path) -> None:
    running = started(tmp_path, "/bin/true")
    running.wait(10)
    assert start_time(running.pid) is None
    assert not running.identity.is_alive()
