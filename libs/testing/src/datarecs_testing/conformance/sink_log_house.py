"""What the suite of `SinkLog` needs: the house that an adapter provides, messages, and reading."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Protocol

from datarecs_application.ports.messaging import LogRecord
from datarecs_application.ports.sinking import (
    ControlReader,
    DeadLetter,
    MemberStamp,
    Polled,
    SinkLog,
    SinkProducer,
    SourceMember,
)
from datarecs_core.sink.control import (
    ControlHeaders,
    DataComplete,
    DataWritten,
    Envelope,
    FileEntry,
    KeyFile,
    Outgoing,
    Position,
    SourcePartition,
    SourceRange,
    StartCommit,
    TableReference,
)
from datarecs_testing.clock import NOON, FixedIds

SHORT = timedelta(milliseconds=200)
POLLS = 200
COMMIT = FixedIds.nth(501)
TABLE = TableReference(catalog="lake", namespace=("shop",), name="orders", uuid=FixedIds.nth(502))


class EndTransaction(Protocol):
    def __call__(self, *, commit: bool) -> None: ...


class SinkLogHouse(Protocol):
    """A sink on an empty cluster, and what others do to its topics."""

    topic: str
    """The one source topic, of two partitions."""
    group: str

    def task(self, *topics: str) -> SinkLog:
        """The log of one more task of the sink; of `topic` alone without any."""

    def write(self, value: bytes, *, partition: int = 0, time: datetime | None = None) -> int:
        """Its offset."""

    def open_write(self, value: bytes, *, partition: int = 0) -> EndTransaction:
        """Write in a transaction, which the returned function commits or aborts."""

    def expire(self, partition: SourcePartition, *, before: int) -> None:
        """As retention does."""

    def recreate_topic(self) -> None:
        """Delete the source topic and create it again, empty and with two partitions."""

    def remove_member(self, member: SourceMember) -> None:
        """As the broker does at the end of a session."""

    def leave_open(self, producer: SinkProducer, message: Outgoing) -> None:
        """Write the message as a process does that dies before the end of its transaction."""

    def damage(self, *, group: str) -> None:
        """Append a message of a group to the control topic that cannot be read."""

    def dead_letters(self) -> Sequence[LogRecord]:
        """Those that readers of committed records see."""


def poll_all(*members: SourceMember) -> list[Polled]:
    """One poll of each, at the same time, as processes do."""
    with ThreadPoolExecutor(len(members)) as threads:
        return list(threads.map(lambda member: member.poll(SHORT, max_records=100), members))


def settle(*members: SourceMember, partitions: int = 2) -> list[MemberStamp]:
    """Poll until the members share the partitions; what they read meanwhile is dropped."""
    counts: list[int] = []
    for _ in range(POLLS):
        stamps = [polled.stamp for polled in poll_all(*members)]
        counts = [len(stamp.assignment) for stamp in stamps]
        generations = {stamp.generation for stamp in stamps}
        if sum(counts) == partitions and min(counts) > 0 and len(generations) == 1:
            return stamps
    raise AssertionError(f"the members have {counts} partitions")


def values(member: SourceMember, count: int) -> list[bytes | None]:
    """Poll until so many records have arrived."""
    arrived: list[bytes | None] = []
    for _ in range(POLLS):
        for batch in member.poll(SHORT, max_records=100).records.values():
            arrived += [record.value for record in batch]
        if len(arrived) >= count:
            return arrived
    raise AssertionError(f"only {arrived} arrived")


def read_to_end(reader: ControlReader) -> list[Envelope]:
    """Everything up to the end of the topic; the position must arrive there."""
    envelopes: list[Envelope] = []
    for _ in range(POLLS):
        envelopes += reader.poll(SHORT)
        if reader.position() >= reader.end():
            return envelopes
    raise AssertionError(f"stays at {reader.position()} of {reader.end()}")


def start_commit(number: int = 501) -> Outgoing:
    message = StartCommit(commit_id=FixedIds.nth(number))
    return Outgoing(message=message, headers=ControlHeaders(epoch=7))


KEYS = KeyFile(path="s3://lake/orders/1-keys.parquet", sha256="0f", rows=3)


def a_vote(topic: str, *, end: int = 3) -> tuple[Outgoing, Outgoing]:
    """Files and the vote that covers them, for both partitions."""
    entry = FileEntry(path="s3://lake/orders/1.parquet", spec_id=0, record_count=3, size=99)
    files = DataWritten(commit_id=COMMIT, table=TABLE, data_files=(entry,))
    first, second = SourcePartition(topic, 0), SourcePartition(topic, 1)
    complete = DataComplete(
        commit_id=COMMIT,
        positions=(
            Position(partition=first, offset=end, timestamp=NOON),
            Position(partition=second, offset=None, timestamp=None),
        ),
    )
    ranges = (
        SourceRange(partition=first, start=0, end=end),
        SourceRange(partition=second, start=0, end=0),
    )
    return (
        Outgoing(message=files, headers=ControlHeaders(epoch=7, keys=KEYS)),
        Outgoing(message=complete, headers=ControlHeaders(epoch=7, ranges=ranges, parts=1)),
    )


def a_letter(topic: str, offset: int = 1) -> DeadLetter:
    record = LogRecord(
        topic=topic,
        partition=0,
        offset=offset,
        timestamp_ms=0,
        key=b"k",
        value=b"no json",
        headers=(("source", b"test"),),
    )
    return DeadLetter(record=record, reason="no JSON object", path="$")
