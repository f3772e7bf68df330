"""When a cycle begins and ends, and up to which time its tables are complete."""

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.sink.admission import Refusal, Vote
from datarecs_core.sink.checkpoint import PartitionState, SinkState, TaskWish
from datarecs_core.sink.control import Position, SourcePartition, SourceRange
from datarecs_core.sink.cycle import WISH_DELAY, Cycle, CycleEnd, Timetable, valid_through
from datarecs_testing.clock import NOON

P0, P1 = SourcePartition("orders", 0), SourcePartition("orders", 1)
CYCLE = UUID(int=1)
TIMEOUT = timedelta(seconds=5)
DELAY = WISH_DELAY.total_seconds()


def a_cycle() -> Cycle:
    return Cycle(commit_id=CYCLE, started=0, partitions=frozenset({P0, P1}))


def a_vote(
    *partitions: SourcePartition,
    commit_id: UUID = CYCLE,
    refusal: Refusal | None = None,
    offset: int | None = 1,
) -> Vote:
    return Vote(
        offset=1,
        commit_id=commit_id,
        sender=UUID(int=5),
        ranges=tuple(SourceRange(partition=p, start=0, end=1) for p in partitions),
        positions=tuple(Position(partition=p, offset=offset, timestamp=None) for p in partitions),
        refusal=refusal,
    )


def a_timetable() -> Timetable:
    return Timetable(interval=timedelta(seconds=10), requests=0, last_start=0)


@pytest.mark.case("I22")
def test_a_cycle_is_full_when_every_partition_has_a_vote() -> None:
    cycle = a_cycle().with_vote(a_vote(P0)).with_vote(a_vote(P1))
    assert cycle.end(now=1, timeout=TIMEOUT) is CycleEnd.FULL


@pytest.mark.case("I21")
def test_a_second_vote_of_one_partition_stands_for_no_other() -> None:
    cycle = a_cycle().with_vote(a_vote(P0)).with_vote(a_vote(P0))
    assert cycle.end(now=4.9, timeout=TIMEOUT) is None


@pytest.mark.case("I20")
def test_a_cycle_is_partial_when_the_time_is_up() -> None:
    cycle = a_cycle().with_vote(a_vote(P0))
    assert cycle.end(now=5, timeout=TIMEOUT) is CycleEnd.PARTIAL


@pytest.mark.case("I25")
@pytest.mark.parametrize(
    "vote", [a_vote(P0, P1, commit_id=UUID(int=2)), a_vote(P0, P1, refusal=Refusal.GAP)]
)
def test_votes_of_other_cycles_and_refused_ones_do_not_count(vote: Vote) -> None:
    assert a_cycle().with_vote(vote).end(now=1, timeout=TIMEOUT) is None


def states(
    first: datetime | None, second: datetime | None
) -> dict[SourcePartition, PartitionState]:
    return {
        P0: PartitionState(accepted=1, largest=first),
        P1: PartitionState(accepted=1, largest=second),
    }


LATER = NOON + timedelta(minutes=5)


@pytest.mark.case("I23")
def test_tables_are_complete_up_to_the_least_of_the_largest_timestamps() -> None:
    through = valid_through(a_cycle(), CycleEnd.FULL, states(LATER, NOON), previous=None)
    assert through == NOON


def test_a_partial_commit_states_no_time() -> None:
    assert valid_through(a_cycle(), CycleEnd.PARTIAL, states(NOON, NOON), previous=NOON) is None


def test_a_partition_with_records_and_without_a_timestamp_leaves_it_open() -> None:
    cycle = a_cycle().with_vote(a_vote(P1))
    assert valid_through(cycle, CycleEnd.FULL, states(NOON, None), previous=None) is None


@pytest.mark.case("I24")
def test_a_partition_that_never_had_a_record_is_left_out_while_it_is_empty() -> None:
    cycle = a_cycle().with_vote(a_vote(P0)).with_vote(a_vote(P1, offset=None))
    assert valid_through(cycle, CycleEnd.FULL, states(NOON, None), previous=None) == NOON


@pytest.mark.case("I24")
def test_an_idle_partition_holds_the_time() -> None:
    cycle = a_cycle().with_vote(a_vote(P0)).with_vote(a_vote(P1, offset=None))
    assert valid_through(cycle, CycleEnd.FULL, states(LATER, NOON), previous=NOON) == NOON


def test_a_sink_without_records_states_no_time() -> None:
    cycle = a_cycle().with_vote(a_vote(P0, P1, offset=None))
    assert valid_through(cycle, CycleEnd.FULL, {}, previous=None) is None


@pytest.mark.case("I23")
@given(seconds=st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=100))
def test_the_time_never_falls(seconds: list[tuple[int, int]]) -> None:
    previous = None
    for first, second in seconds:
        times = (NOON + timedelta(seconds=first), NOON + timedelta(seconds=second))
        through = valid_through(a_cycle(), CycleEnd.FULL, states(*times), previous=previous)
        assert through is not None
        assert previous is None or through >= previous
        previous = through


def test_a_cycle_is_due_after_the_interval() -> None:
    timetable = a_timetable()
    assert not timetable.is_due(9.9)
    assert timetable.is_due(10)
    timetable.started(10)
    assert not timetable.is_due(19)


def test_a_cycle_is_due_at_once_when_votes_wait_for_a_new_coordinator() -> None:
    timetable = a_timetable()
    timetable.is_urgent = True
    assert timetable.is_due(0)
    timetable.started(0)
    assert not timetable.is_due(1)


def test_a_request_is_served_once() -> None:
    timetable = a_timetable()
    timetable.note(SinkState(commit_requests=2), now=1)
    assert timetable.is_due(1)
    timetable.started(1)
    timetable.note(SinkState(commit_requests=2), now=2)
    assert not timetable.is_due(2)


def test_the_last_cycle_before_a_pause_begins_when_every_task_has_read_the_wish() -> None:
    timetable = a_timetable()
    timetable.note(SinkState(wish=TaskWish.PAUSE), now=1)
    assert not timetable.is_due(1 + DELAY - 0.1)
    assert timetable.is_due(1 + DELAY)


def test_after_the_last_cycle_none_is_due_until_the_sink_goes_on() -> None:
    timetable = a_timetable()
    timetable.note(SinkState(wish=TaskWish.PAUSE), now=0)
    timetable.started(DELAY)
    assert not timetable.is_due(DELAY + 1)
    timetable.ended(CycleEnd.FULL, is_committed=True)
    assert timetable.is_held
    assert not timetable.is_due(1_000)
    timetable.note(SinkState(wish=TaskWish.RUN), now=1_000)
    assert timetable.is_due(1_000)


def test_a_partial_last_cycle_is_repeated_at_once_and_a_failed_one_after_the_interval() -> None:
    timetable = a_timetable()
    timetable.note(SinkState(wish=TaskWish.DRAIN), now=0)
    timetable.started(DELAY)
    timetable.ended(CycleEnd.PARTIAL, is_committed=True)
    assert timetable.is_due(DELAY + 1)
    timetable.started(DELAY + 1)
    timetable.ended(CycleEnd.FULL, is_committed=False)
    assert not timetable.is_due(DELAY + 2)
    assert timetable.is_due(DELAY + 11)


def test_a_cycle_from_before_the_wish_is_not_the_last_one() -> None:
    timetable = a_timetable()
    timetable.started(0)
    timetable.note(SinkState(wish=TaskWish.PAUSE), now=1)
    timetable.ended(CycleEnd.FULL, is_committed=True)
    assert not timetable.is_held
    assert timetable.is_due(1 + DELAY)
