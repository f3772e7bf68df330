"""One member of a sink's consumer group on the Kafka client.

Generation and assignment are read after each poll and returned with its records: at the time of a
vote the client can already have another generation than the records were read in.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import (
    CorruptRecordError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    UnsupportedCodecError,
)

from datarecs_application.ports.messaging import LogRecord
from datarecs_application.ports.sinking import MemberStamp, Polled
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.control import SourcePartition
from datarecs_kafka.access import connecting
from datarecs_kafka.client import Assignor, record_of
from datarecs_kafka.sink_failures import failures_of, translated
from datarecs_kafka.sink_producer import Surroundings

READING_SETTINGS: Mapping[str, object] = MappingProxyType(
    {
        "enable_auto_commit": False,
        # Never moved silently: what retention removed is a gap, and the sink says so.
        "auto_offset_reset": "none",
        "isolation_level": "read_committed",
        "allow_auto_create_topics": False,
        "fetch_max_bytes": 32 * 1_048_576,
        "fetch_max_wait_ms": 500,
        "metrics_enabled": False,
    }
)
MEMBER_SETTINGS: Mapping[str, object] = MappingProxyType(
    {
        **READING_SETTINGS,
        "max_poll_records": 5_000,
        # Others take over soon; a member that comes back late is refused, and reads again.
        "session_timeout_ms": 10_000,
        "heartbeat_interval_ms": 3_000,
        "max_poll_interval_ms": 300_000,
        "metadata_max_age_ms": 30_000,  # until new partitions of a topic are read
    }
)
CALL_TIMEOUT_MS = 10_000
STABLE_TIMEOUT_MS = 40_000
"""A vote of a member that died holds its offsets until the broker ends it after 15 to 25 s."""
CLOSE_TIMEOUT_MS = 5_000
_UNREADABLE = (CorruptRecordError, UnsupportedCodecError)


class KafkaSourceMember:
    """Not safe for several threads."""

    def __init__(
        self, surroundings: Surroundings, topics: Sequence[str], *, session_ms: int | None = None
    ) -> None:
        """`session_ms`: until a member that stopped is removed; None is the default of 10 s."""
        self._of = surroundings
        access, assignor = surroundings.access, Assignor()
        settings = dict(MEMBER_SETTINGS)
        if session_ms is not None:
            settings |= {"session_timeout_ms": session_ms, "heartbeat_interval_ms": session_ms // 3}
        with connecting(access) as network:
            self._inner = KafkaConsumer(
                *topics,
                group_id=surroundings.names.group,
                kafka_client=network,
                **access.settings(),
                **settings,
                partition_assignment_strategy=(assignor,),
            )
        assignor.reads = self._inner.assignment
        self._stamp = MemberStamp(generation=-1, member_id="", assignment=frozenset())
        self._paused: frozenset[SourcePartition] = frozenset()

    def poll(self, timeout: timedelta, *, max_records: int) -> Polled:
        batches = self._poll_inner(timeout, max_records)
        self._stamp = self._read_stamp()
        self._apply_pauses()
        records = self._readable(batches)
        if not records:
            self._of.access.require_none_refused()
        return Polled(stamp=self._stamp, records=records)

    def _readable(
        self, batches: Mapping[TopicPartition, Sequence[Any]]
    ) -> Mapping[SourcePartition, Sequence[LogRecord]]:
        """Of partitions that are assigned and not paused."""
        records = {}
        for where, batch in batches.items():
            partition = SourcePartition(*where)
            if partition not in self._stamp.assignment:
                continue
            if partition in self._paused:  # it was gained and read in one poll
                self._inner.seek(where, batch[0].offset)
                continue
            records[partition] = [record_of(one) for one in batch]
        return records

    def _poll_inner(
        self, timeout: timedelta, max_records: int
    ) -> Mapping[TopicPartition, Sequence[Any]]:
        milliseconds = int(timeout.total_seconds() * 1000)
        try:
            batches: Mapping[TopicPartition, Sequence[Any]] = self._inner.poll(
                timeout_ms=milliseconds, max_records=max_records
            )
        except NoOffsetForPartitionError as cause:
            self._inner.seek_to_beginning(*cause.args[0])
            return {}
        except OffsetOutOfRangeError as cause:
            raise self._gap(cause.args[0]) from cause
        except _UNREADABLE as cause:
            raise SinkError(SinkCode.BAD_RECORD, f"a record cannot be read: {cause}") from cause
        except KafkaError as cause:
            raise translated(cause, self._of.access) from cause
        return batches

    def _gap(self, positions: Mapping[TopicPartition, int]) -> SinkError:
        where, position = next(iter(positions.items()))
        begin, end = self.bounds(SourcePartition(*where))
        place = f"{where.topic} {where.partition}"
        if position < begin:
            text = f"records {position} to {begin - 1} were removed before they were read"
        else:
            text = f"the topic ends at {end}, and {position} was read before; it is another one"
        return SinkError(SinkCode.SOURCE_GAP, f"{place}: {text}")

    def _read_stamp(self) -> MemberStamp:
        """Generation and assignment of one moment; another thread can change both."""
        while True:
            before = self._inner.group_metadata()
            assignment = frozenset(SourcePartition(*one) for one in self._inner.assignment())
            if self._inner.group_metadata() == before:
                return MemberStamp(
                    generation=before.generation_id,
                    member_id=before.member_id,
                    assignment=assignment,
                )

    def _apply_pauses(self) -> None:
        wanted = {TopicPartition(*one) for one in self._paused & self._stamp.assignment}
        paused = set(self._inner.paused())
        self._inner.pause(*(wanted - paused))
        self._inner.resume(*(paused - wanted))

    def stamp(self) -> MemberStamp:
        return self._stamp

    def committed(self, partition: SourcePartition) -> int | None:
        with failures_of(self._of.access):
            offset = self._inner.committed(TopicPartition(*partition), timeout_ms=STABLE_TIMEOUT_MS)
        return None if offset is None or offset < 0 else int(offset)

    def bounds(self, partition: SourcePartition) -> tuple[int, int]:
        return bounds_of(self._inner, partition, self._of)

    def position(self, partition: SourcePartition) -> int:
        with failures_of(self._of.access):
            return int(self._inner.position(TopicPartition(*partition), timeout_ms=CALL_TIMEOUT_MS))

    def offset_at(self, partition: SourcePartition, time: datetime) -> int:
        where = TopicPartition(*partition)
        times = {where: int(time.timestamp() * 1000)}
        with failures_of(self._of.access):
            first = self._inner.offsets_for_times(times, timeout_ms=CALL_TIMEOUT_MS).get(where)
        _, end = self.bounds(partition)
        return end if first is None else min(int(first.offset), end)

    def seek(self, partition: SourcePartition, offset: int) -> None:
        self._inner.seek(TopicPartition(*partition), offset)

    def pause(self, partitions: frozenset[SourcePartition]) -> None:
        self._paused = partitions
        self._apply_pauses()

    def close(self) -> None:
        with failures_of(self._of.access):
            self._inner.close(autocommit=False, timeout_ms=CLOSE_TIMEOUT_MS)


def bounds_of(
    inner: KafkaConsumer, partition: SourcePartition, surroundings: Surroundings
) -> tuple[int, int]:
    """First offset, and the last stable one, as the broker has them now."""
    where = TopicPartition(*partition)
    with failures_of(surroundings.access):
        begin = inner.beginning_offsets([where], timeout_ms=CALL_TIMEOUT_MS)[where]
        end = inner.end_offsets([where], timeout_ms=CALL_TIMEOUT_MS)[where]
    return int(begin), int(end)
