"""Cancel the Spark jobs of one run from another thread, and detect the cancellation.

Separate from the engine because the caller has the runtime and not the engine.
"""

import threading

from pyspark import SparkContext

from datarecs_core.errors.base import DatarecsError
from datarecs_spark.errors import CancelledError

_GROUP = "datarecs"


class Cancellation:
    """The cancellation of one run; it cannot be undone."""

    def __init__(self, context: SparkContext) -> None:
        self._context, self._wanted = context, threading.Event()
        self._reason: DatarecsError | None = None

    def cancel(self, reason: DatarecsError | None = None) -> None:
        """Safe to repeat, and before or after any job.

        Args:
            reason: the error that `check` raises; None for a request of a user.
        """
        self._reason = self._reason or reason
        self._wanted.set()
        self._context.cancelJobGroup(_GROUP)

    def name_jobs(self) -> None:
        """Make the jobs that this thread starts from now on cancellable.

        Raises:
            DatarecsError: as `check` does.
        """
        self.check()
        self._context.setJobGroup(_GROUP, "comparison", interruptOnCancel=True)

    def check(self) -> None:
        """Raises CancelledError, or the reason, after the run is cancelled."""
        if self._wanted.is_set():
            raise self._reason or CancelledError
