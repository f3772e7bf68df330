"""The child process of a worker: started, fed and watched from outside the work (D15).

A separate module because it has two very different implementations: a process group with Spark
inside, and a script in tests. Frames of the child are untrusted data: their size is limited, they
are parsed before any use, and a child that breaks the frame format is killed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

MAX_CHILD_FRAME_BYTES = 1024 * 1024
"""Longest frame a child may send; one more byte ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnd:
    """How the child ended. Exactly one of `exit_code` and `signal` is set."""

    exit_code: int | None = None
    """0 file written, 70 internal error, 75 stopped on request (run-lifecycle 10)."""
    signal: int | None = None
    """Number of the signal that ended it, from any sender."""
    killed_by_us: bool = False
    """`terminate` or `kill` was called, or it was killed after a broken frame."""
    oom_kill: bool = False
    """The kernel's count of out-of-memory kills rose while the child lived."""
    broken_frame: str | None = None
    """What was wrong with the child's last bytes, when that is why it was killed."""


class ChildProcess(Protocol):
    """One child, from start to end; not restarted. Safe to call from several threads.

    Frames are JSON objects. Numbers with a fraction arrive as Decimal, digit for digit.
    """

    def start(self, plan: bytes) -> None:
        """Start the program in a separate process group and send it the first frame.

        Args:
            plan: a JSON document in UTF-8, of any length.

        Raises:
            ChildStartError: the program cannot be started. Call once.
        """

    def send(self, frame: bytes) -> bool:
        """Send another JSON document to the child; False when it no longer reads.

        Returns before the child has read it; a child that does not read never blocks the caller.
        """

    def frames(self, timeout: timedelta) -> Mapping[str, object] | None:
        """The next frame of the child, in order; None after the timeout or at the end.

        Frames sent before the child ended are still returned after it ended. Reading continues in
        the background, so a caller that is slow never blocks the child.
        """

    def terminate(self) -> None:
        """SIGTERM to the process group. Safe to repeat, and when it has ended."""

    def kill(self) -> None:
        """SIGKILL to everything the child started. Safe to repeat, and when it has ended."""

    def ended(self) -> ChildEnd | None:
        """None while it runs; afterwards always the same value."""

    def memory_bytes(self) -> int:
        """Resident memory of the child and all it started; 0 when it has ended."""


class ChildFolder(Protocol):
    """The folder in which a child leaves what it reports; everything in it is untrusted."""

    @property
    def path(self) -> str: ...

    def empty(self) -> None:
        """Create it, or remove everything in it. Raises OSError."""

    def read(self, name: str, *, most: int) -> bytes | None:
        """A file directly in the folder; None if it is missing, longer, or no regular file."""
