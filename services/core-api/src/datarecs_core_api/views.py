"""From stored records to responses: the record without its internals."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TypedDict

from datarecs_application.ports.delivery import MailAttempt, Suppression, WebhookAttempt
from datarecs_application.ports.keys import ApiKey
from datarecs_application.ports.state import HistoryEntry
from datarecs_application.resources import Applied
from datarecs_core.notifications.mail import Mail
from datarecs_core.resources.conditions import phase_of
from datarecs_core.resources.resource import Resource
from datarecs_core.runs.model import Run, RunError
from datarecs_core.values import RunId, TenantId, instant_text
from datarecs_core.webhooks.actions import WebhookAction
from datarecs_core.webhooks.delivery import NO_ACTION, Delivery
from datarecs_core_api.mail_outputs import MailAttemptOut, MailOut, SuppressionOut
from datarecs_core_api.outputs import (
    ActionOut,
    AppliedOut,
    AttemptOut,
    CreatedOnce,
    DeliveryOut,
    ErrorOut,
    KeyOut,
    MetadataOut,
    ResourceOut,
    RunOut,
    SummaryOut,
)
from datarecs_events.catalogue import BY_TYPE
from datarecs_events.envelope import JSON_TYPE, SPECVERSION


def _error(error: RunError | None) -> ErrorOut | None:
    return None if error is None else ErrorOut(**asdict(error))


def run_view(run: Run) -> RunOut:
    return RunOut(
        run_id=run.run_id,
        job_id=run.job_id,
        job=run.job_name,
        job_generation=run.job_generation,
        spec_hash=run.spec_hash,
        parameters=run.parameters,
        mode=run.mode,
        triggered_by=run.triggered_by,
        trigger_reason=run.trigger_reason,
        schedule_uid=run.schedule_uid,
        fire_time=run.fire_time,
        retry_of=run.retry_of,
        status=run.status,
        result=run.result,
        error=_error(run.error),
        raw_error=_error(run.raw_error),
        cancel_requested=run.cancel_requested,
        cancelling=run.cancelling,
        cancelled_by=run.cancelled_by,
        cancel_reason=run.cancel_reason,
        cancel_stale=run.cancel_stale,
        backend=run.backend,
        execution_name=run.execution_name,
        attempt=run.attempt,
        max_attempts=run.max_attempts,
        priority=run.priority,
        deadline_seconds=run.deadline_seconds,
        deadline_at=run.deadline_at,
        created_at=run.created_at,
        queued_at=run.queued_at,
        started_at=run.started_at,
        ended_at=run.ended_at,
        closed_at=run.closed_at,
        summary=None if run.summary is None else SummaryOut(**asdict(run.summary)),
        differences_deleted_at=run.differences_deleted_at,
        last_sequence=run.last_sequence,
    )


def run_etag(run: Run) -> str:
    """Of everything `run_view` shows; history grows without a new version of the row."""
    return f'"{run.run_id}:{run.row_version}.{run.last_sequence}"'


def entry_view(tenant: TenantId, run_id: RunId, entry: HistoryEntry) -> dict[str, object]:
    """One line of a run's history, as `EventOut` describes it; numbers keep their digits.

    The bytes of an event on Kafka carry more extensions (trace, cause); what is common is equal.
    """
    known = BY_TYPE.get(entry.type)
    return {
        "specversion": SPECVERSION,
        "id": str(entry.event_id),
        "source": entry.source,
        "type": entry.type,
        "subject": f"run/{run_id}",
        "time": instant_text(entry.time),
        "datacontenttype": JSON_TYPE,
        **({} if known is None else {"dataschema": known.dataschema}),
        "disposition": str(entry.disposition),
        "partitionkey": str(run_id),
        "runsequence": f"{entry.sequence:020d}",
        "tenantid": str(tenant),
        "data": entry.data,
    }


def _metadata(resource: Resource) -> MetadataOut:
    return MetadataOut(
        name=resource.name,
        namespace=resource.namespace,
        uid=resource.uid,
        generation=resource.generation,
        resource_version=str(resource.version),
        creation_timestamp=resource.created_at,
        deletion_timestamp=resource.deletion_at,
        labels=resource.labels,
        annotations=resource.annotations,
        finalizers=list(resource.finalizers),
    )


class _Shown(TypedDict):
    api_version: str
    kind: str
    metadata: MetadataOut
    spec: Mapping[str, object]
    status: Mapping[str, object]


def _shown(resource: Resource) -> _Shown:
    return _Shown(
        api_version=resource.api_version,
        kind=str(resource.kind),
        metadata=_metadata(resource),
        spec=resource.spec,
        status=_status(resource),
    )


def _status(resource: Resource) -> Mapping[str, object]:
    phase = phase_of(resource)
    shown = {} if phase is None else {"phase": phase}
    return {**resource.status, **shown, "observed_generation": resource.observed_generation}


def resource_view(resource: Resource) -> ResourceOut:
    return ResourceOut(**_shown(resource))


def applied_view(applied: Applied) -> AppliedOut:
    """Without the secret that may have been made."""
    return AppliedOut(**_shown(applied.resource), outcome=str(applied.outcome))


def created_once(applied: Applied, secret: str) -> CreatedOnce:
    """With the secret, only for the first response."""
    return CreatedOnce(
        **_shown(applied.resource), outcome=str(applied.outcome), generated_secret=secret
    )


def key_view(key: ApiKey) -> KeyOut:
    return KeyOut(
        key_id=key.key_id,
        name=key.name,
        subject=key.subject,
        owner=key.owner,
        parent_key_id=key.parent_id,
        scopes=sorted(key.permissions),
        created_at=key.created_at,
        expires_at=key.expires_at,
        revoked_at=key.revoked_at,
    )


def attempt_view(attempt: WebhookAttempt, *, samples: bool) -> AttemptOut:
    """Only callers who may see samples get headers and body; secrets in them are masked."""
    return AttemptOut(
        attempt_no=attempt.attempt_no,
        reason=attempt.reason,
        started_at=attempt.started_at,
        finished_at=attempt.finished_at,
        outcome=None if attempt.outcome is None else str(attempt.outcome),
        status=attempt.status,
        error=attempt.error,
        address_class=attempt.address_class,
        phases=attempt.phases,
        url=attempt.url,
        key_ids=list(attempt.key_ids),
        body_sha256=attempt.body_sha256,
        request_headers=attempt.request_headers if samples else None,
        response_headers=attempt.response_headers if samples else None,
        response_body=attempt.response_body.decode(errors="replace") if samples else None,
        truncated=attempt.truncated,
    )


def delivery_view(delivery: Delivery, attempts: list[AttemptOut]) -> DeliveryOut:
    return DeliveryOut(
        delivery_id=delivery.delivery_id,
        received_on=delivery.received_on,
        event_id=delivery.event_id,
        event_type=delivery.event_type,
        run_id=delivery.run_id,
        origin=str(delivery.origin),
        action_id=None if delivery.action_id == NO_ACTION else delivery.action_id,
        state=str(delivery.state),
        reason=None if delivery.reason is None else str(delivery.reason),
        attempts=attempts,
        due_at=delivery.due_at,
        expires_at=delivery.expires_at,
        created_at=delivery.created_at,
    )


def action_view(action: WebhookAction) -> ActionOut:
    window = action.window
    return ActionOut(
        action_id=action.action_id,
        endpoint_id=action.endpoint_uid,
        kind=str(action.kind),
        state=str(action.state),
        requested_by=action.requested_by,
        since=None if window is None else window.since,
        until=None if window is None else window.until,
        types=list(window.types) if window else [],
        example=action.example,
        expected=action.expected,
        made=action.made,
        first_delivery=action.first_delivery,
        created_at=action.created_at,
        closed_at=action.closed_at,
    )


def mail_view(mail: Mail) -> MailOut:
    return MailOut(
        delivery_id=mail.delivery_id,
        run_id=mail.run_id,
        job_id=mail.job_id,
        recipient=mail.recipient,
        rules=list(mail.rules),
        kind=str(mail.kind),
        detail=str(mail.detail),
        outcome=mail.outcome,
        state=str(mail.state),
        reason=None if mail.reason is None else str(mail.reason),
        due_at=mail.due_at,
        finalised_at=mail.finalised_at,
        attempts=mail.attempts,
        message_id=mail.message_id,
        last_reply=mail.last_reply,
        runs=[one.run_id for one in mail.folded],
        created_at=mail.created_at,
    )


def mail_attempt_view(attempt: MailAttempt) -> MailAttemptOut:
    reply = attempt.reply
    return MailAttemptOut(
        attempt_no=attempt.attempt_no,
        started_at=attempt.started_at,
        finished_at=attempt.finished_at,
        phase=attempt.phase,
        code=reply.code if reply else None,
        text=reply.text if reply else "",
        error=attempt.error,
        relay=attempt.relay,
        tls_version=attempt.tls_version,
    )


def suppression_view(row: Suppression) -> SuppressionOut:
    return SuppressionOut(
        address=row.recipient_key,
        reason=row.reason,
        reply=row.reply,
        created_at=row.created_at,
        ends_at=row.ends_at,
    )
