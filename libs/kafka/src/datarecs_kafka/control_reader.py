"""Reads the control topic of a sink, whole messages of committed transactions only."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import structlog
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import CorruptRecordError, KafkaError, OffsetOutOfRangeError

from datarecs_application.ports.messaging import LogRecord
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.control import Envelope, SourcePartition
from datarecs_kafka.access import connecting
from datarecs_kafka.client import record_of
from datarecs_kafka.control_codec import ControlDecodeError, decode_event
from datarecs_kafka.control_headers import decode_headers, is_of_sink
from datarecs_kafka.sink_failures import failures_of, translated
from datarecs_kafka.sink_producer import Surroundings
from datarecs_kafka.source_member import (
    CALL_TIMEOUT_MS,
    CLOSE_TIMEOUT_MS,
    READING_SETTINGS,
    bounds_of,
)

MOST_MESSAGES = 500
"""Of one poll."""
log = structlog.get_logger(__name__)


class KafkaControlReader:
    """Member of no group. Not safe for several threads."""

    def __init__(self, surroundings: Surroundings, offset: int | None) -> None:
        """From an offset; None: from the end."""
        self._of = surroundings
        self._partition = SourcePartition(surroundings.names.control, 0)
        self._where = TopicPartition(*self._partition)
        access = surroundings.access
        with connecting(access) as network:
            self._inner = KafkaConsumer(
                kafka_client=network,
                **access.settings(),
                **READING_SETTINGS,
                max_poll_records=MOST_MESSAGES,
            )
        self._inner.assign([self._where])
        try:
            self._inner.seek(self._where, self.end() if offset is None else offset)
        except BaseException:
            self.close()
            raise

    def poll(self, timeout: timedelta) -> Sequence[Envelope]:
        try:
            batches = self._inner.poll(timeout_ms=int(timeout.total_seconds() * 1000))
        except OffsetOutOfRangeError as cause:
            raise self._gap(cause.args[0][self._where]) from cause
        except CorruptRecordError as cause:
            raise _damaged(self._of.names.control, str(cause)) from cause
        except KafkaError as cause:
            raise translated(cause, self._of.access) from cause
        if not batches:
            self._of.access.require_none_refused()
        records = (record_of(raw) for batch in batches.values() for raw in batch)
        envelopes = (envelope_of(record, group=self._of.names.group) for record in records)
        return [envelope for envelope in envelopes if envelope is not None]

    def _gap(self, position: int) -> SinkError:
        begin, end = bounds_of(self._inner, self._partition, self._of)
        if position < begin:
            text = f"messages {position} to {begin - 1} were removed, and are needed"
            return SinkError(SinkCode.CONTROL_GAP, f"{self._partition.topic}: {text}")
        text = f"it ends at {end}, and {position} was read before; it is another topic"
        return SinkError(SinkCode.LINEAGE_MISMATCH, f"{self._partition.topic}: {text}")

    def position(self) -> int:
        with failures_of(self._of.access):
            position = self._inner.position(self._where, timeout_ms=CALL_TIMEOUT_MS)
        return int(position)

    def begin(self) -> int:
        return bounds_of(self._inner, self._partition, self._of)[0]

    def end(self) -> int:
        return bounds_of(self._inner, self._partition, self._of)[1]

    def close(self) -> None:
        with failures_of(self._of.access):
            self._inner.close(autocommit=False, timeout_ms=CLOSE_TIMEOUT_MS)


def envelope_of(record: LogRecord, *, group: str) -> Envelope | None:
    """A message of this group; None for one of another.

    A value without a readable group is of this sink if it has its headers.

    Raises:
        SinkError: CONTROL_DAMAGED.
    """
    place = f"{record.topic} offset {record.offset}"
    try:
        event = decode_event(record.value or b"")
        if event.group != group:
            _report_foreign(record, event.group)
            return None
        sender = UUID(bytes=record.key or b"")
        headers = decode_headers(event.message, record.headers)
    except ControlDecodeError as cause:
        if cause.group == group or (cause.group is None and is_of_sink(record.headers)):
            raise _damaged(place, str(cause)) from cause
        _report_foreign(record, cause.group)
        return None
    except ValueError as cause:
        raise _damaged(place, str(cause)) from cause
    return Envelope(
        offset=record.offset,
        sender=sender,
        sent_at=event.time,
        headers=headers,
        message=event.message,
    )


def _report_foreign(record: LogRecord, group: str | None) -> None:
    log.warning("foreign_control_message", topic=record.topic, offset=record.offset, of_group=group)


def _damaged(place: str, reason: str) -> SinkError:
    text = f"a message of the control topic cannot be read ({place}): {reason[:300]}"
    return SinkError(SinkCode.CONTROL_DAMAGED, text)
