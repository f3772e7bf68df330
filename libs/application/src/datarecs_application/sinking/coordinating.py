"""The coordinator of a sink: begin cycles, collect votes, commit to the tables.

What it decides follows from the control topic alone, so it may die or be replaced at any line: the
next one reads the same messages from the checkpoint and repeats what the tables do not hold yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from datarecs_application.ports.outside import Clock, Ids
from datarecs_application.ports.sinking import (
    ControlReader,
    SinkLog,
    SinkMemory,
    SinkProducer,
    SinkTables,
)
from datarecs_application.sinking.accepting import Deciding, carry_out
from datarecs_application.sinking.committing import (
    COMMITS_AT_ONCE,
    Cut,
    CutResult,
    StoredSnapshots,
    commit_tables,
)
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.accepting import place_of
from datarecs_core.sink.admission import ControlFold, Vote
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    Lineage,
    PartitionState,
    SinkCommit,
    SinkState,
    TableCommit,
)
from datarecs_core.sink.control import (
    CommitComplete,
    CommitToTable,
    ControlHeaders,
    Message,
    Outgoing,
    SourcePartition,
    StartCommit,
)
from datarecs_core.sink.cycle import Cycle, CycleEnd, Timetable, valid_through
from datarecs_core.sink.definition import SinkTable

log = structlog.get_logger()

MOST_FAILURES = 3
"""In a row; then it is reported, and workers get no StartCommit until a table takes a commit."""
_SPLIT_LIMIT_S = 120.0
"""Files without a vote for so long are of no transaction of a sink: those end within 25 s."""
_POLL = timedelta(milliseconds=200)
_NO_WAIT = timedelta(0)


class SupersededError(Exception):
    """A newer coordinator has begun: step down."""


@dataclass(slots=True, kw_only=True)
class SinkCoordinator:
    """`step` again and again, in one thread; `close` once.

    `step` may raise VoteRefusedError or SupersededError, and errors of the log and of the memory:
    close it then, and begin another one if the partition is still read.
    """

    log: SinkLog
    memory: SinkMemory
    tables: SinkTables
    sink: SinkTable
    clock: Clock
    ids: Ids
    lineage: Lineage
    timetable: Timetable
    epoch: int
    checkpoint: Checkpoint
    commits_at_once: int
    """Tables."""
    failures: int = 0
    """Cycles in a row that some table did not take."""
    fault: SinkError | None = None
    """Why the last cycle is not in every table."""
    refused_votes: int = 0
    failed_commits: int = 0
    """Cycles that some table did not take, since it began."""
    _producer: SinkProducer
    _reader: ControlReader
    _fold: ControlFold
    _stored: StoredSnapshots
    _cycle: Cycle | None = None
    _end: CycleEnd | None = None
    """Of the cycle, once it is decided."""
    _retry_at: float | None = None
    """Of a commit that no table took: the same cycle again, without new votes."""
    _split_since: float | None = None
    _has_caught_up: bool = False

    @property
    def is_collecting(self) -> bool:
        """A cycle has begun and is not committed."""
        return self._cycle is not None

    @property
    def is_held(self) -> bool:
        """The last commit before a pause or the end is complete."""
        return self.timetable.is_held and self._cycle is None

    def step(self, state: SinkState) -> None:
        """Read the control topic, then begin or end a cycle where it is time."""
        if state.epoch > self.epoch:
            raise SupersededError(f"epoch {self.epoch} is older than {state.epoch}")
        self._apply(_POLL)
        now = self.clock.monotonic()
        self.timetable.note(state, now=now)
        if self._cycle is None:
            self._begin_if_due(now)
        elif self._is_ended(self._cycle, now):
            self._commit(self._cycle, self._end or CycleEnd.PARTIAL, now)

    def close(self) -> None:
        self._producer.close()
        self._reader.close()

    # --- the control topic

    def _apply(self, timeout: timedelta) -> bool:
        """One poll; False when nothing came."""
        envelopes = self._reader.poll(timeout)
        for envelope in envelopes:
            vote = self._fold.apply(envelope)
            if vote is not None:
                self._count(vote)
        self._fold.skip_to(self._reader.position())
        return bool(envelopes)

    def _count(self, vote: Vote) -> None:
        if vote.refusal is not None:
            self.refused_votes += 1
            log.warning("sink_vote_not_admitted", reason=vote.refusal, offset=vote.offset)
        if self._cycle is not None:
            self._cycle = self._cycle.with_vote(vote)

    def _is_current(self) -> bool:
        """Everything is read. StartCommit needs it, to name the positions of refused votes."""
        is_current = self._reader.position() >= self._reader.end()
        if is_current and not self._has_caught_up:
            self._has_caught_up = True
            self.timetable.is_urgent = self._fold.oldest_vote() is not None
        return is_current

    # --- the cycle

    def _begin_if_due(self, now: float) -> None:
        if not self._has_caught_up and not self._is_current():
            return
        if not self.timetable.is_due(now) or not self._is_current():
            return
        self._check_topics()
        commit_id = self.ids.new()
        partitions = self.log.partitions()
        expected = self._fold.expected()
        self._announce(StartCommit(commit_id=commit_id), expected=expected)
        self._cycle = Cycle(commit_id=commit_id, started=now, partitions=partitions)
        self._end = self._retry_at = None
        self.timetable.started(now)
        log.info("sink_cycle_started", commit_id=str(commit_id), corrected=len(expected))

    def _is_ended(self, cycle: Cycle, now: float) -> bool:
        if self._retry_at is not None:
            return now >= self._retry_at and self._can_cut(now)
        self._end = self._end or cycle.end(now=now, timeout=self.sink.commit.timeout)
        return self._end is not None and self._can_cut(now)

    def _can_cut(self, now: float) -> bool:
        """No vote is split. One with its files below the cut and itself above it would be lost."""
        if not self._fold.has_open_parts:
            self._split_since = None
            return True
        self._split_since = now if self._split_since is None else self._split_since
        if now - self._split_since > _SPLIT_LIMIT_S:
            message = "files without a vote are in the control topic; another program wrote them"
            raise SinkError(SinkCode.CONTROL_DAMAGED, message)
        return False

    def _check_topics(self) -> None:
        """Raises SinkError LINEAGE_MISMATCH."""
        topics = check_topics(self.checkpoint, self.log.topic_ids())
        self.checkpoint = replace(self.checkpoint, topics=topics)

    def _commit(self, cycle: Cycle, end: CycleEnd, now: float) -> None:
        # After the last vote of the cut: one with records of a topic that was created again can
        # only exist once the topic is another one.
        self._check_topics()
        states = dict(self._fold.partitions)
        through = valid_through(cycle, end, states, previous=self.checkpoint.valid_through)
        cut = Cut(
            commit_id=cycle.commit_id,
            control_offset=self._fold.position,
            valid_through=through,
            source_ends=self._fold.accepted(),
            lineage=self.lineage,
            epoch=self.epoch,
            pending=self._fold.pending(),
            known=self.checkpoint.known_tables(),
            replaced=self.checkpoint.replaced,
            stored_offset=self._stored.stored_offset,
            stored=dict(self._stored.offsets),
        )
        result = commit_tables(
            cut,
            self.tables,
            self.sink.tables,
            committed=self._stored.store,
            at_once=self.commits_at_once,
        )
        self._note_tables(result)
        if result.failures:
            self._failed(result, cycle, now)
        else:
            self._completed(cut, result, states, end=end)

    def _note_tables(self, result: CutResult) -> None:
        """Also where another table failed, so that what holds a commit is not forgotten."""
        known = self.checkpoint.known_tables()
        new = {commit.table for commit in result.commits if place_of(commit.table) not in known}
        tables = (*self.checkpoint.tables, *sorted(new, key=place_of))
        self.checkpoint = replace(self.checkpoint, tables=tables)

    def _failed(self, result: CutResult, cycle: Cycle, now: float) -> None:
        self.failures += 1
        self.failed_commits += 1
        self.fault = self._reported(result)
        self._announce_snapshots(result.commits, cycle)
        if self.failures >= MOST_FAILURES and not result.commits:
            # Without a StartCommit workers fill their memory and wait: the store does not grow.
            self._retry_at = now + self.sink.commit.interval.total_seconds()
        else:
            self.timetable.ended(self._end or CycleEnd.PARTIAL, is_committed=False)
            self._cycle = None

    def _reported(self, result: CutResult) -> SinkError | None:
        """A fault that needs a person at once, others after some failures in a row."""
        lasting = [error for error in result.failures.values() if not error.retryable]
        if lasting:
            return lasting[0]
        first = next(iter(result.failures.values()))
        if self.failures < MOST_FAILURES:
            return None
        return SinkError(SinkCode.COMMIT_FAILED, f"{self.failures} times in a row: {first}")

    def _completed(
        self,
        cut: Cut,
        result: CutResult,
        states: Mapping[SourcePartition, PartitionState],
        *,
        end: CycleEnd,
    ) -> None:
        new = [commit for commit in result.commits if commit.commit_id == cut.commit_id]
        complete = CommitComplete(commit_id=cut.commit_id, valid_through=cut.valid_through)
        self._announce(*_snapshots(new), complete)
        checkpoint = replace(
            self.checkpoint,
            lineage=self.lineage,
            control_offset=self._next_needed(cut.control_offset),
            partitions=states,
            valid_through=cut.valid_through or self.checkpoint.valid_through,
            commit_requests=self.timetable.requests,
        )
        self.memory.committed(
            SinkCommit(
                commit_id=cut.commit_id,
                epoch=self.epoch,
                checkpoint=checkpoint,
                is_partial=end is CycleEnd.PARTIAL,
                tables=len(self._stored.offsets),
                records=self._stored.records,
                duration=self._duration(),
            )
        )
        self._fold.release(cut.control_offset)
        self.checkpoint = checkpoint
        self._stored = _stored_before(self.memory, checkpoint)
        self.failures, self.fault, self._cycle, self._retry_at = 0, None, None, None
        self.timetable.ended(end, is_committed=True)
        log.info("sink_cycle_completed", commit_id=str(cut.commit_id), end=end, tables=len(new))

    def _duration(self) -> timedelta:
        if self._cycle is None:
            return _NO_WAIT
        return timedelta(seconds=self.clock.monotonic() - self._cycle.started)

    def _next_needed(self, cut: int) -> int:
        """The first message that the next coordinator needs.

        It passes our own messages, so that a sink that pauses for longer than the retention of its
        control topic misses nothing.
        """
        while self._fold.oldest_vote(cut) is None and self._apply(_NO_WAIT):
            pass
        oldest = self._fold.oldest_vote(cut)
        return self._fold.position if oldest is None else oldest

    # --- announcements

    def _announce(
        self, *messages: Message, expected: Mapping[SourcePartition, int] | None = None
    ) -> None:
        headers = ControlHeaders(epoch=self.epoch, expected=expected or {})
        self._producer.announce([Outgoing(message=one, headers=headers) for one in messages])

    def _announce_snapshots(self, commits: tuple[TableCommit, ...], cycle: Cycle) -> None:
        new = [commit for commit in commits if commit.commit_id == cycle.commit_id]
        if new:
            self._announce(*_snapshots(new))


def begin_coordinator(  # noqa: PLR0913 - the ports of a process
    *,
    log: SinkLog,
    memory: SinkMemory,
    tables: SinkTables,
    sink: SinkTable,
    clock: Clock,
    ids: Ids,
    lineage: Lineage,
    topics: Mapping[str, str],
    commits_at_once: int = COMMITS_AT_ONCE,
) -> SinkCoordinator:
    """Draw an epoch, replace the older producer, and read on from the checkpoint.

    `topics` are ids of the source topics from before the task read a record.

    Raises SinkError LINEAGE_MISMATCH, CONTROL_GAP; SupersededError.
    """
    epoch = memory.begin_epoch()
    deciding = Deciding(
        log=log, memory=memory, tables=tables, sink=sink, lineage=lineage, epoch=epoch
    )
    checkpoint = _decided_checkpoint(deciding, topics)
    # After a reset what is in the topic counts no more, and positions are those that were set.
    reader = log.reader(None if _is_reset(checkpoint) else checkpoint.control_offset)
    try:
        producer = log.producer("coordinator")
        if checkpoint.lineage is None:
            # Before anything is committed with it: else a topic that is created again before the
            # first commit would look like a new sink, and a coordinator that dies after a reset
            # would leave out votes that a table already holds.
            checkpoint = _of_lineage(checkpoint, lineage, reader.position())
            memory.begin_lineage(checkpoint)
        check_control(checkpoint, reader)
    except BaseException:
        reader.close()
        raise
    now = clock.monotonic()
    return SinkCoordinator(
        log=log,
        memory=memory,
        tables=tables,
        sink=sink,
        clock=clock,
        ids=ids,
        lineage=lineage,
        timetable=Timetable(
            interval=sink.commit.interval, requests=checkpoint.commit_requests, last_start=now
        ),
        epoch=epoch,
        checkpoint=checkpoint,
        commits_at_once=commits_at_once,
        _producer=producer,
        _reader=reader,
        _fold=ControlFold.at(checkpoint),
        _stored=_stored_before(memory, checkpoint),
    )


def _decided_checkpoint(deciding: Deciding, topics: Mapping[str, str]) -> Checkpoint:
    """As stored, after the open decision of a person. Raises what `begin_coordinator` raises."""
    checkpoint = deciding.memory.state().checkpoint
    check_lineage(checkpoint, deciding.lineage)
    checkpoint = replace(checkpoint, topics=check_topics(checkpoint, topics))
    decided = carry_out(deciding, checkpoint)
    if decided is None:
        raise SupersededError(f"epoch {deciding.epoch} is older than the newest one")
    return decided


def _of_lineage(checkpoint: Checkpoint, lineage: Lineage, position: int) -> Checkpoint:
    """The first checkpoint of a lineage, at a control offset."""
    return replace(
        checkpoint, lineage=lineage, tables=(), control_offset=position, first_offset=position
    )


def _is_reset(checkpoint: Checkpoint) -> bool:
    return checkpoint.lineage is None and bool(checkpoint.partitions)


def check_lineage(checkpoint: Checkpoint, lineage: Lineage) -> None:
    """Raises SinkError LINEAGE_MISMATCH."""
    before = checkpoint.lineage
    if before is None or before == lineage:
        return
    what = "cluster" if before.cluster_id != lineage.cluster_id else "control topic"
    message = (
        f"the {what} is another one than at the last commit: cluster {lineage.cluster_id}, topic "
        f"id {lineage.topic_id}; it was cluster {before.cluster_id}, topic id {before.topic_id}"
    )
    raise SinkError(SinkCode.LINEAGE_MISMATCH, message)


def check_topics(checkpoint: Checkpoint, present: Mapping[str, str]) -> Mapping[str, str]:
    """Ids of the source topics to go on with: those of the checkpoint, and of topics without one.

    Raises SinkError LINEAGE_MISMATCH.
    """
    known = checkpoint.known_topics()
    for topic, topic_id in sorted(present.items()):
        before = known.get(topic, topic_id)
        if before != topic_id:
            message = (
                f"the topic {topic} was deleted and created again since the sink read it: its id "
                f"is {topic_id}, and was {before}; `reset` with positions goes on with the new "
                "topic"
            )
            raise SinkError(SinkCode.LINEAGE_MISMATCH, message)
    return {**present, **known}


def check_control(checkpoint: Checkpoint, reader: ControlReader) -> None:
    """Raises SinkError CONTROL_GAP."""
    begin = reader.begin()
    if begin > checkpoint.control_offset:
        message = (
            f"the control topic begins at offset {begin}, and messages from "
            f"{checkpoint.control_offset} on are needed"
        )
        raise SinkError(SinkCode.CONTROL_GAP, message)


def _stored_before(memory: SinkMemory, checkpoint: Checkpoint) -> StoredSnapshots:
    """A checkpoint that a decision moved back leaves what was stored before."""
    offset = max(checkpoint.control_offset, checkpoint.rewound_from)
    return StoredSnapshots(memory=memory, stored_offset=offset)


def _snapshots(commits: list[TableCommit]) -> list[CommitToTable]:
    return [
        CommitToTable(
            commit_id=commit.commit_id,
            table=commit.table,
            snapshot_id=commit.snapshot_id,
            valid_through=commit.valid_through,
        )
        for commit in commits
    ]
