"""Reported rows of a stage: never decreasing, never too many, without effect on the stage."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_kernel.progressing import RowProgress

COUNTS = st.lists(st.integers(0, 300), max_size=20)


@given(st.integers(1, 200), st.lists(COUNTS, min_size=1, max_size=3))
def test_what_is_reported_only_rises_and_is_never_more_than_there_are(
    expected: int, counts: list[list[int]]
) -> None:
    """Whatever readers say: attempts that failed have read, too, and a second pass begins anew."""
    reported: list[int] = []
    progress = RowProgress(expected=expected, report=reported.append)
    for column in counts:
        progress.reads(partial(next, iter(column), 0))
    for _ in range(max(map(len, counts))):
        assert progress(last=False)
    most = max((rows for column in counts for rows in column), default=0)
    assert reported == sorted(set(reported))
    assert progress.rows == max(reported, default=0) == min(expected, most)


@pytest.mark.parametrize(("expected", "last"), [(0, False), (9, True)])
def test_nothing_is_reported_of_unknown_rows_or_when_all_is_done(
    expected: int, *, last: bool
) -> None:
    reported: list[int] = []
    progress = RowProgress(expected=expected, report=reported.append)
    progress.reads(lambda: 5)
    assert not progress(last=last)
    assert reported == []


@pytest.mark.parametrize("failing", ["reader", "listener"])
def test_a_failure_is_one_report_less_and_nothing_else(failing: str) -> None:
    reported: list[int] = []
    failures = [OSError(failing)]

    def act(who: str, rows: int) -> int:
        if who == failing and failures:
            raise failures.pop()
        return rows

    progress = RowProgress(expected=9, report=lambda rows: reported.append(act("listener", rows)))
    rows = iter((5, 6, 7))
    progress.reads(lambda: act("reader", next(rows)))
    assert all(progress(last=False) for _ in range(3))
    assert reported == [6, 7]
