"""Ends a part of the stack when its supervisor ends, for any cause.

It is run by path with only the standard library, `python -I -S leash.py '{…}'`: it switches to the
server account, requests a signal from the kernel at the parent's death and executes the command.
Without such a signal it stays as the parent and watches a pipe that closes with the supervisor.
It is a separate program because `preexec_fn` is unsafe with threads.
"""

import ctypes
import json
import os
import select
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1
HANDED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


def become(uid: int, gid: int) -> None:
    """Switch to the account permanently, before the death signal is set: a switch clears it."""
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def request_death_signal(death_signal: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def watch_the_pipe(read_fd: int, argv: Sequence[str], death_signal: int) -> int:
    """Run the command as a child, forward signals, end it when the pipe closes; its exit code."""
    # Block signals until the child has started, so that none is lost before it can be forwarded.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HANDED_ON)
    child = os.fork()
    if child == 0:
        os.close(read_fd)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.execv(argv[0], list(argv))  # noqa: S606  no shell is needed
    ended_read, ended_write = os.pipe()
    os.set_blocking(ended_write, False)
    for number in HANDED_ON:
        signal.signal(number, lambda received, _frame: os.kill(child, received))
    signal.signal(signal.SIGCHLD, lambda _received, _frame: None)
    signal.set_wakeup_fd(ended_write)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    watched = [read_fd, ended_read]
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        readable, _, _ = select.select(watched, [], [])
        if ended_read in readable:
            os.read(ended_read, 1024)
        if read_fd in readable:
            os.kill(child, death_signal)
            watched = [ended_read]


def main() -> None:
    order = json.loads(sys.argv[1])
    if order["account"] is not None:
        become(*order["account"])
    if order["pipe"] is not None:
        code = watch_the_pipe(order["pipe"], order["argv"], order["death_signal"])
        sys.exit(code if code >= 0 else 128 - code)
    request_death_signal(order["death_signal"])
    if os.getppid() != order["parent"]:  # it died before the death signal was set
        sys.exit(1)
    os.execv(order["argv"][0], order["argv"])  # noqa: S606  no shell is needed


if __name__ == "__main__":
    main()
