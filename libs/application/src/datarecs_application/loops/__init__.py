"""What a loop is: a named, endless take-decide-act-record-wait, one file each in this package.

A separate module because a process uses loops only through this interface: it starts each on a
thread, checks that the thread lives, and ends all of them by one latch.
"""

from typing import Protocol

from datarecs_application.ports.outside import Wake


class Loop(Protocol):
    """Endless work on a separate thread. Contains no rule; a bad item affects only itself."""

    @property
    def name(self) -> str:
        """snake_case, unique in the process; shown by `/livez`, logs and metrics."""

    def run(self, stop: Wake) -> None:
        """Work until `stop` is set, then finish or return the items that are held, and return.

        Called once, on the loop's thread. A return before `stop`, or an exception, ends the whole
        process with an error: a loop that cannot continue must not stay half alive.
        """


class StepSignals(Protocol):
    """How a loop signals a finished step: silent in production, awaited in tests."""

    def reached(self, step: str) -> None:
        """A snake_case name that never changes, such as `claimed` or `committed`."""


class Silent:
    """The signals of production."""

    def reached(self, step: str) -> None:
        pass
