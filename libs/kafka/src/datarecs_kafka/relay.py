"""The relay: sends outbox rows to Kafka and marks them after the acknowledgement.

The only writer of events. It owns shards by lease, has one unacknowledged row per key, and holds no
transaction open during a send. No event can be lost: a row stays unsent until the broker has it,
and every repetition has the same id and bytes, so consumers ignore it.
"""

import math
from collections import deque
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta

import structlog

from datarecs_application.loops import Silent, StepSignals
from datarecs_application.ports.messaging import Ack, LogProducer, LogWriter, NotSent, Sent
from datarecs_application.ports.outside import Clock, Metrics, Wake
from datarecs_application.ports.state import OutboxReader, OutboxRow
from datarecs_application.tracing import UNTRACED, Tracing
from datarecs_core.crashing import crash_point
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.messaging import LogUnavailableError, MessagingCode
from datarecs_core.values import EventId
from datarecs_kafka import steps
from datarecs_kafka.backoff import Backoff
from datarecs_kafka.relay_queue import RelayQueue

log = structlog.get_logger()
AT_ONCE = timedelta(0)
NOT_YET_READ = -math.inf
"""Time to read a shard again that is not drained enough yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayLimits:
    """Intervals and limits; the defaults are those of the specification."""

    lease: timedelta = timedelta(seconds=15)
    renew_every: timedelta = timedelta(seconds=5)
    self_fence: timedelta = timedelta(seconds=10)
    """Monotonic time since the last renewal after which this process sends nothing more; below
    the lease, so that it has stopped before another owner starts."""
    rows_per_read: int = 500
    most_rows_per_read: int = 20_000
    idle_poll: timedelta = timedelta(seconds=1)
    breath: timedelta = timedelta(milliseconds=20)
    """Minimum time between the starts of two turns: a turn costs the same for one event as for ten,
    and under load every commit wakes the relay. An event after a pause does not wait."""
    settle_slice: timedelta = timedelta(milliseconds=50)
    """Time to wait for acknowledgements before other keys and shards are served."""
    ack_slice: timedelta = timedelta(milliseconds=10)
    drain: timedelta = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class _Flight:
    row: OutboxRow
    ack: Ack
    sent_at: float


@dataclass(slots=True)
class _Shard:
    next_read: float = NOT_YET_READ
    left_alone: int = 0
    """Rows of the last read that could not be sent; the next read includes as many more rows."""


@dataclass(slots=True)
class Relay:
    """A loop of every run-controller replica, with the relay's own broker principal."""

    log_client: LogWriter
    outbox: OutboxReader
    _: KW_ONLY
    owner: str
    """Unique per process and start, such as host, pid and start time."""
    metrics: Metrics
    clock: Clock
    wake: Wake
    """Set by the listener on `datarecs_wake` and at stop; a hint, the relay polls each second."""
    signals: StepSignals = field(default_factory=Silent)
    limits: RelayLimits = RelayLimits()
    backoff: Backoff = field(default_factory=Backoff)
    tracing: Tracing = UNTRACED
    _queue: RelayQueue = field(default_factory=RelayQueue, init=False)
    _shards: dict[int, _Shard] = field(default_factory=dict, init=False)
    _renewed_at: float | None = field(default=None, init=False)
    _flights: deque[_Flight] = field(default_factory=deque, init=False)
    _suspects: deque[OutboxRow] = field(default_factory=deque, init=False)
    _alone: OutboxRow | None = field(default=None, init=False)
    _acked: list[EventId] = field(default_factory=list, init=False)
    _producer: LogProducer | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        return "relay"

    def run(self, stop: Wake) -> None:
        """Relay until `stop`, then wait for rows in flight, mark them and release the shards."""
        failures, began = 0, -math.inf
        while not stop.is_set():
            too_early = began + _s(self.limits.breath) - self.clock.monotonic()
            if too_early > 0:
                self.clock.wait(timedelta(seconds=too_early), until=stop)
            began = self.clock.monotonic()
            try:
                busy = self.turn()
                failures = 0
            except DatarecsError as cause:
                if not cause.retryable:
                    raise
                failures += 1
                log.warning("relay_waits", code=cause.code.name, cause=str(cause))
                self.clock.wait(self.backoff.after(failures), until=stop)
                continue
            if not busy:
                self.clock.wait(self.limits.idle_poll, until=self.wake)
        self._drain()

    def turn(self) -> bool:
        """One round over the held shards; True if there may be more to do at once.

        Raises a retryable DatarecsError if broker or database are unavailable: nothing is lost,
        call it again.
        """
        horizon = math.inf if self.wake.is_set() else self.clock.monotonic()
        self.wake.clear()
        self._mark()  # first, so that no read returns a row that the broker already has
        self._hold_shards()
        more = self._read(horizon)
        self._send_ready()
        self._settle()
        self._mark()
        return bool(more or self._flights or self._suspects or self._more_at_once())

    def _more_at_once(self) -> bool:
        """Whether skipped rows of the last read may be sent now, or a shard is not drained."""
        now = self.clock.monotonic()
        return any(
            one.next_read == NOT_YET_READ or (one.left_alone and one.next_read <= now)
            for one in self._shards.values()
        )

    # --- taking

    def _hold_shards(self) -> None:
        started = self.clock.monotonic()
        if self._renewed_at is None or started - self._renewed_at >= _s(self.limits.renew_every):
            held = self.outbox.hold_shards(self.owner, ttl=self.limits.lease)
            self._renewed_at = started
            self._shards = {number: self._shards.get(number, _Shard()) for number in held}
            self._queue.retain_shards(self._shards)

    def _require_lease(self) -> None:
        """Self-fence: raises if another owner may have the lease now."""
        renewed = self._renewed_at
        if renewed is None or self.clock.monotonic() - renewed > _s(self.limits.self_fence):
            raise LogUnavailableError(where="the relay", cause="its shard leases are not renewed")

    def _read(self, horizon: float) -> bool:
        """Read the shards that are due and nearly drained; True if there may be more rows."""
        unsettled, enough = self._queue.unsettled(), self.limits.rows_per_read // 4
        limits = {}
        for number, shard in self._shards.items():
            if shard.next_read <= horizon:
                shard.next_read = NOT_YET_READ
                if unsettled[number] <= enough:
                    wanted = self.limits.rows_per_read + shard.left_alone
                    limits[number] = min(wanted, self.limits.most_rows_per_read)
        if not limits:
            return False
        fresh, more, rows_by_shard = 0, False, self.outbox.unsent(limits)
        now = self.clock.monotonic()
        for number, rows in rows_by_shard.items():
            shard = self._shards[number]
            shard.left_alone = self._queue.offer(number, rows, now=now)
            taken = len(rows) - shard.left_alone
            full = taken > 0 and len(rows) >= limits[number]
            # Rows skipped because of rows in flight may be sent as soon as these are settled.
            soon = full or (shard.left_alone and (taken or unsettled[number]))
            shard.next_read = now if soon else now + _s(self.limits.idle_poll)
            fresh, more = fresh + taken, more or full
        if fresh:
            self.signals.reached(steps.RELAY_AFTER_CLAIM)
            crash_point(steps.RELAY_AFTER_CLAIM)
        return more

    # --- sending

    def _send_ready(self) -> None:
        """Send the first row of every free key; a suspect row only if no other row is in flight."""
        if self._alone is None and self._suspects and not self._flights:
            self._alone = self._suspects.popleft()
            self._send([self._alone])
        elif self._alone is None and not self._suspects:
            self._send(self._queue.next_rows())

    def _send(self, rows: list[OutboxRow]) -> None:
        for index, row in enumerate(rows):
            try:
                self._require_lease()
                ack = self._open_producer().send(
                    row.topic,
                    key=row.partition_key.encode(),
                    value=row.data,
                    headers=row.headers,
                )
            except LogUnavailableError:
                for unsent in rows[index:]:
                    self._queue.put_back(unsent)
                self._alone = None if self._alone in rows[index:] else self._alone
                raise
            self._flights.append(_Flight(row, ack, self.clock.monotonic()))
            self.signals.reached(steps.RELAY_AFTER_SEND)
            crash_point(steps.RELAY_AFTER_SEND)

    def _open_producer(self) -> LogProducer:
        if self._producer is None:
            self._producer = self.log_client.producer()
        return self._producer

    # --- settling

    def _settle(self) -> None:
        """Process the acknowledgements of one slice; each releases the next row of its key."""
        until = self.clock.monotonic() + _s(self.limits.settle_slice)
        while self._flights:
            landed, flying = self._parted()
            if not landed:
                if self.clock.monotonic() >= until:
                    return
                self._flights[0].ack.wait(self.limits.ack_slice)
                continue
            self._flights = flying
            following: list[OutboxRow] = []
            try:
                while landed:
                    following.extend(self._landed(landed[0]))
                    landed.popleft()
            finally:  # the database became unavailable: these outcomes are processed next time
                self._flights.extendleft(reversed(landed))
                self._send(following)
            if self.clock.monotonic() >= until:
                return

    def _parted(self) -> tuple[deque[_Flight], deque[_Flight]]:
        """Flights with a known outcome, and the others, each in the order of sending."""
        landed: deque[_Flight] = deque()
        flying: deque[_Flight] = deque()
        for flight in self._flights:
            (landed if flight.ack.done() else flying).append(flight)
        return landed, flying

    def _landed(self, flight: _Flight) -> list[OutboxRow]:
        """Record one outcome; return the key's next row if there is one to send."""
        row = flight.row
        outcome = flight.ack.wait(AT_ONCE)
        match outcome:
            case Sent():
                self.signals.reached(steps.RELAY_AFTER_ACK)
                crash_point(steps.RELAY_AFTER_ACK)
                self._acked.append(row.event_id)
                self._count(row, "sent")
                seconds = (self.clock.now() - row.created_at).total_seconds()
                self.metrics.observe("outbox_publish_seconds", max(seconds, 0.0))
                self._trace(flight)
                return self._next_of(row)
            case NotSent(permanent=True) if row is not self._alone:
                # A refusal breaks the producer, and other rows in flight fail with it: retry alone.
                self._suspects.append(row)
                return []
            case NotSent(reason=reason, permanent=True):
                self._park(row, reason)
                return self._next_of(row)
            case NotSent(reason=reason):
                self._rest(row, reason)
                return []

    def _trace(self, flight: _Flight) -> None:
        """The send to the broker as a span of the event's trace."""
        if self.tracing is UNTRACED:
            return
        row = flight.row
        headers = dict(row.headers)
        self.tracing.record_span(
            "relay.publish",
            parent=headers.get("ce_traceparent", b"").decode(),
            seconds=self.clock.monotonic() - flight.sent_at,
            event_id=str(row.event_id),
            type=row.type,
            topic=row.topic,
        )

    def _next_of(self, row: OutboxRow) -> list[OutboxRow]:
        following = self._queue.settle(row)
        if row is self._alone:
            self._alone = None
        return [] if following is None else [following]

    def _park(self, row: OutboxRow, reason: str) -> None:
        """Park the row; its key continues."""
        self.outbox.mark_failed(row.event_id, reason, park=True)
        self._count(row, "parked")
        log.error(
            "outbox_row_parked",
            code=MessagingCode.OUTBOX_ROW_PARKED.name,
            event_id=str(row.event_id),
            topic=row.topic,
            reason=reason,
        )

    def _rest(self, row: OutboxRow, reason: str) -> None:
        """Leave the row unsent and pause its key for a time; other keys continue."""
        self.outbox.mark_failed(row.event_id, reason, park=False)
        failures = self._queue.fail(row)
        if row is self._alone:
            self._alone = None
        pause = self.backoff.after(failures)
        self._queue.rest(row, until=self.clock.monotonic() + _s(pause))
        self._count(row, "failed")
        log.warning("outbox_row_waits", event_id=str(row.event_id), topic=row.topic, reason=reason)

    def _count(self, row: OutboxRow, outcome: str) -> None:
        self.metrics.count("outbox_published_total", topic=row.topic, outcome=outcome)

    def _mark(self) -> None:
        if self._acked:
            self.outbox.mark_sent(tuple(self._acked))
            self._acked.clear()
            self.signals.reached(steps.RELAY_AFTER_MARK)
            crash_point(steps.RELAY_AFTER_MARK)

    def _drain(self) -> None:
        """Wait for rows in flight within the limit; the next owner sends unacknowledged rows."""
        until = self.clock.monotonic() + _s(self.limits.drain)
        self._queue.retain_shards(())
        try:
            while self._flights and self.clock.monotonic() < until:
                self._settle()
            self._mark()
            self.outbox.release_shards(self.owner)
        except DatarecsError as cause:
            log.warning("relay_drain_cut", code=cause.code.name, cause=str(cause))
        finally:
            if self._producer is not None:
                self._producer.close()


def _s(duration: timedelta) -> float:
    return duration.total_seconds()
