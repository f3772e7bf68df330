"""Parquet: every row of the pinned files, by name, and a broken file is named."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_connectors.errors import (
    CorruptSourceError,
    SchemaChangedError,
    SourceLimitError,
)
from datarecs_core.jobs.definition import Limits
from datarecs_core.jobs.vocabulary import SourceKind

Open = Callable[..., Any]
PARQUET = SourceKind.PARQUET


def test_types_and_values_arrive_exactly(open_files: Open, tmp_path: Path) -> None:
    moment = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
    table = pa.table(
        {
            "n": pa.array([2**53 + 1, None], pa.int64()),
            "money": pa.array([Decimal("1.10"), None], pa.decimal128(38, 2)),
            "at": pa.array([moment, None], pa.timestamp("us", tz="UTC")),
            "text": ["a", ""],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    opened_table = open_files(PARQUET, "a.parquet")
    assert opened_table.types == {
        "n": "int",
        "money": "decimal(38,2)",
        "at": "instant",
        "text": "text",
    }
    micros = Decimal(int(moment.timestamp())) * 1_000_000 + 123456
    assert opened_table.rows() == [
        (2**53 + 1, Decimal("1.10"), micros, "a"),
        (None, None, None, ""),
    ]
    assert opened_table.held.pin.files[0].rows == 2


def test_folder_names_are_columns(open_files: Open, tmp_path: Path) -> None:
    (tmp_path / "data/day=2026-01-31").mkdir(parents=True)
    pq.write_table(pa.table({"n": [1]}), tmp_path / "data/day=2026-01-31/a.parquet")
    table = open_files(PARQUET, "data")
    assert table.types == {"n": "int", "day": "date"}
    assert table.rows() == [(1, Decimal(20484))]


def test_a_file_cut_in_the_middle_is_corrupt(open_files: Open, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": list(range(10_000))}), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorruptSourceError, match=r"a\.parquet"):
        open_files(PARQUET, "a.parquet")


def test_files_with_other_columns_are_refused_by_name(open_files: Open, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(SchemaChangedError, match=r"a\.parquet and b\.parquet"):
        open_files(PARQUET, "*.parquet")


def test_another_type_is_named_in_the_words_of_a_job(open_files: Open, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1], "v": ["a"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": [1], "v": [1.5]}), tmp_path / "b.parquet")
    with pytest.raises(SchemaChangedError, match="'v' is text, then float64") as caught:
        open_files(PARQUET, "*.parquet")
    assert "pyarrow" not in str(caught.value)


MERGED = {"merge_schema": True}


def test_columns_that_a_file_lacks_are_null_where_that_is_declared(
    open_files: Open, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"n": [1], "v": ["a"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"w": [7], "n": [2]}), tmp_path / "b.parquet")
    table = open_files(PARQUET, "*.parquet", options=MERGED)
    assert table.types == {"n": "int", "v": "text", "w": "int"}
    assert table.rows() == [(1, "a", None), (2, None, 7)]
    typed = [
        batch.select(["n", "v", "w"]).to_pydict()
        for batch, _ in table.connector.files.batches(table.scan)
    ]
    assert typed == [{"n": [1], "v": ["a"], "w": [None]}, {"n": [2], "v": [None], "w": [7]}]
    filtered = open_files(PARQUET, "*.parquet", options=MERGED, filter="w IS NULL")
    assert filtered.rows() == [(1, "a", None)]


@pytest.mark.parametrize(
    ("values", "options"),
    [([[1], [2], [3]], {}), ([[1], [2], ["x"]], {}), ([[1], [2], [[3]]], {}), ([[1]] * 3, MERGED)],
)
def test_every_column_of_a_name_that_stands_twice_is_listed(
    open_files: Open, tmp_path: Path, values: list[list[object]], options: dict[str, object]
) -> None:
    """The plan refuses the name, and the other columns are read."""
    pq.write_table(pa.table(values, names=["k", "v", "v"]), tmp_path / "a.parquet")
    if options:
        pq.write_table(pa.table([["z"], [2]], names=["v", "k"]), tmp_path / "b.parquet")
    table = open_files(PARQUET, "*.parquet", options=options)
    assert [column.name for column in table.schema.columns] == ["k", "v", "v"]
    assert table.schema.undelivered == ()
    beside = replace(table.scan, columns=table.scan.columns[:1])
    assert list(table.connector.rows(beside)) == [(1,), (2,)][: 2 if options else 1]
    extracted = table.connector.extract(beside, str(tmp_path / "extract"), lambda _: None)
    assert pq.read_table(tmp_path / "extract").column("k").to_pylist()[0] == 1
    assert extracted.extract is not None


@pytest.mark.parametrize("options", [{}, {"merge_schema": True}], ids=["alike", "merged"])
def test_files_may_declare_nulls_in_different_columns(
    open_files: Open, tmp_path: Path, options: dict[str, Any]
) -> None:
    """Writers that decide it by a file's rows write a column without NULLs as a required one."""
    for name, nullable, values in (("a", False, [1]), ("b", True, [2, None])):
        schema = pa.schema([pa.field("n", pa.int64(), nullable=nullable)])
        pq.write_table(pa.table({"n": values}, schema=schema), tmp_path / f"{name}.parquet")
    table = open_files(PARQUET, "*.parquet", options=options)
    assert [(column.name, column.nullable) for column in table.schema.columns] == [("n", True)]
    assert sorted(table.connector.rows(table.scan), key=str) == [(1,), (2,), (None,)]


def test_a_merged_column_that_a_file_lacks_may_be_null(open_files: Open, tmp_path: Path) -> None:
    required = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    pq.write_table(pa.table({"n": [1]}, schema=required), tmp_path / "a.parquet")
    both = required.append(pa.field("v", pa.int64(), nullable=False))
    pq.write_table(pa.table({"n": [2], "v": [3]}, schema=both), tmp_path / "b.parquet")
    table = open_files(PARQUET, "*.parquet", options={"merge_schema": True})
    nullable = [(column.name, column.nullable) for column in table.schema.columns]
    assert nullable == [("n", False), ("v", True)]


def test_one_column_in_two_types_is_refused_all_the_same(open_files: Open, tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": ["1"], "v": [1]}), tmp_path / "b.parquet")
    with pytest.raises(
        SchemaChangedError, match=r"a\.parquet and b\.parquet.*cast the column in a `query`"
    ):
        open_files(PARQUET, "*.parquet", options=MERGED)


def test_int96_is_an_instant_that_needs_a_precision(open_files: Open, tmp_path: Path) -> None:
    moment = datetime(2026, 1, 31, tzinfo=UTC)
    table = pa.table({"at": [moment], "n": [1], "s": [{"at": moment, "n": 1}]})
    pq.write_table(table, tmp_path / "b.parquet")
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    opened_table = open_files(PARQUET, "a.parquet")
    assert opened_table.types == {"at": "instant", "n": "int"}
    assert [each.name for each in opened_table.schema.columns if each.needs_precision] == ["at"]
    word = "INT96 inside a nested value (TIMESTAMP can be compared)"
    assert opened_table.schema.undelivered == (("s", word),)
    assert opened_table.rows() == [(Decimal(1_769_817_600_000_000), 1)]


def test_nested_columns_have_types_and_exotic_ones_names(open_files: Open, tmp_path: Path) -> None:
    kinds = {
        "n": pa.int32(),
        "tags": pa.list_(pa.string()),
        "by": pa.map_(pa.string(), pa.decimal128(9, 2)),
        "deep": pa.struct([("a", pa.large_list(pa.timestamp("ms"))), ("b", pa.bool_())]),
        "wide": pa.decimal256(60, 2),
        "wides": pa.list_(pa.decimal256(60, 2)),
    }
    schema = pa.schema(list(kinds.items()))
    pq.write_table(schema.empty_table(), tmp_path / "a.parquet")
    table = open_files(PARQUET, "a.parquet")
    assert table.types == {
        "n": "int",
        "tags": "array<text>",
        "by": "map<text, decimal(9,2)>",
        "deep": "struct<a: array<local_timestamp(3)>, b: bool>",
    }
    words = dict(table.schema.undelivered)
    assert sorted(words) == ["wide", "wides"]
    assert words["wide"] == "decimal256(60, 2)"


@pytest.mark.case("P65")
def test_decoded_bytes_of_the_columns_that_are_read_end_with_their_limit(
    open_files: Open, tmp_path: Path
) -> None:
    table = pa.table({"n": list(range(5000)), "beside": ["x" * 99] * 5000})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=False)
    scan = open_files(PARQUET, "a.parquet").scan
    scan = replace(scan, columns=tuple(each for each in scan.columns if each.name == "n"))
    chunk = pq.ParquetFile(tmp_path / "a.parquet").metadata.row_group(0).column(0)
    connector = open_files(PARQUET, "a.parquet").connector
    for most, fits in ((chunk.total_uncompressed_size, True), (40_000, False)):
        limited = replace(scan, limits=Limits(max_bytes=most))
        if fits:
            assert connector.extract(limited, "", lambda _: None) == limited
        else:
            with pytest.raises(SourceLimitError, match=r"decoded bytes.*max_bytes"):
                connector.extract(limited, "", lambda _: None)


@pytest.mark.case("P65")
def test_columns_end_with_their_limit(open_files: Open, tmp_path: Path) -> None:
    names = [f"c{at}" for at in range(2001)]
    for number in (2000, 2001):
        columns = [pa.array([1])] * number
        pq.write_table(
            pa.Table.from_arrays(columns, names[:number]), tmp_path / f"{number}.parquet"
        )
    assert len(open_files(SourceKind.PARQUET, "2000.parquet").types) == 2000
    with pytest.raises(SourceLimitError, match="more than 2000 columns"):
        open_files(SourceKind.PARQUET, "2001.parquet")
