import tracemalloc
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.captures.aggregates import (
    MERGED_AT_ONCE,
    ColumnMerge,
    merged_scalars,
    width_text,
)
from datarecs_core.captures.sketches import Sketch
from datarecs_core.catalog.records import (
    Completeness,
    FileContent,
    FileStats,
    Producer,
    ScalarStats,
)
from datarecs_testing.captured_files import merged_columns


def a_file(*columns: ScalarStats, rows: int = 1) -> FileStats:
    return FileStats(
        table_id=UUID(int=1),
        snapshot_id=1,
        path="a.parquet",
        format="parquet",
        producer=Producer.ENGINE_COMPUTED,
        completeness=Completeness.COMPLETE,
        captured_at=datetime(2026, 1, 31, tzinfo=UTC),
        rows=rows,
        size_bytes=10,
        columns=columns,
        etag="e",
        stored_rows=rows,
        deletes=(),
    )


def of_values(values: list[int | None], name: str = "n") -> ScalarStats:
    """The figures of whole numbers; a number is its own hash."""
    known = [value for value in values if value is not None]
    sketch = Sketch(function="test", hashes=sorted(set(known)), is_exact=True)
    return ScalarStats(
        name=name,
        type="int",
        rows=len(values),
        nulls=len(values) - len(known),
        ndv=str(sketch.distinct),
        ndv_method=sketch.method,
        min=str(min(known)) if known else None,
        max=str(max(known)) if known else None,
        average_width=width_text(sum(known), len(known)) if known else None,
        sketch=sketch.to_bytes(),
    )


PARTS = st.lists(
    st.lists(st.none() | st.integers(0, 10**12), max_size=5),
    min_size=1,
    max_size=3 * MERGED_AT_ONCE,
)


@given(PARTS)
def test_the_figures_of_parts_are_those_of_all_rows(parts: list[list[int | None]]) -> None:
    whole = of_values([value for part in parts for value in part])
    files = [a_file(of_values(part), rows=len(part)) for part in parts]
    assert merged_columns(files) == (whole,)


@pytest.mark.parametrize("place", [0, MERGED_AT_ONCE // 2, 2 * MERGED_AT_ONCE])
def test_one_file_of_many_with_another_type_leaves_the_rows_alone(place: int) -> None:
    parts = [of_values([1])] * 3 * MERGED_AT_ONCE
    parts[place] = replace(of_values([1]), type="text")
    (merged,) = merged_columns([a_file(part) for part in parts])
    assert merged == ScalarStats(name="n", type=parts[0].type, rows=len(parts))


@pytest.mark.parametrize("place", [0, MERGED_AT_ONCE // 2, 2 * MERGED_AT_ONCE])
def test_one_file_of_many_without_values_changes_no_figure_of_the_others(place: int) -> None:
    parts = [of_values([number]) for number in range(3 * MERGED_AT_ONCE)]
    nothing = replace(of_values([None]), type="null")
    merged = merged_columns([a_file(one) for one in [*parts[:place], nothing, *parts[place:]]])
    assert merged == (of_values([*range(len(parts)), None]),)


def test_the_memory_of_a_merge_is_not_that_of_its_files() -> None:
    """A sketch has 16 KiB; those of 500 files together would be 8 MiB."""
    merge = ColumnMerge({})
    tracemalloc.start()
    try:
        for number in range(500):
            merge.add(a_file(_estimated(range(number, 2048 + number), 1, 9000, 9000)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (merged,) = merge.merged()
    assert (merged.rows, merged.ndv) == (500 * 9000, "9000")
    assert peak < 4 * 2**20


def test_files_of_deletes_have_no_part() -> None:
    deletes = replace(a_file(of_values([9])), content=FileContent.POSITION_DELETES)
    assert merged_columns([a_file(of_values([1])), deletes]) == (of_values([1]),)
    assert merged_columns([]) == ()


def test_a_column_that_a_file_lacks_has_its_rows_alone() -> None:
    files = [a_file(of_values([1]), of_values([2], "m")), a_file(of_values([1]), rows=5)]
    assert merged_columns(files)[1] == ScalarStats(name="m", type="int", rows=6)


def test_a_column_without_a_common_figure_has_the_type_of_the_snapshot() -> None:
    merge = ColumnMerge({"n": "text", "m": "decimal(9,2)"})
    merge.add(a_file(of_values([1]), of_values([2], "m"), rows=1))
    merge.add(a_file(replace(of_values([1]), type="text"), rows=1))
    assert merge.merged() == (
        ScalarStats(name="n", type="text", rows=2),
        ScalarStats(name="m", type="decimal(9,2)", rows=2),
    )


def test_a_figure_that_a_file_lacks_is_absent() -> None:
    part = of_values([1, 2])
    unknown = ScalarStats(name="n", type="int", rows=3)
    assert merged_scalars([part, unknown]) == ScalarStats(name="n", type="int", rows=5)
    without_hashes = replace(part, sketch=None, ndv_method="other")
    merged = merged_scalars([part, without_hashes])
    assert (merged.ndv, merged.min, merged.average_width) == (None, "1", "1.5")
    without_width = replace(part, average_width=None)
    assert merged_scalars([part, without_width]).average_width is None


def test_the_only_file_with_values_has_the_number_of_different_ones() -> None:
    part = replace(of_values([1, 2]), sketch=None, ndv="2", ndv_method="other")
    merged = merged_scalars([of_values([None]), part])
    assert (merged.ndv, merged.ndv_method) == ("2", "other")


def test_hashes_of_two_functions_leave_the_number_out() -> None:
    other = Sketch(function="other", hashes=[1], is_exact=True).to_bytes()
    merged = merged_scalars([of_values([1]), replace(of_values([1]), sketch=other)])
    assert (merged.ndv, merged.ndv_method, merged.sketch) == (None, None, None)


def test_a_column_without_values_in_a_file_has_the_type_of_others() -> None:
    nothing = replace(of_values([None, None]), type="null")
    merged = merged_scalars([nothing, of_values([1])])
    assert (merged.type, merged.rows, merged.nulls, merged.min) == ("int", 3, 2, "1")


def test_two_types_have_no_common_figure() -> None:
    text = replace(of_values([1]), type="text")
    assert merged_scalars([of_values([1]), text]) == ScalarStats(name="n", type="int", rows=2)


def test_nans_are_added_and_the_largest_value() -> None:
    parts = [
        ScalarStats(name="f", type="float64", rows=2, nulls=0, nans=1, min="1.0", max="NaN"),
        ScalarStats(name="f", type="float64", rows=1, nulls=0, nans=0, min="-5.0", max="10.0"),
    ]
    merged = merged_scalars(parts)
    assert (merged.nans, merged.min, merged.max) == (1, "-5.0", "NaN")


def _estimated(hashes: range, low: int, high: int, rows: int) -> ScalarStats:
    """Of small hashes, which look like those of very many values."""
    sketch = Sketch(function="test", hashes=hashes, is_exact=False)
    return replace(
        of_values([low, high]),
        rows=rows,
        ndv="2048",
        ndv_method=sketch.method,
        sketch=sketch.to_bytes(),
    )


def test_an_estimate_is_cut_to_what_is_possible() -> None:
    parts = [_estimated(range(2048), 1, 2500, 9000), _estimated(range(2048), 2000, 3000, 9000)]
    merged = merged_scalars(parts)
    assert (merged.ndv, merged.ndv_method) == ("3000", "kmv-2048 test")
    texts = [replace(part, type="text") for part in parts]
    assert merged_scalars(texts).ndv == "18000"
    nulls = [replace(part, nulls=8000) for part in parts]
    assert merged_scalars(nulls).ndv == "2000"
