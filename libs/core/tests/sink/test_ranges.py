"""What a worker has read since its last vote."""

from datetime import timedelta

import pytest

from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.ranges import ReadRanges, first_offset, record_time
from datarecs_testing.clock import NOON

P0, P1 = SourcePartition("orders", 0), SourcePartition("orders", 1)
NOON_MS = int(NOON.timestamp() * 1000)


def read_ranges() -> ReadRanges:
    ranges = ReadRanges()
    ranges.assign({P1: 5, P0: 0})
    ranges.advance(P0, 10, largest_ms=NOON_MS + 7)
    ranges.advance(P0, 20, largest_ms=NOON_MS)
    return ranges


def test_a_vote_has_a_range_for_every_assigned_partition() -> None:
    spans = [(span.partition, span.start, span.end) for span in read_ranges().ranges()]
    assert spans == [(P0, 0, 20), (P1, 5, 5)]


@pytest.mark.case("I23")
def test_the_timestamp_of_a_position_is_the_largest_that_was_read() -> None:
    first, second = read_ranges().positions(frozenset())
    assert first.timestamp == NOON + timedelta(milliseconds=7)
    assert (second.offset, second.timestamp) == (5, None)


def test_a_partition_without_records_has_no_offset() -> None:
    _, second = read_ranges().positions(frozenset({P1}))
    assert second.offset is None


def test_after_a_vote_ranges_begin_where_they_ended() -> None:
    ranges = read_ranges()
    ranges.voted()
    assert ranges.is_empty
    assert ranges.starts() == {P0: 20, P1: 5}
    assert ranges.positions(frozenset())[0].timestamp is None


def test_ranges_with_records_are_not_empty() -> None:
    assert not read_ranges().is_empty


@pytest.mark.case("I26")
def test_only_assigned_partitions_that_begin_elsewhere_are_mismatched() -> None:
    elsewhere = SourcePartition("orders", 9)
    assert read_ranges().mismatched({P0: 3, P1: 5, elsewhere: 1}) == {P0: 3}


@pytest.mark.case("I30")
@pytest.mark.parametrize(
    ("group", "accepted", "offset"),
    [(None, None, None), (7, None, 7), (None, 7, 7), (9, 7, 9), (7, 9, 9)],
)
def test_a_partition_begins_at_the_later_of_group_offset_and_accepted_position(
    group: int | None, accepted: int | None, offset: int | None
) -> None:
    assert first_offset(group=group, accepted=accepted) == offset


def test_a_record_may_have_no_time() -> None:
    assert record_time(-1) is None
    assert record_time(NOON_MS) == NOON
