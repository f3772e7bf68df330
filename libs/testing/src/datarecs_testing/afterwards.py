"""Run a command after a block, or after this process ends in any way.

For programs that a test starts but that are not its children: a background platform would outlive a
test process that a time limit kills.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_WAIT = 'cat > /dev/null; exec "$@"'
"""Waits until the last writer of its input has closed it; only this process writes."""


@contextmanager
def afterwards(command: Sequence[str], *, cwd: Path) -> Iterator[None]:
    """Run the command once, after the block or after the end of this process."""
    waiting = subprocess.Popen(
        ["/bin/sh", "-c", _WAIT, "sh", *command],
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # A signal to the group of this process does not end the command.
        start_new_session=True,
    )
    assert waiting.stdin is not None
    try:
        yield
    finally:
        waiting.stdin.close()
        waiting.wait()
