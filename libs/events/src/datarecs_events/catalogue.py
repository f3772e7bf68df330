"""The list of events: for every wire type its class, source, emitters, topic, key and subject.

The codec, the outbox policies, the broker's ACLs, the published schemas and the subscriptions are
made from it. A new event is a dataclass in core, a member of `DataRecsEventType`, one line here and
an example.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from datarecs_core.captures import events as capture
from datarecs_core.notifications import events as mail
from datarecs_core.resources import events as resource
from datarecs_core.resources.reconciling import RECONCILED
from datarecs_core.resources.resource import Kind
from datarecs_core.runs import events as run
from datarecs_core.sink import events as sink
from datarecs_core.webhooks import events as webhook
from datarecs_events.event_types import PREFIX
from datarecs_events.event_types import DataRecsEventType as Type
from datarecs_events.scalars import MismatchError
from datarecs_events.topics import (
    DEAD_LETTER_TOPICS,
    SUBSCRIPTIONS,
    TOPICS,
    Service,
    Subscription,
    Topic,
    TopicDef,
    dead_letter_topic,
    subscriptions_of,
)

__all__ = [
    "BY_TYPE",
    "CATALOGUE",
    "DEAD_LETTER_TOPICS",
    "EVENT_TYPES_BY_SERVICE",
    "SUBSCRIPTIONS",
    "TOPICS",
    "DataRecsEventType",
    "EventDef",
    "EventKind",
    "Service",
    "Subscription",
    "Topic",
    "TopicDef",
    "dead_letter_topic",
    "definition_of",
    "definitions_of",
    "subscriptions_of",
]

DataRecsEventType = Type


EventClass = type[object]
"""A frozen dataclass of a `core/<concept>/events.py`."""


class EventKind(StrEnum):
    """The layer or family of an event."""

    INFRASTRUCTURE = "infrastructure"
    """The raw outcome of an execution; may precede the database."""
    PLATFORM = "platform"
    """Written in the commit of the row change it describes."""
    PROGRESS = "progress"
    """Sent while a worker works; never decisive."""
    RESOURCE = "resource"
    WEBHOOK = "webhook"
    NOTIFICATION = "notification"
    CAPTURE = "capture"
    SINK = "sink"

    @property
    def of_run(self) -> bool:
        """Numbered per run and recorded in `run_event`."""
        return self in {self.INFRASTRUCTURE, self.PLATFORM, self.PROGRESS}

    @property
    def is_numbered(self) -> bool:
        """Numbered by the outbox, per run or per capture."""
        return self.of_run or self is self.CAPTURE


@dataclass(frozen=True, slots=True, kw_only=True)
class EventDef:
    """The properties of one type that are not fields of its payload."""

    type: Type
    event_class: EventClass
    source: str
    """URI of the contract's owner, which is not always the writing process."""
    emitters: tuple[Service, ...]
    """Services with a database role that may put it into the outbox."""
    topic: Topic | None
    """None: sent only over HTTP; a record of it on any topic is refused."""
    key: str
    """The field for the Kafka key and `partitionkey`."""
    subject: str
    """Template over the event's fields."""
    kind: EventKind
    addition: int = 0
    """Increased by one with every addition of optional fields; 1 in the first release after
    Source 001."""
    tenant_required: bool = False
    """Source 001 requires `tenant_id` in the payload; else readers use that of the envelope."""
    exactly_one: tuple[str, ...] = ()
    """Exactly one of these fields is present."""
    absent: tuple[str, ...] = ()
    """Fields of another type that would make this one ambiguous; an event with one is refused."""
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Fields with a value that is fixed by the type."""

    @property
    def short_name(self) -> str:
        """The type without the product's prefix: folder name and last part of the schema's URN."""
        return self.type.removeprefix(PREFIX)

    @property
    def dataschema(self) -> str:
        return f"urn:datarecs:schema:{self.short_name}:1.{self.addition}"

    def key_of(self, event: object) -> str:
        return str(getattr(event, self.key))

    def subject_of(self, event: object) -> str:
        return self.subject.format(event=event)

    def check(self, payload: object) -> None:
        """Check the rules between fields; the shape checks single fields.

        Raises:
            MismatchError: both or neither of `exactly_one`, one of `absent`, another fixed value.
        """
        fields = payload if isinstance(payload, dict) else {}
        if self.exactly_one and sum(name in fields for name in self.exactly_one) != 1:
            raise MismatchError("", f"exactly one of {' and '.join(self.exactly_one)} is needed")
        for name in self.absent:
            if name in fields:
                raise MismatchError(name, f"it is not a field of {self.short_name}")
        for name, value in self.fixed.items():
            if fields.get(name) != value:
                raise MismatchError(name, f"it is not {value}")


_CORE_API = "/datarecs/core-api"
_WORKER = "/datarecs/reconciliation-worker"
_WEBHOOK = "/datarecs/webhook-service"
_MAIL = "/datarecs/email-notifier"
_CAPTURE_WORKER = "/datarecs/capture-worker"
_ICEBERG_SINK = "/datarecs/iceberg-sink"


_RUN_SUBJECT = "run/{event.run_id}"


_WITH_TENANT = (run.RunFinalised, run.RunCancelRequested, run.RunCancelled)


def _platform(
    name: Type, event_class: EventClass, *emitters: Service, addition: int = 1
) -> EventDef:
    return EventDef(
        type=name,
        event_class=event_class,
        source=_CORE_API,
        emitters=emitters,
        topic=Topic.RUN_PLATFORM,
        key="run_id",
        subject=_RUN_SUBJECT,
        kind=EventKind.PLATFORM,
        addition=addition,
        tenant_required=event_class in _WITH_TENANT,
        exactly_one=("result", "error") if event_class is run.RunFinalised else (),
    )


def _worker(name: Type, event_class: EventClass, *, absent: tuple[str, ...] = ()) -> EventDef:
    raw = bool(absent)
    return EventDef(
        type=name,
        event_class=event_class,
        source=_WORKER,
        emitters=(Service.RECONCILIATION_WORKER,),
        topic=Topic.RUN_INFRA if raw else Topic.RUN_PROGRESS,
        key="run_id",
        subject=_RUN_SUBJECT,
        kind=EventKind.INFRASTRUCTURE if raw else EventKind.PROGRESS,
        addition=1,
        tenant_required=event_class is not run.RunRowsProcessed,
        absent=absent,
    )


_RUNS = (
    _platform(
        Type.RUN_TRIGGERED,
        run.RunTriggered,
        Service.CORE_API,
        Service.RESOURCE_CONTROLLER,
        addition=2,
    ),
    _platform(Type.RUN_QUEUED, run.RunQueued, Service.RUN_CONTROLLER),
    _platform(Type.RUN_QUEUE_ERRORED, run.RunQueueErrored, Service.RUN_CONTROLLER),
    _platform(Type.RUN_FINALISED, run.RunFinalised, Service.RUN_CONTROLLER, addition=2),
    _platform(
        Type.RUN_CANCEL_REQUESTED,
        run.RunCancelRequested,
        Service.CORE_API,
        Service.RESOURCE_CONTROLLER,
        addition=0,
    ),
    _platform(Type.RUN_CANCELLED, run.RunCancelled, Service.RUN_CONTROLLER, addition=0),
    _worker(Type.RUN_COMPLETED, run.RunCompleted, absent=("error",)),
    _worker(Type.RUN_ERRORED, run.RunErrored, absent=("result",)),
    _worker(Type.RUN_ROWS_PROCESSED, run.RunRowsProcessed),
    _worker(Type.RUN_EXTRACTION_STARTED, run.RunExtractionStarted),
    _worker(Type.RUN_EXTRACTION_COMPLETED, run.RunExtractionCompleted),
    _worker(Type.RUN_EXTRACTION_ERRORED, run.RunExtractionErrored),
    _worker(Type.RUN_COMPARISON_STARTED, run.RunComparisonStarted),
    _worker(Type.RUN_COMPARISON_COMPLETED, run.RunComparisonCompleted),
    _worker(Type.RUN_COMPARISON_ERRORED, run.RunComparisonErrored),
    _worker(Type.RUN_STAGE_STARTED, run.RunStageStarted),
    _worker(Type.RUN_STAGE_COMPLETED, run.RunStageCompleted),
    _worker(Type.RUN_STAGE_ERRORED, run.RunStageErrored),
)

_VERBS: tuple[tuple[str, EventClass], ...] = (
    ("created", resource.ResourceCreated),
    ("updated", resource.ResourceUpdated),
    ("status_updated", resource.ResourceStatusUpdated),
    ("deleted", resource.ResourceDeleted),
)


_CONTROLLER_VERBS: tuple[tuple[str, EventClass], ...] = (
    ("reconciled", resource.ResourceReconciled),
    ("reconcile_failed", resource.ResourceReconcileFailed),
)
_FINALIZER_VERBS: tuple[tuple[str, EventClass], ...] = (
    ("finalized", resource.ResourceFinalized),
    ("finalize_failed", resource.ResourceFinalizeFailed),
)
_FINALIZED = frozenset({Kind.CONNECTION, Kind.SINK_TABLE})
"""The resource-controller ends their deletion."""


def _emitters(kind: Kind, verb: str) -> tuple[Service, ...]:
    """The webhook-service writes the status of an endpoint and ends its deletion (ADR 0122)."""
    if verb in dict((*_CONTROLLER_VERBS, *_FINALIZER_VERBS)):
        return (Service.RESOURCE_CONTROLLER,)
    if kind is Kind.WEBHOOK_ENDPOINT and verb != "created":
        return (Service.CORE_API, Service.WEBHOOK_SERVICE)
    if kind in _FINALIZED and verb in {"updated", "deleted"}:
        return (Service.CORE_API, Service.RESOURCE_CONTROLLER)
    if kind in {*RECONCILED, Kind.RETENTION_POLICY} and verb == "status_updated":
        return (Service.CORE_API, Service.RESOURCE_CONTROLLER)
    return (Service.CORE_API,)


def _resource(kind: Kind, verb: str, event_class: EventClass) -> EventDef:
    return EventDef(
        type=Type(f"{PREFIX}resource.{kind.lower()}.{verb}"),
        event_class=event_class,
        source=f"/datarecs/resources/{kind.lower()}",
        emitters=_emitters(kind, verb),
        topic=Topic.RESOURCES,
        key="uid",
        subject=f"{kind.lower()}/{{event.namespace}}/{{event.name}}",
        kind=EventKind.RESOURCE,
        fixed={"kind": kind.value},
    )


_RESOURCES = tuple(
    _resource(kind, *verb)
    for kind in Kind
    for verb in (
        *_VERBS,
        *(_CONTROLLER_VERBS if kind in RECONCILED else ()),
        *(_FINALIZER_VERBS if kind in _FINALIZED else ()),
    )
)


def _endpoint(
    name: Type,
    event_class: EventClass,
    *,
    from_api: bool = False,
    topic: Topic | None = Topic.NOTIFICATIONS,
) -> EventDef:
    return EventDef(
        type=name,
        event_class=event_class,
        source=_CORE_API if from_api else _WEBHOOK,
        emitters=()
        if topic is None
        else (Service.CORE_API if from_api else Service.WEBHOOK_SERVICE,),
        topic=topic,
        key="endpoint_id",
        subject="webhook-endpoint/{event.endpoint_id}",
        kind=EventKind.WEBHOOK,
    )


_WEBHOOKS = (
    _endpoint(Type.WEBHOOK_DELIVERY_FAILED, webhook.WebhookDeliveryFailed),
    _endpoint(Type.WEBHOOK_DELIVERY_DEAD_LETTERED, webhook.WebhookDeliveryDeadLettered),
    _endpoint(Type.WEBHOOK_DELIVERY_RETRIED, webhook.WebhookDeliveryRetried),
    _endpoint(Type.WEBHOOK_DELIVERY_REPLAYED, webhook.WebhookDeliveryReplayed),
    _endpoint(Type.WEBHOOK_ENDPOINT_AUTO_DISABLED, webhook.WebhookEndpointAutoDisabled),
    _endpoint(
        Type.WEBHOOK_DELIVERY_RESEND_REQUESTED,
        webhook.WebhookDeliveryResendRequested,
        from_api=True,
    ),
    _endpoint(
        Type.WEBHOOK_DELIVERY_REPLAY_REQUESTED,
        webhook.WebhookDeliveryReplayRequested,
        from_api=True,
    ),
    _endpoint(
        Type.WEBHOOK_ENDPOINT_TEST_REQUESTED, webhook.WebhookEndpointTestRequested, from_api=True
    ),
    _endpoint(Type.WEBHOOK_TEST, webhook.WebhookTest, topic=None),
)


def _mail(name: Type, event_class: EventClass) -> EventDef:
    return EventDef(
        type=name,
        event_class=event_class,
        source=_MAIL,
        emitters=(Service.EMAIL_NOTIFIER,),
        topic=Topic.NOTIFICATIONS,
        key="run_id",
        subject=_RUN_SUBJECT,
        kind=EventKind.NOTIFICATION,
    )


_MAILS = (
    _mail(Type.NOTIFICATION_EMAIL_SENT, mail.NotificationEmailSent),
    _mail(Type.NOTIFICATION_EMAIL_FAILED, mail.NotificationEmailFailed),
    _mail(Type.NOTIFICATION_EMAIL_SKIPPED, mail.NotificationEmailSkipped),
)


def _capture(name: Type, event_class: EventClass, *others: Service) -> EventDef:
    return EventDef(
        type=name,
        event_class=event_class,
        source=_CAPTURE_WORKER,
        emitters=(*others, Service.CAPTURE_WORKER),
        topic=Topic.CAPTURE,
        key="root_job_id",
        subject="capture/{event.root_job_id}",
        kind=EventKind.CAPTURE,
    )


_CAPTURES = (
    _capture(Type.CAPTURE_JOB_STARTED, capture.CaptureJobStarted),
    _capture(Type.CAPTURE_JOB_REQUEUED, capture.CaptureJobRequeued),
    _capture(Type.CAPTURE_JOB_SUCCEEDED, capture.CaptureJobSucceeded),
    _capture(Type.CAPTURE_JOB_FAILED, capture.CaptureJobFailed, Service.CORE_API),
    _capture(Type.CAPTURE_JOB_CANCELLED, capture.CaptureJobCancelled, Service.CORE_API),
    _capture(Type.CAPTURE_SNAPSHOT_PLANNED, capture.CaptureSnapshotPlanned),
    _capture(Type.CAPTURE_SNAPSHOT_FINALIZED, capture.CaptureSnapshotFinalized),
    _capture(Type.CAPTURE_FILE_GROUP_COMPLETED, capture.CaptureFileGroupCompleted),
)
"""core-api cancels items that wait; the end of the last one may end its parents as failed."""


def _sink(name: Type, event_class: EventClass) -> EventDef:
    return EventDef(
        type=name,
        event_class=event_class,
        source=_ICEBERG_SINK,
        emitters=(Service.ICEBERG_SINK,),
        topic=Topic.SINK,
        key="sink_uid",
        subject="sink/{event.sink_uid}",
        kind=EventKind.SINK,
    )


_SINKS = (
    _sink(Type.SINK_TABLE_COMMITTED, sink.SinkTableCommitted),
    _sink(Type.SINK_COMMIT_COMPLETED, sink.SinkCommitCompleted),
)

CATALOGUE: tuple[EventDef, ...] = (
    *(*_RUNS, *_RESOURCES, *_WEBHOOKS, *_MAILS, *_CAPTURES),
    *_SINKS,
)

BY_TYPE: Mapping[str, EventDef] = {one.type: one for one in CATALOGUE}

EVENT_TYPES_BY_SERVICE: Mapping[Service, frozenset[Type]] = {
    service: frozenset(one.type for one in CATALOGUE if service in one.emitters)
    for service in Service
}
"""Event types that each service may put into the outbox; also a row policy in the database."""

_BY_CLASS: Mapping[EventClass, tuple[EventDef, ...]] = {
    event_class: tuple(one for one in CATALOGUE if one.event_class is event_class)
    for event_class in {one.event_class for one in CATALOGUE}
}


def definitions_of(event_class: EventClass) -> tuple[EventDef, ...]:
    """All definitions of a class: one, or one per kind for events of resources.

    Raises:
        KeyError: the class is not an event.
    """
    return _BY_CLASS[event_class]


def definition_of(event: object) -> EventDef:
    """The definition of this event.

    Raises:
        KeyError: its class is not an event.
    """
    for one in definitions_of(type(event)):
        if all(getattr(event, name) == value for name, value in one.fixed.items()):
            return one
    raise KeyError(type(event))
