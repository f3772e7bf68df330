"""Children that are forked from a template, as the worker sees them.

Separate from the template, because that process imports nothing of the worker. The template starts
with the first child and again after its end; it ends with this process.
"""

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from datetime import timedelta
from typing import IO

from datarecs_runtime.child import Program
from datarecs_runtime.child_output import log_output
from datarecs_runtime.child_template import ENDED, NOTICE, REQUEST, STARTED, notice, read_notice
from datarecs_runtime.lifeline import tied_to_parent

START_LIMIT = timedelta(seconds=60)
"""Of the template and its first child."""
_END_LIMIT_S = 5.0
_ATTEMPTS = 2
"""The second one when the template ended while it waited for a request."""


class ChildTemplate:
    """Starts children in milliseconds; safe to call from several threads.

    `environment` is that of the template and of every child. The program calls
    `child_template.become_child`.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        limit: str = "DATARECS_WORKER__MAX_PARALLELISM",
    ) -> None:
        """`limit` names the setting of how many children run, for messages."""
        self._command, self._environment = tuple(command), dict(environment)
        self._limit = limit
        self._running: _RunningTemplate | None = None
        self._lock = threading.Lock()

    @property
    def program(self) -> str:
        return " ".join(self._command)

    def fork(self) -> Program:
        """A new child.

        Raises:
            OSError: the template does not start, or cannot fork.
        """
        with self._lock:
            for _ in range(_ATTEMPTS):
                running = self._started()
                try:
                    return running.fork()
                except (BrokenPipeError, ConnectionResetError, EOFError):
                    if not running.ends_soon():
                        raise OSError(
                            f"the system started no further process; lower {self._limit}"
                            " or raise its limits"
                        ) from None
                except OSError:
                    running.kill()
                    raise
            raise OSError("the process that starts the others ended; read the log for its cause")

    def pid(self) -> int | None:
        """Of the template that runs."""
        return self._running.pid if self._running is not None and self._running.lives() else None

    def close(self) -> None:
        """End the template and its children; safe to repeat."""
        with self._lock:
            if self._running is not None:
                self._running.end()
                self._running = None

    def _started(self) -> "_RunningTemplate":
        if self._running is None or not self._running.lives():
            if self._running is not None:
                self._running.end()
            self._running = _RunningTemplate(self._command, self._environment)
        return self._running


class _RunningTemplate:
    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Raises OSError."""
        if shutil.which(command[0]) is None:
            raise OSError("the program does not exist")
        self._control, theirs = socket.socketpair()
        started: Future[subprocess.Popen[bytes]] = Future()

        def live() -> None:
            """The kernel ties the template to the thread that starts it, so it lives as long."""
            try:
                with theirs:
                    process = _spawned(command, environment, theirs)
            except OSError as error:
                started.set_exception(error)
                return
            started.set_result(process)
            if process.stderr is not None:
                log_output(process.stderr)
            process.wait()

        self._thread = threading.Thread(target=live, name="child template", daemon=True)
        self._thread.start()
        try:
            self._process = started.result()
        except OSError:
            self._control.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def lives(self) -> bool:
        return self._process.poll() is None

    def ends_soon(self) -> bool:
        """Whether it ends, after a sign that it has."""
        self._thread.join(_END_LIMIT_S)
        return not self.lives()

    def fork(self) -> "ForkedProgram":
        """Raises OSError or EOFError."""
        with ExitStack() as ours, ExitStack() as theirs:
            receives, stdin = os.pipe()
            stdout, sends = os.pipe()
            stderr, prints = os.pipe()
            for descriptor in (receives, sends, prints):
                theirs.callback(os.close, descriptor)
            for descriptor in (stdin, stdout, stderr):
                ours.callback(os.close, descriptor)
            notices, reports = socket.socketpair()
            ours.enter_context(notices)
            with reports:
                socket.send_fds(
                    self._control, [REQUEST], [receives, sends, prints, reports.fileno()]
                )
            notices.settimeout(START_LIMIT.total_seconds())
            kind, pid = _next_notice(notices)
            if kind != STARTED:
                raise EOFError
            notices.settimeout(None)
            ours.pop_all()
        return ForkedProgram(pid, (stdin, stdout, stderr), notices)

    def end(self) -> None:
        self._control.close()
        self._thread.join(_END_LIMIT_S)
        self.kill()

    def kill(self) -> None:
        if self.lives():
            self._process.kill()


def _spawned(
    command: Sequence[str], environment: Mapping[str, str], control: socket.socket
) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        tied_to_parent(command),
        stdin=control.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )


class ForkedProgram:
    """Port Program: a child of the template."""

    def __init__(self, pid: int, pipes: tuple[int, int, int], notices: socket.socket) -> None:
        self.pid = pid
        self.stdin: IO[bytes] | None = os.fdopen(pipes[0], "wb")
        self.stdout: IO[bytes] | None = os.fdopen(pipes[1], "rb")
        self.stderr: IO[bytes] | None = os.fdopen(pipes[2], "rb")
        self.returncode: int | None = None
        self._notices = notices

    def wait(self) -> int:
        """Its exit code; that of SIGKILL if its template ended, because it ends with it."""
        with closing(self._notices):
            try:
                _, code = _next_notice(self._notices)
            except (OSError, EOFError):
                _, code = read_notice(notice(ENDED, -9))
        self.returncode = code
        return code


def _next_notice(notices: socket.socket) -> tuple[int, int]:
    """Raises EOFError at the end."""
    content = b""
    while len(content) < NOTICE:
        piece = notices.recv(NOTICE - len(content))
        if not piece:
            raise EOFError
        content += piece
    return read_notice(content)
