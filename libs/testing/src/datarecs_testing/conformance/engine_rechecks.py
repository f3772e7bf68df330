"""Rechecks in every engine: groups that differed use the rows that were read again.

The expected numbers are those of the same stage over tables with these rows, built by the test, so
nothing here repeats the algorithm of an engine.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_core.comparison.results.results import StageResults
from datarecs_core.jobs.definition import Confirm, Execution, Normalize, Scope, Stage, StringRules
from datarecs_core.jobs.vocabulary import Case, ProofMode, Trim
from datarecs_testing.comparisons import (
    RecheckBench,
    a_measure,
    absolute,
    aggregate_by,
    compare,
    counting,
    digest_by,
    rows_by,
)
from datarecs_testing.finished_runs import MemoryBench
from datarecs_testing.tables import Row, Table, a_job, a_table

COLUMNS = "k int, v int, t text"
AGAIN = Confirm(after=timedelta(0), attempts=2)
SHARED: Mapping[int | None, Row] = {
    1: (1, 10, "x"),
    2: (2, 20, "late in b"),
    3: (3, 30, "stays"),
    4: (4, 40, None),
    5: (5, 50, "corrected"),
    None: (None, 1, "no key"),
}
ALONE, GONE, NEW = (6, 60, "late in a"), (7, 70, "deleted"), (8, 80, "nobody looks")
BROKEN, CHANGED = (3, 31, "stays"), (1, 11, "nobody looks")
ROWS = tuple(SHARED.values())
AFTER_ONE = tuple(row for row in ROWS if row[0] not in {3, 5})


def tables(first: Sequence[Row], second: Sequence[Row]) -> list[Table]:
    return [a_table("a", COLUMNS, *first), a_table("b", COLUMNS, *second)]


FIRST = tables(
    ROWS,
    (*(row for row in AFTER_ONE if row[0] != 2), (4, 40, None), BROKEN, (5, 55, "x"), ALONE, GONE),
)
ONCE = tables((*ROWS, CHANGED, NEW), (*AFTER_ONE, (4, 40, None), BROKEN, (5, 55, "x"), ALONE, GONE))
TWICE = tables((*(row for row in ROWS if row[0] != 2), ALONE, CHANGED, NEW), (*ROWS, BROKEN))
"""Key 2 differs again, which is not read; key 3 has a second row in b."""
REMAINING = tables((*ROWS, ALONE), (*ROWS, BROKEN))
"""The state after both rechecks: key 6 in a but no longer in b, keys 4, 5 and 7 equal."""
STAGES: Mapping[str, tuple[Stage, Execution]] = {
    "rows": (
        rows_by("k", a_measure("v", absolute("0.5")), a_measure("t")),
        Execution(proof=ProofMode.ROWS),
    ),
    "where": (rows_by("k", a_measure("v"), where="v < 75 AND v IS NOT NULL"), Execution()),
    "aggregate": (aggregate_by("k", a_measure("v")), Execution()),
    "digest": (digest_by("k"), Execution()),
    "counts": (counting(), Execution()),
}


def numbers(results: StageResults) -> StageResults:
    """Results without rechecks, locations of differences, and statistics."""
    plain = replace(results.differences, location=None)
    return replace(results, differences=plain, metrics=(), strategy=None, confirmed=None)


class RecheckConformance:
    """Subclass it with the fixture `bench`."""

    @pytest.mark.case("P57")
    @pytest.mark.parametrize("kind", STAGES)
    def test_only_groups_that_differed_have_the_rows_of_the_last_recheck(
        self, bench: RecheckBench, kind: str
    ) -> None:
        """In a stage with one group these are all rows."""
        stage, execution = STAGES[kind]
        job_with_confirm = a_job(FIRST, replace(stage, confirm=AGAIN), execution=execution)
        comparison = compare(bench, job_with_confirm, FIRST, later=(ONCE, TWICE))
        left = REMAINING if stage.dimensions else TWICE
        expected = compare(MemoryBench(), a_job(left, stage, execution=execution), left)
        assert numbers(comparison.results()) == numbers(expected.results())
        assert comparison.stored == expected.stored
        confirmed = comparison.results().confirmed
        assert confirmed is not None
        assert confirmed.rechecks[-1].counts == comparison.counts()
        first = compare(MemoryBench(), a_job(FIRST, stage), FIRST).counts()
        assert confirmed.first == first
        resolved = first.rows_unmatched - expected.counts().rows_unmatched
        assert confirmed.in_flight_resolved == resolved
        assert ("IN_FLIGHT_RESOLVED" in comparison.warnings) is (resolved > 0)

    @pytest.mark.case("P57")
    def test_a_scoped_stage_sees_what_still_differs_at_the_first_pins(
        self, bench: RecheckBench
    ) -> None:
        first = rows_by("k", a_measure("v"), name="first", confirm=AGAIN)
        second = rows_by("k", a_measure("v"), name="second", scope=Scope(from_stage="first"))
        comparison = compare(bench, a_job(FIRST, first, second), FIRST, later=(ONCE, TWICE))
        assert comparison.counts("first").rows_unmatched == 2
        assert comparison.counts("second").source_row_counts == (1, 2)


class RecheckSpellingConformance(RecheckConformance):
    """Also the spellings of keys per source, which only readers of the sources have."""

    def test_a_source_writes_keys_as_in_the_last_recheck(self, bench: RecheckBench) -> None:
        folded = Normalize(strings=StringRules(case=Case.FOLD, trim=Trim.BOTH))
        stage = rows_by("t", a_measure("v"), confirm=replace(AGAIN, attempts=1))
        first = tables([(1, 1, "A"), (2, 1, "B")], [(1, 2, "a"), (2, 2, "b")])
        later = tables([(1, 1, "A "), (2, 2, "B")], [(1, 2, "a"), (2, 2, "b")])
        job = a_job(first, stage, normalize=folded)
        comparison = compare(bench, job, first, later=(later,))
        assert [(row.key, row.raw_keys) for row in comparison.differences()] == [
            (("a",), (("a", "A "),))
        ]
