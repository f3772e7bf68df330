"""The relay over the twins in memory: nothing lost, order per key, a bad row hurts itself alone."""

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from datarecs_application.loops import Silent, StepSignals
from datarecs_application.ports.messaging import Ack, LogConsumer, NotSent, SendOutcome
from datarecs_application.ports.state import OutboxRow
from datarecs_core.errors.messaging import MessagingCode
from datarecs_core.values import EventId
from datarecs_kafka import steps
from datarecs_kafka.backoff import Backoff
from datarecs_kafka.relay import Relay, RelayLimits
from datarecs_memory.message_log import MessageLog
from datarecs_memory.outbox_reader import MemoryOutboxReader
from datarecs_memory.store import MemoryStore, Queued
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.consuming import KillAt, Killed, Until
from datarecs_testing.metrics import RecordedMetrics
from datarecs_testing.spans import RecordedTracing

TOPICS = ("one", "two")


@dataclass
class Office:
    """An outbox with rows, a broker, and relays over both."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(by_itself=True))
    metrics: RecordedMetrics = field(default_factory=RecordedMetrics)

    def __post_init__(self) -> None:
        self.log = MessageLog(self.clock, dict.fromkeys(TOPICS, 3))
        self.store = MemoryStore(self.clock, FixedIds())
        self.tenant = self.store.create_tenant()
        self.reader = MemoryOutboxReader(self.store)

    def write(
        self, key: str, *, topic: str = "one", position: int | None = None, data: bytes = b"{}"
    ) -> EventId:
        """Commit one row."""
        at = position or self.store.next_position()
        row = OutboxRow(
            position=at,
            event_id=EventId(UUID(int=at)),
            topic=topic,
            partition_key=key,
            headers=(("ce_id", str(UUID(int=at)).encode()),),
            data=data,
            type="x",
            created_at=self.clock.now(),
        )
        with self.store.writing(self.tenant) as state:
            state.outbox[row.event_id] = Queued(row=row, shard=hash_of(key))
        return row.event_id

    def relay(
        self,
        owner: str = "one",
        *,
        signals: StepSignals | None = None,
        limits: RelayLimits | None = None,
    ) -> Relay:
        return Relay(
            self.log,
            self.reader,
            owner=owner,
            metrics=self.metrics,
            clock=self.clock,
            wake=threading.Event(),
            backoff=Backoff(draw=lambda: 1.0),
            signals=signals or Silent(),
            limits=limits or RelayLimits(),
        )

    def run(self, seconds: float = 5) -> None:
        self.relay().run(Until(self.clock, self.clock.monotonic() + seconds))

    def sent(self, topic: str = "one") -> dict[str, list[int]]:
        """Positions by key, in the order of the topic."""
        numbers = defaultdict[str, list[int]](list)
        for record in self.log.records(topic):
            number = UUID((record.headers[0][1] or b"").decode()).int
            numbers[(record.key or b"").decode()].append(number)
        return dict(numbers)

    def unsent(self) -> set[EventId]:
        return {
            event_id
            for event_id, queued in self.store.committed(self.tenant).outbox.items()
            if queued.sent_at is None
        }


def hash_of(key: str) -> int:
    return sum(key.encode()) % 16


@pytest.fixture
def office() -> Office:
    return Office()


def test_every_row_is_sent_in_the_order_of_its_key_and_marked(office: Office) -> None:
    for number in range(60):
        office.write(f"run-{number % 7}")
    office.run()
    assert sum(len(one) for one in office.sent().values()) == 60
    assert all(positions == sorted(positions) for positions in office.sent().values())
    assert office.unsent() == set()
    assert office.metrics.total("outbox_published_total", topic="one", outcome="sent") == 60


@pytest.mark.case("L11")
def test_a_lower_position_that_commits_late_is_sent_too(office: Office) -> None:
    """Selection is what is unsent, never a cursor."""
    office.write("slow-writer", position=1_000)
    office.run()
    office.write("late", position=7)
    office.run()
    assert office.sent() == {"slow-writer": [1_000], "late": [7]}
    assert office.unsent() == set()


@pytest.mark.case("R37")
@pytest.mark.parametrize(
    "step",
    [
        steps.RELAY_AFTER_CLAIM,
        steps.RELAY_AFTER_SEND,
        steps.RELAY_AFTER_ACK,
        steps.RELAY_AFTER_MARK,
    ],
)
def test_killed_at_any_step_a_row_is_repeated_with_the_same_bytes_at_most_once(
    office: Office, step: str
) -> None:
    for _ in range(5):
        office.write("k")
    with pytest.raises(Killed):
        office.relay("first", signals=KillAt(step)).turn()
    office.clock.advance(timedelta(seconds=16))
    office.relay("second").run(office_until(office, 5))
    positions = office.sent()["k"]
    assert sorted(set(positions)) == [1, 2, 3, 4, 5]
    assert list(dict.fromkeys(positions)) == [1, 2, 3, 4, 5], "first appearances are in order"
    assert max(positions.count(one) for one in positions) <= 2
    assert len({record.value for record in office.log.records("one")}) == 1


def office_until(office: Office, seconds: float) -> Until:
    return Until(office.clock, office.clock.monotonic() + seconds)


def test_an_owner_that_slept_sends_nothing_after_its_lease(office: Office) -> None:
    """Paused for 30 s between reading and sending, while another takes the shards over."""
    office.write("k")
    other = office.relay("other")

    @dataclass
    class Sleep:
        def reached(self, step: str) -> None:
            if step == steps.RELAY_AFTER_CLAIM:
                office.clock.advance(timedelta(seconds=30))
                other.turn()

    office.relay("sleeper", signals=Sleep()).run(office_until(office, 40))
    assert office.sent() == {"k": [1]}


def test_an_outage_loses_nothing_and_ends_in_order(office: Office) -> None:
    for number in range(20):
        office.write(f"run-{number % 3}")
    office.log.outage(down=True)
    office.run(seconds=60)
    assert len(office.unsent()) == 20
    office.log.outage(down=False)
    office.run()
    assert office.unsent() == set()
    assert all(positions == sorted(positions) for positions in office.sent().values())


def test_a_refusing_topic_delays_its_keys_only(office: Office) -> None:
    office.log.refuse("two", NotSent("TopicAuthorizationFailedError", permanent=False))
    for number in range(6):
        office.write(f"a-{number}", topic="one")
        office.write(f"b-{number}", topic="two")
    office.run(seconds=10)
    assert (len(office.sent("one")), office.sent("two")) == (6, {})
    assert len(office.unsent()) == 6
    office.log.refuse("two", None)
    office.run(seconds=60)
    assert len(office.sent("two")) == 6


def test_many_rows_that_cannot_go_do_not_hide_those_behind_them(office: Office) -> None:
    office.log.refuse("two", NotSent("no leader", permanent=False))
    for _ in range(30):
        office.write("dead", topic="two")
    office.write("dead" + chr(16), topic="one")
    limits = RelayLimits(rows_per_read=10)
    office.relay(limits=limits).run(office_until(office, 20))
    assert len(office.sent("one")) == 1


def test_a_record_the_broker_can_never_take_is_parked_and_its_key_goes_on(
    office: Office, reported_codes: Callable[[], set[str]]
) -> None:
    office.write("k")
    large = office.write("k", data=b"x" * 1_100_000)
    office.write("k")
    office.write("other")
    office.run()
    assert office.sent() == {"k": [1, 3], "other": [4]}
    queued = office.store.committed(office.tenant).outbox[large]
    assert queued.parked_at is not None
    assert reported_codes() == {MessagingCode.OUTBOX_ROW_PARKED.name}  # of `outbox_row_parked`
    assert office.metrics.total("outbox_published_total", topic="one", outcome="parked") == 1


def test_shards_are_returned_at_the_end(office: Office) -> None:
    office.write("k")
    office.run()
    office.write("k")
    office.relay("next").turn()
    assert office.sent() == {"k": [1, 2]}


def test_a_wake_up_is_obeyed_before_the_next_poll(office: Office) -> None:
    relay = office.relay()
    relay.turn()
    office.write("k")
    relay.turn()
    assert office.sent() == {}
    relay.wake.set()
    relay.turn()
    assert office.sent() == {"k": [1]}


class AlwaysWoken:
    """Another process commits all the time."""

    def is_set(self) -> bool:
        return True

    def set(self) -> None:
        pass

    def clear(self) -> None:
        pass

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        return True


def test_under_load_it_takes_breath_so_that_a_turn_carries_many_events(office: Office) -> None:
    relay = office.relay(limits=RelayLimits(breath=timedelta(milliseconds=20)))
    relay.wake, turns, read = AlwaysWoken(), 0, office.reader.unsent

    def counted(limits: Mapping[int, int]) -> Mapping[int, list[OutboxRow]]:
        nonlocal turns
        turns += 1
        return read(limits)

    office.reader.unsent = counted  # type: ignore[method-assign]  # counted for this test alone
    relay.run(office_until(office, 1))
    assert 40 <= turns <= 51


def test_what_was_requested_while_a_shard_was_full_is_read_once_that_is_drained(
    office: Office,
) -> None:
    """A wake-up that comes too early is not forgotten for a second."""
    same_shard = chr(16)
    for number in range(4):
        office.write("a" + number * same_shard)
    relay = office.relay(limits=RelayLimits(rows_per_read=8))
    relay.log_client = LateAcks(office)
    began = office.clock.monotonic()
    relay.turn()
    late = office.write("a" + 5 * same_shard)
    relay.wake.set()
    while relay.turn():
        assert office.clock.monotonic() - began < 1
    assert late not in office.unsent()


def test_the_way_from_commit_to_ack_is_timed_and_traced(office: Office) -> None:
    traced = RecordedTracing()
    office.write("k")
    office.clock.advance(timedelta(seconds=2))
    relay = office.relay()
    relay.tracing = traced
    relay.turn()
    assert office.metrics.values("outbox_publish_seconds") == [2]
    (span,) = traced.spans
    assert (span.name, span.attributes["topic"]) == ("relay.publish", "one")


class LateAcks:
    """The log, with acknowledgements 120 ms after the send; waiting advances time."""

    def __init__(self, office: Office) -> None:
        self._office, self._producer = office, office.log.producer()

    def consumer(self, *, group: str, topics: Sequence[str]) -> LogConsumer:
        return self._office.log.consumer(group=group, topics=topics)

    def producer(self) -> "LateAcks":
        return self

    def send(self, topic: str, **record: Any) -> "LateAck":  # noqa: ANN401  the port's fields
        return LateAck(self._office.clock, self._producer.send(topic, **record))

    def close(self) -> None:
        self._producer.close()


class LateAck:
    def __init__(self, clock: ManualClock, ack: Ack) -> None:
        self._clock, self._ack, self._known_at = clock, ack, clock.monotonic() + 0.12

    def done(self) -> bool:
        return self._clock.monotonic() >= self._known_at

    def wait(self, timeout: timedelta) -> SendOutcome:
        if not self.done():
            self._clock.advance(timeout)
        return self._ack.wait(timeout)


def test_what_was_left_behind_rows_on_their_way_is_read_as_soon_as_these_are_settled(
    office: Office,
) -> None:
    """A turn that says there is nothing more to do costs a second of idle poll."""
    for _ in range(13):
        office.write("k")
    relay = office.relay(limits=RelayLimits(rows_per_read=4))
    relay.log_client = LateAcks(office)
    turns = 0
    while relay.turn():
        turns += 1
        assert turns < 100
    assert office.sent() == {"k": list(range(1, 14))}
    assert office.unsent() == set()
