"""The run record for the rules: status, cancel flag, desired state, attempt, outcome.

Field names are the columns of `run` (spec run-lifecycle 6), so that row, REST and rule share one
vocabulary. Times come from the database clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.values import EventId, JobId, RunId, TenantId


class RunStatus(StrEnum):
    TRIGGERED = "TRIGGERED"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    ERRORED = "ERRORED"
    CANCELLED = "CANCELLED"
    QUEUE_ERRORED = "QUEUE_ERRORED"

    @property
    def is_terminal(self) -> bool:
        return self in _TERMINAL


_TERMINAL = frozenset(
    {RunStatus.COMPLETED, RunStatus.ERRORED, RunStatus.CANCELLED, RunStatus.QUEUE_ERRORED}
)


class RunResult(StrEnum):
    """The verdict of a run or stage: a business outcome, never an error."""

    MATCHED = "MATCHED"
    UNMATCHED = "UNMATCHED"


class RunMode(StrEnum):
    IMMEDIATE = "IMMEDIATE"
    SCHEDULED = "SCHEDULED"


class Wish(StrEnum):
    """The desired state of the execution; the launching loop brings it about."""

    RUN = "RUN"
    STOP = "STOP"


class Backend(StrEnum):
    QUEUE = "queue"
    ARGO = "argo"


class Disposition(StrEnum):
    """What became of a fact that reached a run; stored in `run_event`."""

    APPLIED = "APPLIED"
    HISTORY = "HISTORY"
    LATE = "LATE"
    CONFLICT = "CONFLICT"
    STALE_ATTEMPT = "STALE_ATTEMPT"
    SYNTHESISED = "SYNTHESISED"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunError:
    """Why a run has no verdict: one of four codes, a message for people, the finer cause."""

    code: RunErrorCode
    """One of the four codes of the wire."""
    message: str
    """At most 2,000 characters, redacted, no measured values."""
    detail_code: str | None = None
    """The finer cause, a name of the error catalogue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureGap:
    """How far a measure of one source is from the reference. Amounts are exact decimal text."""

    stage_name: str
    """The stage."""
    measure_name: str
    """The measure as the job names it."""
    source: str
    """The source that is compared with the reference."""
    reference: str
    """The reference source."""
    unit: str | None = None
    """Currency or unit of the amounts; absent in the entry of the whole measure."""
    gap: str | None = None
    """Total of the source minus total of the reference; absent where a total is unknown, for what
    does not add up (averages, extremes, prices, rates), and for a measure of several currencies or
    units, which has one entry for each."""
    missing_in_source: str | None = None
    """Amount of the reference in groups that are missing in the source."""
    missing_in_reference: str | None = None
    """Amount of the source in groups that are missing in the reference."""
    changed: str | None = None
    """Source minus reference over the groups that both have."""
    outside_tolerance_count: int | None = None
    """Groups in every source with values outside the measure's tolerance; absent in an entry
    of one unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingGroups:
    """How many groups of a stage are missing in a source."""

    stage_name: str
    """The stage."""
    source: str
    """Where they are missing."""
    groups: int
    """Groups that some other source has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LikelyCause:
    """The pattern that explains the most differences of the run; contains no value."""

    stage_name: str
    """The stage."""
    measure_name: str
    """The measure; `$presence` for keys."""
    source: str
    """The source that is compared with the reference."""
    pattern: str
    """A word such as SIGN_FLIP; new ones may be added."""
    explained: int
    """Differences that follow it."""
    of: int
    """Differences of the measure that were checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """The few numbers of a finished run that events, lists and mails show."""

    stages_total: int
    """Stages of the job."""
    stages_matched: int
    """Stages that ended MATCHED."""
    rows_compared: int
    """Groups of the executed stage that compared the most."""
    rows_matched: int
    """Of these, the groups with every measure within tolerance."""
    rows_unmatched: int
    """The other ones of these."""
    duration_ms: int
    """From the start of the attempt to its result."""
    empty: bool = False
    """All sources were empty."""
    open_breaks: int | None = None
    """Differences that are not settled: open, assigned or explained."""
    waived_breaks: int | None = None
    """Waived differences."""
    acceptance: str | None = None
    """ACCEPTED or REJECTED, absent without declared limits; never changes the result."""
    report_path: str | None = None
    """Path of the run's report below the base URL."""
    job_name: str | None = None
    """Name of the job; `run.finalised` alone has it."""
    measures: tuple[MeasureGap, ...] | None = None
    """Measures that differ, in the order of the job, then their amounts by unit; at most 20."""
    measures_total: int | None = None
    """How many there are, where the list was cut."""
    missing: tuple[MissingGroups, ...] | None = None
    """Per stage and source the groups that are missing there, at most 20."""
    likely_cause: LikelyCause | None = None
    """The common pattern of most differences, where there is one."""
    report_url: str | None = None
    """The report as an absolute URL, which needs an API key; absent without a base URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run. Immutable; every rule returns a new one."""

    tenant_id: TenantId
    run_id: RunId
    job_id: JobId
    job_name: str
    job_generation: int
    spec_hash: str
    """`sha256:` and 64 hexadecimal characters."""
    spec: Mapping[str, object]
    """The job as it stood at the trigger, canonical JSON; never changes afterwards."""
    parameters: Mapping[str, object] = field(default_factory=dict)
    mode: RunMode = RunMode.IMMEDIATE
    triggered_by: str
    trigger_reason: str | None = None
    """What the request of the trigger gave."""
    retry_of: RunId | None = None
    """The ended run that this run retries."""
    idempotency_key: str | None = None
    status: RunStatus = RunStatus.TRIGGERED
    result: RunResult | None = None
    error: RunError | None = None
    raw_error: RunError | None = None
    """The report of the execution, stored also when the run ends CANCELLED."""
    terminal_fact_id: EventId | None = None
    row_version: int = 1
    """Raised by every save; the ETag of REST."""
    last_sequence: int = 0
    """Number of the newest `run_event`; the next event gets one more, without gaps."""
    feed_rv: int = 0
    cancel_requested: bool = False
    cancel_requested_at: datetime | None = None
    cancel_requested_id: EventId | None = None
    cancelled_by: str | None = None
    cancel_reason: str | None = None
    cancel_stale: bool = False
    backend: Backend = Backend.QUEUE
    wish: Wish = Wish.RUN
    execution_name: str
    submit_intent_at: datetime | None = None
    submit_attempts: int = 0
    next_reconcile_at: datetime | None = None
    """When the launching loop checks again; None when nothing is to be done."""
    stop_sent_at: datetime | None = None
    attempt: int = 0
    """Attempts started so far; the first lease makes it 1."""
    max_attempts: int = 3
    priority: int = 5
    deadline_seconds: int = 3600
    deadline_at: datetime | None = None
    """Set once at RUNNING; covers all attempts."""
    last_progress_at: datetime | None = None
    created_at: datetime
    queued_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    closed_at: datetime | None = None
    summary: RunSummary | None = None
    pins: Mapping[str, object] | None = None
    report_path: str | None = None
    traceparent: str | None = None
    fire_time: datetime | None = None
    schedule_uid: UUID | None = None
    differences_deleted_at: datetime | None = None
    """When a retention policy removed its stored differences."""

    @property
    def cancelling(self) -> bool:
        """A cancel was requested and the end has not decided yet."""
        return self.cancel_requested and not self.status.is_terminal
