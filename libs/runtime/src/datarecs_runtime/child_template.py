"""A process that has imported what children need, and forks a child for each request.

Imports cost a second, a fork costs milliseconds. The template opens nothing and starts no thread,
so that a fork is safe. It knows no secret: each child receives its plan through its own pipe.
"""

import ctypes
import gc
import importlib
import os
import resource
import select
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress

from datarecs_runtime.lifeline import die_with_parent

REQUEST = b"f"
STANDARD_STREAMS = 3
"""Descriptors 0, 1 and 2 of the child; a request has one more, for its start and its end."""
STARTED, ENDED = 0, 1
NOTICE = 12
"""Bytes of a notice: its type, then the pid or the exit code."""
_WAKE_BYTES = 4096


def notice(kind: int, number: int) -> bytes:
    return kind.to_bytes(4) + number.to_bytes(8, signed=True)


def read_notice(content: bytes) -> tuple[int, int]:
    """Type and number."""
    return int.from_bytes(content[:4]), int.from_bytes(content[4:], signed=True)


def become_child(modules: Sequence[str]) -> None:
    """Import the modules and serve requests on standard input; returns in each child.

    The template itself ends in here, when its standard input ends. Its children end with it.
    """
    for name in modules:
        importlib.import_module(name)
    ctypes.CDLL(None)  # loaded once, for `die_with_parent` in the children
    control = socket.socket(fileno=os.dup(0))
    wake, awakened = os.pipe()
    os.set_blocking(awakened, False)
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(awakened, warn_on_full_buffer=False)
    gc.collect()
    gc.freeze()  # a collection in a child would copy every page
    template = _Template(control, wake, awakened)
    while template.serve():
        pass


class _Template:
    def __init__(self, control: socket.socket, wake: int, awakened: int) -> None:
        self._control, self._wake, self._awakened = control, wake, awakened
        self._pid = os.getpid()
        self._children: dict[int, int] = {}
        """Descriptors for notices, by child."""

    def serve(self) -> bool:
        """Handle what has arrived; False in a child."""
        control = self._control.fileno()
        readable, _, _ = select.select([control, self._wake], [], [])
        if self._wake in readable:
            with suppress(BlockingIOError):
                os.read(self._wake, _WAKE_BYTES)
            self._report_ends()
        return control not in readable or self._forked()

    def _forked(self) -> bool:
        request, descriptors, _, _ = socket.recv_fds(
            self._control, len(REQUEST), STANDARD_STREAMS + 1
        )
        if not request:
            os._exit(0)
        *streams, notices = descriptors
        pid = -1
        with suppress(OSError):  # the worker sees the end of the notices
            pid = os.fork()
        if pid == 0:
            self._settle(streams, notices)
            return False
        for descriptor in streams:
            os.close(descriptor)
        if pid < 0:
            os.close(notices)
        else:
            self._children[pid] = notices
        return True

    def _settle(self, streams: Sequence[int], notices: int) -> None:
        """Make the fork a child like one that was started as a program."""
        die_with_parent(self._pid)
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # memory holds rows and secrets
        self._control.close()
        for descriptor in (self._wake, self._awakened, *self._children.values()):
            os.close(descriptor)
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.write(notices, notice(STARTED, os.getpid()))
        os.close(notices)

    def _report_ends(self) -> None:
        for pid in list(self._children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                notices = self._children.pop(pid)
                with suppress(OSError):  # the worker has forgotten the child
                    os.write(notices, notice(ENDED, os.waitstatus_to_exitcode(status)))
                os.close(notices)
