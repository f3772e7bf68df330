"""Responses of the API as published models: the schemas of the OpenAPI document.

No field can hold a secret, except models that are shown once and end in `Once`. Times are RFC
3339 in UTC with microseconds, decimals text.
"""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema

from datarecs_core.errors.base import RunErrorCode
from datarecs_core.resources.changes import Op
from datarecs_core.runs.model import Backend, Disposition, RunMode, RunResult, RunStatus
from datarecs_core.runs.timeline import LaneKind, LaneState
from datarecs_core.values import instant_text
from datarecs_core_api.published_types import (
    Attempts,
    Code,
    Count,
    CursorOut,
    Digits,
    Generation,
    Hash,
    HttpStatus,
    KeyId,
    Labels,
    Line,
    NameOut,
    Number,
    Permission,
    PlaceOut,
    Priority,
    Seconds,
    Symbol,
    Word,
)

T = TypeVar("T")
Instant = Annotated[
    datetime,
    PlainSerializer(instant_text, return_type=str),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
JsonObject = Mapping[str, object]


class Out(BaseModel):
    """Base of all responses."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True)


class Page(Out, Generic[T]):
    """One page of a list, newest first."""

    items: list[T]
    next: CursorOut | None = None
    """Cursor of the following page; null on the last page."""


class ErrorOut(Out):
    """Why a run has no verdict."""

    code: RunErrorCode
    message: Line
    detail_code: Symbol | None


class MeasureGapOut(Out):
    """How far a measure of one source is from the reference; amounts are exact decimal text."""

    stage_name: Line
    measure_name: Line
    source: Line
    reference: Line
    unit: Line | None
    gap: Line | None
    missing_in_source: Line | None
    missing_in_reference: Line | None
    changed: Line | None
    outside_tolerance_count: Count | None


class MissingGroupsOut(Out):
    """How many groups of a stage are missing in a source."""

    stage_name: Line
    source: Line
    groups: Count


class LikelyCauseOut(Out):
    """The pattern that explains the most differences; contains no value."""

    stage_name: Line
    measure_name: Line
    source: Line
    pattern: Word
    explained: Count
    of: Count


class SummaryOut(Out):
    """The few numbers of a finished run; `rows` are groups."""

    stages_total: Count
    stages_matched: Count
    rows_compared: Count
    rows_matched: Count
    rows_unmatched: Count
    duration_ms: Count
    empty: bool
    open_breaks: Count | None
    waived_breaks: Count | None
    acceptance: Word | None
    report_path: Line | None
    job_name: NameOut | None
    measures: list[MeasureGapOut] | None
    measures_total: Count | None
    missing: list[MissingGroupsOut] | None
    likely_cause: LikelyCauseOut | None
    report_url: Line | None


class RunOut(Out):
    """A run."""

    run_id: UUID
    job_id: UUID
    job: NameOut
    job_generation: Generation
    spec_hash: Hash
    parameters: JsonObject
    mode: RunMode
    triggered_by: Line
    trigger_reason: Line | None
    """What the request of the trigger gave."""
    schedule_uid: UUID | None
    """The schedule that started it."""
    fire_time: Instant | None
    """The time of the schedule for which it runs."""
    retry_of: UUID | None
    """The ended run whose question this one asks again."""
    status: RunStatus
    result: RunResult | None
    error: ErrorOut | None
    raw_error: ErrorOut | None
    cancel_requested: bool
    cancelling: bool
    """A cancel was requested and the end has not decided yet."""
    cancelled_by: Line | None
    cancel_reason: Line | None
    cancel_stale: bool
    """The cancel was requested after the run had completed, so the result stays."""
    backend: Backend
    execution_name: Word
    attempt: Attempts
    max_attempts: Attempts
    priority: Priority
    deadline_seconds: Seconds
    deadline_at: Instant | None
    created_at: Instant
    queued_at: Instant | None
    started_at: Instant | None
    ended_at: Instant | None
    closed_at: Instant | None
    summary: SummaryOut | None
    differences_deleted_at: Instant | None
    """When a retention policy removed the stored differences; null while they are kept."""
    last_sequence: Number
    """Number of the newest entry of its history."""


class EventOut(Out):
    """An entry of a run's history as CloudEvent in the JSON format.

    Synthesised facts, which never leave the platform, carry their name as type and no dataschema.
    """

    specversion: Word
    id: UUID
    source: Word
    type: Word
    subject: Word
    time: Instant
    datacontenttype: Word
    dataschema: Word | None = None
    disposition: Disposition
    """Its outcome; an extension of datarecs."""
    partitionkey: UUID
    runsequence: Annotated[str, Field(pattern=r"^[0-9]{20}$")]
    tenantid: UUID
    data: JsonObject


class EventPage(Out):
    """Entries in order of their numbers."""

    items: list[EventOut]
    next: Number | None = None
    """Send it as `after` for the following page; null when there may be no more yet."""


class LaneOut(Out):
    """A part of the run with a start."""

    kind: LaneKind
    name: Word
    """`queue`, `attempt 1`, `extraction 0`, or the stage's name."""
    attempt: Attempts | None
    start: Instant
    end: Instant | None
    """Null while it continues, and without an end."""
    state: LaneState
    error: JsonObject | None


class TimelineOut(Out):
    """When a run waited, tried, read and compared, from its history alone."""

    lanes: list[LaneOut]
    """In the order in which they began."""
    gaps: list[Number]
    """Numbers that are missing from the history."""
    late: list[Number]
    """Numbers of facts after the end or from an ended attempt."""
    synthesised: list[Number]
    """Numbers of facts that were not reported but concluded by the platform."""


class MetadataOut(Out):
    """What identifies a declared object and its version."""

    name: NameOut
    namespace: NameOut
    uid: UUID
    generation: Generation
    resource_version: Annotated[Digits, Field(alias="resourceVersion")]
    creation_timestamp: Annotated[Instant, Field(alias="creationTimestamp")]
    deletion_timestamp: Annotated[Instant | None, Field(alias="deletionTimestamp")]
    labels: Labels
    annotations: Mapping[str, str]
    finalizers: list[Word]


class ResourceOut(Out):
    """A declared object."""

    api_version: Annotated[Word, Field(alias="apiVersion")]
    kind: Word
    metadata: MetadataOut
    spec: JsonObject
    """Defaults spelled out."""
    status: JsonObject


class ResourcePage(Page[ResourceOut]):
    """One page of a kind's objects."""

    watch_since: PlaceOut | None
    """Send it with `watch=1` as `since` to miss no later change; null on all but the first page."""


class ChangeOut(Out):
    """One write of a declared object."""

    op: Op
    changed: list[Word]
    """Parts that differ, of an update: spec, labels, status and so on."""
    generation: Generation
    """After the write."""
    uid: UUID
    """Of the object; another one with the same name has another uid."""
    actor: Line
    """Who wrote it: a key, a user or a controller."""
    at: Instant


class AppliedOut(ResourceOut):
    """A declared object after a write, and what the write did."""

    outcome: Word
    """created, configured or unchanged."""


class CreatedOnce(AppliedOut):
    """The first response to a write that created a signing secret; no later one contains it."""

    generated_secret: Word


class KeyOut(Out):
    """An API key without its secret."""

    key_id: KeyId
    name: Word
    subject: Line
    """`key:<id>`: events and the audit show under it what the key did."""
    owner: Line
    """The person or program that is responsible for it."""
    parent_key_id: KeyId | None
    """The key it was made with, and is revoked with."""
    scopes: list[Permission]
    created_at: Instant
    expires_at: Instant
    revoked_at: Instant | None


class KeyOnce(KeyOut):
    """The first response to the creation of a key; no later response contains it."""

    key: Word


class TicketOut(Out):
    """A ticket for a socket, without the ticket."""

    expires_at: Instant


class TicketOnce(TicketOut):
    """The first response to the creation of a ticket; no later response contains it."""

    ticket: Word


class AttemptOut(Out):
    """One attempt of a delivery; headers and body only for those who may read samples."""

    attempt_no: Attempts
    reason: Word
    started_at: Instant
    finished_at: Instant | None
    outcome: Word | None
    status: HttpStatus | None
    error: Line
    address_class: Word | None
    phases: Mapping[str, int]
    """Milliseconds of dns, connect, tls, first_byte, total."""
    url: str
    key_ids: list[str]
    body_sha256: str
    request_headers: Mapping[str, str] | None
    response_headers: Mapping[str, str] | None
    response_body: str | None
    truncated: bool


class DeliveryOut(Out):
    """One event on its way to one endpoint, with its attempts."""

    delivery_id: UUID
    received_on: date
    event_id: UUID
    event_type: Word
    run_id: UUID | None
    origin: Word
    """Why it exists: event, test, resend, recover or replay."""
    action_id: UUID | None
    """The action that created it; null for a live event."""
    state: Word
    reason: Word | None
    attempts: list[AttemptOut]
    due_at: Instant
    expires_at: Instant
    created_at: Instant


class ActionOut(Out):
    """A test, resend, recover or replay that was requested, and how far it is."""

    action_id: UUID
    endpoint_id: UUID
    kind: Word
    state: Word
    """OPEN while deliveries are still being made, then DONE or CANCELLED."""
    requested_by: Line
    since: Instant | None
    until: Instant | None
    types: list[Word]
    example: Word | None
    expected: Count
    """Deliveries that it makes, as counted at the request."""
    made: Count
    """Deliveries that it has made so far."""
    first_delivery: UUID | None
    created_at: Instant
    closed_at: Instant | None


class PreviewOut(Out):
    """What a request would do, without doing it."""

    count: Count
    """Deliveries that would be made."""


class SecretLabelOut(Out):
    """A secret that still signs, without its value."""

    key_id: Word
    expires_at: Instant | None


class RotatedOut(Out):
    """The endpoint's new signing secret and the older ones that still sign."""

    key_id: Word
    previous: list[SecretLabelOut]


class RotatedOnce(RotatedOut):
    """The first response to a rotation; no later response contains the secret."""

    generated_secret: Word


class EnabledOut(Out):
    """An endpoint that was switched on, and what it missed."""

    endpoint: ResourceOut
    missed_since: Instant
    """From when on events were missed, at most 14 days ago."""
    recoverable: Count
    """Events that a recover since then would send, counted up to 100,000."""


class KindOut(Out):
    """A declared kind: its path in REST, its short name, its schema."""

    kind: Word
    path: Word
    alias: Word
    json_schema: Word
    """Path of its JSON Schema on this server."""


class WhoamiOut(Out):
    """Who the key belongs to and what it may do."""

    tenant_id: UUID
    subject: Line
    owner: Line
    key_id: KeyId | None
    permissions: list[Permission]


class LiveOut(Out):
    """The process responds."""

    status: Word


class ReadyOut(Out):
    """Whether it can work, and why not."""

    status: Word
    reasons: Mapping[str, str]


class FaultOut(Out):
    """One fault of a request."""

    code: Code
    pointer: str
    message: str
    line: Number | None = None
    column: Number | None = None
    hint: str | None = None


class ProblemOut(Out):
    """A refusal (RFC 9457)."""

    type: Word
    title: Word
    status: HttpStatus
    detail: str
    instance: str
    code: Code
    """DRnnnn; `datarecs errors CODE` explains it."""
    reason: Symbol
    """The code's symbol."""
    trace_id: Word
    request_id: Word
    errors: list[FaultOut] | None = None
    retry_after_s: Seconds | None = None
