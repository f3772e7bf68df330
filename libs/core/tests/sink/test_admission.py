"""The fold over a control topic: which votes are admitted, and that replay decides the same."""

from datetime import timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.sink.admission import ControlFold, Refusal, Vote
from datarecs_core.sink.checkpoint import Checkpoint, PartitionState
from datarecs_core.sink.control import (
    ControlHeaders,
    DataComplete,
    DataWritten,
    Envelope,
    FileEntry,
    Message,
    Position,
    SourcePartition,
    SourceRange,
    StartCommit,
    TableReference,
)
from datarecs_testing.clock import NOON

P0, P1 = SourcePartition("orders", 0), SourcePartition("orders", 1)
TABLE = TableReference(catalog="lake", namespace=("sales",), name="orders", uuid=UUID(int=7))
CYCLE = UUID(int=1)
WORKER, OTHER = UUID(int=100), UUID(int=101)


def envelope(
    offset: int, message: Message, headers: ControlHeaders, sender: UUID = WORKER
) -> Envelope:
    return Envelope(offset=offset, sender=sender, sent_at=NOON, headers=headers, message=message)


def files(offset: int, *, sender: UUID = WORKER, commit_id: UUID = CYCLE) -> Envelope:
    entry = FileEntry(path=f"{offset}.parquet", spec_id=0, record_count=1, size=1)
    message = DataWritten(commit_id=commit_id, table=TABLE, data_files=(entry,))
    return envelope(offset, message, ControlHeaders(epoch=1), sender)


def vote(
    offset: int,
    ranges: dict[SourcePartition, tuple[int, int]],
    *,
    parts: int = 0,
    sender: UUID = WORKER,
    commit_id: UUID = CYCLE,
) -> Envelope:
    spans = tuple(SourceRange(partition=p, start=a, end=b) for p, (a, b) in ranges.items())
    positions = tuple(
        Position(partition=p, offset=b, timestamp=NOON + timedelta(seconds=b))
        for p, (_, b) in ranges.items()
    )
    headers = ControlHeaders(epoch=1, ranges=spans, parts=parts)
    return envelope(offset, DataComplete(commit_id=commit_id, positions=positions), headers, sender)


def fold(*envelopes: Envelope) -> tuple[ControlFold, list[Vote]]:
    state = ControlFold.at(Checkpoint())
    votes = [state.apply(one) for one in envelopes]
    return state, [one for one in votes if one is not None]


def test_the_first_vote_of_a_partition_is_taken_at_its_start() -> None:
    state, votes = fold(vote(0, {P0: (50, 60)}))
    assert votes[0].refusal is None
    assert state.accepted() == {P0: 60}


@pytest.mark.case("I26")
@pytest.mark.parametrize(
    ("start", "refusal"), [(9, Refusal.OVERLAP), (11, Refusal.GAP), (10, None)]
)
def test_a_vote_begins_where_the_last_one_ended(start: int, refusal: Refusal | None) -> None:
    _, votes = fold(vote(0, {P0: (0, 10)}), vote(1, {P0: (start, 20)}))
    assert votes[1].refusal is refusal


@pytest.mark.parametrize(("end", "held"), [(5, 2), (6, None)])
def test_what_the_tables_hold_of_a_reset_partition_is_known_until_a_record_is_read(
    end: int, held: int | None
) -> None:
    state = ControlFold.at(Checkpoint(partitions={P0: PartitionState(accepted=5, held=2)}))
    state.apply(vote(0, {P0: (5, end)}))
    after = state.partitions[P0]
    assert (after.accepted, after.held) == (end, held)


def test_one_range_that_does_not_fit_refuses_the_whole_vote() -> None:
    state, votes = fold(
        vote(0, {P0: (0, 10), P1: (0, 10)}),
        files(1),
        vote(2, {P0: (10, 20), P1: (5, 20)}, parts=1),
    )
    assert votes[1].refusal is Refusal.OVERLAP
    assert state.accepted() == {P0: 10, P1: 10}
    assert state.pending() == {}


@pytest.mark.case("I26")
def test_workers_are_expected_at_the_accepted_position_until_a_vote_fits() -> None:
    state, _ = fold(vote(0, {P0: (0, 10)}), vote(1, {P0: (12, 20)}))
    assert state.expected() == {P0: 10}
    state.apply(vote(2, {P0: (10, 20)}))
    assert state.expected() == {}


def test_a_refused_vote_fixes_the_start_of_a_partition_that_was_never_seen() -> None:
    """The vote has moved the group's offset: without it the next vote would begin at 100."""
    state, _ = fold(vote(0, {P0: (0, 10)}), vote(1, {P0: (5, 20), P1: (40, 100)}))
    assert state.expected() == {P0: 10, P1: 40}
    refused = state.apply(vote(2, {P1: (100, 120)}))
    assert refused is not None
    assert refused.refusal is Refusal.GAP


@pytest.mark.case("I33")
def test_a_vote_with_a_missing_part_is_refused() -> None:
    state, votes = fold(files(0), vote(1, {P0: (0, 10)}, parts=2))
    assert votes[0].refusal is Refusal.INCOMPLETE
    assert state.pending() == {}
    assert not state.has_open_parts


def test_a_part_of_another_commit_is_no_part_of_the_vote() -> None:
    _, votes = fold(files(0, commit_id=UUID(int=2)), vote(1, {P0: (0, 10)}, parts=1))
    assert votes[0].refusal is Refusal.INCOMPLETE


@pytest.mark.parametrize(
    "ranges",
    [
        (SourceRange(partition=P0, start=5, end=4),),
        (
            SourceRange(partition=P0, start=0, end=4),
            SourceRange(partition=P0, start=4, end=8),
        ),
    ],
    ids=["backwards", "a partition twice"],
)
def test_ranges_that_make_no_sense_are_refused(ranges: tuple[SourceRange, ...]) -> None:
    message = DataComplete(commit_id=CYCLE, positions=())
    _, votes = fold(envelope(0, message, ControlHeaders(epoch=1, ranges=ranges)))
    assert votes[0].refusal is Refusal.INVALID


def test_votes_of_two_senders_may_interleave() -> None:
    state, votes = fold(
        files(0, sender=WORKER),
        files(1, sender=OTHER),
        vote(2, {P0: (0, 10)}, parts=1, sender=WORKER),
        vote(3, {P1: (0, 10)}, parts=1, sender=OTHER),
    )
    assert [one.refusal for one in votes] == [None, None]
    assert [part.offset for part in state.pending()[TABLE]] == [0, 1]


@pytest.mark.case("I33")
def test_no_commit_is_cut_while_files_wait_for_their_vote() -> None:
    state, _ = fold(files(0))
    assert state.has_open_parts
    state.apply(vote(1, {P0: (0, 10)}, parts=1))
    assert not state.has_open_parts


@pytest.mark.case("I16")
def test_messages_below_the_position_are_not_applied_again() -> None:
    state, _ = fold(files(0), vote(1, {P0: (0, 10)}, parts=1))
    assert state.apply(vote(1, {P0: (10, 20)})) is None
    assert state.accepted() == {P0: 10}


def test_a_release_forgets_what_every_table_holds() -> None:
    state, _ = fold(
        files(0), vote(1, {P0: (0, 10)}, parts=1), files(2), vote(3, {P0: (10, 20)}, parts=1)
    )
    state.release(2)
    assert [part.offset for part in state.pending()[TABLE]] == [2]
    assert state.oldest_vote() == 2


def test_messages_of_the_coordinator_change_nothing_but_the_position() -> None:
    state, votes = fold(envelope(4, StartCommit(commit_id=CYCLE), ControlHeaders(epoch=1)))
    assert votes == []
    assert state.position == 5
    assert state.oldest_vote() is None
    state.skip_to(9)
    state.skip_to(6)
    assert state.position == 9


@pytest.mark.case("I23")
def test_the_largest_timestamp_of_a_partition_never_falls() -> None:
    state, _ = fold(vote(0, {P0: (0, 10)}), vote(1, {P0: (10, 10)}))
    late = vote(2, {P0: (10, 12)})
    message = DataComplete(
        commit_id=CYCLE, positions=(Position(partition=P0, offset=12, timestamp=NOON),)
    )
    state.apply(envelope(2, message, late.headers))
    assert state.partitions[P0] == PartitionState(accepted=12, largest=NOON + timedelta(seconds=10))


OFFSETS = st.integers(0, 4)


@st.composite
def control_logs(draw: st.DrawFn) -> tuple[Envelope, ...]:
    """Votes of three senders, most of which fit, with files that are at times not all there."""
    accepted = {P0: 0, P1: 0}
    log: list[Envelope] = []
    for _ in range(draw(st.integers(0, 25))):
        sender = UUID(int=100 + draw(st.integers(0, 2)))
        commit_id = UUID(int=draw(st.integers(1, 2)))
        if draw(st.booleans()):
            log.append(files(len(log), sender=sender, commit_id=commit_id))
            continue
        waiting = sum(1 for one in log if one.sender == sender)
        parts = draw(st.sampled_from([0, 1, 2, waiting]))
        ranges = {}
        for partition in draw(st.sets(st.sampled_from([P0, P1]), min_size=1)):
            start = draw(st.one_of(st.just(accepted[partition]), OFFSETS))
            ranges[partition] = (start, start + draw(OFFSETS))
            accepted[partition] = draw(st.sampled_from([accepted[partition], start, *range(6)]))
        log.append(vote(len(log), ranges, parts=parts, sender=sender, commit_id=commit_id))
    return tuple(log)


@given(log=control_logs(), data=st.data())
def test_replay_from_any_checkpoint_decides_the_same(
    log: tuple[Envelope, ...], data: st.DataObject
) -> None:
    whole, votes = fold(*log)
    cuts = [index for index in range(len(log) + 1) if not fold(*log[:index])[0].has_open_parts]
    cut = data.draw(st.sampled_from(cuts))
    before, earlier = fold(*log[:cut])
    checkpoint = Checkpoint(control_offset=before.position, partitions=before.partitions)
    again = ControlFold.at(checkpoint)
    later = [vote for one in log if (vote := again.apply(one)) is not None]
    assert earlier + later == votes
    assert again.partitions == whole.partitions
    assert _paths(before) + _paths(again) == _paths(whole)


def _paths(state: ControlFold) -> list[str]:
    parts = state.pending().get(TABLE, ())
    return [entry.path for part in parts for entry in part.message.data_files]


@given(log=control_logs())
def test_admitted_ranges_of_a_partition_have_no_gap_and_no_overlap(
    log: tuple[Envelope, ...],
) -> None:
    _, votes = fold(*log)
    first: dict[SourcePartition, int] = {}
    ends: dict[SourcePartition, int] = {}
    for one in votes:
        for span in one.ranges:
            if one.refusal is not Refusal.INVALID:
                first.setdefault(span.partition, span.start)
            if one.refusal is None:
                assert span.start == ends.get(span.partition, first[span.partition])
                ends[span.partition] = span.end
