"""The messages between child and supervisor, as JSON, both directions in one place.

The child reads untrusted data, so the supervisor trusts nothing: every field is checked by type,
ids come from the lease and never from a frame, and a frame that does not fit ends the child.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from errno import ENOSPC
from typing import TypeVar

from datarecs_core.comparison.results.payload import ComparisonPayload, TolerancePayload
from datarecs_core.errors.base import DatarecsError, RunErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.errors.security import SecurityCode
from datarecs_core.errors.storage import StorageCode
from datarecs_core.runs.events import (
    JoinStats,
    ProgressEvent,
    RunComparisonCompleted,
    RunComparisonErrored,
    RunComparisonStarted,
    RunExtractionCompleted,
    RunExtractionErrored,
    RunExtractionStarted,
    RunRowsProcessed,
    RunStageCompleted,
    RunStageErrored,
    RunStageStarted,
    StageError,
    StageErrorCode,
    ToleranceCount,
)
from datarecs_core.runs.model import Run, RunError, RunResult
from datarecs_core.runs.numbers import check_numbers
from datarecs_core.runs.wording import storable_text

READY, PING, PINNED, EVENT, FINISHED = "ready", "ping", "pinned", "event", "finished"
JAVA_ENDED, NOT_STARTED = "java_ended", "not_started"
"""Types of the child's frames."""
RUN, STOP = "run", "stop"
"""Types of the supervisor's frames."""

T = TypeVar("T")


class BadFrameError(Exception):
    """The child sent a frame that a correct child never sends."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Typed access to a frame's fields."""

    fields: Mapping[str, object]

    def of(self, name: str, kind: type[T]) -> T:
        value = self.fields.get(name)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise BadFrameError(f"{name} is not of type {kind.__name__}")
        return value

    def maybe(self, name: str, kind: type[T]) -> T | None:
        return None if self.fields.get(name) is None else self.of(name, kind)

    def counts(self, name: str) -> dict[str, int]:
        counts = {str(key): value for key, value in self.of(name, dict).items()}
        if not all(isinstance(value, int) for value in counts.values()):
            raise BadFrameError(f"{name} holds a value that is not a count")
        return counts


_DETAIL_OF: Mapping[type, RunDetail] = {
    StorageCode: RunDetail.RESULT_STORE_FAILED,
    SecurityCode: RunDetail.CONNECTION_FAILED,
}
"""What a run calls the errors of another family."""


def failure_words(error: Exception) -> dict[str, object]:
    """The error as a child reports it: code, detail and a message without measured values."""
    if isinstance(error, MemoryError):
        detail, message = RunDetail.OUT_OF_MEMORY, "Python ran out of memory."
    elif isinstance(error, OSError) and error.errno == ENOSPC:
        detail, message = RunDetail.SPILL_EXHAUSTED, "the disk for intermediate data is full"
    elif isinstance(error, DatarecsError) and error.code.name in RunDetail.__members__:
        detail, message = RunDetail[error.code.name], str(error)
    elif isinstance(error, DatarecsError):
        detail = _DETAIL_OF.get(type(error.code), RunDetail.COMPARISON_FAILED)
        message = f"{error.code.docs_id} {error}"
    else:
        detail, message = RunDetail.COMPARISON_FAILED, f"unexpected {type(error).__name__}"
    code = detail.entry.run_code or RunErrorCode.UNKNOWN
    return {"code": code.value, "detail_code": detail.name, "message": storable_text(message)}


def event_frame(name: str, **fields: object) -> dict[str, object]:
    return {"type": EVENT, "event": name, **fields}


def outdates(later: Mapping[str, object], earlier: Mapping[str, object]) -> bool:
    """Whether nothing is lost without the earlier frame: both count rows of one stage, in all."""
    keys = ("type", "event", "stage_name")
    counted = earlier.get("type") == EVENT and earlier.get("event") == "rows_processed"
    return counted and all(later.get(key) == earlier.get(key) for key in keys)


def read_event(run: Run, frame: Mapping[str, object]) -> ProgressEvent:
    """The progress event of a frame, under the ids of the lease.

    Raises:
        BadFrameError: the frame does not fit.
        InconsistentCountsError: its numbers contradict each other.
    """
    reader = Reader(frame)
    name = reader.of("event", str)
    try:
        make = _EVENTS[name]
    except KeyError as cause:
        raise BadFrameError("an unknown event") from cause
    event = make(run, reader)
    if isinstance(event, RunComparisonCompleted | RunStageCompleted):
        check_numbers(event)
    return event


def _stage_started(run: Run, reader: Reader) -> RunStageStarted:
    return RunStageStarted(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        attempt=run.attempt,
        stage_name=reader.of("stage_name", str),
    )


def _extraction_started(run: Run, reader: Reader) -> RunExtractionStarted:
    return RunExtractionStarted(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        attempt=run.attempt,
        extraction_index=reader.of("extraction_index", int),
        connection_type=reader.of("connection_type", str),
        stage_name=reader.maybe("stage_name", str),
    )


def _extraction_completed(run: Run, reader: Reader) -> RunExtractionCompleted:
    return RunExtractionCompleted(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        attempt=run.attempt,
        extraction_index=reader.of("extraction_index", int),
        rows_extracted=reader.of("rows_extracted", int),
        stage_name=reader.maybe("stage_name", str),
    )


def _run_error(reader: Reader) -> RunError:
    error = Reader(reader.of("error", dict))
    try:
        code = RunErrorCode(error.of("code", str))
    except ValueError as cause:
        raise BadFrameError("an unknown code") from cause
    return RunError(
        code=code,
        message=storable_text(error.of("message", str)),
        detail_code=error.maybe("detail_code", str),
    )


def _extraction_errored(run: Run, reader: Reader) -> RunExtractionErrored:
    error = _run_error(reader)
    return RunExtractionErrored(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        attempt=run.attempt,
        extraction_index=reader.of("extraction_index", int),
        error=RunError(
            code=RunErrorCode.QUERY_FAILED, message=error.message, detail_code=error.detail_code
        ),
        stage_name=reader.maybe("stage_name", str),
    )


def _comparison_started(run: Run, reader: Reader) -> RunComparisonStarted:
    return RunComparisonStarted(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        attempt=run.attempt,
        stage_name=reader.of("stage_name", str),
        input_source_count=reader.of("input_source_count", int),
    )


def _rows_processed(run: Run, reader: Reader) -> RunRowsProcessed:
    return RunRowsProcessed(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        attempt=run.attempt,
        stage_name=reader.of("stage_name", str),
        row_count=reader.of("row_count", int),
        mismatch_count=reader.of("mismatch_count", int),
    )


def _stage_error(reader: Reader) -> StageError:
    error = _run_error(reader)
    return StageError(
        code=StageErrorCode.COMPARISON_FAILED,
        message=error.message,
        detail_code=error.detail_code,
    )


def _comparison_errored(run: Run, reader: Reader) -> RunComparisonErrored:
    return RunComparisonErrored(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        attempt=run.attempt,
        stage_name=reader.of("stage_name", str),
        error=_stage_error(reader),
    )


def _stage_errored(run: Run, reader: Reader) -> RunStageErrored:
    return RunStageErrored(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        attempt=run.attempt,
        stage_name=reader.of("stage_name", str),
        error=_stage_error(reader),
    )


def _tolerances(reader: Reader) -> tuple[ToleranceCount, ...]:
    return tuple(_tolerance(Reader(_object(item))) for item in reader.of("tolerances", list))


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise BadFrameError("an object is missing")
    return value


def _tolerance(reader: Reader) -> ToleranceCount:
    exact = reader.of("tolerance_value_exact", str)
    try:
        value = Decimal(exact)
    except ArithmeticError as cause:
        raise BadFrameError("a tolerance is not a number") from cause
    return ToleranceCount(
        measure_name=reader.of("measure_name", str),
        tolerance_type=reader.of("tolerance_type", str),
        tolerance_value=value,
        tolerance_value_exact=exact,
        within_tolerance_count=reader.of("within_tolerance_count", int),
        outside_tolerance_count=reader.of("outside_tolerance_count", int),
        passed=reader.of("passed", bool),
        combine=reader.maybe("combine", str),
        own_within_count=reader.maybe("own_within_count", int),
    )


def _result(reader: Reader) -> RunResult:
    try:
        return RunResult(reader.of("result", str))
    except ValueError as cause:
        raise BadFrameError("an unknown result") from cause


def _comparison_completed(run: Run, reader: Reader) -> RunComparisonCompleted:
    names = reader.of("source_names", dict)
    return RunComparisonCompleted(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        attempt=run.attempt,
        stage_name=reader.of("stage_name", str),
        source_row_counts=reader.counts("source_row_counts"),
        join_stats=JoinStats(
            matched_groups=reader.of("matched_groups", int),
            unmatched_by_source=reader.counts("unmatched_by_source"),
        ),
        tolerances=_tolerances(reader),
        result=_result(reader),
        rows_compared=reader.of("rows_compared", int),
        rows_matched=reader.of("rows_matched", int),
        rows_unmatched=reader.of("rows_unmatched", int),
        source_names={str(key): str(value) for key, value in names.items()},
        missing_by_source=reader.counts("missing_by_source"),
        unmatched_groups=reader.of("unmatched_groups", int),
        in_flight_resolved=reader.maybe("in_flight_resolved", int),
    )


def _stage_completed(run: Run, reader: Reader) -> RunStageCompleted:
    return RunStageCompleted(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        attempt=run.attempt,
        stage_name=reader.of("stage_name", str),
        result=_result(reader),
        tolerances=_tolerances(reader),
    )


_EVENTS: Mapping[str, Callable[[Run, Reader], ProgressEvent]] = {
    "stage_started": _stage_started,
    "extraction_started": _extraction_started,
    "extraction_completed": _extraction_completed,
    "extraction_errored": _extraction_errored,
    "comparison_started": _comparison_started,
    "rows_processed": _rows_processed,
    "comparison_completed": _comparison_completed,
    "comparison_errored": _comparison_errored,
    "stage_completed": _stage_completed,
    "stage_errored": _stage_errored,
}


def payload_fields(payload: ComparisonPayload) -> dict[str, object]:
    """A stage's numbers as frame fields: decimals travel as exact text alone."""
    return {**payload, "tolerances": [_plain(entry) for entry in payload["tolerances"]]}


def _plain(entry: TolerancePayload) -> dict[str, object]:
    return {name: value for name, value in entry.items() if name != "tolerance_value"}
