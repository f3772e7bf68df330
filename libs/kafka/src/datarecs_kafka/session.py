"""One membership in a group, from join to leave: polls, handles batches, commits offsets last.

Separate from the consumer because its state ends with the membership: after a lost connection or a
rebalance it starts again from the committed offsets, and the inbox ignores repetitions.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.messaging import (
    EventArchive,
    LogConsumer,
    LogRecord,
    Partition,
    Unreadable,
)
from datarecs_application.ports.outside import Wake
from datarecs_core.crashing import crash_point
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.messaging import MessagingCode
from datarecs_kafka import steps
from datarecs_kafka.backoff import HANDLER_DELAYS, Backoff
from datarecs_kafka.dead_letter import HANDLER_FAILED, DeadLetter, DeadLetters
from datarecs_kafka.handling import Handled, Handling, Poison, TryLater, Unclassified
from datarecs_kafka.line import Line
from datarecs_kafka.poison import PoisonGauge
from datarecs_kafka.refill import Refill

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerLimits:
    """Intervals and limits; the defaults are those of the specification."""

    poll: timedelta = timedelta(milliseconds=500)
    """Short because the library has no wake-up: the maximum delay of a stop."""
    max_records: int = 100
    batch: timedelta = timedelta(seconds=30)
    """Maximum time for the records of a poll, far below the group's poll interval."""
    gap_check: timedelta = timedelta(hours=1)
    lag_every: timedelta = timedelta(seconds=15)
    join_anew: timedelta = timedelta(minutes=5)
    """An outage longer than this ends the membership, in case the client itself is stuck."""


@dataclass(slots=True)
class Session:
    """Used only by the consumer's thread."""

    member: LogConsumer
    handling: Handling
    _: KW_ONLY
    letters: DeadLetters
    gauge: PoisonGauge
    limits: ConsumerLimits
    backoff: Backoff
    archive: EventArchive | None = None
    """Source of lost events; without it a gap is only reported."""
    lagging: set[str] = field(default_factory=set)
    """Topics with a lag gauge of this process; outlives the membership."""
    _refills: dict[str, Refill] = field(default_factory=dict, init=False)
    _lines: dict[Partition, Line] = field(default_factory=dict, init=False)
    _next_gap_check: float = field(default=0.0, init=False)
    _next_lag: float = field(default=0.0, init=False)
    _set_aside_since_commit: bool = field(default=False, init=False)

    @property
    def assigned(self) -> bool:
        return bool(self._lines)

    @property
    def verdict(self) -> str | None:
        """Why the consumer must stop itself; None while it may continue."""
        return self.gauge.verdict()

    def turn(self, stop: Wake) -> None:
        """Poll once and handle the records.

        Raises:
            LogUnavailableError, LogAccessDeniedError: nothing was skipped; call again later.
        """
        self._resume_due()
        batches = dict(self.member.poll(self.limits.poll, max_records=self.limits.max_records))
        try:
            self._follow_assignment()
            self._commit_owed()
            seconds = self.limits.batch.total_seconds()
            until = self._now() + seconds
            going_on = self._refill(until - seconds / 2, stop)
            for partition in [one for one in batches if not self._waits_for_refill(one)]:
                if not going_on:
                    break
                records = batches.pop(partition)
                if partition in self._lines:
                    going_on = self._work_through(partition, records, until, stop)
        finally:  # the log is unavailable, or a rebalance: remaining records are polled again
            for partition, records in batches.items():
                self._seek(partition, records[0].offset)
        self._report_gauges()

    def close(self) -> None:
        """Leave the group; commits only offsets that an outage has delayed, if it is over."""
        for end in (self._commit_owed, self.member.close, self.letters.close):
            try:
                end()
            except DatarecsError as cause:
                log.warning("session_close_cut", code=cause.code.name, cause=str(cause))

    # --- records

    def _work_through(
        self,
        partition: Partition,
        records: Sequence[LogRecord | Unreadable],
        until: float,
        stop: Wake,
    ) -> bool:
        """Handle records in order and commit finished ones; False after a rebalance."""
        line = self._lines[partition]
        done: int | None = None
        waiting = deque(records)
        while waiting:
            cut = stop.is_set() or self._now() > until or self.verdict is not None
            taken = 0 if cut or line.resume_at is not None else self._take_some(line, waiting)
            if not taken:
                self._seek(partition, waiting[0].offset)
                break
            done = waiting[taken - 1].offset + 1
            for _ in range(taken):
                waiting.popleft()
            line.settled()
        if line.resume_at is not None:
            self.member.pause(partition)
        return done is None or self._commit(partition, line, done)

    def _take_some(self, line: Line, waiting: Sequence[LogRecord | Unreadable]) -> int:
        """Number of first records that the offset may pass; 0 if the line must wait."""
        first = waiting[0]
        if first.offset >= line.single_until:
            together = self.handling.handle_together(waiting)
            for _ in range(together.handled):
                self.gauge.good()
            if together.handled:
                return together.handled
            if together.tried:
                line.single_until = waiting[together.tried - 1].offset + 1
        return int(self._take(line, first))

    def _commit_owed(self) -> None:
        """Commit records handled before an outage, because no later record may follow."""
        for partition in self._lines.keys() & self.member.assignment():
            line = self._lines[partition]
            if line.owed is not None:
                self._commit(partition, line, line.owed)

    def _commit(self, partition: Partition, line: Line, offset: int) -> bool:
        line.owed = offset
        is_taken = self.member.commit({partition: offset})
        line.owed = None
        if not is_taken:
            log.info("group_moved_on", group=self.handling.group, topic=partition.topic)
            return False
        line.committed = offset
        self.handling.signals.reached(steps.CONSUME_AFTER_OFFSET)
        crash_point(steps.CONSUME_AFTER_OFFSET)
        if self._set_aside_since_commit:
            self._set_aside_since_commit = False
            self.handling.signals.reached(steps.DLQ_AFTER_COMMIT)
            crash_point(steps.DLQ_AFTER_COMMIT)
        return True

    def _take(self, line: Line, record: LogRecord | Unreadable) -> bool:
        """True if the offset may pass the record."""
        if isinstance(record, Unreadable):
            self._pass_unreadable(record)
            return True
        outcome = self.handling.handle(record)
        match outcome:
            case Handled(how=how):
                if how in {"applied", "duplicate"}:
                    self.gauge.good()
                return True
            case TryLater():
                self._wait_for(outcome, line, record)
                return False
            case Unclassified(error=error):
                tries = line.tried(record.offset)
                if tries <= len(HANDLER_DELAYS):
                    self._pause(line, HANDLER_DELAYS[tries - 1])
                    return False
                return self._set_aside(line, record, Poison(HANDLER_FAILED, error))
            case Poison():
                return self._set_aside(line, record, outcome)

    def _wait_for(self, outcome: TryLater, line: Line, record: LogRecord) -> None:
        line.failures += 1
        pause = self.backoff.after(line.failures)
        log.warning(
            "partition_paused",
            group=self.handling.group,
            topic=record.topic,
            partition=record.partition,
            code=outcome.cause.code.name,
            pause_s=pause.total_seconds(),
        )
        for paused in (line, *(self._lines.values() if outcome.stops_everything else ())):
            self._pause(paused, pause)

    def _set_aside(self, line: Line, record: LogRecord, poison: Poison) -> bool:
        """Write the dead letter; without its acknowledgement the partition waits."""
        group = self.handling.group
        where = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
        attempts = line.tries if record.offset == line.offset else 1
        refused = self.letters.park(
            DeadLetter(record=record, reason=poison.reason, error=poison.error, attempts=attempts)
        )
        if refused is not None:
            line.failures += 1
            self._pause(line, self.backoff.after(line.failures))
            code = MessagingCode.DEAD_LETTER_UNAVAILABLE.name
            log.error("dead_letter_refused", group=group, code=code, cause=refused, **where)
            return False
        self.handling.signals.reached(steps.DLQ_AFTER_SEND)
        crash_point(steps.DLQ_AFTER_SEND)
        self._set_aside_since_commit = True
        self.gauge.poisoned(poison.reason)
        self.handling.metrics.count("dlq_total", group=group, reason=poison.reason)
        log.error("dead_letter_written", group=group, reason=poison.reason, **where)
        return True

    def _pass_unreadable(self, record: Unreadable) -> None:
        group = self.handling.group
        self.handling.metrics.count("kafka_unreadable_total", group=group, topic=record.topic)
        log.error(
            "record_unreadable",
            code=MessagingCode.RECORD_UNREADABLE.name,
            group=group,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            error=record.error,
        )

    # --- partitions

    def _pause(self, line: Line, pause: timedelta) -> None:
        line.resume_at = self._now() + pause.total_seconds()

    def _resume_due(self) -> None:
        for partition, line in self._lines.items():
            if line.resume_at is not None and line.resume_at <= self._now():
                line.resume_at = None
                if not self._waits_for_refill(partition):
                    self.member.resume(partition)
            elif line.resume_at is not None:
                self.member.pause(partition)

    def _seek(self, partition: Partition, offset: int) -> None:
        if partition in self.member.assignment():
            self.member.seek(partition, offset)

    def _follow_assignment(self) -> None:
        """Discard lost partitions, check gained ones once, and check all of them each hour."""
        assigned = self.member.assignment()
        for lost in self._lines.keys() - assigned:
            del self._lines[lost]
            self._next_lag = 0.0  # the new owner reports its lag, this member no longer does
        gained = assigned - self._lines.keys()
        if self._now() >= self._next_gap_check:
            self._next_gap_check = self._now() + self.limits.gap_check.total_seconds()
            gained = assigned
        for partition in sorted(gained):
            line = self._lines.setdefault(partition, Line())
            line.committed = self.member.committed(partition)
            begin = self.member.begin_offset(partition)
            if begin > (line.committed or 0):
                if line.committed is not None:
                    self._report_gap(partition, line.committed, begin)
                self._fill_again(partition, begin, certain=line.committed is not None)

    def _report_gap(self, partition: Partition, committed: int | None, begin: int) -> None:
        self.handling.metrics.count("offset_gaps_total", group=self.handling.group)
        log.error(
            "offset_gap",
            code=MessagingCode.OFFSET_GAP.name,
            group=self.handling.group,
            topic=partition.topic,
            partition=partition.number,
            committed=committed,
            begin=begin,
        )

    # --- lost events

    def _fill_again(self, partition: Partition, begin: int, *, certain: bool) -> None:
        """Missing events come before those in the log, so the partition waits."""
        if self.archive is None:
            return
        topic, handling = partition.topic, self.handling
        refill = self._refills.get(topic)
        if refill is None:
            refill = self._refills[topic] = Refill(
                self.archive, group=handling.group, topic=topic, types=handling.types_of(topic)
            )
        refill.starts[partition] = begin
        refill.certain |= certain
        self.member.pause(partition)

    def _waits_for_refill(self, partition: Partition) -> bool:
        refill = self._refills.get(partition.topic)
        return refill is not None and partition in refill.starts

    def _refill(self, until: float, stop: Wake) -> bool:
        """Handle lost events until the time limit; False after a rebalance."""
        for refill in tuple(self._refills.values()):
            if refill.line.resume_at is not None and refill.line.resume_at > self._now():
                continue
            refill.line.resume_at = None
            if self._refilled(refill, until, stop) and not self._end_refill(refill):
                return False
        return True

    def _refilled(self, refill: Refill, until: float, stop: Wake) -> bool:
        """True if no event is missing."""
        while not stop.is_set() and self._now() <= until and self.verdict is None:
            try:
                record = refill.next()
            except (StoreUnavailableError, StoreBusyError) as cause:
                refill.line.failures += 1
                self._pause(refill.line, self.backoff.after(refill.line.failures))
                log.warning("refill_waits", topic=refill.topic, code=cause.code.name)
                return False
            if record is None:
                return True
            if not self._take(refill.line, record):
                return False
            refill.done()
        return False

    def _end_refill(self, refill: Refill) -> bool:
        """Mark the gap as read; False after a rebalance."""
        del self._refills[refill.topic]
        partitions = sorted(self._lines.keys() & refill.starts.keys())
        for partition in partitions:
            if refill.handled and not refill.certain:
                self._report_gap(partition, None, refill.starts[partition])
            if self._lines[partition].resume_at is None:
                self.member.resume(partition)
        if refill.handled or refill.certain:
            group, topic = self.handling.group, refill.topic
            log.info("gap_refilled", group=group, topic=topic, events=refill.handled)
        return all(self._commit(one, self._lines[one], refill.starts[one]) for one in partitions)

    def _report_gauges(self) -> None:
        """Report paused partitions after each turn; lag less often: it is a query to the broker."""
        group, metrics = self.handling.group, self.handling.metrics
        paused = sum(line.resume_at is not None for line in self._lines.values())
        metrics.gauge("consumer_paused_partitions", paused, group=group)
        if self._now() < self._next_lag:
            return
        self._next_lag = self._now() + self.limits.lag_every.total_seconds()
        lags: dict[str, int] = {}
        for partition, line in self._lines.items():
            start = line.committed or self.member.begin_offset(partition)
            behind = max(self.member.end_offset(partition) - start, 0)
            lags[partition.topic] = lags.get(partition.topic, 0) + behind
        for topic in self.lagging | lags.keys():  # zero without lag: a gauge keeps its value
            metrics.gauge("consumer_lag_records", lags.get(topic, 0), group=group, topic=topic)
        self.lagging.clear()
        self.lagging.update(lags)

    def _now(self) -> float:
        return self.handling.clock.monotonic()
