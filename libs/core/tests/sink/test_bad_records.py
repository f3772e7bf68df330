"""Too many bad records of one partition: in a row, or among its newest ones."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.sink.bad_records import WINDOW, RecentBadRecords
from datarecs_core.sink.definition import ErrorPolicy, Tolerance

FEW = ErrorPolicy(tolerance=Tolerance.DEAD_LETTER, max_in_a_row=3, max_per_thousand=4)


def first_excess(kinds: Sequence[bool], sizes: Sequence[int]) -> tuple[int, str] | None:
    """Number of the record that stops the sink, and why; batches have these sizes, in turn."""
    recent, start, turn = RecentBadRecords(), 0, 0
    while start < len(kinds):
        batch = kinds[start : start + sizes[turn % len(sizes)]]
        for index, is_bad in enumerate(batch):
            if is_bad:
                recent = recent.with_bad(index)
                if excess := recent.excess(FEW):
                    return start + index, excess
        recent = recent.after(len(batch))
        start, turn = start + len(batch), turn + 1
    return None


def expected(kinds: Sequence[bool]) -> int | None:
    """By counting again at every bad record."""
    for number, is_bad in enumerate(kinds):
        newest = kinds[max(0, number + 1 - WINDOW) : number + 1]
        if is_bad and (sum(newest) > FEW.max_per_thousand or sum(newest[-4:]) == 4):
            return number
    return None


@pytest.mark.case("I54")
@given(
    st.lists(st.tuples(st.integers(0, 700), st.integers(1, 4)), max_size=8),
    st.lists(st.integers(1, 400), min_size=1, max_size=4),
)
def test_the_record_that_stops_the_sink_does_not_depend_on_batches(
    runs: Sequence[tuple[int, int]], sizes: Sequence[int]
) -> None:
    kinds = [kind for good, bad in runs for kind in (*[False] * good, *[True] * bad)]
    excess = first_excess(kinds, sizes)
    assert (None if excess is None else excess[0]) == expected(kinds)


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        ([True] * 4, "bad record 4 in a row, and errors.max_in_a_row is 3"),
        ([True, False] * 5, "bad record 5 among the last 1,000 of its partition"),
    ],
)
def test_the_reason_names_the_limit(kinds: Sequence[bool], words: str) -> None:
    excess = first_excess(kinds, [100])
    assert excess is not None
    assert words in excess[1]
