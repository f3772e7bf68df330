"""One complete example of every event, and its shortest legal form.

They are in `events-schema/`, `datarecs webhook test --type` sends them, and tests of the codec use
them: an example that violates its schema cannot be published.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from datarecs_core.captures import events as capture
from datarecs_core.captures.items import CaptureJobId, WorkKind
from datarecs_core.captures.request import CaptureMode
from datarecs_core.errors.base import RunErrorCode
from datarecs_core.notifications import events as mail
from datarecs_core.resources import events as resource
from datarecs_core.resources.resource import API_VERSION, Kind
from datarecs_core.runs import events as run
from datarecs_core.runs.model import (
    LikelyCause,
    MeasureGap,
    MissingGroups,
    RunError,
    RunMode,
    RunResult,
    RunSummary,
)
from datarecs_core.runs.naming import execution_name
from datarecs_core.sink import events as sink
from datarecs_core.values import EventId, JobId, ResourceUid, RunId, TenantId
from datarecs_core.webhooks import events as webhook
from datarecs_events.catalogue import BY_TYPE, EventClass, EventDef
from datarecs_events.event_types import DataRecsEventType as Type

_TENANT = TenantId(UUID("019b0000-0000-7000-8000-000000000001"))
_JOB = JobId(UUID("019b0000-0000-7000-8000-0000000000a1"))
_RUN = RunId(UUID("019b0000-0000-7000-8000-0000000000b1"))
_ENDPOINT = ResourceUid(UUID("019bb000-0000-7000-8000-0000000000e1"))
_DELIVERY = UUID("019bb000-0000-7000-8000-0000000000d1")
_ACTION = UUID("019bb000-0000-7000-8000-0000000000f1")
_EVENT = EventId(UUID("019bc0fd-8a3b-7c31-8a52-6f1e2d3c4b5a"))
_NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
_NAME = execution_name(_JOB, _RUN)
_OF_RUN: dict[str, Any] = {"run_id": _RUN, "job_id": _JOB, "tenant_id": _TENANT}
_OF_ATTEMPT: dict[str, Any] = _OF_RUN | {"attempt": 1}
_SUMMARY = RunSummary(
    stages_total=2,
    stages_matched=1,
    rows_compared=1005,
    rows_matched=975,
    rows_unmatched=30,
    duration_ms=48_210,
    open_breaks=30,
    waived_breaks=0,
    acceptance="REJECTED",
    report_path="/api/v1/runs/019b0000-0000-7000-8000-0000000000b1/report",
    measures=(
        MeasureGap(
            stage_name="trades",
            measure_name="amount",
            source="custodian",
            reference="ledger",
            gap="-1250.40",
            missing_in_source="1300.00",
            missing_in_reference="0",
            changed="49.60",
            outside_tolerance_count=18,
        ),
    ),
    missing=(MissingGroups(stage_name="trades", source="custodian", groups=12),),
    likely_cause=LikelyCause(
        stage_name="trades",
        measure_name="amount",
        source="custodian",
        pattern="ROUNDED",
        explained=17,
        of=18,
    ),
    report_url="https://datarecs.example.com/api/v1/runs/019b0000-0000-7000-8000-0000000000b1/report",
)
_FINAL_SUMMARY = replace(_SUMMARY, job_name="trades-vs-custodian")
_TIMED_OUT = RunError(
    code=RunErrorCode.TIMED_OUT,
    message="The run did not end before its deadline and was stopped.",
    detail_code="DEADLINE_EXCEEDED",
)
_QUERY_FAILED = RunError(
    code=RunErrorCode.QUERY_FAILED,
    message='column "amt" does not exist',
    detail_code="COLUMN_NOT_FOUND",
)
_COMPARISON_FAILED = run.StageError(
    code=run.StageErrorCode.COMPARISON_FAILED,
    message="stage balance-check compares text with numbers in column amount",
    detail_code="TYPE_MISMATCH",
)
_TOLERANCES = (
    run.ToleranceCount(
        measure_name="total_amount",
        tolerance_type="ABSOLUTE",
        tolerance_value=Decimal("0.01"),
        tolerance_value_exact="0.01",
        within_tolerance_count=975,
        outside_tolerance_count=5,
        passed=False,
        combine="all",
        own_within_count=975,
    ),
)

_RUNS: tuple[object, ...] = (
    run.RunTriggered(
        **_OF_RUN, mode=RunMode.IMMEDIATE, triggered_by="u-7f3", reason="Month end, second close"
    ),
    run.RunQueued(**_OF_RUN, argo_workflow_name=_NAME),
    run.RunQueueErrored(**_OF_RUN, reason="the backend refused the run: quota exceeded"),
    run.RunFinalised(**_OF_ATTEMPT, result=RunResult.UNMATCHED, summary=_FINAL_SUMMARY),
    run.RunCancelRequested(**_OF_RUN, cancelled_by="u-7f3", reason="Wrong month selected"),
    run.RunCancelled(**_OF_RUN, cancelled_by="u-7f3", reason="Wrong month selected"),
    run.RunCompleted(
        **_OF_ATTEMPT, workflow_name=_NAME, result=RunResult.UNMATCHED, summary=_SUMMARY
    ),
    run.RunErrored(**_OF_ATTEMPT, workflow_name=_NAME, error=_TIMED_OUT),
    run.RunRowsProcessed(
        **_OF_ATTEMPT, stage_name="balance-check", row_count=5000, mismatch_count=12
    ),
    run.RunExtractionStarted(
        **_OF_ATTEMPT, extraction_index=0, connection_type="postgres", stage_name="rows"
    ),
    run.RunExtractionCompleted(
        **_OF_ATTEMPT, extraction_index=0, rows_extracted=15_000, stage_name="rows"
    ),
    run.RunExtractionErrored(
        **_OF_ATTEMPT, extraction_index=2, error=_QUERY_FAILED, stage_name="rows"
    ),
    run.RunComparisonStarted(**_OF_ATTEMPT, stage_name="balance-check", input_source_count=2),
    run.RunComparisonCompleted(
        **_OF_ATTEMPT,
        stage_name="balance-check",
        source_row_counts={"source_0": 1000, "source_1": 1005},
        join_stats=run.JoinStats(
            matched_groups=980, unmatched_by_source={"source_0": 5, "source_1": 20}
        ),
        tolerances=_TOLERANCES,
        result=RunResult.UNMATCHED,
        rows_compared=1005,
        rows_matched=975,
        rows_unmatched=30,
        source_names={"source_0": "ledger", "source_1": "bank"},
        missing_by_source={"source_0": 20, "source_1": 5},
        unmatched_groups=25,
        in_flight_resolved=0,
        tolerances_total=1,
        tolerances_truncated=False,
    ),
    run.RunComparisonErrored(**_OF_ATTEMPT, stage_name="balance-check", error=_COMPARISON_FAILED),
    run.RunStageStarted(**_OF_ATTEMPT, stage_name="balance-check"),
    run.RunStageCompleted(
        **_OF_ATTEMPT,
        stage_name="balance-check",
        result=RunResult.UNMATCHED,
        tolerances=_TOLERANCES,
        tolerances_total=1,
        tolerances_truncated=False,
    ),
    run.RunStageErrored(**_OF_ATTEMPT, stage_name="balance-check", error=_COMPARISON_FAILED),
)

_OF_ENDPOINT: dict[str, Any] = {"tenant_id": _TENANT, "endpoint_id": _ENDPOINT}
_OF_DELIVERY: dict[str, Any] = _OF_ENDPOINT | {
    "delivery_id": _DELIVERY,
    "event_id": _EVENT,
    "event_type": Type.RUN_FINALISED.value,
}
_FAILURE: dict[str, Any] = {
    "run_id": _RUN,
    "outcome": "HTTP_ERROR",
    "status_code": 503,
    "error": "the receiver answered 503",
}

_WEBHOOKS: tuple[object, ...] = (
    webhook.WebhookDeliveryFailed(**_OF_DELIVERY, attempts=4, **_FAILURE, next_attempt_at=_NOON),
    webhook.WebhookDeliveryDeadLettered(
        **_OF_DELIVERY, attempts=10, **_FAILURE, reason="ATTEMPTS_EXHAUSTED"
    ),
    webhook.WebhookDeliveryRetried(**_OF_DELIVERY, attempts=10, action_id=_ACTION, count=3),
    webhook.WebhookDeliveryReplayed(**_OF_DELIVERY, attempts=0, action_id=_ACTION, count=120),
    webhook.WebhookEndpointAutoDisabled(
        **_OF_ENDPOINT,
        url="https://hooks.example.com/datarecs",
        consecutive_failures=31,
        disabled_at=_NOON,
        reason="FAILING",
        failing_since=_NOON.replace(day=15),
    ),
    webhook.WebhookDeliveryResendRequested(
        **_OF_ENDPOINT, requested_by="u-7f3", action_id=_ACTION, delivery_id=_DELIVERY
    ),
    webhook.WebhookDeliveryReplayRequested(
        **_OF_ENDPOINT,
        requested_by="u-7f3",
        action_id=_ACTION,
        since=_NOON.replace(day=19),
        until=_NOON,
        types=(Type.RUN_FINALISED.value,),
        only_missing=True,
    ),
    webhook.WebhookEndpointTestRequested(
        **_OF_ENDPOINT,
        requested_by="u-7f3",
        action_id=_ACTION,
        example=Type.RUN_FINALISED.value,
    ),
    webhook.WebhookTest(
        **_OF_ENDPOINT, message="größe", probe=Decimal("0.010"), requested_by="user-17"
    ),
)

_OF_MAIL: dict[str, Any] = _OF_RUN | {
    "recipient_count": 1,
    "recipient_hash": "9d2c61f0b7e44a05",
    "detail_level": "summary",
    "delivery_id": _DELIVERY,
    "kind": "run",
    "rule_names": ("finance-team",),
    "attempts": 1,
    "message_id": "<019b0000.9d2c61f0@datarecs.example.com>",
}

_MAILS: tuple[object, ...] = (
    mail.NotificationEmailSent(**_OF_MAIL, status="sent"),
    mail.NotificationEmailFailed(**_OF_MAIL, status="failed", error_message="550 no such mailbox"),
    mail.NotificationEmailSkipped(**_OF_MAIL, status="skipped", skip_reason="min_interval"),
)

_ROOT = CaptureJobId(UUID("019bd000-0000-7000-8000-000000000001"))
_CONNECTION = ResourceUid(UUID("019b0000-0000-7000-8000-0000000000c1"))


def _of_capture(kind: WorkKind, number: int) -> dict[str, Any]:
    return {
        "tenant_id": _TENANT,
        "root_job_id": _ROOT,
        "job_id": CaptureJobId(UUID(int=_ROOT.int + number)),
        "kind": kind,
        "connection_uid": _CONNECTION,
        "mode": CaptureMode.METADATA_AND_CAPTURE,
    }


_CONNECTOR_ITEM = _of_capture(WorkKind.PLAN_CONNECTOR, 0)
_GROUP_ITEM = _of_capture(WorkKind.EXEC_FILE_GROUP, 4)
_OF_SNAPSHOT: dict[str, Any] = {
    "table_id": "019bd000-0000-7000-8000-0000000000a7",
    "snapshot_id": "4211864208114127654",
}

_CAPTURES: tuple[object, ...] = (
    capture.CaptureJobStarted(**_GROUP_ITEM, attempt=1),
    capture.CaptureJobRequeued(
        **_GROUP_ITEM,
        attempt=1,
        due_at=_NOON,
        error_code="SOURCE_UNREACHABLE",
        error_message="the storage of the connection did not answer within 30 s",
    ),
    capture.CaptureJobSucceeded(**_CONNECTOR_ITEM),
    capture.CaptureJobFailed(
        **_GROUP_ITEM,
        error_code="SNAPSHOT_LOST",
        error_message="the file trades/part-00007.parquet has changed since it was planned",
    ),
    capture.CaptureJobCancelled(**_CONNECTOR_ITEM, reason="Wrong bucket"),
    capture.CaptureSnapshotPlanned(
        **_of_capture(WorkKind.PLAN_SNAPSHOT, 3),
        **_OF_SNAPSHOT,
        file_groups=12,
        files=1_530,
        files_reused=30,
    ),
    capture.CaptureSnapshotFinalized(
        **_of_capture(WorkKind.FINALIZE_SNAPSHOT_CAPTURE, 5), **_OF_SNAPSHOT, generation=1
    ),
    capture.CaptureFileGroupCompleted(**_GROUP_ITEM, **_OF_SNAPSHOT, group=0, files=128),
)

_OF_SINK: dict[str, Any] = {
    "tenant_id": _TENANT,
    "sink_uid": ResourceUid(UUID("019b0000-0000-7000-8000-0000000000d1")),
    "commit_id": UUID("019bd000-0000-7000-8000-0000000000d2"),
    "partitions": 2,
    "source_ends": (
        sink.SourceEnd(topic="orders", partition=0, offset=1_350),
        sink.SourceEnd(topic="orders", partition=1, offset=1_412),
    ),
    "valid_through": _NOON,
}

_SINKS: tuple[object, ...] = (
    sink.SinkTableCommitted(
        **_OF_SINK,
        records=2_762,
        catalog="lake",
        namespace=("sales",),
        table="orders",
        table_uuid=UUID("019bd000-0000-7000-8000-0000000000d3"),
        snapshot_id="4211864208114127654",
        files=2,
    ),
    sink.SinkCommitCompleted(**_OF_SINK, records=2_762, epoch=3, is_partial=False, tables=1),
)

_FULL: Mapping[EventClass, object] = {
    type(one): one for one in (*_RUNS, *_WEBHOOKS, *_MAILS, *_CAPTURES, *_SINKS)
}


def example_of(event_type: str) -> object:
    """The complete example of a type.

    Raises:
        KeyError: the catalogue has no such type.
    """
    definition = BY_TYPE[event_type]
    known = _FULL.get(definition.event_class)
    return _resource(definition) if known is None else known


def examples_of(definition: EventDef) -> Mapping[str, object]:
    """Examples by name: `full` has every field, `required` none that may be left out."""
    full = example_of(definition.type)
    examples = {"full": full, "required": _shortest(full, definition)}
    if isinstance(full, run.RunFinalised):
        examples["errored"] = replace(full, result=None, error=_TIMED_OUT, summary=None)
    return examples


def _resource(definition: EventDef) -> object:
    of_status = ("status_updated", "reconciled", "reconcile_failed", "finalize_failed")
    changed = "status" if definition.short_name.endswith(of_status) else "spec"
    changed = "finalizers" if definition.short_name.endswith("finalized") else changed
    event_class = definition.event_class
    if not issubclass(event_class, resource.ResourceEvent):
        raise KeyError(definition.type)
    return event_class(
        tenant_id=_TENANT,
        api_version=API_VERSION,
        kind=Kind(definition.fixed["kind"]),
        namespace="finance",
        name="bank",
        uid=ResourceUid(UUID("019b0000-0000-7000-8000-0000000000c1")),
        generation=3,
        resource_version="88121",
        changed=(changed,),
        change_type="UPDATED",
        observed_generation=2,
        old_generation=2,
        old_phase="Pending",
        new_phase="Ready",
        timestamp=_NOON,
        error="the source did not answer",
    )


def _shortest(event: object, definition: EventDef) -> object:
    spare = {
        one.name: None
        for one in fields(event)  # type: ignore[arg-type]  # every event is a dataclass
        if one.default is None and one.name not in definition.exactly_one[:1]
    }
    return replace(event, **spare)  # type: ignore[type-var]  # every event is a dataclass
