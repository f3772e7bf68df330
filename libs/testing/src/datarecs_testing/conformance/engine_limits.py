"""Every engine refuses a value or key above its limit (spec comparison 11, P65).

Separate from the other suites because limits are lowered here; the result is the same for full and
narrow reads.
"""

from dataclasses import replace

import pytest

from datarecs_core.comparison.planning.faults import KeyTooLargeError, ValueTooLargeError
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs.definition import Execution, Limits, ReconciliationJob, Stage
from datarecs_core.jobs.vocabulary import Function, NullKeys, Strategy
from datarecs_testing.comparisons import (
    EngineBench,
    a_measure,
    aggregate_by,
    compare,
    digest_by,
    rows_by,
)
from datarecs_testing.tables import Row, Table, a_job, pair

READ = pytest.mark.parametrize("strategy", [Strategy.FULL, Strategy.NARROW])
COLUMNS = "k text, l binary, n int, v text, w binary"
LIMITS = Limits(max_value_bytes=8, max_key_bytes=6)
AS_LARGE_AS_ALLOWED: Row = ("ab\u20ac", b"c", 10**17, "\u20ac\u20ac12", b"12345678")
ROWS = rows_by("k l n", a_measure("v"), a_measure("w"))


def limited(tables: list[Table], stage: Stage, strategy: Strategy) -> ReconciliationJob:
    """A job with lowered limits in every source."""
    job = a_job(tables, stage, sources={table.name: {"limits": LIMITS} for table in tables})
    return replace(job, execution=Execution(strategy=strategy))


def changed(position: int, value: object) -> Row:
    row = AS_LARGE_AS_ALLOWED
    return (*row[:position], value, *row[position + 1 :])


class LimitConformance:
    """A row at the limit is compared; one more byte ends the run with its place."""

    @pytest.fixture
    def bench(self) -> EngineBench:
        raise LookupError("a subclass gives the fixture `bench`")

    @READ
    @pytest.mark.case("P65")
    def test_texts_and_binaries_as_large_as_allowed_are_compared(
        self, bench: EngineBench, strategy: Strategy
    ) -> None:
        tables = pair(COLUMNS, [AS_LARGE_AS_ALLOWED], [changed(3, None)])
        comparison = compare(bench, limited(tables, ROWS, strategy), tables)
        assert comparison.counts().rows_unmatched == 1

    @READ
    @pytest.mark.case("P65")
    @pytest.mark.parametrize("source", [0, 1])
    @pytest.mark.parametrize(
        ("position", "value"),
        [(3, "\u20ac\u20ac123"), (4, b"123456789"), (3, Invalid(b"\xff" * 9))],
    )
    def test_a_byte_more_in_a_value_names_source_and_column(
        self, bench: EngineBench, strategy: Strategy, source: int, position: int, value: object
    ) -> None:
        rows = [[AS_LARGE_AS_ALLOWED], [AS_LARGE_AS_ALLOWED]]
        rows[source] = [AS_LARGE_AS_ALLOWED, changed(position, value)]
        tables = pair(COLUMNS, *rows)
        with pytest.raises(ValueTooLargeError) as caught:
            compare(bench, limited(tables, ROWS, strategy), tables)
        refused = caught.value
        assert refused.code.name == "SOURCE_LIMIT"
        place = (refused.source, refused.column, refused.limit)
        assert place == (tables[source].name, "vw"[position - 3], 8)

    @READ
    @pytest.mark.case("P65")
    @pytest.mark.parametrize(("position", "value"), [(0, "abc\u20ac"), (1, b"cd")])
    def test_a_byte_more_in_a_key_names_its_source(
        self, bench: EngineBench, strategy: Strategy, position: int, value: object
    ) -> None:
        """Of all its texts and binaries together; a number has no size."""
        tables = pair(COLUMNS, [AS_LARGE_AS_ALLOWED], [changed(position, value)])
        with pytest.raises(KeyTooLargeError) as caught:
            compare(bench, limited(tables, ROWS, strategy), tables)
        assert (caught.value.code.name, caught.value.source) == ("SOURCE_LIMIT", "two")

    @pytest.mark.case("P65")
    @pytest.mark.parametrize(
        "stage",
        [
            aggregate_by("n", a_measure("v", function=Function.COUNT_DISTINCT)),
            digest_by("n", a_measure("v")),
        ],
        ids=lambda stage: stage.name,
    )
    def test_groups_and_buckets_are_made_of_no_larger_values(
        self, bench: EngineBench, stage: Stage
    ) -> None:
        tables = pair(COLUMNS, [AS_LARGE_AS_ALLOWED], [changed(3, "123456789")])
        with pytest.raises(ValueTooLargeError):
            compare(bench, limited(tables, stage, Strategy.FULL), tables)

    @READ
    @pytest.mark.case("P65")
    def test_what_a_stage_does_not_read_has_no_limit(
        self, bench: EngineBench, strategy: Strategy
    ) -> None:
        """Another column, a row outside `where`, an excluded row without a key."""
        beside, keyless = changed(2, 1), ("x" * 9, b"", None, "x" * 9, None)
        rows = [AS_LARGE_AS_ALLOWED, (*beside[:3], "x" * 9, b"x" * 9), keyless]
        stage = rows_by("n", a_measure("v"), where="n > 1")
        tables = pair(COLUMNS, rows, rows)
        job = limited(tables, stage, strategy)
        normalize = replace(
            job.normalize, nulls=replace(job.normalize.nulls, keys=NullKeys.EXCLUDE)
        )
        comparison = compare(bench, replace(job, normalize=normalize), tables)
        assert comparison.counts().rows_matched == 1
