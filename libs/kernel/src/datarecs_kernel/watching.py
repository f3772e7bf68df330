"""One thread beside a stage: once a second it checks the work, and once more when that is done.

Apart from what is checked, because one thread is enough for all of it.
"""

from collections.abc import Sequence
from threading import Event, Thread
from typing import Protocol, Self

CHECK_EVERY_S = 1.0


class Check(Protocol):
    """Something that is checked on the thread of the watch, and reports from there."""

    def __call__(self, *, last: bool) -> bool:
        """Whether it shall be checked again; the last time comes when the work is done."""


class Watch:
    """Runs the checks until it is left."""

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
