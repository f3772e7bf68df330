"""The child of a worker: a process group that communicates through pipes.

Three threads work together: one starts the program and waits for its end, one reads its frames, one
writes frames to it; so callers never block.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from queue import SimpleQueue
from time import monotonic
from typing import IO, Protocol, cast

from datarecs_application.ports.supervising import MAX_CHILD_FRAME_BYTES, ChildEnd
from datarecs_core.errors.process import ChildStartError
from datarecs_runtime.child_output import log_output
from datarecs_runtime.frames import BrokenFrameError, parse, read_frame, write_frame
from datarecs_runtime.lifeline import tied_to_parent
from datarecs_runtime.tree import kill_all, oom_kills, resident_bytes

MAX_UNREAD_BYTES = 64 * 1024 * 1024
"""Most bytes that may wait for the supervisor. A child that sends more is broken, because children
merge progress reports."""
_LAST_WORDS_S = 5.0
"""Time limit for the end of the pipe after all processes with the pipe were killed."""

_Frame = dict[str, object]


class _Mailbox:
    """Frames that were read and not yet taken, limited by their bytes."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, _Frame]] = deque()
        self._bytes = 0
        self._closed = False
        self._changed = threading.Condition()

    def put(self, size: int, frame: _Frame) -> None:
        with self._changed:
            if self._bytes + size > MAX_UNREAD_BYTES:
                raise BrokenFrameError(f"more than {MAX_UNREAD_BYTES} bytes are unread")
            self._bytes += size
            self._waiting.append((size, frame))
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def take(self, timeout_s: float) -> _Frame | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed, max(timeout_s, 0.0))
            if not self._waiting:
                return None
            size, frame = self._waiting.popleft()
            self._bytes -= size
            return frame


class Program(Protocol):
    """A process that was started with three pipes; `subprocess.Popen` is one."""

    @property
    def pid(self) -> int: ...
    @property
    def stdin(self) -> IO[bytes] | None: ...
    @property
    def stdout(self) -> IO[bytes] | None: ...
    @property
    def stderr(self) -> IO[bytes] | None: ...
    @property
    def returncode(self) -> int | None: ...

    def wait(self) -> int:
        """Block until its end; negative: the signal."""


class PipedChild:
    """ChildProcess for a real process, which leads a session of its own.

    Its output becomes records of this process's log. `launch` raises OSError; the process ends with
    the thread that calls it.
    """

    def __init__(self, name: str, launch: Callable[[], Program]) -> None:
        self._name, self._launch = name, launch
        self._incoming = _Mailbox()
        self._outgoing: SimpleQueue[bytes | None] = SimpleQueue()
        self._begun = threading.Event()
        self._start_error: OSError | None = None
        self._process: Program | None = None
        self._end: ChildEnd | None = None
        self._over = threading.Event()
        self._deaf = False
        self._killed_by_us = False
        self._broken: str | None = None

    def start(self, plan: bytes) -> None:
        self._outgoing.put(plan)
        # The kernel ties the child to the thread that starts it, so this thread lives as long.
        threading.Thread(target=self._live, name="child", daemon=True).start()
        self._begun.wait()
        if self._start_error is not None:
            cause = str(self._start_error)
            raise ChildStartError(program=self._name, cause=cause) from self._start_error

    def send(self, frame: bytes) -> bool:
        if self._deaf or self._over.is_set():
            return False
        self._outgoing.put(frame)
        return True

    def frames(self, timeout: timedelta) -> Mapping[str, object] | None:
        ends = monotonic() + timeout.total_seconds()
        frame = self._incoming.take(timeout.total_seconds())
        if frame is None:  # no more will come: wait for the end
            self._over.wait(max(ends - monotonic(), 0))
        return frame

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        process = self._signal(signal.SIGKILL)
        if process is not None:
            kill_all(process.pid)

    def ended(self) -> ChildEnd | None:
        return self._end

    def memory_bytes(self) -> int:
        process = self._process
        return 0 if process is None or self._over.is_set() else resident_bytes(process.pid)

    def _signal(self, number: int) -> Program | None:
        """Send a signal to the group; None if it has ended."""
        process = self._process
        if process is None or self._over.is_set() or process.returncode is not None:
            return None
        self._killed_by_us = True
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return None
        return process

    def _live(self) -> None:
        """Run from before the start of the program until all its processes have ended."""
        kills_before = oom_kills()
        try:
            process = self._process = self._launch()
        except OSError as error:
            self._start_error = error
            self._begun.set()
            return
        self._begun.set()
        reader = _beside(self._read_frames, process.stdout)
        writer = _beside(self._write_frames, process.stdin)
        printer = _beside(log_output, process.stderr)
        code = process.wait()
        kill_all(process.pid)
        reader.join(_LAST_WORDS_S)
        printer.join(_LAST_WORDS_S)
        self._outgoing.put(None)
        writer.join(_LAST_WORDS_S)
        self._end = ChildEnd(
            exit_code=code if code >= 0 else None,
            signal=-code if code < 0 else None,
            killed_by_us=self._killed_by_us,
            oom_kill=oom_kills() > kills_before,
            broken_frame=self._broken,
        )
        self._over.set()

    def _read_frames(self, pipe: IO[bytes]) -> None:
        try:
            while (document := read_frame(pipe, max_bytes=MAX_CHILD_FRAME_BYTES)) is not None:
                self._incoming.put(len(document), parse(document))
        except BrokenFrameError as fault:
            self._broken = str(fault)
            self.kill()
        finally:
            self._incoming.close()
            pipe.close()

    def _write_frames(self, pipe: IO[bytes]) -> None:
        with contextlib.suppress(OSError):  # the child has closed its end of the pipe
            while (document := self._outgoing.get()) is not None:
                write_frame(pipe, document)
        self._deaf = True
        with contextlib.suppress(OSError):
            pipe.close()


class SpawnedChild(PipedChild):
    """A program in its own interpreter.

    It ends with this process on Linux, and its environment has only the given variables. The
    program is named by its absolute path.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], *, cwd: str | None = None
    ) -> None:
        super().__init__(command[0], self._spawn)
        self._command, self._environment, self._cwd = tuple(command), dict(environment), cwd

    def _spawn(self) -> Program:
        if shutil.which(self._command[0]) is None:
            raise OSError("the program does not exist")
        return subprocess.Popen(
            tied_to_parent(self._command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self._environment,
            cwd=self._cwd,
            start_new_session=True,
        )


def _beside(work: Callable[[IO[bytes]], None], pipe: IO[bytes] | None) -> threading.Thread:
    thread = threading.Thread(
        target=work, args=(cast("IO[bytes]", pipe),), name="child pipe", daemon=True
    )
    thread.start()
    return thread
