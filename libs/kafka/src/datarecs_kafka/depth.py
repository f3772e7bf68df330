"""The number of dead letters of a group that wait for a re-drive, for metrics.

Separate from the consumer because it reads the position of another group, that of the re-drive,
without joining it: a member that only reads positions would take partitions from the working one.
"""

from datetime import timedelta

import structlog
from kafka import KafkaConsumer

from datarecs_application.loops.periodic import Periodic
from datarecs_application.ports.messaging import Partition
from datarecs_application.ports.outside import Clock, Metrics
from datarecs_core.errors.messaging import LogAccessDeniedError, LogUnavailableError
from datarecs_events.catalogue import dead_letter_topic
from datarecs_kafka.access import BrokerAccess, connecting
from datarecs_kafka.client import CONSUMER_SETTINGS, KafkaLogConsumer

log = structlog.get_logger()

EVERY = timedelta(seconds=60)
"""Interval of queries to the broker: sufficient for operators, and each query is a connection."""


def dead_letters_waiting(access: BrokerAccess, group: str) -> int:
    """Number of records of `<group>.dlq` that `<group>.redrive` has not read yet.

    Raises LogUnavailableError, LogAccessDeniedError.
    """
    topic = dead_letter_topic(group)
    with connecting(access) as network:
        inner = KafkaConsumer(
            group_id=f"{group}.redrive",
            kafka_client=network,
            **access.settings(),
            **CONSUMER_SETTINGS,
        )
    reader = KafkaLogConsumer(inner, access)
    try:
        reader.require([topic])
        parts = [Partition(topic, number) for number in inner.partitions_for_topic(topic) or ()]
        return sum(_behind(reader, part) for part in parts)
    finally:
        reader.close()


def report_depth(access: BrokerAccess, group: str, metrics: Metrics) -> None:
    """Set the gauge; other parts report an unavailable broker."""
    try:
        metrics.gauge("dlq_depth", dead_letters_waiting(access, group), group=group)
    except (LogUnavailableError, LogAccessDeniedError) as cause:
        log.warning("dead_letters_not_counted", group=group, code=cause.code.name)


def depth_loop(access: BrokerAccess, group: str, *, metrics: Metrics, clock: Clock) -> Periodic:
    """A loop of the group's service."""
    return Periodic(
        name="dead_letters",
        act=lambda: report_depth(access, group, metrics),
        every=EVERY,
        clock=clock,
    )


def _behind(reader: KafkaLogConsumer, part: Partition) -> int:
    done = max(reader.committed(part) or 0, reader.begin_offset(part))
    return max(reader.end_offset(part) - done, 0)
