"""Transactions of a sink: votes with their offsets and dead letters, messages of the coordinator.

Each call is one transaction under a time limit. Each task and the coordinator of a sink have a
transactional id; the newest producer of an id fences the others and ends what they left open.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kafka import ConsumerGroupMetadata, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    ProducerFencedError,
    RecordListTooLargeError,
    UnknownMemberIdError,
)

from datarecs_application.ports.outside import Clock, Ids
from datarecs_application.ports.sinking import DeadLetter, MemberStamp, VoteRefusedError
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.control import Outgoing, SourcePartition
from datarecs_kafka.access import connecting
from datarecs_kafka.cluster_access import ClusterAccess
from datarecs_kafka.control_codec import Event, encode_event
from datarecs_kafka.control_headers import encode_headers
from datarecs_kafka.sink_failures import translated
from datarecs_kafka.sink_names import COORDINATOR, SinkNames
from datarecs_kafka.watchdog import Watchdog

MIB = 1_048_576
MOST_MESSAGE_BYTES = MIB - 4_096
"""Of a control message, so that it fits into the 1 MiB of its topic with key and headers."""
MOST_LETTER_BYTES = 17 * MIB
"""A value of at most 16 MiB, its key and headers, and the reason. The topic takes 1 MiB more."""
TRANSACTION_TIMEOUT_MS = 15_000
CLOSE_TIMEOUT_S = 5.0

SETTINGS: Mapping[str, object] = MappingProxyType(
    {
        "acks": "all",
        "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
        # An end of a transaction without an answer in this time is fatal, with an unknown outcome.
        # The process is ended before.
        "request_timeout_ms": 60_000,
        "max_block_ms": 10_000,
        "linger_ms": 0,
        "max_request_size": MOST_LETTER_BYTES,
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
    }
)
_REPLACED = (
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
)
_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
_REFUSED = (CommitFailedError, IllegalGenerationError, UnknownMemberIdError, *_REPLACED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the clients of one sink share."""

    access: ClusterAccess
    names: SinkNames
    clock: Clock
    ids: Ids
    watchdog: Watchdog


class KafkaSinkProducer:
    """Of one role. Not safe for several threads."""

    def __init__(self, surroundings: Surroundings, role: str) -> None:
        """Raises LogUnavailableError, SinkError TOPIC_REFUSED."""
        self._of, self._role = surroundings, role
        self._sender = surroundings.ids.new()
        self._inner: KafkaProducer | None = self._connected()
        self._is_replaced = False

    def _connected(self) -> KafkaProducer:
        """Fences older producers of the role, and aborts what they left open."""
        access, names = self._of.access, self._of.names
        with self._of.watchdog.watch("begin of a producer"):
            with connecting(access) as network:
                inner = KafkaProducer(
                    kafka_client=network,
                    **access.settings(),
                    **SETTINGS,
                    transactional_id=names.transactional_id(self._role),
                )
            _forbid_new_epochs(inner)
            try:
                inner.init_transactions()
            except KafkaError as cause:
                _close(inner)
                raise translated(cause, access) from cause
        return inner

    def vote(
        self,
        messages: Sequence[Outgoing],
        offsets: Mapping[SourcePartition, int],
        stamp: MemberStamp,
        dead_letters: Sequence[DeadLetter],
    ) -> None:
        if stamp.generation < 0 or not stamp.member_id:
            # The broker takes offsets of nobody without looking at the group.
            raise VoteRefusedError("the task is no member of the group")
        group = self._of.names.group
        positions = {
            TopicPartition(*partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        with self._transaction() as (inner, send):
            self._send_letters(dead_letters, send)
            for outgoing in messages:
                self._send_message(outgoing, send)
            member = ConsumerGroupMetadata(group, stamp.generation, stamp.member_id, None)
            inner.send_offsets_to_transaction(positions, member)

    def announce(self, messages: Sequence[Outgoing]) -> None:
        with self._transaction() as (_, send):
            for outgoing in messages:
                self._send_message(outgoing, send)

    def _send_message(self, outgoing: Outgoing, send: Callable[..., Any]) -> None:
        event = Event(
            id=self._of.ids.new(),
            group=self._of.names.group,
            time=self._of.clock.now(),
            message=outgoing.message,
        )
        value, headers = encode_event(event), encode_headers(outgoing.message, outgoing.headers)
        size = len(value) + sum(len(name) + len(content) for name, content in headers)
        if size > MOST_MESSAGE_BYTES:
            text = f"a control message has {size} bytes, and the topic takes {MOST_MESSAGE_BYTES}"
            raise SinkError(SinkCode.COMMIT_FAILED, text)
        send(
            self._of.names.control,
            key=self._sender.bytes,
            value=value,
            headers=headers,
            partition=0,
        )

    def _send_letters(self, letters: Sequence[DeadLetter], send: Callable[..., Any]) -> None:
        """Wait for each. Raises SinkError RECORD_TOO_LARGE for one that its topic does not take."""
        limit = 2 * self._of.watchdog.limit.total_seconds()
        sent: list[Any] = []
        for letter in letters:
            with self._named(letter):
                sent.append(self._send_letter(letter, send))
        for letter, future in zip(letters, sent, strict=True):
            with self._named(letter):
                future.get(limit)

    @contextmanager
    def _named(self, letter: DeadLetter) -> Iterator[None]:
        try:
            yield
        except _TOO_LARGE as cause:
            raise _unsent(letter, self._of.names.dead_letters, cause) from cause

    def _send_letter(self, letter: DeadLetter, send: Callable[..., Any]) -> Any:  # noqa: ANN401 - untyped library
        record = letter.record
        facts = {
            "topic": record.topic,
            "partition": str(record.partition),
            "offset": str(record.offset),
            "path": letter.path,
            "reason": letter.reason,
        }
        headers = [(name, content) for name, content in record.headers if content is not None]
        headers += [(f"datarecs-dlq-{name}", text.encode()) for name, text in facts.items()]
        key = record.key if record.value is not None else record.key or b""
        return send(self._of.names.dead_letters, key=key, value=record.value, headers=headers)

    @contextmanager
    def _transaction(self) -> Iterator[tuple[KafkaProducer, Callable[..., Any]]]:
        """A producer, and its `send` that waits for nothing; committed at the end of the block."""
        if self._is_replaced:
            raise VoteRefusedError(f"the producer of the {self._role} has ended or was replaced")
        with self._of.watchdog.watch("a transaction"):
            inner = self._inner = self._inner or self._connected()
            futures: list[Any] = []
            try:
                inner.begin_transaction()

                def send(topic: str, **parts: object) -> Any:  # noqa: ANN401 - untyped library
                    futures.append(inner.send(topic, **parts))
                    return futures[-1]

                yield inner, send
                for future in futures:
                    future.get(2 * self._of.watchdog.limit.total_seconds())
                inner.commit_transaction()
            except KafkaError as cause:
                raise self._ended(inner, cause) from cause
            except BaseException as cause:
                self._abort(inner)
                if isinstance(cause.__cause__, _TOO_LARGE) and self._inner is inner:
                    # The broker misses the numbers of what it refused, and takes no later ones.
                    self._drop(inner)
                raise

    def _ended(self, inner: KafkaProducer, cause: KafkaError) -> Exception:
        """Abort what can be aborted; the error for the caller."""
        manager = _manager(inner)  # a later failure of a broken transaction hides the first one
        root = manager.last_error if manager.has_error() else cause
        if isinstance(root, KafkaTimeoutError):  # an abort waits for what cannot be delivered
            self._drop(inner)
            return translated(root, self._of.access)
        if isinstance(root, _REPLACED):
            self._drop(inner)
            return VoteRefusedError(f"{type(root).__name__}: {root}")
        self._abort(inner)
        if isinstance(root, _REFUSED):
            return VoteRefusedError(f"{type(root).__name__}: {root}")
        return translated(root if isinstance(root, KafkaError) else cause, self._of.access)

    def _abort(self, inner: KafkaProducer) -> None:
        try:
            inner.abort_transaction()
        except KafkaError:
            self._drop(inner)

    def _drop(self, inner: KafkaProducer) -> None:
        """A new producer of the same id aborts what is open.

        A coordinator's would fence a newer one, so that its owner has to elect again.
        """
        self._discard(inner)
        self._is_replaced = self._role == COORDINATOR

    def _discard(self, inner: KafkaProducer) -> None:
        self._inner = None
        _close(inner)

    def close(self) -> None:
        if self._inner is not None:
            self._discard(self._inner)


def _unsent(letter: DeadLetter, topic: str, cause: KafkaError) -> SinkError:
    record = letter.record
    size = sum(len(part) for part in (record.key, record.value) if part is not None)
    text = (
        f"{record.topic} {record.partition}, offset {record.offset}: the record is bad "
        f"({letter.reason}), and the topic {topic} takes no dead letter of its {size} bytes "
        f"({type(cause).__name__}); raise max.message.bytes of that topic and use the verb retry, "
        f"or reset to offset {record.offset + 1}"
    )
    return SinkError(SinkCode.RECORD_TOO_LARGE, text)


def _forbid_new_epochs(inner: KafkaProducer) -> None:
    """Treat a replaced producer as replaced: by itself the library asks for a new epoch.

    With that a producer that slept inside a transaction would fence its successor.
    """
    # Private: as for brokers before 2.5, where the library cannot ask.
    _manager(inner)._supports_epoch_bump = lambda: False  # noqa: SLF001 - see above


def _manager(inner: KafkaProducer) -> Any:  # noqa: ANN401 - untyped library
    # Private: nothing public has the state of a transaction.
    return inner._transaction_manager  # noqa: SLF001 - see above


def _close(inner: KafkaProducer) -> None:
    try:
        inner.close(timeout=CLOSE_TIMEOUT_S)
    except KafkaTimeoutError:
        # Private: `close` flushes first and fails before it stops its thread.
        inner._sender.force_close()  # noqa: SLF001 - see above
        inner._sender.join(CLOSE_TIMEOUT_S)  # noqa: SLF001 - see above
        inner.close(timeout=CLOSE_TIMEOUT_S)
