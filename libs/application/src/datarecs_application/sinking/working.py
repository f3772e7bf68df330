"""The worker of a task: read the source topics, write files, vote.

The worker's side of exactly once: a vote carries the membership that was noted after the last
poll, never one that is read when it is sent; and whatever changes the membership discards the open
cycle and goes back to the start of its ranges.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import structlog

from datarecs_application.ports.messaging import LogRecord
from datarecs_application.ports.outside import Clock, Ids
from datarecs_application.ports.sinking import (
    ControlReader,
    MemberStamp,
    Polled,
    SinkLog,
    SinkProducer,
    SourceMember,
    VoteRefusedError,
)
from datarecs_application.sinking.intake import Intake, TableIntake
from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.admission import ControlFold
from datarecs_core.sink.checkpoint import Checkpoint, SinkState
from datarecs_core.sink.control import SourcePartition, StartCommit
from datarecs_core.sink.definition import SinkTable, StartAt
from datarecs_core.sink.ranges import ReadRanges, first_offset
from datarecs_core.sink.votes import vote_messages, with_keys

log = structlog.get_logger()

MOST_RECORDS = 5_000
"""Of one poll."""
_POLL = timedelta(milliseconds=200)
_NO_WAIT = timedelta(0)
_LAST_MS = 253_402_300_799_999
"""Milliseconds until the end of the year 9999: no later time exists."""
_PATIENCE = 3
"""Intervals without a StartCommit after which nothing more is read."""


@dataclass(slots=True, kw_only=True)
class SinkWorker:
    """One member of the group. `step` again and again, in one thread; `close` once."""

    log: SinkLog
    sink: SinkTable
    intake: TableIntake
    clock: Clock
    ids: Ids
    name: str
    """Of the task, within the sink."""
    state: SinkState
    """As last read; set by the task."""
    is_holding: bool = False
    """Nothing is read: the sink pauses or ends. Set by the task."""
    halt: SinkError | None = None
    """Why nothing more is read until the task begins anew; votes go on."""
    fenced: int = 0
    """Votes of this worker that were refused."""
    _member: SourceMember = field(init=False)
    _reader: ControlReader = field(init=False)
    _producer: SinkProducer | None = None
    _ranges: ReadRanges = field(default_factory=ReadRanges)
    _stamp: MemberStamp | None = None
    """None: positions must be set."""
    _limits: dict[SourcePartition, int] = field(default_factory=dict)
    """Where partitions end for a worker that halts."""
    _misplaced: SourcePartition | None = None
    """It halts because its position there is outside of the topic."""
    _paused: frozenset[SourcePartition] = frozenset()
    _assigned: frozenset[SourcePartition] = frozenset()
    _read: set[SourcePartition] = field(default_factory=set)
    """Partitions with records since the worker began."""
    _epoch: int = 0
    """Of the newest coordinator that was seen."""
    _last_start: float = field(init=False)
    """When the last StartCommit came, or the worker began."""

    def __post_init__(self) -> None:
        self._reader = self.log.reader(None)
        self._member = self.log.member()
        self._last_start = self.clock.monotonic()

    @property
    def is_first(self) -> bool:
        """It reads partition 0 of the first topic: its task coordinates."""
        return SourcePartition(self.sink.topics[0], 0) in self._assigned

    @property
    def is_paused(self) -> bool:
        return bool(self._paused)

    def positions(self) -> Mapping[SourcePartition, int]:
        return self._ranges.ends()

    def log_ends(self) -> Mapping[SourcePartition, int]:
        """One past the last record; where only markers of transactions follow, the position."""
        return {partition: self._log_end(partition) for partition in self._ranges.ends()}

    def _log_end(self, partition: SourcePartition) -> int:
        _, end = self._member.bounds(partition)
        is_all_read = self.halt is None and self._member.position(partition) >= end
        return self._ranges.end(partition) if is_all_read else end

    def step(self) -> None:
        """Poll once, take the records, and vote if the coordinator has begun a commit.

        Raises errors of the ports. The open cycle is discarded then, and the next step begins it
        again.
        """
        self._pause()
        try:
            # Before positions are read: it ends a vote that an earlier process of this task left
            # open, for which everybody would wait until the broker ends it.
            self._open_session()
            polled = self._poll()
            if polled is None:
                return
            self._assigned = polled.stamp.assignment
            if polled.stamp == self._stamp:
                self._take_all(polled.records)
            else:
                self._regroup(polled.stamp)
            self._answer()
        except Exception:
            self._rejoin()
            raise

    def last_vote(self) -> None:
        """Vote what was read, without a StartCommit: its files are in the next commit."""
        if self._stamp is not None and not self._ranges.is_empty:
            self._vote(self.ids.new(), self._epoch)

    def close(self) -> None:
        """Leave the group; what was not voted is read again by others."""
        self.intake.discard()
        if self._producer is not None:
            self._producer.close()
        self._reader.close()
        self._member.close()

    # --- reading

    def _pause(self) -> None:
        if self._stamp is None:
            return
        paused = frozenset(part for part in self._ranges.ends() if self._is_closed(part))
        if paused != self._paused:
            self._member.pause(paused)
            self._paused = paused

    def _is_closed(self, partition: SourcePartition) -> bool:
        waited = self.clock.monotonic() - self._last_start
        if self.is_holding or waited > _PATIENCE * self.sink.commit.interval.total_seconds():
            return True
        if self.halt is None:
            return False
        end = self._ranges.end(partition)
        return end >= self._limits.get(partition, end)

    def _poll(self) -> Polled | None:
        try:
            return self._member.poll(_POLL, max_records=MOST_RECORDS)
        except SinkError as error:
            if error.code is not SinkCode.SOURCE_GAP:
                raise
            if self._stamp is not None:
                self._stop_reading(error)
            # Without positions of ours the member stood at those of the group.
            self._paused = self._member.stamp().assignment
            self._member.pause(self._paused)
            return None

    def _take_all(self, batches: Mapping[SourcePartition, Sequence[LogRecord]]) -> None:
        for partition, records in batches.items():
            if partition in self._paused:
                # Read again later: the member is past them already.
                self._member.seek(partition, self._ranges.end(partition))
            elif not self._take(partition, records):
                return

    def _take(self, partition: SourcePartition, records: Sequence[LogRecord]) -> bool:
        """False: positions were set anew, and the rest of the poll is of no use."""
        limit = self._limits.get(partition)
        if limit is not None:
            records = [record for record in records if record.offset < limit]
            if not records:
                self._ranges.advance(partition, limit, largest_ms=-1)
                return True
        if not records:
            return True
        if not self._is_next(partition, records[0].offset):
            return False
        result = self.intake.take(partition, records)
        self._advance(partition, records, result)
        if result.is_spoilt:
            self._reread()
            return False
        self.intake.shrink(self.sink.memory)
        return result.refused is None

    def _is_next(self, partition: SourcePartition, offset: int) -> bool:
        """Offsets may leave out markers of transactions, but no records that were removed."""
        position = self._ranges.end(partition)
        if offset <= position:
            return True
        begin, end = self._member.bounds(partition)
        if begin <= position:
            return True
        self._stop_reading(_outside(partition, position, begin, end))
        return False

    def _advance(
        self, partition: SourcePartition, records: Sequence[LogRecord], result: Intake
    ) -> None:
        self._read.add(partition)
        refused = result.refused
        if refused is not None and result.error is not None:
            records = [record for record in records if record.offset < refused.offset]
            self._ranges.advance(partition, refused.offset, largest_ms=_largest(records))
            self._stop_reading(_bad_record(refused, result))
        else:
            end = records[-1].offset + 1
            self._ranges.advance(partition, end, largest_ms=_largest(records))

    def _stop_reading(self, error: SinkError) -> None:
        """Every partition ends where it was read to."""
        if self.halt is None:
            log.warning("sink_halted", code=error.code.name, reason=str(error))
            self.halt, self._limits = error, self._ranges.ends()

    # --- membership

    def _regroup(self, stamp: MemberStamp) -> None:
        """The group has changed: begin the cycle again with the partitions that are assigned now.

        Partitions that stay begin at their start, others where the group or the checkpoint says.
        """
        before = self._stamp
        is_next = (
            before is not None
            and before.member_id == stamp.member_id
            and before.generation + 1 == stamp.generation
        )
        stay = self._ranges.starts() if is_next else {}
        self.intake.discard()
        self._stamp = None
        starts = {part: offset for part, offset in stay.items() if part in stamp.assignment}
        starts |= self._begin(sorted(stamp.assignment - starts.keys()))
        self._seek(starts)
        self._read &= stamp.assignment
        self._stamp = stamp

    def _begin(self, partitions: Sequence[SourcePartition]) -> Mapping[SourcePartition, int]:
        starts = {}
        for partition, offset in self._voted(partitions).items():
            if offset is None:
                starts[partition] = self._first_start(partition)
            else:
                self._check_source(partition, offset)
                starts[partition] = offset
        return starts

    def _voted(self, partitions: Sequence[SourcePartition]) -> Mapping[SourcePartition, int | None]:
        """Where the last vote ended; None without any.

        After a reset the offsets of the group may be those from before it. Then the control topic
        decides, and without one of this lineage nothing was voted yet.
        """
        checkpoint = self.state.checkpoint
        accepted: Mapping[SourcePartition, int] = {
            one: state.accepted for one, state in checkpoint.partitions.items()
        }
        group = {one: self._member.committed(one) for one in partitions}
        if checkpoint.reset_at is None:
            return {
                one: first_offset(group=offset, accepted=accepted.get(one))
                for one, offset in group.items()
            }
        if checkpoint.lineage is not None and any(
            accepted.get(one) != offset for one, offset in group.items()
        ):
            accepted = _accepted_now(self.log, checkpoint)
        return {one: accepted.get(one, offset) for one, offset in group.items()}

    def _first_start(self, partition: SourcePartition) -> int:
        match self.sink.start:
            case datetime() as time:
                return self._member.offset_at(partition, time)
            case StartAt.LATEST:
                return self._member.bounds(partition)[1]
            case _:
                return self._member.bounds(partition)[0]

    def _check_source(self, partition: SourcePartition, offset: int) -> None:
        begin, end = self._member.bounds(partition)
        if begin <= offset <= end:
            return
        if self.halt is None:
            self._misplaced = partition
        self._stop_reading(_outside(partition, offset, begin, end))
        self._limits[partition] = offset

    def _seek(self, starts: Mapping[SourcePartition, int]) -> None:
        self._ranges.assign(starts)
        for partition, offset in starts.items():
            if self.halt is not None:
                self._limits.setdefault(partition, offset)
            self._member.seek(partition, offset)

    def _reread(self) -> None:
        """Read the open cycle again, from the starts of its ranges."""
        self.intake.discard()
        self._seek(self._ranges.starts())

    def _rejoin(self) -> None:
        """Nothing of the open cycle counts; positions come from the group again."""
        self.intake.discard()
        self._stamp = None

    # --- voting

    def _answer(self) -> None:
        """Vote for the newest StartCommit; those of older coordinators are ignored."""
        newest = None
        for envelope in self._reader.poll(_NO_WAIT):
            is_start = isinstance(envelope.message, StartCommit)
            if is_start and envelope.headers.epoch >= self._epoch:
                self._epoch = envelope.headers.epoch
                newest = envelope
        if newest is None:
            return
        self._last_start = self.clock.monotonic()
        if self._stamp is None or not self._stamp.assignment:
            return
        moved = self._ranges.mismatched(newest.headers.expected)
        if moved:
            self._move(moved)
        self._vote(newest.message.commit_id, self._epoch)

    def _move(self, moved: Mapping[SourcePartition, int]) -> None:
        """The last vote was refused: read again from what was accepted."""
        self.fenced += 1
        log.warning("sink_positions_corrected", partitions=len(moved))
        self.intake.discard()
        starts = {**self._ranges.starts(), **moved}
        if self._misplaced in moved:
            # The offset of the group was one that nobody accepted.
            self.halt, self._limits, self._misplaced = None, {}, None
        for partition, offset in starts.items():
            self._check_source(partition, offset)
        self._seek(starts)

    def _vote(self, commit_id: UUID, epoch: int) -> None:
        """Raises LogUnavailableError, errors of the store; a refused vote is none."""
        if self._stamp is None:
            return
        messages = vote_messages(
            commit_id,
            epoch,
            self.intake.finish(),
            ranges=self._ranges.ranges(),
            positions=self._ranges.positions(self._unread()),
        )
        try:
            messages = with_keys(messages, self.intake.key_files)
            producer = self._open_session()
            producer.vote(messages, self._ranges.ends(), self._stamp, self.intake.letters)
        except (VoteRefusedError, LogUnavailableError) as error:
            self._end_session()
            if isinstance(error, LogUnavailableError):
                raise
            self.fenced += 1
            log.warning("sink_vote_refused", reason=str(error))
            self._rejoin()
            return
        self._ranges.voted()
        self.intake.voted()

    def _unread(self) -> frozenset[SourcePartition]:
        """Partitions whose log has no record."""
        idle = self._ranges.ends().keys() - self._read
        bounds = {partition: self._member.bounds(partition) for partition in idle}
        return frozenset(part for part, (begin, end) in bounds.items() if begin == end)

    def _open_session(self) -> SinkProducer:
        """Of this task: a newer process of it replaces this one."""
        if self._producer is None:
            self._producer = self.log.producer(self.name)
        return self._producer

    def _end_session(self) -> None:
        """What became of its last vote is unknown; the next one ends it."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()


def _accepted_now(log: SinkLog, checkpoint: Checkpoint) -> Mapping[SourcePartition, int]:
    """As the control topic decides that is there now."""
    reader = log.reader(checkpoint.control_offset)
    try:
        fold, end = ControlFold.at(checkpoint), reader.end()
        while reader.position() < end:
            for envelope in reader.poll(_POLL):
                fold.apply(envelope)
    finally:
        reader.close()
    return fold.accepted()


def _largest(records: Sequence[LogRecord]) -> int:
    """Of the timestamps that are times; -1 without any."""
    times = (record.timestamp_ms for record in records if record.timestamp_ms <= _LAST_MS)
    return max((-1, *times))


def _outside(partition: SourcePartition, position: int, begin: int, end: int) -> SinkError:
    """Of a position that the topic does not have."""
    place = f"{partition.topic} {partition.number}"
    if position < begin:
        fault = f"{place}: records {position} to {begin - 1} were removed from the topic"
    else:
        fault = f"{place} ends at {end}, before the accepted position {position}"
    message = f"{fault}; positions that it has are {begin} to {end}"
    return SinkError(SinkCode.SOURCE_GAP, message)


def _bad_record(record: LogRecord, result: Intake) -> SinkError:
    error = result.error
    code = SinkCode.BAD_RECORD
    if error is not None and isinstance(error.code, SinkCode):
        code = error.code
    where = f"{record.topic} {record.partition}, offset {record.offset}"
    return SinkError(code, f"{where}: {error}")
