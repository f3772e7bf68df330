"""Read a bounded part of a topic without a group: its identity, its bounds, its committed records.

Separate from `client`, which serves the platform's own log: here every partition is read between
two offsets, nothing is committed, and a topic that was deleted and created again is another one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from time import monotonic
from typing import NamedTuple
from uuid import UUID

from kafka import IsolationLevel, KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec
from kafka.errors import (
    AuthorizationError,
    CorruptRecordError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
    UnsupportedCodecError,
    UnsupportedVersionError,
    for_code,
)

from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_kafka.access import connecting
from datarecs_kafka.cluster_access import ClusterAccess

REQUEST_TIMEOUT_MS = 20_000
STALL_S = 60
"""A partition without progress for this time has no reachable leader."""
POLL_MS = 500
MAX_FETCH_BYTES = 8 * 1024 * 1024
"""Of one answer; a single larger batch is returned whole."""
RECORDS_PER_POLL = 2_000


class TopicFault(Enum):
    UNREACHABLE = auto()
    LOGIN_REFUSED = auto()
    FORBIDDEN = auto()
    MISSING = auto()
    OFFSETS_GONE = auto()
    UNSUPPORTED = auto()
    CORRUPT = auto()


class TopicReadError(Exception):
    """Why a topic cannot be read; the message contains no value of a record and no secret."""

    def __init__(self, fault: TopicFault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIdentity:
    cluster_id: str
    topic_id: str
    partitions: tuple[int, ...]
    """In ascending order."""


class TopicRecord(NamedTuple):
    partition: int
    offset: int
    timestamp_ms: int
    """Since 1970 in UTC; -1 without one."""
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class TopicReader:
    """Reads topics of one cluster. Every call may raise TopicReadError."""

    access: ClusterAccess

    def topics(self) -> tuple[str, ...]:
        """Names that the login may see, in order."""
        with self._administration() as admin:
            return tuple(sorted(admin.list_topics()))

    def identity(self, topic: str) -> TopicIdentity:
        """Which topic it is, and its partitions."""
        with self._administration() as admin:
            cluster = admin.describe_cluster()["cluster_id"]
            (described,) = admin.describe_topics([topic])
            error = for_code(described["error_code"])
            if described["error_code"]:
                raise error(f"topic {topic}")
            partitions = sorted(each["partition_index"] for each in described["partitions"])
        return TopicIdentity(
            cluster_id=str(cluster),
            topic_id=_topic_id(described.get("topic_id")),
            partitions=tuple(partitions),
        )

    def earliest(self, topic: str, partitions: Sequence[int]) -> Mapping[int, int]:
        """The first offset of each partition."""
        return self._offsets(topic, dict.fromkeys(partitions, OffsetSpec.EARLIEST))

    def ends(self, topic: str, partitions: Sequence[int]) -> Mapping[int, int]:
        """Behind the last committed record of each partition: no open transaction begins below."""
        return self._offsets(topic, dict.fromkeys(partitions, OffsetSpec.LATEST))

    def at_time(self, topic: str, partitions: Sequence[int], moment_ms: int) -> Mapping[int, int]:
        """The first record of each partition with this time or a later one; none: left out."""
        offsets = self._offsets(topic, dict.fromkeys(partitions, moment_ms))
        return {partition: offset for partition, offset in offsets.items() if offset >= 0}

    def records(
        self, topic: str, partition: int, bounds: tuple[int, int], check: Callable[[], None]
    ) -> Iterator[Sequence[TopicRecord]]:
        """Committed records with offsets in `[start, end)`, in their order, in small lists.

        Offsets of removed records and of transaction markers are skipped.

        Args:
            topic: its name.
            partition: of the topic.
            bounds: start and end.
            check: called between lists; an exception of it ends the read.
        """
        start, end = bounds
        place, progress = TopicPartition(topic, partition), monotonic()
        with self._consumer(f"partition {partition} of {topic}") as consumer:
            consumer.assign([place])
            consumer.seek(place, start)
            position = start
            while position < end:
                check()
                polled = consumer.poll(timeout_ms=POLL_MS, max_records=RECORDS_PER_POLL)
                read = [_record(each) for each in polled.get(place, ()) if each.offset < end]
                if read:
                    yield read
                now = consumer.position(place, timeout_ms=POLL_MS)
                if now is not None and now > position:
                    position, progress = now, monotonic()
                    continue
                self.access.require_none_refused()
                if monotonic() - progress > STALL_S:
                    raise TopicReadError(
                        TopicFault.UNREACHABLE,
                        f"partition {partition} of topic {topic} returned nothing for {STALL_S} s "
                        f"at offset {position}; check its leader",
                    )

    def _offsets(self, topic: str, wanted: Mapping[int, object]) -> dict[int, int]:
        if not wanted:
            return {}
        with self._administration() as admin:
            answers = admin.list_partition_offsets(
                {TopicPartition(topic, partition): spec for partition, spec in wanted.items()},
                isolation_level=IsolationLevel.READ_COMMITTED,
            )
        return {place.partition: int(answer.offset) for place, answer in answers.items()}

    def _settings(self) -> dict[str, object]:
        return self.access.settings() | {"client_id": "datarecs"}

    @contextmanager
    def _administration(self) -> Iterator[KafkaAdminClient]:
        with self._translated(""):
            with connecting(self.access) as network:
                admin = KafkaAdminClient(
                    kafka_client=network,
                    **self._settings(),
                    request_timeout_ms=REQUEST_TIMEOUT_MS,
                )
            try:
                yield admin
            finally:
                admin.close()

    @contextmanager
    def _consumer(self, place: str) -> Iterator[KafkaConsumer]:
        with self._translated(place):
            with connecting(self.access) as network:
                consumer = KafkaConsumer(
                    kafka_client=network,
                    **self._settings(),
                    group_id=None,
                    enable_auto_commit=False,
                    allow_auto_create_topics=False,
                    auto_offset_reset="none",
                    isolation_level="read_committed",
                    fetch_max_bytes=MAX_FETCH_BYTES,
                    max_partition_fetch_bytes=MAX_FETCH_BYTES,
                )
            try:
                yield consumer
            finally:
                consumer.close(autocommit=False)

    @contextmanager
    def _translated(self, place: str) -> Iterator[None]:
        """Errors of the library; behind many of them is an address that may not be dialled."""
        try:
            yield
        except (KafkaError, LogUnavailableError) as cause:
            try:
                self.access.require_none_refused()
            except LogUnavailableError as refused:
                raise _unreachable(refused) from cause
            if isinstance(cause, LogUnavailableError):
                raise _unreachable(cause) from cause
            raise _fault(cause, place) from cause


def _unreachable(cause: LogUnavailableError) -> TopicReadError:
    is_refused = "authentication" in cause.cause.lower()
    return TopicReadError(
        TopicFault.LOGIN_REFUSED if is_refused else TopicFault.UNREACHABLE,
        f"{cause.where}: {cause.cause}",
    )


def _fault(cause: KafkaError, place: str) -> TopicReadError:
    where = place or str(cause)
    match cause:
        case AuthorizationError():
            return TopicReadError(
                TopicFault.FORBIDDEN,
                f"{where}: the login may not read it; grant READ and DESCRIBE of the topic",
            )
        case UnknownTopicOrPartitionError():
            return TopicReadError(
                TopicFault.MISSING,
                f"{where}: the cluster has no such topic, or the login may not see it",
            )
        case OffsetOutOfRangeError() | NoOffsetForPartitionError():
            return TopicReadError(TopicFault.OFFSETS_GONE, f"{where}: pinned offsets are gone")
        case UnsupportedCodecError() | UnsupportedVersionError():
            return TopicReadError(TopicFault.UNSUPPORTED, f"{where}: {cause}")
        case CorruptRecordError():
            return TopicReadError(TopicFault.CORRUPT, f"{where}: a record is damaged")
        case _:
            message = f"{place}: {type(cause).__name__}: {cause}".removeprefix(": ")
            return TopicReadError(TopicFault.UNREACHABLE, message)


def _record(record: object) -> TopicRecord:
    return TopicRecord(
        record.partition,  # type: ignore[attr-defined]  # the library's named tuple has no types
        record.offset,  # type: ignore[attr-defined]  # see above
        record.timestamp,  # type: ignore[attr-defined]  # see above
        record.key,  # type: ignore[attr-defined]  # see above
        record.value,  # type: ignore[attr-defined]  # see above
    )


def _topic_id(written: object) -> str:
    """Empty for brokers before 2.8, which have none."""
    return "" if written in (None, UUID(int=0)) else str(written)
