"""Indexes of Parquet files: from footers alone, with equal bytes for equal files."""

import hashlib
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_core.captures.request import CapturePolicy, ColumnChoice, Output
from datarecs_core.captures.source_facts import Sidecar

Folder = Any
INDEX = CapturePolicy(outputs=(Output.PARQUET_PAGE_INDEX,), column_choice=ColumnChoice.ALL)


def a_table(rows: int = 10) -> pa.Table:
    numbers = list(range(rows))
    return pa.table(
        {
            "z": pa.array([None, *numbers[1:]], pa.int64()),
            "flag": [one > 4 for one in numbers],
            "short": pa.array(numbers, pa.int16()),
            "small": pa.array([2**32 - 1 - one for one in numbers], pa.uint32()),
            "huge": pa.array([2**64 - 1 - one for one in numbers], pa.uint64()),
            "double": [one / 2 for one in numbers],
            "single": pa.array([one / 10 for one in numbers], pa.float32()),
            "money": pa.array([Decimal(one).scaleb(-2) for one in numbers], pa.decimal128(20, 2)),
            "cents": pa.array([Decimal(-one).scaleb(-2) for one in numbers], pa.decimal128(20, 2)),
            "name": [f"é{one}" for one in numbers],
            "long": ["x" * 2000] * rows,
            "raw": [bytes([one]) for one in numbers],
            "list": [[one] for one in numbers],
            "struct": [{"a": one} for one in numbers],
        }
    )


def index_of(folder: Folder, name: str = "t") -> tuple[Sidecar, pa.Table]:
    (captured,) = folder.capture(name, INDEX)
    assert captured.is_complete
    assert captured.columns == ()
    sidecar = captured.sidecar
    path = folder.scratch / f"{sidecar.sha256}.parquet"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == sidecar.sha256
    assert path.stat().st_size == sidecar.size_bytes
    return sidecar, pq.read_table(path)


def test_an_index_has_a_row_per_column_and_row_group(folder: Folder) -> None:
    pq.write_table(a_table(), folder.root / "t.parquet", row_group_size=6)
    sidecar, table = index_of(folder)
    assert sidecar.columns == (
        *("cents", "double", "flag", "huge", "long", "money", "name", "raw"),
        *("short", "single", "small", "z"),
    )
    assert sidecar.rows == table.num_rows == 24
    rows = table.to_pylist()
    assert [(row["column"], row["row_group"]) for row in rows] == sorted(
        (row["column"], row["row_group"]) for row in rows
    )
    assert {
        row["column"]: (row["value_type"], row["min"], row["max"], row["null_count"])
        for row in rows
        if row["row_group"] == 1
    } == {
        "cents": ("decimal", "-9", "-6", 0),
        "double": ("f64", "3.0", "4.5", 0),
        "flag": ("bool", "true", "true", 0),
        "huge": (None, None, None, 0),
        "long": ("utf8", None, None, 0),
        "money": ("decimal", "6", "9", 0),
        "name": ("utf8", "é6", "é9", 0),
        "raw": (None, None, None, 0),
        "short": ("i32", "6", "9", 0),
        "single": ("f32", "0.6", "0.9", 0),
        "small": ("i64", "4294967286", "4294967289", 0),
        "z": ("i64", "6", "9", 0),
    }
    first, second = [row for row in rows if row["column"] == "z"]
    assert (first["first_row_index"], first["row_count"], first["null_count"]) == (0, 6, 1)
    assert (second["first_row_index"], second["row_count"]) == (6, 4)
    chunk = pq.ParquetFile(folder.root / "t.parquet").metadata.row_group(1).column(0)
    assert (second["byte_offset"], second["compressed_size"], second["compression"]) == (
        chunk.dictionary_page_offset,
        chunk.total_compressed_size,
        "SNAPPY",
    )
    assert [(row["precision"], row["scale"]) for row in rows if row["column"] == "money"] == [
        (20, 2)
    ] * 2


def test_an_index_is_uncompressed_and_names_its_file(folder: Folder) -> None:
    pq.write_table(a_table(), folder.root / "t.parquet")
    sidecar, _ = index_of(folder)
    metadata = pq.ParquetFile(folder.scratch / f"{sidecar.sha256}.parquet").metadata
    (file,) = folder.plan("t")
    assert metadata.metadata == {
        b"sidecar.data_file_path": b"t.parquet",
        b"sidecar.source_etag": file.etag.encode(),
        b"sidecar.version": b"1",
    }
    group = metadata.row_group(0)
    assert {group.column(at).compression for at in range(group.num_columns)} == {"UNCOMPRESSED"}


@pytest.mark.case("Q46")
def test_an_equal_file_has_an_equal_index(folder: Folder) -> None:
    pq.write_table(a_table(), folder.root / "t.parquet", row_group_size=3)
    assert index_of(folder) == index_of(folder)


def test_an_index_is_made_from_the_footer_alone(folder: Folder) -> None:
    path = folder.root / "t.parquet"
    pq.write_table(a_table(), path)
    footer = int.from_bytes(path.read_bytes()[-8:-4], "little") + 8
    path.write_bytes(
        b"PAR1" + b"\0" * (path.stat().st_size - footer - 4) + path.read_bytes()[-footer:]
    )
    assert index_of(folder)[0].rows == 12


def test_a_file_without_plain_columns_or_statistics_has_an_index(folder: Folder) -> None:
    pq.write_table(a_table().select(["list", "struct"]), folder.root / "nested.parquet")
    sidecar, table = index_of(folder, "nested")
    assert (sidecar.columns, sidecar.rows, table.num_rows) == ((), 0, 0)
    pq.write_table(a_table().select(["z"]), folder.root / "bare.parquet", write_statistics=False)
    _, table = index_of(folder, "bare")
    assert table.select(["min", "max", "null_count"]).to_pylist() == [
        {"min": None, "max": None, "null_count": None}
    ]


def test_a_file_with_too_many_row_groups_has_no_index_and_says_so(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datarecs_connectors.capturing.sidecars.MAX_ROWS", 3)
    pq.write_table(a_table().select(["z"]), folder.root / "t.parquet", row_group_size=2)
    (captured,) = folder.capture("t", INDEX)
    assert (captured.sidecar, captured.is_complete) == (None, False)
