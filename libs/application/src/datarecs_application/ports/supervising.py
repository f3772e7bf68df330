"""The child process of a worker: started, fed and watched from outside the work (D15).

Its own module because two very different things stand behind it: a process group with Spark inside,
and a script in tests. What the child says is data from the hostile side: it is capped and parsed
before anybody sees it, and a child that breaks the frame format is killed.
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
    """Number of the signal that ended it, whoever sent it."""
    killed_by_us: bool = False
    """`terminate` or `kill` was called, or a broken frame made us kill it."""
    oom_kill: bool = False
    """The kernel's count of out-of-memory kills rose while the child lived."""
    broken_frame: str | None = None
    """What was wrong with the child's last bytes, when that is why it was killed."""


class ChildProcess(Protocol):
    """One child, from start to end; not restarted. Safe to call from several threads.

    Frames are JSON objects. Numbers with a fraction arrive as Decimal, digit for digit.
    """

    def start(self, plan: bytes) -> None:
        """Start the program in its own process group and hand it its first frame.

        Args:
            plan: a JSON document in UTF-8, of any length.

        Raises:
            ChildStartError: the program cannot be started. Call once.
        """

    def send(self, frame: bytes) -> bool:
        """Hand a further JSON document to the child; False when it no longer listens.

        Returns before the child has read it; a child that does not read never blocks the caller.
        """

    def frames(self, timeout: timedelta) -> Mapping[str, object] | None:
        """The next frame the child sent, in order; None after the timeout or when none will come.

        Frames sent before the child ended are still given after it ended. Reading goes on by
        itself, so a caller that is slow never blocks the child.
        """

    def terminate(self) -> None:
        """SIGTERM to the process group. Safe to repeat, and when it has ended."""

    def kill(self) -> None:
        """SIGKILL to everything the child started. Safe to repeat, and when it has ended."""

    def ended(self) -> ChildEnd | None:
        """None while it runs; afterwards always the same value."""

    def memory_bytes(self) -> int:
        """Resident memory of the child and all it started; 0 when it has ended."""
