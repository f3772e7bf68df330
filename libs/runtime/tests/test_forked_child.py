"""Children that are forked from a template: they behave like programs, and share nothing else."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # publishes no types
import pytest
from structlog.testing import capture_logs

from datarecs_application.ports.supervising import ChildEnd, ChildProcess
from datarecs_core.errors.process import ChildStartError
from datarecs_runtime.child import PipedChild
from datarecs_runtime.forked_child import ChildTemplate
from datarecs_testing.conformance.child_process import SOON, ChildProcessConformance

PROGRAM = str(Path(__file__).parent / "child_program.py")
COMMAND = [sys.executable, PROGRAM, "template"]
NO_PROCESSES = """
import errno, os
from datarecs_runtime.child_template import become_child

def fork():
    raise BlockingIOError(errno.EAGAIN, "no more processes")

os.fork = fork
become_child(())
"""


@pytest.fixture
def template() -> Iterator[ChildTemplate]:
    template = ChildTemplate(COMMAND, {"MARK": "x"})
    yield template
    template.close()


def a_child(template: ChildTemplate) -> PipedChild:
    return PipedChild("a fork", template.fork)


def until_gone(pid: int) -> None:
    tick = threading.Event()
    for _ in range(4000):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return
        tick.wait(0.005)
    raise AssertionError(f"process {pid} still lives")


def memory_of(pid: int) -> bytes:
    """Everything that the process can write to."""
    content = b""
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            area, rights, *_ = line.split()
            if rights.startswith("rw"):
                first, last = (int(number, 16) for number in area.split("-"))
                memory.seek(first)
                content += memory.read(last - first)
    return content


def pid_of(child: ChildProcess) -> int:
    frame = child.frames(SOON)
    assert frame is not None
    return int(str(frame["pid"]))


class TestForkedChild(ChildProcessConformance):
    @pytest.fixture
    def child(self, template: ChildTemplate) -> Iterator[ChildProcess]:
        child = a_child(template)
        yield child
        child.kill()

    def test_a_child_has_the_environment_of_its_template_alone(
        self, child: ChildProcess, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DATARECS_DATABASE__URL", "postgresql://u:secret@db/x")
        self.start(child, environment=True)
        frame = child.frames(SOON)
        assert frame is not None
        assert set(frame["environment"]) - {"LC_CTYPE"} == {"MARK"}  # type: ignore[call-overload]  # a list, as child_program says

    def test_what_it_prints_is_logged(self, child: ChildProcess) -> None:
        with capture_logs() as lines:
            self.start(child, ["say", {"clean": True}], print="noise\n")
            assert self.end_of(child) == ChildEnd(exit_code=0)
        assert "noise of a program" in "".join(str(line["message"]) for line in lines)

    def test_each_child_is_a_new_process_in_a_session_without_other_descriptors(
        self, template: ChildTemplate
    ) -> None:
        children = [a_child(template) for _ in range(3)]
        for child in children:
            self.start(child, ["listen_for_ever"], tell_pid=True)
        pids = [pid_of(child) for child in children]
        assert len({*pids, template.pid()}) == 4
        for pid in pids:
            assert os.getsid(pid) == pid
            # Standard streams, and the two copies that `take_over_stdio` makes.
            assert psutil.Process(pid).num_fds() == 5
        for child in children:
            child.kill()

    def test_the_crash_of_a_child_ends_no_other(self, template: ChildTemplate) -> None:
        first, second = a_child(template), a_child(template)
        self.start(first, ["listen_for_ever"], tell_pid=True)
        self.start(second, ["echo"])
        os.kill(pid_of(first), signal.SIGSEGV)
        assert self.end_of(first) == ChildEnd(signal=signal.SIGSEGV)
        second.send(b'{"still": "there"}')
        assert second.frames(SOON) == {"echo": {"still": "there"}}
        second.kill()

    def test_children_end_with_their_template_and_the_next_starts_another(
        self, template: ChildTemplate
    ) -> None:
        child = a_child(template)
        self.start(child, ["ignore_terminate"], ["listen_for_ever"], tell_pid=True)
        pid, before = pid_of(child), template.pid()
        assert before is not None
        os.kill(before, signal.SIGKILL)
        assert self.end_of(child) == ChildEnd(signal=signal.SIGKILL)
        until_gone(pid)
        after = a_child(template)
        self.start(after, ["say", {"clean": True}])
        assert self.read_frames(after) == [{"clean": True}]
        assert template.pid() not in {None, before}

    def test_a_template_serves_threads_at_the_same_time(self, template: ChildTemplate) -> None:
        ends = []

        def work() -> None:
            for _ in range(10):
                child = a_child(template)
                self.start(child, ["say", {"clean": True}])
                ends.append((self.read_frames(child), self.end_of(child)))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ends == [([{"clean": True}], ChildEnd(exit_code=0))] * 40

    @pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process")
    def test_the_template_never_has_the_plan_of_a_child(self, template: ChildTemplate) -> None:
        child, secret = a_child(template), "Zebra77Quagga"
        self.start(child, ["listen_for_ever"], tell_pid=True, password=secret)
        pid, of_template = pid_of(child), template.pid()
        assert of_template is not None
        assert secret.encode() in memory_of(pid)
        assert secret.encode() not in memory_of(of_template)
        child.kill()

    def test_a_closed_template_ends_with_its_children(self, template: ChildTemplate) -> None:
        child = a_child(template)
        self.start(child, ["listen_for_ever"], tell_pid=True)
        pid = pid_of(child)
        template.close()
        until_gone(pid)
        assert template.pid() is None


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        (["/no/such/program"], "does not exist"),
        ([sys.executable, "-c", "import no_such_module"], "read the log"),
    ],
)
def test_a_template_that_does_not_start_is_an_error(command: list[str], cause: str) -> None:
    template = ChildTemplate(command, {})
    with pytest.raises(ChildStartError, match=cause):
        a_child(template).start(b"{}")
    template.close()


@pytest.mark.parametrize(
    "options", [{}, {"limit": "DATARECS_SINK__MAX_TASKS"}], ids=["worker", "sink"]
)
def test_a_template_that_cannot_fork_says_what_to_do(options: dict[str, str]) -> None:
    template = ChildTemplate([sys.executable, "-c", NO_PROCESSES], {}, **options)
    setting = options.get("limit", "DATARECS_WORKER__MAX_PARALLELISM")
    with pytest.raises(ChildStartError, match=f"lower {setting} or"):
        a_child(template).start(b"{}")
    template.close()


PARENT = """
import sys
from datetime import timedelta
from datarecs_runtime.child import PipedChild
from datarecs_runtime.forked_child import ChildTemplate
template = ChildTemplate([sys.executable, sys.argv[1], "template"], {})
child = PipedChild("a fork", template.fork)
child.start(b'{"script": [["ignore_terminate"], ["listen_for_ever"]], "tell_pid": true}')
print(child.frames(timedelta(seconds=20))["pid"], template.pid(), flush=True)
child.frames(timedelta(seconds=60))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's wish exists on Linux alone")
def test_template_and_child_end_with_a_worker_that_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, PROGRAM], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        parent.kill()
        for pid in pids:
            until_gone(pid)
    assert len(pids) == 2
