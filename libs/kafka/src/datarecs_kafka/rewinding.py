"""After a restore of the database: read what the topics have since a time, and move groups back.

Separate from the consumer because an operator does this once, while no service runs. The topics are
ahead of a restored database: they have events that it does not know, and groups have read them.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec

from datarecs_application.ports.messaging import LogRecord, Partition, Unreadable
from datarecs_core.errors.messaging import LogAccessDeniedError, LogUnavailableError
from datarecs_core.errors.store import ServicesRunningError
from datarecs_events.catalogue import SUBSCRIPTIONS, TOPICS
from datarecs_kafka.access import BrokerAccess, connecting
from datarecs_kafka.client import CONSUMER_SETTINGS, KafkaLogConsumer
from datarecs_kafka.topics import GROUPS, administration

POLL = timedelta(milliseconds=500)
EMPTY_POLLS = 60
"""This number in a row (30 s) without a record that must exist ends the reading with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewound:
    """A group that starts again at an earlier time."""

    group: str
    since: datetime
    partitions: int
    """Partitions with an offset that moved."""
    records: int
    """Records that the group reads again."""


def refuse_members(access: BrokerAccess, *, purpose: str) -> None:
    """Raise ServicesRunningError if a group of a service has members.

    The broker changes offsets only of groups without members. The member of a killed process
    remains until its session ends, 45 s after its death.
    """
    with administration(access) as admin:
        described = admin.describe_groups(list(GROUPS))
    running = [
        f"group {group} (members: {len(members)}; of a killed process until 45 s after its end)"
        for group in GROUPS
        if (members := described[group].get("members", []))
    ]
    if running:
        raise ServicesRunningError(running=running, purpose=purpose)


def rewind(
    access: BrokerAccess, since: Mapping[str, datetime], *, dry_run: bool
) -> tuple[Rewound, ...]:
    """Move the offsets of each group back to a time; never forward, so it is safe to repeat.

    A partition without an offset of the group stays so: the group reads it from its start.

    Args:
        access: of an administrator.
        since: by group; a record with this timestamp or a later one is read again.
        dry_run: only return what would move.

    Raises:
        LogUnavailableError: the broker cannot be reached, or it refused an offset.
        LogAccessDeniedError: a topic is missing.
    """
    with administration(access) as admin:
        return tuple(
            _rewind_group(admin, access, group, moment, dry_run=dry_run)
            for group, moment in since.items()
        )


def _rewind_group(
    admin: KafkaAdminClient, access: BrokerAccess, group: str, since: datetime, *, dry_run: bool
) -> Rewound:
    topics = {str(one.topic) for one in SUBSCRIPTIONS if one.service == group}
    committed = {
        where: entry.offset
        for where, entry in admin.list_group_offsets({group: None})[group].items()
        if where.topic in topics and entry.offset >= 0
    }
    starts = _offsets_at(admin, access, topics, since)
    back = {
        where: starts[where]
        for where, offset in committed.items()
        if where in starts and starts[where] < offset
    }
    if back and not dry_run:
        answers = admin.reset_group_offsets(group, dict(back))
        refused = {str(one["error"]) for one in answers.values() if one["error"].errno}
        if refused:
            cause = f"offsets of group {group}: {', '.join(sorted(refused))}"
            raise LogUnavailableError(where=access.bootstrap, cause=cause)
    return Rewound(
        group=group,
        since=since,
        partitions=len(back),
        records=sum(committed[where] - offset for where, offset in back.items()),
    )


def records_since(access: BrokerAccess, since: datetime) -> Iterator[LogRecord | Unreadable]:
    """Every record of the event topics with this timestamp or a later one, up to the present end.

    Within a partition in order. Joins no group and commits nothing.

    Raises:
        LogUnavailableError: the broker cannot be reached, or does not send a record that it has.
        LogAccessDeniedError: a topic is missing.
    """
    topics = {str(one.name) for one in TOPICS}
    with administration(access) as admin:
        starts = _offsets_at(admin, access, topics, since)
        ends = _offsets(admin, starts, OffsetSpec.LATEST)
    unread = {where: ends[where] for where, start in starts.items() if start < ends[where]}
    if not unread:
        return
    with connecting(access) as network:
        inner = KafkaConsumer(
            group_id=None, kafka_client=network, **access.settings(), **CONSUMER_SETTINGS
        )
    inner.assign(list(unread))
    for where in unread:
        inner.seek(where, starts[where])
    with closing(KafkaLogConsumer(inner, access)) as reader:
        yield from _read_to(reader, access, {Partition(*where): e for where, e in unread.items()})


def _read_to(
    reader: KafkaLogConsumer, access: BrokerAccess, unread: dict[Partition, int]
) -> Iterator[LogRecord | Unreadable]:
    empty = 0
    while unread:
        batches = reader.poll(POLL, max_records=500)
        empty = 0 if any(batches.values()) else empty + 1
        if empty > EMPTY_POLLS:
            cause = f"{len(unread)} partitions of events send no records"
            raise LogUnavailableError(where=access.bootstrap, cause=cause)
        for record in chain.from_iterable(batches.values()):
            where = Partition(record.topic, record.partition)
            end = unread.get(where)
            if end is not None and record.offset < end:
                yield record
            if end is not None and record.offset >= end - 1:
                del unread[where]
                reader.pause(where)


def _offsets_at(
    admin: KafkaAdminClient, access: BrokerAccess, topics: Iterable[str], since: datetime
) -> dict[TopicPartition, int]:
    """The first offset at a time or later, of every partition; its end if there is none."""
    known = {topic["name"]: topic["partitions"] for topic in admin.describe_topics()}
    missing = tuple(sorted(set(topics) - known.keys()))
    if missing:
        raise LogAccessDeniedError(principal=access.username, names=missing)
    parts = [
        TopicPartition(topic, number) for topic in topics for number in range(len(known[topic]))
    ]
    moment = int(since.timestamp() * 1000)
    at = {
        where: entry.offset
        for where, entry in admin.list_partition_offsets(dict.fromkeys(parts, moment)).items()
    }
    ends = _offsets(admin, parts, OffsetSpec.LATEST)
    return {where: at[where] if at[where] >= 0 else ends[where] for where in parts}


def _offsets(
    admin: KafkaAdminClient, parts: Iterable[TopicPartition], spec: int
) -> dict[TopicPartition, int]:
    answers = admin.list_partition_offsets(dict.fromkeys(parts, spec))
    return {where: int(entry.offset) for where, entry in answers.items()}
