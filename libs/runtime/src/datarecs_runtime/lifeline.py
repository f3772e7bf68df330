"""Runs a program that ends when the process that started it ends, for any cause.

It is a separate small program, because the death signal must be set between fork and exec, and code
that runs there in a process with threads can hang. On systems other than Linux the program is
started directly.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def tied_to_parent(command: Sequence[str]) -> list[str]:
    """The command, wrapped so that it gets SIGKILL when its parent ends.

    On Linux the parent is the thread that starts it, not the process: start it from a thread that
    continues to run. The wrapper becomes the program by exec, so pid, exit code and signals are
    those of the program. A change of user clears the setting; change the user before.
    """
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def die_with_parent(parent: int) -> None:
    """Get SIGKILL when the process `parent`, which started this one, ends; on Linux alone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before the death signal was set
            os.kill(os.getpid(), signal.SIGKILL)


def _become(parent: int, command: Sequence[str]) -> None:
    die_with_parent(parent)
    os.execvp(command[0], list(command))  # noqa: S606  no shell: the command is a list


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
