"""Uncommitted events are delivered again, lost events come from the outbox: one effect."""

import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, OffsetSpec

from datarecs_application.ports.messaging import Partition
from datarecs_core.runs.model import Run
from datarecs_events.catalogue import Topic, dead_letter_topic
from datarecs_kafka import steps
from datarecs_kafka.consumer import Consumer
from datarecs_postgres.bootstrap import bootstrap_database
from datarecs_postgres.migrate import upgrade
from datarecs_postgres.roles import LOGINS, MIGRATE
from datarecs_run_controller.handlers import Handlers
from datarecs_run_controller.wiring import subscriptions
from datarecs_runtime.environment import process_environment
from datarecs_testing.builders import A_TENANT
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.delivering import GROUP, Delivery
from datarecs_testing.metrics import RecordedMetrics
from datarecs_testing.plugin import start_postgres
from datarecs_testing.stack import KafkaBroker, PostgresServer

pytestmark = [pytest.mark.integration, pytest.mark.slow]

EVENT_TYPES = [f"io.datarecs.reconciliation.run.{what}" for what in ("completed", "triggered")]
INFRA = str(Topic.RUN_INFRA)
TOPICS = (INFRA, str(Topic.RUN_PROGRESS), str(Topic.RUN_PLATFORM))


@pytest.fixture
def delivery(
    database: PreparedDatabase, kafka_broker: KafkaBroker, principals: Mapping[str, str]
) -> Iterator[Delivery]:
    kafka_broker.skip_backlog(GROUP)
    with ExitStack() as open_things:
        yield Delivery(
            database=database,
            broker=kafka_broker,
            principals=principals,
            subscriptions=subscriptions(Handlers()),
            open_things=open_things,
        )


@pytest.fixture
def private_server(server_directory: Path) -> Iterator[PostgresServer]:
    """A database server that may be killed: the session's holds connections of other fixtures."""
    folder = server_directory / f"own-{secrets.token_hex(4)}"
    folder.mkdir(mode=0o711)
    server = start_postgres(folder, process_environment())
    yield server
    if server.process is not None:
        server.process.stop()


@pytest.fixture
def mortal(
    private_server: PostgresServer, kafka_broker: KafkaBroker, principals: Mapping[str, str]
) -> Iterator[Delivery]:
    """The same over that server."""
    passwords = {role: secrets.token_urlsafe(12) for role in LOGINS}
    database = PreparedDatabase(admin_url=private_server.fresh_database(), passwords=passwords)
    bootstrap_database(database.admin_url, passwords)
    upgrade(database.url(MIGRATE))
    database.add_tenant("a", A_TENANT)
    kafka_broker.skip_backlog(GROUP)
    with ExitStack() as open_things:
        yield Delivery(
            database=database,
            broker=kafka_broker,
            principals=principals,
            subscriptions=subscriptions(Handlers()),
            open_things=open_things,
        )


@dataclass
class BlockAt:
    """Holds a member in one step until it is let go."""

    step: str
    after: int = 1
    """So many times it passes first."""
    arrived: threading.Event = field(default_factory=threading.Event)
    go_on: threading.Event = field(default_factory=threading.Event)

    def reached(self, step: str) -> None:
        if step != self.step or self.go_on.is_set():
            return
        if self.after:
            self.after -= 1
            return
        self.arrived.set()
        assert self.go_on.wait(90), "nobody let it go on"


def metrics_of(consumer: Consumer) -> RecordedMetrics:
    assert isinstance(consumer.metrics, RecordedMetrics)
    return consumer.metrics


def once_each(delivery: Delivery, runs: list[Run]) -> Mapping[UUID, int]:
    assert delivery.closed() == len(runs)
    return {run.run_id: 1 for run in runs}


@pytest.mark.case("L13")
def test_a_rebalance_in_the_middle_of_a_batch_has_no_double_effect(delivery: Delivery) -> None:
    """The second member joins between an effect and its offset; what was done is repeated."""
    runs = delivery.ended(30)
    hold = BlockAt(steps.CONSUME_AFTER_COMMIT, after=4)
    first, second = delivery.consumer(signals=hold), delivery.consumer()
    with delivery.running(delivery.relay()):
        delivery.until(lambda: delivery.unsent() == 0)
        with delivery.running(first):
            assert hold.arrived.wait(60)
            with delivery.running(second):
                delivery.until(lambda: group_state(delivery) == "PreparingRebalance")
                hold.go_on.set()
                delivery.until(lambda: delivery.closed() == len(runs))
                delivery.until(lambda: second.ready() is None)
        delivery.until(lambda: delivery.unsent() == 0)
    assert delivery.finals() == once_each(delivery, runs)


@pytest.mark.case("L13")
def test_a_member_stalled_past_its_poll_interval_is_repeated_without_effect(
    delivery: Delivery,
) -> None:
    """It sleeps between effects and their offset; the other one repeats them and does the rest."""
    hold = BlockAt(steps.CONSUME_AFTER_COMMIT, after=4)
    sleeper = delivery.consumer(signals=hold, poll_interval=timedelta(seconds=3))
    other = delivery.consumer()
    with delivery.running(sleeper):
        delivery.until(lambda: sleeper.ready() is None)
        runs = delivery.ended(24)
        with delivery.running(delivery.relay()):
            assert hold.arrived.wait(60)
            runs += delivery.ended(12)
            with delivery.running(other):
                delivery.until(lambda: delivery.closed() == len(runs), seconds=90)
                delivery.until(lambda: repeated(other) > 0)
                hold.go_on.set()
                delivery.until(lambda: delivery.unsent() == 0)
    assert delivery.finals() == once_each(delivery, runs)
    assert metrics_of(other).total("dlq_total", group=GROUP, reason="HANDLER_FAILED") == 0


def repeated(consumer: Consumer) -> float:
    return metrics_of(consumer).total("inbox_duplicates_total", group=GROUP)


def group_state(delivery: Delivery) -> str:
    with KafkaAdminClient(**delivery.broker.access.settings()) as admin:
        group = admin.describe_groups([GROUP])[GROUP]
    return str(group["group_state"])


@pytest.mark.case("L14")
def test_what_the_topic_lost_is_reported_and_refilled_from_the_outbox(delivery: Delivery) -> None:
    """Retention overtakes a group that was away: no run stays open, none is closed twice."""
    with delivery.running(delivery.relay()):
        read = delivery.ended(5)
        with delivery.running(delivery.consumer()):
            delivery.until(lambda: delivery.closed() == 5)
        lost = delivery.ended(20)
        delivery.until(lambda: delivery.unsent() == 0)
        expire(delivery)
        ended_runs = delivery.ended(5)
        late = delivery.consumer()
        with delivery.running(late):
            delivery.until(lambda: delivery.closed() == 30)
            delivery.until(lambda: no_gap_is_left(delivery))
        again = delivery.consumer()
        with delivery.running(again):
            delivery.until(lambda: again.ready() is None)
            delivery.until(lambda: delivery.unsent() == 0)
    assert metrics_of(late).total("offset_gaps_total", group=GROUP) > 0
    assert metrics_of(again).total("offset_gaps_total", group=GROUP) == 0
    assert delivery.finals() == once_each(delivery, [*read, *lost, *ended_runs])


def everything() -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic in TOPICS for number in range(3)]


def expire(delivery: Delivery) -> None:
    """Retention takes everything that is in the topics now."""
    with KafkaAdminClient(**delivery.broker.access.settings()) as admin:
        admin.delete_records(dict.fromkeys(everything(), -1))


def no_gap_is_left(delivery: Delivery) -> bool:
    with KafkaAdminClient(**delivery.broker.access.settings()) as admin:
        starts = admin.list_partition_offsets(dict.fromkeys(everything(), OffsetSpec.EARLIEST))
    committed = delivery.committed(TOPICS)
    return all(
        committed[Partition(*where)] >= start.offset
        for where, start in starts.items()
        if Partition(*where) in committed
    )


@pytest.mark.case("L12")
def test_a_database_that_is_away_pauses_everything_and_moves_nothing(
    mortal: Delivery, private_server: PostgresServer
) -> None:
    """No offset, no dead letter, no lost end; it goes on by itself when the database is back."""
    delivery, server = mortal, private_server.process
    assert server is not None
    with delivery.running(delivery.relay()):
        runs = delivery.ended(60)
        delivery.until(lambda: delivery.unsent() == 0)
    letters = letters_written(delivery)
    hold = BlockAt(steps.CONSUME_AFTER_COMMIT, after=10)
    consumer = delivery.consumer(signals=hold)
    with delivery.running(consumer):
        assert hold.arrived.wait(60)
        server.kill()
        hold.go_on.set()
        delivery.until(lambda: paused(consumer) == 9, condition="every partition waits")
        before, seen = delivery.committed(TOPICS), tries(consumer)
        delivery.until(lambda: tries(consumer) >= seen + 3, condition="it is tried again")
        assert delivery.committed(TOPICS) == before
        server.restart()
        delivery.until(lambda: delivery.closed() == len(runs))
    with delivery.running(delivery.relay("after")):
        delivery.until(lambda: delivery.unsent() == 0)
    assert delivery.finals() == once_each(delivery, runs)
    assert letters_written(delivery) == letters
    assert consumer.stopped_because is None


def paused(consumer: Consumer) -> float:
    return metrics_of(consumer).last("consumer_paused_partitions", group=GROUP) or 0


def tries(consumer: Consumer) -> int:
    """How often a record was handed to the database that is away."""
    metrics = metrics_of(consumer)
    return sum(
        metrics.times("consumer_handle_seconds", group=GROUP, type=event_type, outcome="trylater")
        for event_type in EVENT_TYPES
    )


def letters_written(delivery: Delivery) -> int:
    topic = dead_letter_topic(GROUP)
    with KafkaAdminClient(**delivery.broker.access.settings()) as admin:
        ends = admin.list_partition_offsets(
            {TopicPartition(topic, number): OffsetSpec.LATEST for number in range(3)}
        )
    return sum(int(end.offset) for end in ends.values())
