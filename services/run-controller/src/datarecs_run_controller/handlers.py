"""Handlers of the run-controller: ends close runs, progress is recorded, requests wake it."""

from dataclasses import dataclass

from datarecs_application.ports.state import Transaction
from datarecs_application.runs import EventRecord, record_end, record_progress
from datarecs_core.runs.events import RunCompleted, RunErrored, RunEvent
from datarecs_events.codec import Received, read_data


@dataclass(frozen=True, slots=True)
class Handlers:
    """The unit of work reports metrics and logs of a run after its commit."""

    def end_run(self, tx: Transaction, received: Received) -> None:
        """run.completed or run.errored: the one place where a run is closed by its execution."""
        end, envelope = received.event, received.envelope
        if not isinstance(end, RunCompleted | RunErrored):
            raise TypeError(f"subscribed to ends of runs, got {type(end).__name__}")
        record = EventRecord(
            event_id=envelope.id,
            type=envelope.type,
            source=envelope.source,
            time=envelope.time,
            data=read_data(received.data),
        )
        record_end(tx, end, record)

    def note_progress(self, tx: Transaction, received: Received) -> None:
        """Shows activity; in Argo the first one sets the run RUNNING."""
        event = received.event
        if not isinstance(event, RunEvent):
            raise TypeError(f"subscribed to progress of runs, got {type(event).__name__}")
        record_progress(tx, event, event_id=received.envelope.id)

    def wake_launching(
        self,
        tx: Transaction,
        received: Received,  # noqa: ARG002  the row is enough
    ) -> None:
        """run.triggered, run.cancel_requested: only a hint, the launching loop reads the rows."""
        tx.wake()
