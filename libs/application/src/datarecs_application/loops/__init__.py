"""What a loop is: a named, endless take-decide-act-record-wait, one file each in this package.

Its own module because a process knows loops by this face alone: it starts each on a thread, watches
that the thread lives, and ends all of them by one latch.
"""

from typing import Protocol

from datarecs_application.ports.outside import Wake


class Loop(Protocol):
    """Work without end on a thread of its own. Owns no rule; a bad item is that item's problem."""

    @property
    def name(self) -> str:
        """snake_case, unique in the process; shown by `/livez`, logs and metrics."""

    def run(self, stop: Wake) -> None:
        """Work until `stop` is set, then finish or return what is held, and come back.

        Called once, on the loop's thread. A return before `stop`, or an exception, ends the whole
        process with an error: a loop that cannot go on has no business staying half alive.
        """


class StepSignals(Protocol):
    """How a loop tells that a step is done: silent in production, waited for in tests."""

    def reached(self, step: str) -> None:
        """A snake_case name that never changes, such as `claimed` or `committed`."""


class Silent:
    """The signals of production."""

    def reached(self, step: str) -> None:
        pass
