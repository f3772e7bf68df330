import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # publishes no types
import pytest
from structlog.testing import capture_logs

from datarecs_application.ports.supervising import ChildEnd, ChildProcess
from datarecs_core.errors.process import ChildStartError
from datarecs_runtime.child import SpawnedChild
from datarecs_runtime.lifeline import tied_to_parent
from datarecs_runtime.tree import oom_kills
from datarecs_testing.conformance.child_process import SOON, ChildProcessConformance

PROGRAM = str(Path(__file__).parent / "child_program.py")
COMMAND = [sys.executable, PROGRAM]


def until_gone(pid: int) -> None:
    tick = threading.Event()
    for _ in range(4000):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return
        tick.wait(0.005)
    raise AssertionError(f"process {pid} still lives")


class TestSpawnedChild(ChildProcessConformance):
    @pytest.fixture
    def child(self) -> Iterator[ChildProcess]:
        child = SpawnedChild(COMMAND, {"MARK": "x"})
        yield child
        child.kill()

    def test_what_a_library_prints_does_not_break_the_frames(self, child: ChildProcess) -> None:
        self.start(child, ["say", {"clean": True}], print="noise\x00\xff\n")
        assert self.read_frames(child) == [{"clean": True}]
        assert self.end_of(child) == ChildEnd(exit_code=0)

    def test_what_it_prints_is_logged_and_not_printed(
        self, child: ChildProcess, capfd: pytest.CaptureFixture[str]
    ) -> None:
        with capture_logs() as lines:
            self.start(child, ["say", {"clean": True}], print="noise\n")
            assert self.end_of(child) == ChildEnd(exit_code=0)
        assert "noise of a program" in "".join(str(line["message"]) for line in lines)
        assert "noise" not in "".join(capfd.readouterr())

    @pytest.mark.case("X64")
    def test_the_child_has_nothing_of_our_environment(
        self, child: ChildProcess, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DATARECS_DATABASE__URL", "postgresql://u:secret@db/x")
        self.start(child, environment=True)
        frame = child.frames(SOON)
        assert frame is not None
        assert set(frame["environment"]) - {"LC_CTYPE"} == {"MARK"}  # type: ignore[call-overload]  # a list, as child_program says

    @pytest.mark.case("X68")
    def test_the_command_line_of_the_child_shows_no_word_of_the_plan(
        self, child: ChildProcess
    ) -> None:
        self.start(child, ["listen_for_ever"], grandchild=True, password="Zebra77Quagga")
        frame = child.frames(SOON)
        assert frame is not None
        process = psutil.Process(frame["pid"])
        assert "Zebra77Quagga" not in str(process.cmdline()) + str(process.environ())

    def test_kill_reaches_a_grandchild_that_left_the_process_group(
        self, child: ChildProcess
    ) -> None:
        self.start(child, ["listen_for_ever"], grandchild=True)
        frame = child.frames(SOON)
        assert frame is not None
        child.kill()
        until_gone(int(str(frame["grandchild"])))

    def test_nothing_the_child_started_outlives_it(self, child: ChildProcess) -> None:
        self.start(child, ["exit", 0], grandchild=True)
        frame = child.frames(SOON)
        assert frame is not None
        assert self.end_of(child) == ChildEnd(exit_code=0)
        until_gone(int(str(frame["grandchild"])))

    def test_memory_counts_the_whole_tree(self, child: ChildProcess) -> None:
        self.start(child, ["listen_for_ever"], grandchild=True)
        frame = child.frames(SOON)
        assert frame is not None
        child_memory = psutil.Process(frame["pid"]).memory_info().rss
        assert child.memory_bytes() > child_memory > 1_000_000

    def test_a_program_that_speaks_no_frames_is_killed_as_broken(self) -> None:
        child = SpawnedChild(["/bin/echo", "hello, this is no frame"], {})
        child.start(b"{}")
        assert self.end_of(child).broken_frame is not None

    def test_a_signal_somebody_else_sends_is_not_ours(self, child: ChildProcess) -> None:
        self.start(child, ["listen_for_ever"], grandchild=True)
        frame = child.frames(SOON)
        assert frame is not None
        os.kill(int(str(frame["pid"])), signal.SIGKILL)
        assert self.end_of(child) == ChildEnd(signal=signal.SIGKILL)

    def test_a_child_outlives_the_thread_that_requested_it(self, child: ChildProcess) -> None:
        starter = threading.Thread(target=self.start, args=(child, ["echo"]))
        starter.start()
        starter.join()
        assert child.send(b'{"still": "there"}')
        assert child.frames(SOON) == {"echo": {"still": "there"}}


def test_a_child_that_says_more_than_may_wait_unread_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("datarecs_runtime.child.MAX_UNREAD_BYTES", 1000)
    suite, child = ChildProcessConformance(), SpawnedChild(COMMAND, {})
    suite.start(child, ["say_many", 5000], ["listen_for_ever"])
    assert "are unread" in str(suite.end_of(child).broken_frame)


@pytest.mark.parametrize(
    ("command", "cwd"), [(["/no/such/program"], None), (COMMAND, "/no/such/folder")]
)
def test_a_program_that_cannot_be_started_is_an_error_at_once(
    command: list[str], cwd: str | None
) -> None:
    with pytest.raises(ChildStartError):
        SpawnedChild(command, {}, cwd=cwd).start(b"{}")


PARENT = """
import sys
from datetime import timedelta
from datarecs_runtime.child import SpawnedChild
child = SpawnedChild([sys.executable, sys.argv[1]], {})
child.start(b'{"script": [["ignore_terminate"], ["listen_for_ever"]], "tell_pid": true}')
print(child.frames(timedelta(seconds=20))["pid"], flush=True)
child.frames(timedelta(seconds=60))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's wish exists on Linux alone")
def test_the_child_dies_with_a_supervisor_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, PROGRAM], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
        until_gone(child)


def test_a_tied_program_preserves_its_exit_code_and_arguments() -> None:
    command = tied_to_parent(
        [sys.executable, "-c", "import sys; sys.exit(len(sys.argv[1]))", "abc"]
    )
    assert subprocess.run(command, check=False).returncode == 3


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's wish exists on Linux alone")
def test_a_tied_program_does_not_even_start_under_another_parent() -> None:
    command = tied_to_parent(["/bin/true"])
    command[4] = "1"
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("0::/pod/worker", "pod/worker/memory.events"),
        ("0::/", "memory.events"),
        ("9:cpu,memory:/docker/x", "memory/docker/x/memory.oom_control"),
    ],
)
def test_kills_for_lack_of_memory_are_read_in_both_layouts(
    tmp_path: Path, line: str, file: str
) -> None:
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text("low 0\noom 7\noom_kill 2\noom_group_kill 9\n")
    (tmp_path / "cgroup").write_text(f"8:pids:/docker/x\n{line}\n")
    assert oom_kills(tmp_path / "cgroup", tmp_path) == 2


def test_without_control_groups_nothing_is_counted(tmp_path: Path) -> None:
    assert oom_kills(tmp_path / "cgroup", tmp_path) == 0
    (tmp_path / "cgroup").write_text("0::/x\nnonsense\n7:memory:/gone\n")
    assert oom_kills(tmp_path / "cgroup", tmp_path) == 0
    assert oom_kills() >= 0


def test_a_wait_for_frames_does_not_last_longer_than_requested() -> None:
    child = SpawnedChild(COMMAND, {})
    child.start(json.dumps({"script": [["listen_for_ever"]]}).encode())
    assert child.frames(timedelta(seconds=-1)) is None
    child.kill()
