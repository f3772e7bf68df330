"""Report the progress of a stage: rows read of all rows.

Tasks count the rows that they read (`row_counts`). Separate from the engine because nothing here
may fail a run or affect its result.
"""

from collections.abc import Callable
from contextlib import suppress


class RowProgress:
    """A Check of readers of rows; its reports never decrease and never exceed the total.

    Args:
        expected: rows of all sources; 0 if unknown, and then nothing is reported.
        report: called with the rows read so far, on the thread of the check.
    """

    def __init__(self, *, expected: int, report: Callable[[int], None]) -> None:
        self._expected, self._report = expected, report
        self._readers: tuple[Callable[[], int], ...] = ()
        self.rows = 0
        """Reported so far."""

    def reads(self, reader: Callable[[], int]) -> None:
        """Also check this reader from now on; the largest number counts."""
        self._readers = (*self._readers, reader)

    def __call__(self, *, last: bool) -> bool:
        """Stop reports; the engine sends the last report with its results."""
        if last or not self._expected:
            return False
        # A progress report must not fail the work: only this report is lost.
        with suppress(Exception):
            rows = min(self._expected, max((read() for read in self._readers), default=0))
            if rows > self.rows:
                self.rows = rows
                self._report(rows)
        return True
