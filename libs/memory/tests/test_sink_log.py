"""The sink's log in process: the conformance suite, and what only it can do."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial

import pytest

from datarecs_application.ports.messaging import LogRecord
from datarecs_application.ports.sinking import SinkProducer, SourceMember, VoteRefusedError
from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_core.sink.control import Outgoing, SourcePartition
from datarecs_memory.sink_cluster import Interruption, MemoryCluster
from datarecs_memory.sink_log import MemorySinkLog
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.conformance.sink_log import SinkLogConformance
from datarecs_testing.conformance.sink_log_house import (
    EndTransaction,
    a_vote,
    read_to_end,
    settle,
    start_commit,
)


class House:
    topic, group = "orders", "datarecs.sink.one"

    def __init__(self) -> None:
        self.cluster = MemoryCluster(ManualClock(by_itself=True))
        self.cluster.create_topic(self.topic, partitions=2)
        self.ids = FixedIds()

    def task(self, *topics: str) -> MemorySinkLog:
        names = topics or (self.topic,)
        return MemorySinkLog(cluster=self.cluster, ids=self.ids, name=self.group, topics=names)

    def write(self, value: bytes, *, partition: int = 0, time: datetime | None = None) -> int:
        return self.cluster.append(self.topic, value, partition=partition, time=time)

    def open_write(self, value: bytes, *, partition: int = 0) -> EndTransaction:
        transaction = self.cluster.begin()
        self.cluster.append(self.topic, value, partition=partition, transaction=transaction)
        return partial(self.cluster.end, transaction)

    def expire(self, partition: SourcePartition, *, before: int) -> None:
        self.cluster.expire(partition, before=before)

    def recreate_topic(self) -> None:
        self.cluster.delete_topic(self.topic)
        self.cluster.create_topic(self.topic, partitions=2)

    def remove_member(self, member: SourceMember) -> None:
        self.cluster.remove_member(self.group, member.stamp().member_id)

    def leave_open(self, producer: SinkProducer, message: Outgoing) -> None:
        self.cluster.interruptions.append(Interruption.LEFT_OPEN)
        with suppress(LogUnavailableError):
            producer.announce([message])

    def damage(self, *, group: str) -> None:
        self.cluster.append_damaged(self.group, group=group)

    def dead_letters(self) -> Sequence[LogRecord]:
        letters = self.cluster.records(f"{self.group}.dlq")
        return [letter for letter in letters if isinstance(letter, LogRecord)]


@pytest.fixture
def house() -> House:
    return House()


class TestMemorySinkLog(SinkLogConformance):
    """No further tests: the suite covers it."""


@pytest.mark.case("I07")
def test_a_cluster_can_accept_stale_generations(house: House) -> None:
    log = house.task()
    log.prepare()
    zombie, producer = log.member(), log.producer("session")
    (stale,) = settle(zombie)
    house.remove_member(zombie)
    settle(house.task().member())
    house.cluster.accepts_stale_generations = True
    producer.vote(a_vote(house.topic), {SourcePartition(house.topic, 0): 3}, stale, ())
    assert len(read_to_end(log.reader(0))) == 2


def test_a_lost_answer_leaves_a_committed_transaction(house: House) -> None:
    log = house.task()
    log.prepare()
    house.cluster.interruptions.append(Interruption.ANSWER_LOST)
    with pytest.raises(LogUnavailableError):
        log.producer("coordinator").announce([start_commit()])
    assert len(read_to_end(log.reader(0))) == 1


def test_an_aborted_transaction_is_a_refused_vote(house: House) -> None:
    log = house.task()
    log.prepare()
    producer = log.producer("coordinator")
    house.cluster.interruptions.append(Interruption.ABORTED)
    with pytest.raises(VoteRefusedError):
        producer.announce([start_commit()])
    producer.announce([start_commit()])
    assert len(read_to_end(log.reader(0))) == 1


def test_a_cluster_may_have_no_ids(house: House) -> None:
    house.cluster.has_no_ids = True
    assert house.task().topic_ids() == {}


def test_an_outage_ends_every_call(house: House) -> None:
    log = house.task()
    log.prepare()
    member = log.member()
    house.cluster.is_down = True
    with pytest.raises(LogUnavailableError):
        settle(member)
    with pytest.raises(LogUnavailableError):
        log.prepare()


def test_a_new_partition_is_shared_out(house: House) -> None:
    log = house.task()
    log.prepare()
    member = log.member()
    settle(member)
    house.cluster.create_topic(house.topic, partitions=3)
    (stamp,) = settle(member, partitions=3)
    assert SourcePartition(house.topic, 2) in stamp.assignment


def test_partitions_stay_with_their_members_when_another_one_joins(house: House) -> None:
    house.cluster.create_topic(house.topic, partitions=7)
    log = house.task()
    log.prepare()
    members = [log.member(), log.member()]
    before = settle(*members, partitions=7)
    after = settle(*members, log.member(), partitions=7)
    assert [len(stamp.assignment) for stamp in after] == [3, 2, 2]
    for earlier, later in zip(before, after, strict=False):
        assert later.assignment <= earlier.assignment
