"""Conformance suite of `SinkLog`: one transaction a vote, fencing, positions, the control topic.

An adapter's test subclasses `SinkLogConformance` and provides the fixture `house`, a
`SinkLogHouse`.
"""

from datetime import UTC, datetime

import pytest

from datarecs_application.ports.messaging import LogRecord
from datarecs_application.ports.sinking import (
    MemberStamp,
    SinkLog,
    SinkProducer,
    SourceMember,
    VoteRefusedError,
)
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.control import (
    ControlHeaders,
    Outgoing,
    SourcePartition,
    StartCommit,
)
from datarecs_testing.clock import NOON, FixedIds
from datarecs_testing.conformance.sink_log_house import (
    COMMIT,
    POLLS,
    SHORT,
    SinkLogHouse,
    a_letter,
    a_vote,
    read_to_end,
    settle,
    start_commit,
    values,
)


@pytest.mark.case("I72")
class SinkLogConformance:
    """Subclass it, and give the fixture `house`."""

    # --- topics

    def test_the_control_topic_is_created_once(self, house: SinkLogHouse) -> None:
        lineage = house.task().prepare()
        assert lineage.group == house.group
        assert house.task().prepare() == lineage

    def test_a_control_topic_that_was_recreated_is_another_lineage(
        self, house: SinkLogHouse
    ) -> None:
        log = house.task()
        before = log.prepare()
        log.remove_topics()
        log.remove_topics()
        after = log.prepare()
        assert after.cluster_id == before.cluster_id
        assert after.topic_id != before.topic_id

    def test_a_source_topic_that_does_not_exist_is_refused(self, house: SinkLogHouse) -> None:
        with pytest.raises(SinkError, match="does not exist") as refusal:
            house.task(house.topic, "no-such-topic").prepare()
        assert refusal.value.code is SinkCode.TOPIC_REFUSED

    def test_partitions_of_all_topics_are_listed(self, house: SinkLogHouse) -> None:
        expected = {SourcePartition(house.topic, 0), SourcePartition(house.topic, 1)}
        assert house.task().partitions() == expected

    def test_a_source_topic_that_was_created_again_has_another_id(
        self, house: SinkLogHouse
    ) -> None:
        log = house.task()
        before = log.topic_ids()
        house.write(b"0")
        assert log.topic_ids() == before
        assert before.keys() == {house.topic}
        house.recreate_topic()
        after = log.topic_ids()
        assert after.keys() == {house.topic}
        assert after != before

    def test_a_source_topic_that_does_not_exist_has_no_id(self, house: SinkLogHouse) -> None:
        with pytest.raises(SinkError, match="does not exist") as refusal:
            house.task(house.topic, "no-such-topic").topic_ids()
        assert refusal.value.code is SinkCode.TOPIC_REFUSED

    # --- votes

    def test_a_vote_is_read_with_everything_in_it(self, house: SinkLogHouse) -> None:
        log, member, producer = self.a_task(house)
        (stamp,) = settle(member)
        vote = a_vote(house.topic)
        producer.vote(vote, {SourcePartition(house.topic, 0): 3}, stamp, ())
        written, complete = read_to_end(log.reader(0))
        assert (written.message, complete.message) == (vote[0].message, vote[1].message)
        assert (written.headers, complete.headers) == (vote[0].headers, vote[1].headers)
        assert written.sender == complete.sender
        assert written.offset < complete.offset
        assert member.committed(SourcePartition(house.topic, 0)) == 3
        assert member.committed(SourcePartition(house.topic, 1)) is None

    def test_a_message_of_the_coordinator_states_expected_positions(
        self, house: SinkLogHouse
    ) -> None:
        log = house.task()
        log.prepare()
        expected = {SourcePartition(house.topic, 1): 17}
        headers = ControlHeaders(epoch=8, expected=expected)
        message = Outgoing(message=StartCommit(commit_id=COMMIT), headers=headers)
        log.producer("coordinator").announce([message])
        (envelope,) = read_to_end(log.reader(0))
        assert envelope.headers == headers

    @pytest.mark.case("I06")
    def test_a_vote_of_a_removed_member_is_refused_and_leaves_nothing(
        self, house: SinkLogHouse
    ) -> None:
        log, zombie, producer = self.a_task(house)
        (stale,) = settle(zombie)
        house.remove_member(zombie)
        successor = house.task().member()
        settle(successor)
        with pytest.raises(VoteRefusedError):
            producer.vote(
                a_vote(house.topic),
                {SourcePartition(house.topic, 0): 3},
                stale,
                [a_letter(house.topic)],
            )
        assert read_to_end(log.reader(0)) == []
        assert successor.committed(SourcePartition(house.topic, 0)) is None
        assert house.dead_letters() == []

    def test_a_task_votes_again_after_a_refusal(self, house: SinkLogHouse) -> None:
        log, member, producer = self.a_task(house)
        (stamp,) = settle(member)
        stale = MemberStamp(
            generation=stamp.generation - 1,
            member_id=stamp.member_id,
            assignment=stamp.assignment,
        )
        offsets = {SourcePartition(house.topic, 0): 3}
        with pytest.raises(VoteRefusedError):
            producer.vote(a_vote(house.topic), offsets, stale, ())
        producer.vote(a_vote(house.topic), offsets, stamp, ())
        assert len(read_to_end(log.reader(0))) == 2

    def test_a_vote_of_nobody_is_refused(self, house: SinkLogHouse) -> None:
        """A broker takes offsets without a member as those of a program outside of the group."""
        log, member, producer = self.a_task(house)
        with pytest.raises(VoteRefusedError):
            producer.vote(
                a_vote(house.topic), {SourcePartition(house.topic, 0): 3}, member.stamp(), ()
            )
        assert read_to_end(log.reader(0)) == []

    @pytest.mark.case("I04")
    def test_a_vote_that_never_ended_is_not_read(self, house: SinkLogHouse) -> None:
        log, _, producer = self.a_task(house)
        house.leave_open(producer, start_commit())
        reader = log.reader(0)
        assert reader.end() == 0
        assert reader.poll(SHORT) == []
        log.producer("session")  # the same role, as a restart of the session
        assert read_to_end(reader) == []
        assert reader.position() > 0

    def test_messages_behind_an_open_transaction_wait(self, house: SinkLogHouse) -> None:
        log, _, producer = self.a_task(house)
        house.leave_open(producer, start_commit(601))
        log.producer("coordinator").announce([start_commit(602)])
        reader = log.reader(0)
        assert reader.poll(SHORT) == []
        log.producer("session")
        (envelope,) = read_to_end(reader)
        assert envelope.message.commit_id == FixedIds.nth(602)

    @pytest.mark.case("I54")
    def test_a_dead_letter_is_written_with_the_vote(self, house: SinkLogHouse) -> None:
        _, member, producer = self.a_task(house)
        (stamp,) = settle(member)
        offsets = {SourcePartition(house.topic, 0): 3}
        producer.vote(a_vote(house.topic), offsets, stamp, [a_letter(house.topic)])
        (letter,) = house.dead_letters()
        assert (letter.key, letter.value) == (b"k", b"no json")
        assert dict(letter.headers) == {
            "source": b"test",
            "datarecs-dlq-topic": house.topic.encode(),
            "datarecs-dlq-partition": b"0",
            "datarecs-dlq-offset": b"1",
            "datarecs-dlq-path": b"$",
            "datarecs-dlq-reason": b"no JSON object",
        }

    @pytest.mark.case("I54")
    @pytest.mark.parametrize("is_empty", [True, False])
    def test_only_an_empty_topic_of_dead_letters_goes_with_the_control_topic(
        self, house: SinkLogHouse, *, is_empty: bool
    ) -> None:
        log, member, producer = self.a_task(house)
        (stamp,) = settle(member)
        offsets = {SourcePartition(house.topic, 0): 3}
        producer.vote(a_vote(house.topic), offsets, stamp, [a_letter(house.topic)])
        letters = f"{house.group}.dlq"
        while not house.dead_letters():  # the broker ends the transaction after the answer
            pass
        if is_empty:
            # The letter and the marker of its transaction.
            house.expire(SourcePartition(letters, 0), before=2)
        log.remove_topics()
        if is_empty:
            with pytest.raises(SinkError, match="does not exist"):
                house.task(letters).topic_ids()
        else:
            assert len(house.dead_letters()) == 1
        log.remove_topics()

    # --- coordinators

    def test_a_newer_coordinator_replaces_the_older_one(self, house: SinkLogHouse) -> None:
        log = house.task()
        log.prepare()
        older = log.producer("coordinator")
        older.announce([start_commit(601)])
        newer = house.task().producer("coordinator")
        for _ in range(2):
            with pytest.raises(VoteRefusedError):
                older.announce([start_commit(602)])
        newer.announce([start_commit(603)])
        ids = [envelope.message.commit_id for envelope in read_to_end(log.reader(0))]
        assert ids == [FixedIds.nth(601), FixedIds.nth(603)]

    @pytest.mark.case("I10")
    def test_a_coordinator_that_slept_inside_a_transaction_does_not_fence_the_newer_one(
        self, house: SinkLogHouse
    ) -> None:
        log = house.task()
        log.prepare()
        older = log.producer("coordinator")
        house.leave_open(older, start_commit(601))
        newer = house.task().producer("coordinator")
        with pytest.raises(VoteRefusedError):
            older.announce([start_commit(602)])
        newer.announce([start_commit(603)])
        newer.announce([start_commit(604)])
        ids = [envelope.message.commit_id for envelope in read_to_end(log.reader(0))]
        assert ids == [FixedIds.nth(603), FixedIds.nth(604)]

    # --- members

    def test_a_partition_begins_at_the_offset_of_the_group(self, house: SinkLogHouse) -> None:
        for value in (b"0", b"1", b"2", b"3"):
            house.write(value)
        house.write(b"other", partition=1)
        _, member, producer = self.a_task(house)
        (stamp,) = settle(member)
        producer.vote(a_vote(house.topic), {SourcePartition(house.topic, 0): 3}, stamp, ())
        member.close()
        assert sorted(filter(None, values(house.task().member(), 2))) == [b"3", b"other"]

    def test_positions_are_set(self, house: SinkLogHouse) -> None:
        for value in (b"0", b"1", b"2"):
            house.write(value)
        _, member, _ = self.a_task(house)
        settle(member)
        member.seek(SourcePartition(house.topic, 0), 1)
        assert values(member, 2) == [b"1", b"2"]

    def test_exactly_the_named_partitions_are_paused(self, house: SinkLogHouse) -> None:
        first, second = SourcePartition(house.topic, 0), SourcePartition(house.topic, 1)
        _, member, _ = self.a_task(house)
        member.pause(frozenset({first}))
        house.write(b"first")
        house.write(b"second", partition=1)
        assert values(member, 1) == [b"second"]
        house.write(b"third", partition=1)
        member.pause(frozenset({second}))
        assert values(member, 1) == [b"first"]
        member.pause(frozenset())
        assert values(member, 1) == [b"third"]

    def test_records_of_one_poll_are_limited_and_in_order(self, house: SinkLogHouse) -> None:
        for number in range(5):
            house.write(b"%d" % number)
        _, member, _ = self.a_task(house)
        records = list[LogRecord]()
        sizes = set()
        for _ in range(POLLS):
            polled = member.poll(SHORT, max_records=2)
            batch = polled.records.get(SourcePartition(house.topic, 0), ())
            sizes.add(len(batch))
            records += batch
            if len(records) == 5:
                break
        assert [record.offset for record in records] == [0, 1, 2, 3, 4]
        assert max(sizes) <= 2

    def test_two_members_share_the_partitions_and_one_takes_over(self, house: SinkLogHouse) -> None:
        _, first, _ = self.a_task(house)
        (alone,) = settle(first)
        second = house.task().member()
        shared = settle(first, second)
        assert shared[0].assignment.isdisjoint(shared[1].assignment)
        assert shared[0].generation > alone.generation
        first.close()
        (rest,) = settle(second)
        assert rest.generation > shared[1].generation
        assert rest.member_id == second.stamp().member_id == shared[1].member_id

    def test_a_position_that_was_removed_is_a_gap(self, house: SinkLogHouse) -> None:
        first = SourcePartition(house.topic, 0)
        for value in (b"0", b"1", b"2"):
            house.write(value)
        _, member, _ = self.a_task(house)
        settle(member)
        house.expire(first, before=2)
        assert member.bounds(first) == (2, 3)
        member.seek(first, 0)
        with pytest.raises(SinkError, match="0 to 1 were removed") as gap:
            values(member, 1)
        assert gap.value.code is SinkCode.SOURCE_GAP

    def test_only_committed_records_are_read(self, house: SinkLogHouse) -> None:
        first = SourcePartition(house.topic, 0)
        abort = house.open_write(b"aborted")
        abort(commit=False)
        end = house.open_write(b"open")
        house.write(b"behind")
        _, member, _ = self.a_task(house)
        settle(member)
        assert member.bounds(first) == (0, 2)
        member.seek(first, 0)
        assert member.poll(SHORT, max_records=9).records == {}
        end(commit=True)
        assert values(member, 2) == [b"open", b"behind"]

    def test_markers_and_aborted_records_at_the_end_are_passed(self, house: SinkLogHouse) -> None:
        first = SourcePartition(house.topic, 0)
        house.open_write(b"committed")(commit=True)
        house.open_write(b"aborted")(commit=False)
        _, member, _ = self.a_task(house)
        settle(member)
        member.seek(first, 0)
        assert member.position(first) == 0
        assert values(member, 1) == [b"committed"]
        _, end = member.bounds(first)
        assert end == 4
        while member.position(first) < end:
            assert member.poll(SHORT, max_records=9).records == {}

    def test_the_offset_of_a_time_is_that_of_the_next_record(self, house: SinkLogHouse) -> None:
        first, second = SourcePartition(house.topic, 0), SourcePartition(house.topic, 1)
        for minute in range(3):
            house.write(b"x", time=datetime(2026, 1, 15, 12, minute, tzinfo=UTC))
        _, member, _ = self.a_task(house)
        settle(member)
        offsets = {
            minute: member.offset_at(first, datetime(2026, 1, 15, 12, minute, 0, tzinfo=UTC))
            for minute in (0, 1, 5)
        }
        assert offsets == {0: 0, 1: 1, 5: 3}
        assert member.offset_at(first, datetime(2026, 1, 15, 12, 0, 1, tzinfo=UTC)) == 1
        assert member.offset_at(second, NOON) == 0

    # --- the control topic

    def test_a_reader_without_an_offset_begins_at_the_end(self, house: SinkLogHouse) -> None:
        log = house.task()
        log.prepare()
        coordinator = log.producer("coordinator")
        coordinator.announce([start_commit(601)])
        reader = log.reader(None)
        assert reader.position() == reader.end()
        coordinator.announce([start_commit(602)])
        (envelope,) = read_to_end(reader)
        assert envelope.message.commit_id == FixedIds.nth(602)
        assert reader.poll(SHORT) == []

    @pytest.mark.case("I28")
    def test_messages_that_were_removed_are_a_gap(self, house: SinkLogHouse) -> None:
        log = house.task()
        log.prepare()
        coordinator = log.producer("coordinator")
        for number in (601, 602, 603):
            coordinator.announce([start_commit(number)])
        house.expire(SourcePartition(house.group, 0), before=2)
        reader = log.reader(0)
        assert reader.begin() == 2
        with pytest.raises(SinkError, match="0 to 1 were removed") as gap:
            read_to_end(reader)
        assert gap.value.code is SinkCode.CONTROL_GAP

    @pytest.mark.case("I34")
    def test_a_damaged_message_of_the_group_stops_and_one_of_another_does_not(
        self, house: SinkLogHouse
    ) -> None:
        log = house.task()
        log.prepare()
        house.damage(group="cg-control-other")
        log.producer("coordinator").announce([start_commit()])
        reader = log.reader(0)
        assert len(read_to_end(reader)) == 1
        house.damage(group=house.group)
        with pytest.raises(SinkError, match="cannot be read") as damage:
            read_to_end(reader)
        assert damage.value.code is SinkCode.CONTROL_DAMAGED

    # --- arranging

    def a_task(self, house: SinkLogHouse) -> tuple[SinkLog, SourceMember, SinkProducer]:
        """A task with its member and its producer, the control topic created."""
        log = house.task()
        log.prepare()
        return log, log.member(), log.producer("session")
