"""A program that dies with whoever started it, however that one dies.

Its own module, and run as a small program of its own, because the wish must be told to the kernel
between fork and exec, and code that runs there inside a process with threads can hang. Elsewhere
than on Linux the program is started as it is.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def tied_to_parent(command: Sequence[str]) -> list[str]:
    """The command, wrapped so that SIGKILL hits it when its parent is gone.

    Linux means the thread that starts it, not the process: start it from one that lives on. The
    wrapper becomes the program by exec, so pid, exit code and signals are the program's own. A
    change of user clears the wish; make it before.
    """
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *command]


def _become(parent: int, command: Sequence[str]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the kernel knew of the wish
            os.kill(os.getpid(), signal.SIGKILL)
    os.execvp(command[0], list(command))  # noqa: S606  no shell: the command is a list


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
