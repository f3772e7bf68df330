"""Events removed from the log before they were read: reported, read from the outbox, one effect."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import pytest

from datarecs_application.errors import RunExistsError, StoreBusyError, StoreUnavailableError
from datarecs_application.ports.messaging import (
    EventArchive,
    EventMemory,
    LogRecord,
    Partition,
)
from datarecs_application.ports.state import Transaction
from datarecs_core.errors.messaging import MessagingCode
from datarecs_core.values import RunId
from datarecs_events.codec import Received
from datarecs_kafka.dead_letter import letter_of
from datarecs_testing.consuming import GROUP, INFRA, World

FIRST, SECOND = Partition(INFRA, 0), Partition(INFRA, 1)


@pytest.fixture
def world() -> World:
    return World()


def with_a_gap(world: World, lost: int = 3) -> list[UUID]:
    """One event was handled, the next ones are removed, one more is in the log."""
    read = world.publish()
    world.consume()
    gone = [world.publish() for _ in range(lost)]
    published = world.publish()
    world.log.expire(FIRST, before=1 + lost)
    return [read, *gone, published]


@pytest.mark.case("L14")
def test_what_the_log_lost_is_handled_before_what_it_still_holds(
    world: World, reported_codes: Callable[[], set[str]]
) -> None:
    ids = with_a_gap(world)
    world.consume()
    assert world.handled == ids
    assert world.committed() == 5
    assert world.metrics.total("offset_gaps_total", group=GROUP) == 1
    assert reported_codes() == {MessagingCode.OFFSET_GAP.name}


@pytest.mark.case("L14")
def test_a_gap_is_filled_once_and_reported_once(world: World) -> None:
    ids = with_a_gap(world)
    for _ in range(3):
        world.consume()
    assert world.handled == ids
    assert world.metrics.total("offset_gaps_total", group=GROUP) == 1
    assert world.metrics.total("inbox_duplicates_total", group=GROUP) == 1, "what the log still has"


@pytest.mark.case("L14")
def test_a_gap_that_opens_while_it_runs_is_detected_within_the_hour(world: World) -> None:
    """The partition waits after a failure, and retention overtakes it."""
    first = world.publish()
    stuck: set[UUID] = set()

    def handler(tx: Transaction, received: Received) -> None:
        if received.envelope.id in stuck:
            raise StoreBusyError(cause="locked")
        world.remember(tx, received)

    def free_again(tx: Transaction, received: Received) -> None:
        if world.clock.monotonic() > 3_000:
            stuck.clear()
        handler(tx, received)

    world.consume(free_again)
    stuck.add(world.publish())
    consumer = world.consumer(free_again)
    consumer.run(world.after(60))
    world.publish()
    world.log.expire(FIRST, before=3)
    consumer.run(world.after(4_000))
    assert len(world.handled) == 3
    assert world.handled[0] == first


@pytest.mark.case("L14")
def test_a_new_group_starts_with_the_oldest_record_and_requests_no_more(world: World) -> None:
    ids = [world.publish() for _ in range(4)]
    world.log.expire(FIRST, before=2)
    world.consume()
    assert world.handled == ids[2:]
    assert world.metrics.total("offset_gaps_total", group=GROUP) == 0


@pytest.mark.case("L14")
def test_a_group_whose_offsets_were_forgotten_is_not_new(world: World) -> None:
    """Brokers forget the offsets of an idle group sooner than topics forget records."""
    ids = with_a_gap(world)
    world.log.forget_offsets(GROUP)
    world.consume()
    assert world.handled == ids
    assert world.metrics.total("offset_gaps_total", group=GROUP) == 1


def test_without_an_archive_a_gap_is_reported_and_passed(world: World) -> None:
    ids = with_a_gap(world)
    consumer = world.consumer()
    consumer.archive = None
    consumer.run(world.after(5))
    assert world.handled == [ids[0], ids[-1]]
    assert world.metrics.total("offset_gaps_total", group=GROUP) == 1


def test_partitions_without_a_gap_go_on_meanwhile(world: World) -> None:
    lost = with_a_gap(world)[1]
    free = world.publish(partition=SECOND.number)

    def handler(tx: Transaction, received: Received) -> None:
        if received.envelope.id == lost:
            raise StoreBusyError(cause="locked")
        world.remember(tx, received)

    world.consume(handler, seconds=20)
    assert free in world.handled
    assert world.committed(SECOND.number) == 1
    assert world.committed() == 1, "the gap is not passed before it is filled"


@dataclass
class Away:
    """An archive with a database that is unavailable at first."""

    inner: EventArchive
    failures: int

    def memory(self, group: str) -> EventMemory:
        return self.inner.memory(group)

    def unheard(self, group: str, topic: str, types: Collection[str]) -> Iterator[LogRecord]:
        for record in self.inner.unheard(group, topic, types):
            if self.failures:
                self.failures -= 1
                raise StoreUnavailableError(cause="gone")
            yield record


def test_a_database_that_is_away_delays_the_refill(world: World) -> None:
    ids = with_a_gap(world)
    world.archive = Away(world.archive, failures=4)
    world.consume(seconds=60)
    assert world.handled == ids
    assert world.letters() == []


def test_a_lost_event_that_can_never_be_handled_becomes_a_dead_letter(world: World) -> None:
    ids = with_a_gap(world)

    def handler(tx: Transaction, received: Received) -> None:
        if received.envelope.id == ids[2]:
            raise RunExistsError(run_id=RunId(world.ids.new()))
        world.remember(tx, received)

    world.consume(handler)
    assert world.handled == [*ids[:2], *ids[3:]]
    (letter,) = [letter_of(one) for one in world.letters()]
    assert (letter.reason, letter.record.partition) == ("RUN_EXISTS", -1)


def test_a_stop_in_the_middle_loses_nothing(world: World) -> None:
    ids = with_a_gap(world)
    stop = world.after(100)

    def handler(tx: Transaction, received: Received) -> None:
        world.remember(tx, received)
        stop.set()

    world.consumer(handler).run(stop)
    assert (world.handled, world.committed()) == (ids[:2], 1)
    world.consume()
    assert world.handled == ids


def test_a_long_refill_lets_the_group_be_polled(world: World) -> None:
    ids = with_a_gap(world)

    def slow(tx: Transaction, received: Received) -> None:
        world.clock.advance(timedelta(seconds=12))
        world.remember(tx, received)

    polls = world.log.polls
    world.consume(slow, seconds=120)
    assert world.handled == ids
    assert world.log.polls - polls > 2
