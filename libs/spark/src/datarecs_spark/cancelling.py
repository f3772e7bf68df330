"""Stopping the Spark jobs of one run from another thread, and noticing that it happened.

Apart from the engine because whoever cancels holds the runtime and not the engine.
"""

import threading

from pyspark import SparkContext

from datarecs_core.errors.base import DatarecsError
from datarecs_spark.errors import CancelledError

_GROUP = "datarecs"


class Cancellation:
    """The wish to stop one run; once cancelled it stays so."""

    def __init__(self, context: SparkContext) -> None:
        self._context, self._wanted = context, threading.Event()
        self._reason: DatarecsError | None = None

    def cancel(self, reason: DatarecsError | None = None) -> None:
        """Safe to repeat, and before or after any job.

        Args:
            reason: what `check` raises; None where somebody wished it.
        """
        self._reason = self._reason or reason
        self._wanted.set()
        self._context.cancelJobGroup(_GROUP)

    def name_jobs(self) -> None:
        """What this thread starts from now on can be cancelled.

        Raises:
            DatarecsError: as `check` does.
        """
        self.check()
        self._context.setJobGroup(_GROUP, "comparison", interruptOnCancel=True)

    def check(self) -> None:
        """Raises CancelledError, or the reason that was given, once the run is cancelled."""
        if self._wanted.is_set():
            raise self._reason or CancelledError
