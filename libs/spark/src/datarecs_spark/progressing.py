"""How far a stage has come, told while it works: rows that were read, of those that there are.

Counts are taken where they are kept anyway: by Spark of its tasks, by the kernel of its batches.
Apart from the engine because nothing here may fail a run, nor decide anything in it.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from pyspark import SparkContext

from datarecs_spark.errors import SparkFailure

_OVER = frozenset({"COMPLETE", "FAILED", "SKIPPED"})


class RowsTold:
    """A Look at readers of rows; what it tells never falls and is never more than there are.

    Args:
        expected: rows of all sources; 0 where nobody knows, and then nothing is told.
        tell: takes rows that were read so far, on the thread that looks.
    """

    def __init__(self, *, expected: int, tell: Callable[[int], None]) -> None:
        self._expected, self._tell = expected, tell
        self._readers: tuple[Callable[[], int], ...] = ()
        self.rows = 0
        """Told so far."""

    def reads(self, reader: Callable[[], int]) -> None:
        """From now on ask this one, too: the reader that is furthest tells."""
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
                self._tell(rows)
        return True


class SparkRows:
    """Rows that Spark's own readers have read since they were first looked at.

    Args:
        context: whose jobs are those of one stage alone.
        readings: how often every row is read.
    """

    def __init__(self, context: SparkContext, *, readings: int) -> None:
        self._context, self._readings = context, readings
        self._over: dict[int, int] = {}
        """Rows by Spark's number of a stage that does not go on."""
        self._known = range(0)
        """Of all its stages so far."""

    def __call__(self) -> int:
        # The store is there without the page that shows it. Of tasks in this process it knows what
        # they have read when they are done, heartbeats or not.
        store: Any = self._context._jsc.sc().statusStore()  # noqa: SLF001 - Python has no other way to it
        active = store.activeStages()
        found = [active.apply(at) for at in range(active.size())]
        running = {int(stage.stageId()): int(stage.inputRecords()) for stage in found}
        self._learn(sorted(running))
        for number in self._known:
            if number not in running and number not in self._over:
                self._end(store, number)
        return sum((*running.values(), *self._over.values())) // self._readings

    def _learn(self, running: Sequence[int]) -> None:
        if running:
            first = self._known.start if self._known else running[0]
            self._known = range(first, max(self._known.stop, running[-1] + 1))

    def _end(self, store: Any, number: int) -> None:  # noqa: ANN401 - py4j has no types
        """What a stage had read when it ended; it may only wait for others."""
        try:
            stage = store.lastStageAttempt(number)
            if str(stage.status()) in _OVER:
                self._over[number] = int(stage.inputRecords())
        except SparkFailure:
            return
