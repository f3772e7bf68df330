"""The event log: the parts of a Kafka consumer and producer that the platform uses."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol


class Partition(NamedTuple):
    topic: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecord:
    """A record as it was read. `value` and a header's value may be null on a foreign record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A position the client library cannot parse; the loop seeks past it and reports it."""

    topic: str
    partition: int
    offset: int
    error: str


class LogConsumer(Protocol):
    """A member of one group. Offsets are next-to-read; nothing is committed automatically."""

    def poll(
        self, timeout: timedelta, *, max_records: int
    ) -> Mapping[Partition, Sequence[LogRecord | Unreadable]]:
        """Records per partition in offset order; empty after the timeout.

        Raises LogUnavailableError when the broker cannot be reached.
        """

    def assignment(self) -> frozenset[Partition]: ...

    def seek(self, partition: Partition, offset: int) -> None: ...

    def pause(self, *partitions: Partition) -> None: ...

    def resume(self, *partitions: Partition) -> None: ...

    def commit(self, offsets: Mapping[Partition, int]) -> bool:
        """False when the group has moved on (rebalance): drop the batch and poll again."""

    def committed(self, partition: Partition) -> int | None: ...

    def begin_offset(self, partition: Partition) -> int: ...

    def end_offset(self, partition: Partition) -> int:
        """One past the last record that a reader of committed records can read now."""

    def close(self) -> None: ...


class LogProducer(Protocol):
    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes]],
        partition: int | None = None,
    ) -> "Ack":
        """Queue one record; raises LogUnavailableError when it cannot even be queued."""

    def close(self) -> None: ...


class Ack(Protocol):
    def done(self) -> bool:
        """The outcome is known; `wait` returns it at once."""

    def wait(self, timeout: timedelta) -> "SendOutcome":
        """The outcome; a NotSent that is not permanent when none is known in time."""


@dataclass(frozen=True, slots=True)
class Sent:
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class NotSent:
    reason: str
    permanent: bool
    """The broker can never take this record (too large, invalid); else worth another try."""


SendOutcome = Sent | NotSent


class Delivery(StrEnum):
    """What becomes of an event that a broker delivers and does not store for its reader."""

    DONE = "DONE"
    LATER = "LATER"
    """The broker delivers it again."""
    NEVER = "NEVER"
    """It can never be handled: a dead letter."""


class LogWriter(Protocol):
    def producer(self) -> LogProducer:
        """All that the relay needs of a log."""


class LogClient(Protocol):
    def consumer(self, *, group: str, topics: Sequence[str]) -> LogConsumer:
        """Joins from the earliest offset when the group has none; reads committed records only."""

    def producer(self) -> LogProducer:
        """acks=all, idempotent within the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMemory:
    """How long the platform remembers events."""

    outbox: timedelta
    """How long sent events are stored."""
    inbox: timedelta
    """How long marks of received events are stored."""
    has_marks: bool
    """The group has a mark of any event at all: it is not new."""


class EventArchive(Protocol):
    """The outbox as a consumer may read it again when the log has forgotten."""

    def memory(self, group: str) -> EventMemory: ...

    def unheard(self, group: str, topic: str, types: Collection[str]) -> Iterator[LogRecord]:
        """Sent events of these types without a mark of the group, in the order of the outbox.

        `partition` is -1 and `offset` the position in the outbox. Marks are read
        during the pass, so a second pass returns only what is still missing.

        Raises StoreUnavailableError, StoreBusyError: begin again.
        """
