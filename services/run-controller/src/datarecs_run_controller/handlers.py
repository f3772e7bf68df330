"""What the run-controller does about events: ends close runs, progress is noted, wishes wake it."""

from dataclasses import dataclass

from datarecs_application.ports.state import Transaction
from datarecs_application.runs import EventRecord, record_end, record_progress
from datarecs_core.runs.events import RunCompleted, RunErrored, RunEvent
from datarecs_events.codec import Received, read_data


@dataclass(frozen=True, slots=True)
class Handlers:
    """What is counted and logged of a run is told by the unit of work, once it is committed."""

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
        """A sign of life; under Argo the first one says that the run is RUNNING."""
        event = received.event
        if not isinstance(event, RunEvent):
            raise TypeError(f"subscribed to progress of runs, got {type(event).__name__}")
        record_progress(tx, event, event_id=received.envelope.id)

    def wake_launching(
        self,
        tx: Transaction,
        received: Received,  # noqa: ARG002  the row says it all
    ) -> None:
        """run.triggered, run.cancel_requested: only a hint, the launching loop reads the rows."""
        tx.wake()
