"""Every event of a run, with the field names of Source 001.

An event is what happened and nothing about its transport: id, time, sequence and topic belong to
the envelope (`datarecs_events`). Fields are in the order of the wire. A field without default is
required there; None is left out. A separate module because external readers depend on these names.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from datarecs_core.fields import AtLeast, Known, PerSource
from datarecs_core.runs.model import RunError, RunMode, RunResult, RunSummary
from datarecs_core.values import JobId, RunId, TenantId

SCHEDULED = "scheduled"
"""The user id where a schedule triggered or cancelled."""

ToleranceType = Annotated[str, Known(("ABSOLUTE", "PERCENTAGE", "DURATION", "EXACT"))]
ConnectionType = Annotated[str, Known(("postgres", "parquet", "csv", "json", "iceberg"))]
Counts = Annotated[Mapping[str, int], PerSource()]
Names = Annotated[Mapping[str, str], PerSource()]


class StageErrorCode(StrEnum):
    """The run-level codes and the one that only comparisons and stages have."""

    TIMED_OUT = "TIMED_OUT"
    CRASHED = "CRASHED"
    QUERY_FAILED = "QUERY_FAILED"
    UNKNOWN = "UNKNOWN"
    COMPARISON_FAILED = "COMPARISON_FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageError:
    """Why a comparison or a stage has no verdict."""

    code: StageErrorCode
    """One of the run-level codes, or COMPARISON_FAILED."""
    message: str
    """For people: at most 2,000 characters, redacted, no measured values."""
    detail_code: str | None = None
    """The finer cause, a name of the error catalogue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToleranceCount:
    """How one declared tolerance of a measure fared over the matched groups."""

    measure_name: str
    """The measure as the job names it; `$rows` means multiplicity."""
    tolerance_type: ToleranceType
    """The kind of tolerance."""
    tolerance_value: Decimal
    """The bound, digit for digit: seconds for DURATION, percent for PERCENTAGE, 0 for EXACT."""
    tolerance_value_exact: str | None = None
    """The same bound as text, for readers that use floats for numbers."""
    within_tolerance_count: int
    """Matched groups inside all tolerances of the measure, combined as it declares."""
    outside_tolerance_count: int
    """Matched groups outside; with the one above it makes up all matched groups."""
    passed: bool
    """No group is outside."""
    combine: Annotated[str, Known(("all", "any"))] | None = None
    """How several tolerances of the measure are joined."""
    own_within_count: int | None = None
    """Matched groups inside this tolerance taken alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinStats:
    """Matched and unmatched groups of the sources."""

    matched_groups: int
    """Groups that every source has."""
    unmatched_by_source: Counts
    """Per source the groups that it has and that are missing in at least one other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent:
    """What every event of a run carries; numbered per run under the lock of its row."""

    run_id: RunId
    """The run."""
    job_id: JobId
    """The uid of the reconciliation job."""
    tenant_id: TenantId
    """The owner, equal to the envelope's `tenantid`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEvent(RunEvent):
    """What belongs to one try of the execution."""

    attempt: Annotated[int, AtLeast(1)] | None = None
    """Which try, counted from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTriggered(RunEvent):
    """A user, a program or a schedule triggered a run of the job."""

    mode: RunMode
    """IMMEDIATE: by a user or program; SCHEDULED: by a cron slot."""
    triggered_by: str
    """User id, or the literal `scheduled`."""
    reason: str | None = None
    """The text of the user; absent without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQueued(RunEvent):
    """The execution backend accepted the run."""

    argo_workflow_name: str
    """The execution name, in every backend (the field name is from Source 001)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunQueueErrored(RunEvent):
    """The execution backend did not accept the run; `run.finalised` follows in the same commit."""

    reason: str
    """Why, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinalised(AttemptEvent):
    """The authoritative end, after the commit in the database: the only notification trigger.

    Exactly one of `result` and `error` is present. A cancelled run never has one.
    """

    result: RunResult | None = None
    """The verdict."""
    error: RunError | None = None
    """Why there is none."""
    summary: RunSummary | None = None
    """The few numbers that lists and mails show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCancelRequested(RunEvent):
    """A cancel was requested: for the audit only, it changes no status."""

    cancelled_by: str
    """User id, or the literal `scheduled`."""
    reason: str
    """What the user wrote, or `User requested cancellation`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCancelled(RunEvent):
    """The authoritative end of a cancelled run; repeats the first request."""

    cancelled_by: str
    """User id of the first request, or the literal `scheduled`."""
    reason: str
    """The first request's reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCompleted(AttemptEvent):
    """Raw outcome: the execution compared to the end. May precede the database."""

    workflow_name: str
    """The execution name."""
    result: RunResult
    """The result of the comparison; UNMATCHED is a business result, never an error."""
    summary: RunSummary | None = None
    """The numbers of the result file, which `run.finalised` repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunErrored(AttemptEvent):
    """Raw outcome: the execution could not run to completion. May precede the database."""

    workflow_name: str
    """The execution name."""
    error: RunError
    """One of the four codes, a message, the finer cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRowsProcessed(AttemptEvent):
    """Progress of a stage: cumulative per run, stage and attempt, never falling."""

    stage_name: str
    """The stage."""
    row_count: int
    """Rows read so far."""
    mismatch_count: int
    """Mismatches so far; 0 until the stage's last frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExtractionStarted(AttemptEvent):
    """The extract of a source began."""

    extraction_index: int
    """The source's position in the job; a scoped re-read repeats it."""
    connection_type: ConnectionType
    """The kind of source."""
    stage_name: str | None = None
    """The stage for which a scoped re-read happens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExtractionCompleted(AttemptEvent):
    """The extract of a source is complete."""

    extraction_index: int
    """The source's position in the job."""
    rows_extracted: int
    """Rows the source delivered, after its filter."""
    stage_name: str | None = None
    """The stage for which a scoped re-read happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExtractionErrored(AttemptEvent):
    """The extract of a source failed."""

    extraction_index: int
    """The source's position in the job."""
    error: RunError
    """The reason, as far as the source or the connector reports it."""
    stage_name: str | None = None
    """The stage for which a scoped re-read happened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparisonStarted(AttemptEvent):
    """The comparison of a stage began."""

    stage_name: str | None = None
    """The stage."""
    input_source_count: Annotated[int, AtLeast(2)]
    """How many sources it compares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparisonCompleted(AttemptEvent):
    """The comparison of a stage ended with a result; its numbers agree (`numbers`)."""

    stage_name: str | None = None
    """The stage."""
    source_row_counts: Counts
    """Rows of each source in the stage."""
    join_stats: JoinStats
    """Matched and unmatched groups of the sources."""
    tolerances: tuple[ToleranceCount, ...]
    """One entry per declared tolerance; failing ones first where the list was cut."""
    result: RunResult
    """MATCHED when no group is unmatched and every tolerance passed."""
    rows_compared: int
    """Groups in the union of all sources (groups, despite the name)."""
    rows_matched: int
    """Matched groups with every measure within tolerance."""
    rows_unmatched: int
    """The other groups of the union."""
    source_names: Names | None = None
    """The names of `source_<n>`."""
    missing_by_source: Counts | None = None
    """Per source the groups that are missing in it."""
    unmatched_groups: int | None = None
    """Groups that are missing in at least one source."""
    in_flight_resolved: int | None = None
    """Groups that agreed when they were read again."""
    tolerances_total: int | None = None
    """How many entries the whole list has, where it was cut to 64 KiB."""
    tolerances_truncated: bool | None = None
    """True where the list was cut; `dataref` leads to all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparisonErrored(AttemptEvent):
    """The comparison of a stage failed."""

    stage_name: str | None = None
    """The stage."""
    error: StageError
    """Why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStageStarted(AttemptEvent):
    """A stage began."""

    stage_name: str
    """The stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStageCompleted(AttemptEvent):
    """A stage ended with a verdict: the unit of pass and fail."""

    stage_name: str
    """The stage."""
    result: RunResult
    """Its verdict."""
    tolerances: tuple[ToleranceCount, ...]
    """One entry per declared tolerance; failing ones first where the list was cut."""
    tolerances_total: int | None = None
    """How many entries the whole list has, where it was cut to 64 KiB."""
    tolerances_truncated: bool | None = None
    """True where the list was cut; `dataref` leads to all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStageErrored(AttemptEvent):
    """A stage failed; `run.errored` follows."""

    stage_name: str
    """The stage."""
    error: StageError
    """Why."""


RunEnd = RunCompleted | RunErrored
"""The raw outcome of an execution."""

ProgressEvent = (
    RunRowsProcessed
    | RunExtractionStarted
    | RunExtractionCompleted
    | RunExtractionErrored
    | RunComparisonStarted
    | RunComparisonCompleted
    | RunComparisonErrored
    | RunStageStarted
    | RunStageCompleted
    | RunStageErrored
)
"""Events of a worker during the work; they never decide an end."""
