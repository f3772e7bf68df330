"""Services, topics and subscriptions: the data for access rules and filters.

Operators read this module; the catalogue of types is for integrators.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from datarecs_events.event_types import DataRecsEventType as Type


class Service(StrEnum):
    """Processes that write or read events; the value is also broker principal and group."""

    CORE_API = "core-api"
    RUN_CONTROLLER = "run-controller"
    RECONCILIATION_WORKER = "reconciliation-worker"
    EMAIL_NOTIFIER = "email-notifier"
    WEBHOOK_SERVICE = "webhook-service"
    RESOURCE_CONTROLLER = "resource-controller"
    CAPTURE_WORKER = "capture-worker"
    ICEBERG_SINK = "iceberg-sink"


RELAY = "relay"
"""The only principal that may write event topics."""


class Topic(StrEnum):
    RUN_INFRA = "datarecs.run.infra"
    RUN_PROGRESS = "datarecs.run.progress"
    RUN_PLATFORM = "datarecs.run.platform"
    RESOURCES = "datarecs.resources"
    NOTIFICATIONS = "datarecs.notifications"
    CAPTURE = "datarecs.capture"
    SINK = "datarecs.sink"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDef:
    """The required configuration of a topic on the broker; cleanup policy `delete`."""

    name: str
    partitions: int
    """Number in production; `datarecs up` uses 3. For run topics, drain them before a change."""
    retention: timedelta
    writers: tuple[str, ...]
    """Principals with WRITE."""
    readers: tuple[str, ...]
    """Principals with READ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The types that one service reads from one topic."""

    service: Service
    topic: Topic
    types: frozenset[Type] | None
    """Exact match; None: all types of the topic."""

    def admits(self, event_type: str) -> bool:
        return self.types is None or event_type in self.types


_PROGRESS = frozenset(
    {
        Type.RUN_ROWS_PROCESSED,
        Type.RUN_EXTRACTION_STARTED,
        Type.RUN_EXTRACTION_COMPLETED,
        Type.RUN_EXTRACTION_ERRORED,
        Type.RUN_COMPARISON_STARTED,
        Type.RUN_COMPARISON_COMPLETED,
        Type.RUN_COMPARISON_ERRORED,
        Type.RUN_STAGE_STARTED,
        Type.RUN_STAGE_COMPLETED,
        Type.RUN_STAGE_ERRORED,
    }
)

SUBSCRIPTIONS: tuple[Subscription, ...] = (
    Subscription(
        service=Service.RUN_CONTROLLER,
        topic=Topic.RUN_INFRA,
        types=frozenset({Type.RUN_COMPLETED, Type.RUN_ERRORED}),
    ),
    Subscription(service=Service.RUN_CONTROLLER, topic=Topic.RUN_PROGRESS, types=_PROGRESS),
    Subscription(
        service=Service.RUN_CONTROLLER,
        topic=Topic.RUN_PLATFORM,
        types=frozenset({Type.RUN_TRIGGERED, Type.RUN_CANCEL_REQUESTED}),
    ),
    Subscription(
        service=Service.EMAIL_NOTIFIER,
        topic=Topic.RUN_PLATFORM,
        types=frozenset({Type.RUN_FINALISED}),
    ),
    *(
        Subscription(service=Service.WEBHOOK_SERVICE, topic=topic, types=None)
        for topic in (
            Topic.RUN_INFRA,
            Topic.RUN_PROGRESS,
            Topic.RUN_PLATFORM,
            Topic.RESOURCES,
            Topic.NOTIFICATIONS,
            Topic.CAPTURE,
            Topic.SINK,
        )
    ),
)
"""email-notifier reads only `run.finalised`, webhook-service all types; no line, no access."""


def subscriptions_of(service: Service) -> tuple[Subscription, ...]:
    return tuple(one for one in SUBSCRIPTIONS if one.service is service)


def _topic(name: Topic, *, partitions: int, days: int) -> TopicDef:
    return TopicDef(
        name=name,
        partitions=partitions,
        retention=timedelta(days=days),
        writers=(RELAY,),
        readers=tuple(sorted({one.service for one in SUBSCRIPTIONS if one.topic is name})),
    )


TOPICS: tuple[TopicDef, ...] = (
    _topic(Topic.RUN_INFRA, partitions=12, days=14),
    _topic(Topic.RUN_PROGRESS, partitions=12, days=3),
    _topic(Topic.RUN_PLATFORM, partitions=12, days=14),
    _topic(Topic.RESOURCES, partitions=6, days=14),
    _topic(Topic.NOTIFICATIONS, partitions=6, days=14),
    _topic(Topic.CAPTURE, partitions=6, days=14),
    _topic(Topic.SINK, partitions=6, days=14),
)
"""The event topics. Placement is murmur2 of the UTF-8 key."""


def dead_letter_topic(group: str) -> str:
    """The topic for records that a consumer group can never handle."""
    return f"{group}.dlq"


DEAD_LETTER_TOPICS: tuple[TopicDef, ...] = tuple(
    TopicDef(
        name=dead_letter_topic(group),
        partitions=3,
        retention=timedelta(days=30),
        writers=(group,),
        readers=(group,),
    )
    for group in sorted({one.service for one in SUBSCRIPTIONS})
)
"""One per consumer group; its principal writes it, and reads it as `<group>.redrive`."""
