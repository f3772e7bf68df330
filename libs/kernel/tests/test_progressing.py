"""Reported rows of a stage: never decreasing, never too many, without effect on the stage."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_kernel.progressing import RowProgress

COUNTS = st.lists(st.integers(0, 300), max_size=20)


@given(st.integers(1, 200), st.lists(COUNTS, min_size=1, max_size=3))
def test_what_is_told_only_rises_and_is_never_more_than_there_are(
    expected: int, counts: list[list[int]]
) -> None:
    """Whatever readers say: attempts that failed have read, too, and a second pass begins anew."""
    heard: list[int] = []
    told = RowProgress(expected=expected, report=heard.append)
    for column in counts:
        told.reads(partial(next, iter(column), 0))
    for _ in range(max(map(len, counts))):
        assert told(last=False)
    most = max((rows for column in counts for rows in column), default=0)
    assert heard == sorted(set(heard))
    assert told.rows == max(heard, default=0) == min(expected, most)


@pytest.mark.parametrize(("expected", "last"), [(0, False), (9, True)])
def test_nothing_is_told_of_unknown_rows_or_when_all_is_done(expected: int, *, last: bool) -> None:
    heard: list[int] = []
    told = RowProgress(expected=expected, report=heard.append)
    told.reads(lambda: 5)
    assert not told(last=last)
    assert heard == []


@pytest.mark.parametrize("failing", ["reader", "listener"])
def test_a_failure_is_one_report_less_and_nothing_else(failing: str) -> None:
    heard: list[int] = []
    failures = [OSError(failing)]

    def act(who: str, rows: int) -> int:
        if who == failing and failures:
            raise failures.pop()
        return rows

    told = RowProgress(expected=9, report=lambda rows: heard.append(act("listener", rows)))
    rows = iter((5, 6, 7))
    told.reads(lambda: act("reader", next(rows)))
    assert all(told(last=False) for _ in range(3))
    assert heard == [6, 7]
