"""A command that runs when this process is through with something, however it ends.

For what a test starts and does not hold as a child: a platform in the background would outlive a
test process that a time limit kills.
"""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_WAIT = 'cat > /dev/null; exec "$@"'
"""Until the last writer of its input is gone, and that is this process alone."""


@contextmanager
def afterwards(command: Sequence[str], *, cwd: Path) -> Iterator[None]:
    """Run the command once, behind the block or behind the death of this process."""
    waiting = subprocess.Popen(
        ["/bin/sh", "-c", _WAIT, "sh", *command],
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Who ends this process by its group does not end the command's with it.
        start_new_session=True,
    )
    assert waiting.stdin is not None
    try:
        yield
    finally:
        waiting.stdin.close()
        waiting.wait()
