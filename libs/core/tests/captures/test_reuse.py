"""Which figures of unchanged files hold for a new snapshot."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from datarecs_core.captures.plan import captured_by
from datarecs_core.captures.request import CapturePolicy, Output
from datarecs_core.captures.reuse import CapturedColumns, ReusableFigures, reusable_figures
from datarecs_core.catalog.records import Completeness, FileStats, TableColumn
from datarecs_testing.captured_files import file_stats_of, source_file

FIGURES = CapturePolicy(outputs=(Output.COLUMN_STATS,))
INDEXED = CapturePolicy(outputs=(Output.COLUMN_STATS, Output.PARQUET_PAGE_INDEX))
Columns = Sequence[tuple[int, str, str]]
NET_AND_GROSS = ((1, "net", "int"), (2, "gross", "int"))


def reused(
    earlier: Columns,
    present: Columns,
    *names: str,
    has_ids: bool = True,
    policies: tuple[CapturePolicy, CapturePolicy] = (FIGURES, FIGURES),
) -> ReusableFigures | None:
    """Of captures of the named columns, of all without names."""
    before, now = (
        CapturedColumns(
            columns=[
                TableColumn(field_id=number, name=name, type=kind, nullable=True)
                for number, name, kind in columns
            ],
            captured=captured_by(policy, [each[1] for each in columns]),
        )
        for columns, policy in zip((earlier, present), policies, strict=True)
    )
    return reusable_figures(before, now, names or [name for _, name, _ in present], has_ids=has_ids)


def names(figures: ReusableFigures | None) -> Mapping[str, str] | None:
    return None if figures is None else figures.names


def rows_by_name(figures: ReusableFigures | None, stats: FileStats) -> dict[str, int] | None:
    assert figures is not None
    file = figures.of(source_file("a"), stats)
    return None if file is None else {column.name: column.rows for column in file.columns}


def test_columns_that_swapped_their_names_swap_their_figures() -> None:
    figures = reused(NET_AND_GROSS, ((1, "gross", "int"), (2, "net", "int")))
    stats = file_stats_of(source_file("a"), "net", "gross")
    net, gross = stats.columns
    stats = replace(stats, columns=(net, replace(gross, rows=20)))
    assert rows_by_name(figures, stats) == {"gross": 10, "net": 20}


def test_figures_have_the_order_of_the_present_columns() -> None:
    figures = reused(NET_AND_GROSS, NET_AND_GROSS[::-1])
    reordered = rows_by_name(figures, file_stats_of(source_file("a"), "net", "gross"))
    assert list(reordered or ()) == ["gross", "net"]


@pytest.mark.parametrize(
    "present",
    [((3, "net", "int"),), ((1, "net", "decimal(12,2)"),), ((1, "net", "int"), (3, "x", "int"))],
    ids=["dropped and added again", "another type", "new column"],
)
def test_a_captured_column_with_another_id_or_type_reuses_nothing(present: Columns) -> None:
    assert reused(((1, "net", "int"),), present) is None


def test_other_columns_of_a_table_with_ids_change_nothing() -> None:
    present = ((1, "net", "int"), (2, "total", "text"), (3, "x", "int"))
    assert names(reused(NET_AND_GROSS, present, "net")) == {"net": "net"}


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (NET_AND_GROSS, {"net": "net"}),
        (((1, "gross", "int"), (2, "net", "int")), {"net": "net"}),
        (((1, "net", "int"), (2, "gross", "text")), None),
        (((1, "net", "int"), (2, "total", "int")), None),
        (((1, "net", "int"),), None),
    ],
)
def test_without_ids_all_columns_have_the_same_names_and_types(
    present: Columns, expected: Mapping[str, str] | None
) -> None:
    assert names(reused(NET_AND_GROSS, present, "net", has_ids=False)) == expected


@pytest.mark.parametrize(
    "change",
    [{"size_bytes": 9}, {"etag": "other"}, {"deletes": ("d",)}, {"format": "csv"}],
    ids=lambda change: next(iter(change)),
)
def test_a_file_with_another_identity_is_captured_again(change: dict[str, object]) -> None:
    figures = reused(NET_AND_GROSS, NET_AND_GROSS)
    assert figures is not None
    stats = file_stats_of(source_file("a"), "net", "gross")
    assert figures.of(source_file("a"), stats) == stats
    assert figures.of(source_file("a", **change), stats) is None


def test_reused_figures_have_the_wanted_columns_and_need_all_of_them() -> None:
    figures = reused(NET_AND_GROSS, NET_AND_GROSS, "gross")
    both = file_stats_of(source_file("a"), "net", "gross")
    assert rows_by_name(figures, both) == {"gross": 10}
    assert rows_by_name(figures, file_stats_of(source_file("a"), "net")) is None


def test_a_reused_file_has_its_present_partition() -> None:
    figures = reused(NET_AND_GROSS, NET_AND_GROSS)
    assert figures is not None
    file = source_file("a", partition="region=eu", sequence_number=4)
    present = figures.of(file, file_stats_of(file, "net", "gross"))
    assert present is not None
    assert (present.partition, present.sequence_number) == ("region=eu", 4)


@pytest.mark.parametrize(
    ("present", "policies", "has_partial", "has_indexes"),
    [
        (NET_AND_GROSS, (INDEXED, INDEXED), True, True),
        (NET_AND_GROSS, (INDEXED, FIGURES), False, True),
        (NET_AND_GROSS, (FIGURES, INDEXED), False, False),
        (NET_AND_GROSS[:1], (INDEXED, INDEXED), False, False),
        (((2, "net", "int"), (1, "gross", "int")), (INDEXED, INDEXED), False, False),
    ],
    ids=["same", "fewer outputs", "more outputs", "fewer columns", "swapped"],
)
def test_indexes_and_files_that_are_not_complete_hold_for_equal_captures(
    present: Columns,
    policies: tuple[CapturePolicy, CapturePolicy],
    *,
    has_partial: bool,
    has_indexes: bool,
) -> None:
    figures = reused(NET_AND_GROSS, present, policies=policies)
    assert figures is not None
    assert (figures.has_partial, figures.has_indexes) == (has_partial, has_indexes)
    stats = file_stats_of(source_file("a"), "net", "gross")
    partial = replace(stats, completeness=Completeness.PARTIAL)
    assert (figures.of(source_file("a"), partial) is not None) is has_partial
