"""Dead letters: waited for, limited, and driven again after the fix."""

from collections.abc import Callable
from uuid import UUID

import pytest

from datarecs_application.errors import RunExistsError
from datarecs_application.ports.messaging import NotSent
from datarecs_application.ports.state import Transaction
from datarecs_core.errors.messaging import MessagingCode
from datarecs_core.runs.events import RunCompleted
from datarecs_core.values import RunId
from datarecs_events.codec import Received
from datarecs_kafka.dead_letter import letter_of
from datarecs_kafka.handling import Handler, Handling, Subscription
from datarecs_kafka.redrive import Redrive, RedriveWish
from datarecs_testing.consuming import DLQ, GROUP, INFRA, World


@pytest.fixture
def world() -> World:
    return World()


def poison(world: World, count: int) -> None:
    for number in range(count):
        world.log.append(INFRA, key=b"k", value=str(number).encode(), partition=0)


@pytest.mark.case("L19")
def test_without_a_dead_letter_the_partition_waits_and_skips_nothing(
    world: World, reported_codes: Callable[[], set[str]]
) -> None:
    poison(world, 1)
    after = world.publish()
    world.log.refuse(DLQ, NotSent("disk full", permanent=False))
    world.consume(seconds=60)
    assert (world.handled, world.committed()) == ([], 0)
    assert reported_codes() == {MessagingCode.DEAD_LETTER_UNAVAILABLE.name}
    world.log.refuse(DLQ, None)
    world.consume(seconds=60)
    assert world.handled == [after]
    assert len(world.letters()) == 1


@pytest.mark.case("L19")
@pytest.mark.case("X73")
def test_a_consumer_that_fails_at_everything_stops_itself_after_eleven(
    world: World, reported_codes: Callable[[], set[str]]
) -> None:
    poison(world, 1_000)
    consumer = world.consume(seconds=60)
    assert len(world.letters()) == 11
    assert world.committed() == 11
    assert consumer.stopped_because == "stopped itself: 11 dead letters in a row"
    assert consumer.ready() == consumer.stopped_because
    assert reported_codes() == {MessagingCode.CONSUMER_STOPPED.name}


@pytest.mark.case("X69")
def test_a_hundred_forgeries_between_good_events_change_nothing(world: World) -> None:
    ids = []
    for number in range(200):
        if number % 20 == 0:
            poison(world, 1)
        ids.append(world.publish())
    consumer = world.consume()
    assert world.handled == ids
    assert consumer.stopped_because is None
    assert len(world.letters()) == 10


def a_redrive(world: World, handler: Handler) -> Redrive:
    handling = Handling(
        world.unit_of_work,
        group=GROUP,
        subscriptions=(Subscription(INFRA, (RunCompleted,), handler),),
        metrics=world.metrics,
        clock=world.clock,
    )
    return Redrive(log_client=world.log, handling=handling)


def broken(tx: Transaction, received: Received) -> None:
    del tx, received
    raise RunExistsError(run_id=RunId(UUID(int=1)))


@pytest.mark.case("L20")
def test_a_redrive_after_the_fix_takes_effect_once_however_often(world: World) -> None:
    ids = [world.publish() for _ in range(3)]
    world.consume(broken)
    first = a_redrive(world, world.remember).run(RedriveWish())
    again = a_redrive(world, world.remember).run(RedriveWish())
    assert (first.handled, again.handled) == (3, 0)
    assert sorted(world.handled) == sorted(ids)
    assert len(world.log.records(INFRA)) == 3, "nothing is republished"


@pytest.mark.case("L20")
def test_what_fails_again_returns_with_one_attempt_more(world: World) -> None:
    world.publish()
    world.consume(broken)
    report = a_redrive(world, broken).run(RedriveWish())
    assert (report.handled, report.failed) == (0, 1)
    assert [letter_of(one).attempts for one in world.letters()] == [1, 2]
    assert a_redrive(world, world.remember).run(RedriveWish()).handled == 1


def test_a_redrive_takes_only_what_is_meant_and_leaves_the_rest(world: World) -> None:
    wanted, other = world.publish(), world.publish()
    world.consume(broken)
    report = a_redrive(world, world.remember).run(RedriveWish(event_id=str(wanted)))
    assert (report.handled, report.skipped) == (1, 1)
    assert a_redrive(world, world.remember).run(RedriveWish(reason="RUN_EXISTS")).handled == 1
    assert world.handled == [wanted, other]


def test_a_redrive_can_be_limited_and_can_discard(world: World) -> None:
    for _ in range(3):
        world.publish()
    world.consume(broken)
    assert a_redrive(world, world.remember).run(RedriveWish(limit=1)).handled == 1
    assert a_redrive(world, world.remember).run(RedriveWish(discard=True)).discarded == 2
    assert a_redrive(world, world.remember).run(RedriveWish()).handled == 0
