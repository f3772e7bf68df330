"""The child's side of every progress frame: each report becomes a frame, nothing is decided."""

from collections.abc import Mapping
from datetime import timedelta

from datarecs_application.assignments import Pins
from datarecs_application.child_frames import (
    PINNED,
    event_frame,
    failure_words,
    payload_fields,
)
from datarecs_core.comparison.planning.documents import plan_hash
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.planning.scan import Pin
from datarecs_core.comparison.results.payload import ComparisonPayload
from datarecs_core.documents import to_document
from datarecs_runtime.frames import SupervisorChannel


class FrameReporter:
    """Port ProgressReporter over the pipe to the supervisor."""

    def __init__(self, channel: SupervisorChannel) -> None:
        self._channel = channel

    def pinned(self, pins: Mapping[str, Pin], plan: ComparisonPlan) -> None:
        self._channel.send(
            {
                "type": PINNED,
                "pins": {**_document(Pins(by_source=pins)), "plan_hash": plan_hash(plan)},
            }
        )

    def stage_started(self, stage: str) -> None:
        self._send_event("stage_started", stage_name=stage)

    def extraction_started(self, index: int, kind: str, stage: str | None = None) -> None:
        self._send_event(
            "extraction_started", extraction_index=index, connection_type=kind, stage_name=stage
        )

    def extraction_progressed(self, index: int, rows: int, stage: str | None = None) -> None:
        """No event for this; rows are reported when the source has been read."""

    def extraction_completed(self, index: int, rows: int, stage: str | None = None) -> None:
        self._send_event(
            "extraction_completed", extraction_index=index, rows_extracted=rows, stage_name=stage
        )

    def extraction_errored(self, index: int, error: Exception, stage: str | None = None) -> None:
        self._send_event(
            "extraction_errored",
            extraction_index=index,
            error=failure_words(error),
            stage_name=stage,
        )

    def comparison_started(self, stage: str, sources: int) -> None:
        self._send_event("comparison_started", stage_name=stage, input_source_count=sources)

    def waiting(self, stage: str, groups: int, length: timedelta) -> None:
        """No event for this; the child's pings show that it lives."""

    def rows_processed(self, stage: str, rows: int, mismatches: int) -> None:
        self._send_event(
            "rows_processed", stage_name=stage, row_count=rows, mismatch_count=mismatches
        )

    def comparison_completed(self, payload: ComparisonPayload) -> None:
        self._send_event("comparison_completed", **payload_fields(payload))

    def comparison_errored(self, stage: str, error: Exception) -> None:
        self._send_event("comparison_errored", stage_name=stage, error=failure_words(error))

    def stage_completed(self, payload: ComparisonPayload) -> None:
        self._send_event("stage_completed", **payload_fields(payload))

    def stage_errored(self, stage: str, error: Exception) -> None:
        self._send_event("stage_errored", stage_name=stage, error=failure_words(error))

    def _send_event(self, name: str, **fields: object) -> None:
        self._channel.send(event_frame(name, **fields))


def _document(pins: Pins) -> Mapping[str, object]:
    document = to_document(pins)
    if not isinstance(document, Mapping):
        raise TypeError("a dataclass is written as an object")
    return document
