"""Rows that are told while a stage works: never fewer, never too many, and never at its expense."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.protocol import Py4JError

from datarecs_spark.progressing import RowsTold, SparkRows

COUNTS = st.lists(st.integers(0, 300), max_size=20)


@given(st.integers(1, 200), st.lists(COUNTS, min_size=1, max_size=3))
def test_what_is_told_only_rises_and_is_never_more_than_there_are(
    expected: int, counts: list[list[int]]
) -> None:
    """Whatever readers say: attempts that failed have read, too, and a second pass begins anew."""
    heard: list[int] = []
    told = RowsTold(expected=expected, tell=heard.append)
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
    told = RowsTold(expected=expected, tell=heard.append)
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

    told = RowsTold(expected=9, tell=lambda rows: heard.append(act("listener", rows)))
    rows = iter((5, 6, 7))
    told.reads(lambda: act("reader", next(rows)))
    assert all(told(last=False) for _ in range(3))
    assert heard == [6, 7]


@dataclass(frozen=True)
class Stage:
    """As Spark's store tells of one."""

    number: int
    rows: int
    state: str = "ACTIVE"

    def stageId(self) -> int:  # noqa: N802  Spark's name
        return self.number

    def inputRecords(self) -> int:  # noqa: N802  Spark's name
        return self.rows

    def status(self) -> str:
        return self.state


@dataclass
class Store:
    """Spark's, at one moment after the other."""

    moments: Iterator[Sequence[Stage]]
    now: Sequence[Stage] = ()
    asked: list[int] = field(default_factory=list)

    def activeStages(self) -> Any:  # noqa: ANN401, N802  Scala's sequence, Spark's name
        self.now = next(self.moments)
        active = [each for each in self.now if each.state == "ACTIVE"]
        return SimpleNamespace(size=lambda: len(active), apply=active.__getitem__)

    def lastStageAttempt(self, number: int) -> Stage:  # noqa: N802  Spark's name
        self.asked.append(number)
        for each in self.now:
            if each.number == number:
                return each
        raise Py4JError("no such stage")


def test_rows_of_stages_that_end_between_two_looks_are_counted() -> None:
    """7 runs and ends, 8 is never seen running, 9 waits, 10 is unknown yet, 12 comes after all."""
    done = (Stage(7, 40, "COMPLETE"), Stage(8, 20, "COMPLETE"))
    store = Store(
        iter(
            (
                (),
                (Stage(7, 10),),
                (Stage(7, 30),),
                (*done, Stage(9, 0, "PENDING"), Stage(11, 2)),
                (*done, Stage(9, 6, "FAILED"), Stage(10, 0, "SKIPPED"), Stage(11, 4, "COMPLETE")),
                (*done, Stage(12, 28)),
            )
        )
    )
    context: Any = SimpleNamespace(
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(statusStore=lambda: store))
    )
    rows = SparkRows(context, readings=2)
    assert [rows() for _ in range(6)] == [0, 5, 15, 31, 35, 49]
    assert [store.asked.count(number) for number in (7, 8, 9, 10, 11)] == [1, 1, 2, 2, 1]
