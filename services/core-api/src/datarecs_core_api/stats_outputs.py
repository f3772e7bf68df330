"""The figures of `GET /system/stats`, with the names of the source of this architecture."""

from pydantic import NonNegativeInt

from datarecs_core_api.outputs import Out
from datarecs_core_api.published_types import Line


class WatcherStats(Out):
    """Watches of declared objects."""

    watch_loop_iterations: NonNegativeInt
    """Reads of the feed of changes."""
    changes_detected: NonNegativeInt
    """Changes that were read."""
    events_published: NonNegativeInt
    """Events of declared objects that were sent."""
    cache_hit_ratio: float
    """Part of the reads of stored declarations that needed no decoding; 0 to 1."""
    average_poll_duration: Line
    """Of a read of the feed, such as `150ms`."""


class ControllerStats(Out):
    """Reconciles of declared objects."""

    reconciliations_total: NonNegativeInt
    reconciliations_successful: NonNegativeInt
    reconciliations_failed: NonNegativeInt
    """Errors, timeouts and terminal errors."""
    reconciliations_requeued: NonNegativeInt
    """Repeated later without a failure."""
    average_reconciliation_time: Line
    """Such as `2.3s`."""


class SchedulerStats(Out):
    """Loops that act when a time comes: schedules, timers of runs, retention."""

    scheduler_loop_iterations: NonNegativeInt
    resources_processed: NonNegativeInt
    state_transitions: NonNegativeInt
    """Status changes of runs."""
    cleanup_operations: NonNegativeInt
    """Objects that retention policies removed."""
    average_loop_duration: Line
    """Of one pass, such as `5.2s`."""


class StatsOut(Out):
    """Figures of the whole platform, summed over the processes that run."""

    watcher: WatcherStats
    controller: ControllerStats
    scheduler: SchedulerStats
