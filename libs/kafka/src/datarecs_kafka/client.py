"""`LogClient` over kafka-python: the settings that prevent loss of records, and workarounds.

The only module that depends on the library's behaviour; another client can be added and checked
with the same conformance suite. Private names of the library are used in two places, each marked;
the version is pinned for them and a test detects changes.
"""

import struct
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from time import monotonic
from types import MappingProxyType
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import (
    AuthorizationError,
    CommitFailedError,
    CorruptRecordError,
    IllegalGenerationError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    RebalanceInProgressError,
    RecordListTooLargeError,
    RetriableError,
    UnknownMemberIdError,
    UnsupportedCodecError,
)

from datarecs_application.ports.messaging import (
    Ack,
    LogRecord,
    NotSent,
    Partition,
    SendOutcome,
    Sent,
    Unreadable,
)
from datarecs_core.errors.messaging import LogAccessDeniedError, LogUnavailableError
from datarecs_kafka.access import BrokerAccess, connecting

CONSUMER_SETTINGS: Mapping[str, object] = MappingProxyType(
    {
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",  # `latest` loses events from before a group's first join
        "isolation_level": "read_committed",
        "allow_auto_create_topics": False,
        "max_poll_records": 100,
        "session_timeout_ms": 45_000,
        "heartbeat_interval_ms": 3_000,
        "fetch_max_wait_ms": 2_000,  # the broker answers at once if there are records
        "metrics_enabled": False,
    }
)
PRODUCER_SETTINGS: Mapping[str, object] = MappingProxyType(
    {
        "acks": "all",
        "enable_idempotence": True,  # covers one process only; the inbox covers the rest
        "max_block_ms": 10_000,
        "linger_ms": 0,
        "max_request_size": 1_048_576,
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
    }
)
PATIENCE = timedelta(seconds=5)
"""Margin after the delivery timeout; an outcome that is missing then never arrives."""
CALL_TIMEOUT_MS = 10_000
CLOSE_TIMEOUT_S = 5.0

_GROUP_MOVED_ON = (
    CommitFailedError,
    IllegalGenerationError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
_UNREADABLE = (
    CorruptRecordError,
    UnsupportedCodecError,
    ValueError,
    OSError,
    EOFError,
    struct.error,
    zlib.error,
)
_NEVER_TAKEN = (
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    InvalidTimestampError,
    InvalidRecordError,
)


def _ms(duration: timedelta) -> int:
    return max(int(duration.total_seconds() * 1000), 0)


class Assignor(CooperativeStickyAssignor):
    """Claims at a join the current partitions of its member; the library's also claims lost ones.

    After a stall two members would claim the same partitions, and at first none would get them.
    """

    def __init__(self) -> None:
        CooperativeStickyAssignor.__init__(self)
        self.reads: Callable[[], Iterable[TopicPartition]] = tuple

    def metadata(self, topics: Iterable[str]) -> Any:  # noqa: ANN401 - untyped library
        self.member_assignment = sorted(self.reads())
        return CooperativeStickyAssignor.metadata(self, topics)


@dataclass(frozen=True, slots=True)
class KafkaLogClient:
    """Opens consumers and producers of one principal."""

    access: BrokerAccess
    poll_interval: timedelta = timedelta(minutes=5)
    """A member that has not polled for this time is removed from its group, and others repeat the
    records that it has not committed. Ten times the longest batch."""
    delivery: timedelta = timedelta(seconds=30)
    """Time in which the library tries to deliver a record, over any number of requests."""

    def consumer(self, *, group: str, topics: Sequence[str]) -> "KafkaLogConsumer":
        """Raises LogUnavailableError, LogAccessDeniedError for a topic that is not visible."""
        assignor = Assignor()
        with connecting(self.access) as network:
            inner = KafkaConsumer(
                *topics,
                group_id=group,
                kafka_client=network,
                **self.access.settings(),
                **CONSUMER_SETTINGS,
                partition_assignment_strategy=(assignor,),
                max_poll_interval_ms=_ms(self.poll_interval),
            )
        assignor.reads = inner.assignment
        consumer = KafkaLogConsumer(inner, self.access)
        try:
            consumer.require(topics)
        except BaseException:
            consumer.close()
            raise
        return consumer

    def producer(self) -> "KafkaLogProducer":
        """Connects at the first send."""
        return KafkaLogProducer(self.access, delivery=self.delivery)


class KafkaLogConsumer:
    """One group member. Not safe for several threads."""

    def __init__(self, inner: KafkaConsumer, access: BrokerAccess) -> None:
        self._inner, self._access = inner, access

    def require(self, topics: Sequence[str]) -> None:
        """Compare the requested topics with the topics that the broker shows this principal."""
        try:
            hidden = tuple(t for t in topics if not self._inner.partitions_for_topic(t))
        except KafkaError as cause:
            raise self._translated(cause, *topics) from cause
        if hidden:
            raise LogAccessDeniedError(principal=self._access.username, names=hidden)

    def poll(
        self, timeout: timedelta, *, max_records: int
    ) -> Mapping[Partition, Sequence[LogRecord | Unreadable]]:
        try:
            batches = self._inner.poll(timeout_ms=_ms(timeout), max_records=max_records)
        except _UNREADABLE as cause:
            return self._past_unreadable(cause)
        except KafkaError as cause:
            raise self._translated(cause) from cause
        return {
            Partition(*where): [record_of(record) for record in batch]
            for where, batch in batches.items()
        }

    def _past_unreadable(self, cause: Exception) -> Mapping[Partition, Sequence[Unreadable]]:
        """Return the position of the record that the library cannot read, and seek past it.

        Without a seek the library polls the broken batch without end. Later records of the same
        batch are also reported as unreadable, one by one; a batch has one producer, so none of
        them is from this platform.
        """
        # Private: no public name has the partition of an exception of `poll`.
        broken = self._inner._fetcher._next_partition_records  # noqa: SLF001 - see above
        if broken is None:
            raise self._translated(cause) from cause
        where = broken.topic_partition
        offset = max(broken.next_fetch_offset, broken.fetch_offset)
        self._inner.seek(where, offset + 1)
        unreadable = Unreadable(
            topic=where.topic,
            partition=where.partition,
            offset=offset,
            error=f"{type(cause).__name__}: {cause}"[:300],
        )
        return {Partition(*where): [unreadable]}

    def assignment(self) -> frozenset[Partition]:
        return frozenset(Partition(*where) for where in self._inner.assignment())

    def seek(self, partition: Partition, offset: int) -> None:
        self._inner.seek(TopicPartition(*partition), offset)

    def pause(self, *partitions: Partition) -> None:
        self._inner.pause(*(TopicPartition(*partition) for partition in partitions))

    def resume(self, *partitions: Partition) -> None:
        self._inner.resume(*(TopicPartition(*partition) for partition in partitions))

    def commit(self, offsets: Mapping[Partition, int]) -> bool:
        # The broker accepts commits of any member of the group, also for partitions of others.
        if not offsets.keys() <= self.assignment():
            return False
        explicit = {TopicPartition(*p): OffsetAndMetadata(o, "", -1) for p, o in offsets.items()}
        try:
            self._inner.commit(explicit, timeout_ms=CALL_TIMEOUT_MS)
        except _GROUP_MOVED_ON:
            return False
        except KafkaError as cause:
            raise self._translated(cause, *{p.topic for p in offsets}) from cause
        return True

    def committed(self, partition: Partition) -> int | None:
        try:
            offset = self._inner.committed(TopicPartition(*partition), timeout_ms=CALL_TIMEOUT_MS)
        except KafkaError as cause:
            raise self._translated(cause, partition.topic) from cause
        return None if offset is None or offset < 0 else int(offset)

    def begin_offset(self, partition: Partition) -> int:
        return self._bound(self._inner.beginning_offsets, partition)

    def end_offset(self, partition: Partition) -> int:
        return self._bound(self._inner.end_offsets, partition)

    def _bound(self, fetch_offsets: Any, partition: Partition) -> int:  # noqa: ANN401 - untyped library
        where = TopicPartition(*partition)
        try:
            return int(fetch_offsets([where], timeout_ms=CALL_TIMEOUT_MS)[where])
        except KafkaError as cause:
            raise self._translated(cause, partition.topic) from cause

    def close(self) -> None:
        """Leave the group without committing; bounded in time, safe to repeat."""
        try:
            self._inner.close(autocommit=False, timeout_ms=int(CLOSE_TIMEOUT_S * 1000))
        except KafkaError as cause:
            raise self._translated(cause) from cause

    def _translated(
        self, cause: Exception, *names: str
    ) -> LogUnavailableError | LogAccessDeniedError:
        if isinstance(cause, AuthorizationError):
            return LogAccessDeniedError(
                principal=self._access.username, names=names or (str(cause)[:200],)
            )
        return LogUnavailableError(where=self._access.bootstrap, cause=str(cause)[:300])


def record_of(raw: Any) -> LogRecord:  # noqa: ANN401 - untyped library
    return LogRecord(
        topic=raw.topic,
        partition=raw.partition,
        offset=raw.offset,
        timestamp_ms=raw.timestamp,
        key=raw.key,
        value=raw.value,
        headers=tuple(raw.headers),
    )


class KafkaLogProducer:
    """Sends records of one principal.

    After a refusal of the broker the library's producer fails for every later record, so it is
    replaced before the next send. It is also replaced if a record was not delivered in time: after
    such an outage the library accepts further records, but neither sends them nor fails them.
    """

    def __init__(self, access: BrokerAccess, *, delivery: timedelta) -> None:
        self._access, self._delivery = access, delivery
        self._inner: KafkaProducer | None = None
        self._spoiled = False

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes]],
        partition: int | None = None,
    ) -> Ack:
        if key is None and value is None:
            return _Settled(NotSent("a record needs a key or a value", permanent=True))
        inner = self._ready()
        try:
            future = inner.send(
                topic, key=key, value=value, headers=list(headers), partition=partition
            )
        except (MessageSizeTooLargeError, TypeError) as cause:
            return _Settled(NotSent(_reason(cause), permanent=True))
        except ValueError as cause:  # the topic or partition is not known
            return _Settled(NotSent(_reason(cause), permanent=False))
        except KafkaError as cause:  # `send` blocks on metadata
            raise LogUnavailableError(where=self._access.bootstrap, cause=_reason(cause)) from cause
        return _Pending(future, self, monotonic() + (self._delivery + PATIENCE).total_seconds())

    def _ready(self) -> KafkaProducer:
        if self._spoiled:
            self.close()
        if self._inner is None:
            with connecting(self._access) as network:
                self._inner = KafkaProducer(
                    kafka_client=network,
                    **self._access.settings(),
                    **PRODUCER_SETTINGS,
                    delivery_timeout_ms=_ms(self._delivery),
                    request_timeout_ms=_ms(self._delivery / 3),
                )
        return self._inner

    def spoil(self) -> None:
        """Discard the library's producer; the next send creates another one."""
        self._spoiled = True

    def close(self) -> None:
        """Flush the records that the broker accepts within 5 s; safe to repeat."""
        inner, self._inner, self._spoiled = self._inner, None, False
        if inner is None:
            return
        try:
            inner.close(timeout=CLOSE_TIMEOUT_S)
        except KafkaTimeoutError:
            # Private: `close` flushes first and fails before it stops its thread.
            inner._sender.force_close()  # noqa: SLF001 - see above
            inner._sender.join(CLOSE_TIMEOUT_S)  # noqa: SLF001 - see above
            inner.close(timeout=CLOSE_TIMEOUT_S)


def _reason(cause: Exception) -> str:
    return f"{type(cause).__name__}: {cause}"[:300]


@dataclass(frozen=True, slots=True)
class _Settled:
    outcome: NotSent

    def done(self) -> bool:
        return True

    def wait(self, timeout: timedelta) -> SendOutcome:
        del timeout
        return self.outcome


@dataclass(frozen=True, slots=True)
class _Pending:
    future: Any
    producer: KafkaLogProducer
    until: float
    """Time limit by the monotonic clock, after the library's limit, so no result can follow."""

    def done(self) -> bool:
        return bool(self.future.is_done) or monotonic() > self.until

    def wait(self, timeout: timedelta) -> SendOutcome:
        """Only the future contains a refusal."""
        limit = 0.0 if self.done() else timeout.total_seconds()
        try:
            written = self.future.get(limit)
        except KafkaError as cause:
            overdue = isinstance(cause, KafkaTimeoutError)
            if self.done() and (overdue or not isinstance(cause, RetriableError)):
                self.producer.spoil()
            return NotSent(_reason(cause), permanent=isinstance(cause, _NEVER_TAKEN))
        return Sent(written.partition, written.offset)
