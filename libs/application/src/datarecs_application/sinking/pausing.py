"""Whether a task of a paused sink has nothing left to do; its process can end then.

Decided from the calls of the process alone, so that a task which is ended needs no word about it.
"""

from dataclasses import dataclass

from datarecs_core.sink.checkpoint import SinkState, TaskReport, TaskWish


@dataclass(slots=True)
class PauseProgress:
    """Of one process."""

    _since: int | None = None
    """Control offset of the checkpoint when the pause was first read; None: nothing pauses."""
    _state: SinkState | None = None
    _report: TaskReport | None = None
    """The last one since then: nothing was read after it."""

    def note_state(self, state: SinkState) -> None:
        """In the order of the calls."""
        self._state = state
        if state.wish is not TaskWish.PAUSE:
            self._since = self._report = None
        elif self._since is None and state.checkpoint.lineage is not None:
            self._since = state.checkpoint.control_offset

    def note_report(self, report: TaskReport) -> None:
        if self._since is not None:
            self._report = report

    @property
    def is_over(self) -> bool:
        """A cycle was completed since the pause began, and everything that was read is accepted.

        A vote that is not committed yet is of a task that is not over: it coordinates once the
        others have ended.
        """
        state, report = self._state, self._report
        if self._since is None or state is None or report is None or report.error_code:
            return False
        checkpoint = state.checkpoint
        accepted = {name: one.accepted for name, one in checkpoint.partitions.items()}
        return checkpoint.control_offset > self._since and all(
            accepted.get(partition, -1) >= position
            for partition, position in report.positions.items()
        )
