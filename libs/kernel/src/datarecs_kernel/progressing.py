"""How far a stage has come, reported while it works: rows that were read, of those that there are.

Tasks count what they read (`row_counts`). Apart from the engine because nothing here may fail a
run, nor decide anything in it.
"""

from collections.abc import Callable
from contextlib import suppress


class RowProgress:
    """A Check of readers of rows; what it reports never falls and is never more than there are.

    Args:
        expected: rows of all sources; 0 where nobody knows, and then nothing is reported.
        report: takes rows that were read so far, on the thread that checks.
    """

    def __init__(self, *, expected: int, report: Callable[[int], None]) -> None:
        self._expected, self._report = expected, report
        self._readers: tuple[Callable[[], int], ...] = ()
        self.rows = 0
        """Reported so far."""

    def reads(self, reader: Callable[[], int]) -> None:
        """From now on read this one, too: the reader that is furthest counts."""
        self._readers = (*self._readers, reader)

    def __call__(self, *, last: bool) -> bool:
        """The last report is the engine's own, with all that it found."""
        if last or not self._expected:
            return False
        # Who only wants to know may not end the work: one report less is all that fails.
        with suppress(Exception):
            rows = min(self._expected, max((read() for read in self._readers), default=0))
            if rows > self.rows:
                self.rows = rows
                self._report(rows)
        return True
