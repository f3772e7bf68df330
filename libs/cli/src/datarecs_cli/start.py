"""The process entry of `datarecs`: Ctrl-C ends it without a traceback from the first moment.

Imports almost nothing, because the imports of the command take most of its start.
"""

import os
import signal
from types import FrameType
from typing import NoReturn

_INTERRUPTED = 130
"""`ExitCode.INTERRUPTED`, whose module takes time to import."""


def main() -> NoReturn:
    """Import and run one command line, and exit with its code."""
    # A command that a script's `&` started ignores Ctrl-C.
    catches = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if catches:
        # Not by an exception: some libraries swallow it while they are imported.
        signal.signal(signal.SIGINT, _end)
    from datarecs_cli.main import main as run_command

    try:
        if catches:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run_command()
    except KeyboardInterrupt:
        os._exit(_INTERRUPTED)


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    os._exit(_INTERRUPTED)
