"""Stopping the Spark jobs of one run from another thread, and noticing that it happened.

Apart from the engine because whoever cancels holds the runtime and not the engine.
"""

import threading

from pyspark import SparkContext

from datarecs_spark.errors import CancelledError

_GROUP = "datarecs"


class Cancellation:
    """The wish to stop one run; once cancelled it stays so."""

    def __init__(self, context: SparkContext) -> None:
        self._context, self._wanted = context, threading.Event()

    def cancel(self) -> None:
        """Safe to repeat, and before or after any job."""
        self._wanted.set()
        self._context.cancelJobGroup(_GROUP)

    def name_jobs(self) -> None:
        """What this thread starts from now on can be cancelled.

        Raises:
            CancelledError: it already was.
        """
        self.check()
        self._context.setJobGroup(_GROUP, "comparison", interruptOnCancel=True)

    def check(self) -> None:
        """Raises CancelledError once somebody has cancelled."""
        if self._wanted.is_set():
            raise CancelledError
