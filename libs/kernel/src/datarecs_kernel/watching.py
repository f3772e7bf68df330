"""One thread per stage that runs checks once a second, and once more at the end.

Separate from the checks because one thread runs all of them.
"""

from collections.abc import Sequence
from threading import Event, Thread
from typing import Protocol, Self

CHECK_EVERY_S = 1.0


class Check(Protocol):
    """A check that runs, and reports, on the thread of the watch."""

    def __call__(self, *, last: bool) -> bool:
        """Run the check; return whether to run it again. It also runs after the work ends."""


class Watch:
    """Runs the checks until the block ends."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self._checks = tuple(checks)
        self._left = Event()
        self._thread = Thread(target=self._run_checks, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join()

    def _run_checks(self) -> None:
        checks, last = self._checks, False
        while checks and not last:
            last = self._left.wait(CHECK_EVERY_S)
            checks = tuple(check for check in checks if check(last=last))
