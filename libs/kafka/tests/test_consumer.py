"""The consumer loop over the twins in memory: one effect per event, whatever goes wrong."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise

import pytest

from datarecs_application.errors import RunExistsError, StoreBusyError, StoreUnavailableError
from datarecs_application.ports.messaging import Partition
from datarecs_application.ports.state import Transaction, UnitOfWork
from datarecs_core.errors.messaging import (
    LogUnavailableError,
    MessagingCode,
    SubscriptionRefusedError,
)
from datarecs_core.runs.events import RunCompleted, RunErrored, RunFinalised, RunTriggered
from datarecs_core.values import RunId, TenantId
from datarecs_events.catalogue import Topic
from datarecs_events.codec import Received
from datarecs_kafka import steps
from datarecs_kafka.backoff import Backoff
from datarecs_kafka.consumer import Consumer
from datarecs_kafka.dead_letter import DeadLetters, letter_of
from datarecs_kafka.handling import Handler, Handling, Subscription, routes_of
from datarecs_kafka.poison import PoisonGauge
from datarecs_kafka.session import ConsumerLimits, Session
from datarecs_testing.consuming import GROUP, INFRA, KillAt, Killed, World


@pytest.fixture
def world() -> World:
    return World()


# --- once


@pytest.mark.case("L03")
def test_the_same_id_twice_takes_effect_once(world: World) -> None:
    event = world.completed()
    first = world.publish(event)
    world.publish(event, event_id=first)
    world.consume()
    assert world.handled == [first]
    assert world.metrics.total("inbox_duplicates_total", group=GROUP) == 1
    assert world.committed() == 2


@pytest.mark.case("L03")
def test_different_ids_both_reach_the_handler(world: World) -> None:
    ids = [world.publish(), world.publish()]
    world.consume()
    assert world.handled == ids


@pytest.mark.case("L09")
@pytest.mark.parametrize(
    "step",
    [
        steps.CONSUME_BEFORE_TX,
        steps.CONSUME_IN_TX,
        steps.CONSUME_AFTER_COMMIT,
        steps.CONSUME_AFTER_OFFSET,
    ],
)
def test_killed_at_any_step_each_event_takes_effect_once(world: World, step: str) -> None:
    ids = [world.publish() for _ in range(3)]
    with pytest.raises(Killed):
        world.consumer(signals=KillAt(step)).run(world.after(5))
    done_before = len(world.handled) if step != steps.CONSUME_IN_TX else 0
    world.handled[done_before:] = []
    world.consume()
    assert world.handled == ids
    assert world.letters() == []
    assert world.committed() == 3


@pytest.mark.case("L09")
def test_a_connection_cut_at_commit_is_repeated_and_absorbed(world: World) -> None:
    """The outcome of COMMIT is unknown; here it had happened."""
    ids = [world.publish()]
    world.unit_of_work = CutAtCommit(world.unit_of_work)
    world.consume(seconds=30)
    assert world.handled == ids
    assert world.metrics.total("inbox_duplicates_total", group=GROUP) == 1
    assert (world.committed(), world.letters()) == (1, [])


@dataclass
class CutAtCommit:
    """A database with a first COMMIT that works, but its answer is lost."""

    inner: UnitOfWork
    cut: bool = False

    @contextmanager
    def begin(
        self, tenant: TenantId, *, feed: int = 0, read_only: bool = False
    ) -> Iterator[Transaction]:
        with self.inner.begin(tenant, feed=feed, read_only=read_only) as tx:
            yield tx
        if not self.cut:
            self.cut = True
            raise StoreUnavailableError(cause="server closed the connection unexpectedly")


def test_none_stands_for_what_the_catalogue_grants(world: World) -> None:
    """email-notifier cannot receive more by requesting everything."""
    routes = routes_of("email-notifier", (Subscription(Topic.RUN_PLATFORM, None, world.remember),))
    assert list(routes) == [
        (Topic.RUN_PLATFORM, "io.datarecs.reconciliation.run.finalised"),
    ]


def test_events_of_types_without_a_handler_pass(world: World) -> None:
    world.publish()
    consumer = Consumer(
        world.log,
        world.unit_of_work,
        group=GROUP,
        subscriptions=(Subscription(INFRA, (RunErrored,), world.remember),),
        metrics=world.metrics,
        clock=world.clock,
    )
    consumer.run(world.after(5))
    assert (world.handled, world.committed()) == ([], 1)


@pytest.mark.case("L02")
@pytest.mark.parametrize(
    "subscription",
    [
        Subscription(Topic.RUN_PLATFORM, (RunFinalised, RunTriggered), lambda _, __: None),
        Subscription(Topic.RUN_INFRA, (RunCompleted,), lambda _, __: None),
        Subscription(Topic.RUN_INFRA, None, lambda _, __: None),
    ],
)
def test_start_up_refuses_a_handler_the_catalogue_does_not_grant(
    world: World, subscription: Subscription
) -> None:
    """email-notifier subscribes only to run.finalised."""
    with pytest.raises(SubscriptionRefusedError):
        Consumer(
            world.log,
            world.unit_of_work,
            group="email-notifier",
            subscriptions=(subscription,),
            metrics=world.metrics,
            clock=world.clock,
        )


def test_the_webhook_service_may_take_everything_of_a_topic(world: World) -> None:
    world.log.create("webhook-service.dlq")
    seen: list[str] = []
    consumer = Consumer(
        world.log,
        world.unit_of_work,
        group="webhook-service",
        subscriptions=(Subscription(INFRA, None, lambda _, r: seen.append(r.envelope.type)),),
        metrics=world.metrics,
        clock=world.clock,
    )
    world.publish()
    consumer.run(world.after(5))
    assert seen == ["io.datarecs.reconciliation.run.completed"]


# --- failures that pass


@dataclass
class FailsAtFirst:
    """Raises so often, then hands on."""

    world: World
    failures: list[Exception]
    tries: list[float] = field(default_factory=list)

    def __call__(self, tx: Transaction, received: Received) -> None:
        self.tries.append(self.world.clock.monotonic())
        if self.failures:
            raise self.failures.pop(0)
        self.world.remember(tx, received)


def test_a_database_that_is_away_pauses_everything_and_poisons_nothing(world: World) -> None:
    ids = {world.publish(partition=n) for n in range(3)}
    handler = FailsAtFirst(world, [StoreUnavailableError(cause="gone") for _ in range(6)])
    consumer = world.consumer(handler)
    consumer.run(world.after(1))
    assert (world.log.committed(GROUP), world.letters()) == ({}, [])
    assert len(handler.tries) < 6, "while all partitions pause nobody tries"
    world.consume(handler, seconds=60)
    assert set(world.handled) == ids
    assert world.reasons() == []


def test_the_wait_doubles_while_a_conflict_lasts(world: World) -> None:
    world.publish()
    handler = FailsAtFirst(world, [StoreBusyError(cause="deadlock") for _ in range(4)])
    world.consume(handler, seconds=30)
    gaps = [later - earlier for earlier, later in pairwise(handler.tries)]
    assert gaps == sorted(gaps)
    assert gaps[-1] >= 1.6
    assert len(world.handled) == 1


def test_a_conflict_on_one_partition_leaves_the_others_alone(world: World) -> None:
    stuck = world.publish(partition=0)
    fine = world.publish(partition=1)

    def handler(tx: Transaction, received: Received) -> None:
        if received.envelope.id == stuck:
            raise StoreBusyError(cause="locked")
        world.remember(tx, received)

    world.consume(handler, seconds=20)
    assert world.handled == [fine]
    assert (world.committed(0), world.committed(1)) == (0, 1)


def test_an_unclassified_failure_is_tried_five_times_more(world: World) -> None:
    world.publish()
    handler = FailsAtFirst(world, [RuntimeError("?") for _ in range(5)])
    world.consume(handler, seconds=60)
    assert len(world.handled) == 1
    assert world.letters() == []


def test_after_that_it_is_set_aside_without_the_values_of_its_message(world: World) -> None:
    world.publish()
    after = world.publish()
    secret = RuntimeError('duplicate key "run_pkey"\nDETAIL: Key (amount)=(1234.56) exists')
    handler = FailsAtFirst(world, [secret] * 6)
    world.consume(handler, seconds=60)
    (letter,) = [letter_of(record) for record in world.letters()]
    assert (letter.reason, letter.attempts) == ("HANDLER_FAILED", 6)
    assert letter.error == "RuntimeError: duplicate key …"
    assert world.handled == [after]


def test_a_failure_that_no_try_can_mend_is_set_aside_at_once(world: World) -> None:
    world.publish()
    run_id = RunId(world.ids.new())
    handler = FailsAtFirst(world, [RunExistsError(run_id=run_id)])
    world.consume(handler, seconds=5)
    assert world.reasons() == ["RUN_EXISTS"]
    assert len(handler.tries) == 1


# --- the loop


def a_session(
    world: World, handler: Handler | None = None, limits: ConsumerLimits | None = None
) -> Session:
    handling = Handling(
        world.unit_of_work,
        group=GROUP,
        subscriptions=(Subscription(INFRA, (RunCompleted,), handler or world.remember),),
        metrics=world.metrics,
        clock=world.clock,
    )
    return Session(
        world.log.consumer(group=GROUP, topics=[INFRA]),
        handling,
        letters=DeadLetters(client=world.log, group=GROUP, clock=world.clock),
        gauge=PoisonGauge(),
        limits=limits or ConsumerLimits(),
        backoff=Backoff(),
    )


def test_a_stop_ends_after_the_current_record_and_its_offset(world: World) -> None:
    ids = [world.publish() for _ in range(5)]
    stop = world.after(1_000)

    def handler(tx: Transaction, received: Received) -> None:
        world.remember(tx, received)
        if received.envelope.id == ids[1]:
            stop.set()

    world.consumer(handler).run(stop)
    assert (world.handled, world.committed()) == (ids[:2], 2)
    world.consume()
    assert world.handled == ids


def test_a_batch_that_takes_too_long_is_cut_and_goes_on_after_a_poll(world: World) -> None:
    ids = [world.publish() for _ in range(4)]

    def slow(tx: Transaction, received: Received) -> None:
        world.clock.advance(timedelta(seconds=20))
        world.remember(tx, received)

    session = a_session(world, slow)
    session.turn(world.after(1_000))
    assert (world.handled, world.committed()) == (ids[:2], 2)
    session.turn(world.after(1_000))
    assert (world.handled, world.committed()) == (ids, 4)


def test_a_group_that_moved_on_drops_the_batch_and_loses_nothing(world: World) -> None:
    """A second member joins while the first handles; the first one's commit is refused."""
    ids = [world.publish(partition=n) for n in range(3)]
    others: list[Session] = []

    def handler(tx: Transaction, received: Received) -> None:
        world.remember(tx, received)
        if received.envelope.id == ids[1]:
            others.append(a_session(world))

    first = a_session(world, handler)
    first.turn(world.after(100))
    assert (world.handled, world.committed(1)) == (ids[:2], 0)
    for session in (*others, first):
        session.turn(world.after(100))
    assert sorted(world.handled) == ids
    assert sum(world.log.committed(GROUP).values()) == 3


def test_what_was_known_of_a_lost_partition_is_forgotten(world: World) -> None:
    world.publish(partition=1)
    waiting = a_session(world, FailsAtFirst(world, [RuntimeError("?")]))
    waiting.turn(world.after(10))
    assert world.metrics.last("consumer_paused_partitions", group=GROUP) == 1
    other = a_session(world)
    waiting.turn(world.after(10))
    assert world.metrics.last("consumer_paused_partitions", group=GROUP) == 0
    other.turn(world.after(10))
    assert len(world.handled) == 1


def test_an_outage_between_poll_and_commit_skips_nothing(world: World) -> None:
    ids = [world.publish(partition=n) for n in range(3)]

    def handler(tx: Transaction, received: Received) -> None:
        world.remember(tx, received)
        world.log.outage(down=received.envelope.id == ids[0])

    session = a_session(world, handler)
    with pytest.raises(LogUnavailableError):
        session.turn(world.after(100))
    assert (world.handled, world.committed(0)) == (ids[:1], 0)
    world.log.outage(down=False)
    session.turn(world.after(100))
    assert world.handled == ids
    assert [world.committed(n) for n in range(3)] == [1, 1, 1], "also where nothing came again"


def test_what_an_outage_has_left_owed_is_committed_by_a_stop(world: World) -> None:
    world.publish()

    def handler(tx: Transaction, received: Received) -> None:
        world.remember(tx, received)
        world.log.outage(down=True)

    session = a_session(world, handler)
    with pytest.raises(LogUnavailableError):
        session.turn(world.after(100))
    world.log.outage(down=False)
    session.close()
    assert (world.committed(), world.metrics.total("offset_gaps_total", group=GROUP)) == (1, 0)


def test_an_outage_of_the_log_is_waited_for(world: World) -> None:
    ids = [world.publish()]
    consumer = world.consume()
    assert consumer.ready() is None
    world.log.outage(down=True)
    away = world.consume(seconds=60)
    assert away.ready() == "event log at memory is not available: a test simulates an outage"
    world.log.outage(down=False)
    ids.append(world.publish())
    world.consume()
    assert world.handled == ids


def test_records_gone_before_they_were_read_raise_the_alarm(
    world: World, reported_codes: Callable[[], set[str]]
) -> None:
    world.publish()
    world.consume()
    for _ in range(3):
        world.publish()
    world.log.expire(Partition(INFRA, 0), before=3)
    world.consume()
    assert world.metrics.total("offset_gaps_total", group=GROUP) == 1
    assert reported_codes() == {MessagingCode.OFFSET_GAP.name}


def test_lag_and_pauses_are_shown(world: World) -> None:
    for _ in range(3):
        world.publish()
    handler = FailsAtFirst(world, [StoreBusyError(cause="?") for _ in range(99)])
    world.consume(handler, seconds=20)
    assert world.metrics.last("consumer_lag_records", group=GROUP, topic=INFRA) == 3
    assert world.metrics.last("consumer_paused_partitions", group=GROUP) == 1


def test_a_member_that_lost_a_partition_reports_no_lag_of_it_any_more(world: World) -> None:
    """The current owner does; a gauge would show its last value."""
    world.publish(partition=1)
    waiting = a_session(world, FailsAtFirst(world, [StoreBusyError(cause="?") for _ in range(9)]))
    waiting.turn(world.after(10))
    assert world.metrics.last("consumer_lag_records", group=GROUP, topic=INFRA) == 1
    waiting.lagging.add("a topic of which nothing is left here")
    a_session(world)
    waiting.turn(world.after(10))
    assert world.metrics.last("consumer_lag_records", group=GROUP, topic=INFRA) == 0
    gone = "a topic of which nothing is left here"
    assert world.metrics.last("consumer_lag_records", group=GROUP, topic=gone) == 0
    assert waiting.lagging == {INFRA}
