"""A Spark standalone cluster on this machine: one Master and its Workers, each a real process.

Started from pyspark's jars, with the secret and the encryption that datarecs requires of a cluster.
A Worker is the root of a session with its executors and their Python, so that a test can kill a
whole node at once. A separate module because nothing else needs a cluster.
"""

import os
import re
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from datarecs_runtime.environment import process_environment
from datarecs_runtime.lifeline import tied_to_parent
from datarecs_runtime.tree import kill_all, members

ADDRESS = "127.0.0.1"
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR")
_STARTED_WITHIN_S = 60.0
_DEPLOY = "org.apache.spark.deploy"
_CONFIGURATION = """\
spark.authenticate true
spark.authenticate.secret {secret}
spark.network.crypto.enabled true
spark.network.crypto.saslFallback false
spark.master.rest.enabled false
"""


class Logged:
    """A running program; tests can wait for its output lines."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            tied_to_parent(command),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._lines: list[str] = []
        self._over = False
        self._changed = threading.Condition()
        threading.Thread(target=self._read, name="log", daemon=True).start()

    def line(self, pattern: str, *, count: int = 1, within_s: float = _STARTED_WITHIN_S) -> str:
        """The first group of the nth matching line; waits for it."""
        matches: list[str] = []

        def there() -> bool:
            matches[:] = [match[1] for one in self._lines if (match := re.search(pattern, one))]
            return len(matches) >= count or self._over

        with self._changed:
            self._changed.wait_for(there, within_s)
        assert len(matches) >= count, f"no {pattern!r} in:\n{''.join(self._lines[-40:])}"
        return matches[count - 1]

    def kill(self) -> None:
        """Kill the program and all its children, like a power failure; safe to repeat."""
        kill_all(self.process.pid)
        self.process.wait()

    def started(self) -> list[int]:
        """What it started."""
        return [pid for pid in members(self.process.pid) if pid != self.process.pid]

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._changed:
                    self._lines.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One Worker."""

    program: Logged
    local: Path
    """Where its executors keep shuffled rows."""

    def outputs(self) -> set[Path]:
        """Finished shuffle outputs that its executors hold."""
        return set(self.local.rglob("shuffle_*.index"))

    def freeze(self) -> None:
        """Stop its executors without ending them; they are still considered alive."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def lose_executors(self) -> None:
        """The Worker stays and starts others."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self.program.started():
            os.kill(pid, number)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCluster:
    """A Master and its Workers."""

    url: str
    secret: str = field(repr=False)
    master: Logged
    nodes: tuple[Node, ...]

    def lose(self, node: Node) -> None:
        """Returns after the Master has noticed."""
        node.program.kill()
        self.master.line(r"(Removing worker \S+)")

    def lose_executors(self, node: Node) -> None:
        """Returns after the Master has noticed; its Worker starts others."""
        node.lose_executors()
        self.master.line(r"(Removing executor \S+)")


@contextmanager
def running_cluster(
    folder: Path, java_home: Path, *, workers: int, memory_mb: int, java_options: str = ""
) -> Iterator[SparkCluster]:
    """A cluster of `workers` Workers with one core each, for the block.

    Args:
        folder: for its files; made.
        java_home: of all its processes.
        workers: their number.
        memory_mb: for the executors of each.
        java_options: of all its processes, as written on a command line.
    """
    secret = secrets.token_urlsafe(32)
    folder.mkdir(mode=0o700)
    configuration = folder / "cluster.conf"
    configuration.touch(mode=0o600)
    configuration.write_text(_CONFIGURATION.format(secret=secret))
    with ExitStack() as stack:

        def start(role: str, arguments: Sequence[str], **more: str) -> Logged:
            options = ("--host", ADDRESS, "--port", "0", "--webui-port", "0")
            files = ("--properties-file", str(configuration))
            command = [*_java(java_home), f"{_DEPLOY}.{role}", *options, *files, *arguments]
            program = Logged(command, _environment(java_home, java_options, **more))
            stack.callback(program.kill)
            return program

        master = start("master.Master", ())
        url = master.line(r"Starting Spark master at (spark://\S+)")
        nodes = []
        for number in range(workers):
            local = folder / f"local-{number}"
            local.mkdir()
            size = ("--cores", "1", "--memory", f"{memory_mb}M")
            place = ("--work-dir", str(folder / f"work-{number}"))
            program = start("worker.Worker", (*size, *place, url), SPARK_LOCAL_DIRS=str(local))
            nodes.append(Node(program=program, local=local))
        for node in nodes:
            node.program.line(r"Successfully (registered) with master")
        yield SparkCluster(url=url, secret=secret, master=master, nodes=tuple(nodes))


def _home() -> Path:
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


def _java(java_home: Path) -> list[str]:
    return [
        str(java_home / "bin/java"),
        *("-Xmx160m", "-XX:+UseSerialGC", "-XX:-UsePerfData"),
        "-cp",
        f"{_home()}/conf/:{_home()}/jars/*",
    ]


def _environment(java_home: Path, java_options: str, **more: str) -> dict[str, str]:
    """Workers start executors from this home, by this Java."""
    inherited = {name: value for name, value in process_environment().items() if name in _PASSED_ON}
    return {
        **inherited,
        "JAVA_HOME": str(java_home),
        # Executors inherit it.
        "JAVA_TOOL_OPTIONS": java_options,
        "SPARK_HOME": str(_home()),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": ADDRESS,
        "PYSPARK_PYTHON": sys.executable,
        **more,
    }
