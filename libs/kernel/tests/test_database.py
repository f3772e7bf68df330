"""The kernel's database: what it may spill, and what it may not reach."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from datarecs_kernel import database as database_module
from datarecs_kernel.database import (
    Connection,
    Resources,
    SpillLimitError,
    connected,
    read_batches,
)


def read_whole(database: Connection, query: str) -> int:
    return int(database.sql(query).to_arrow_table().num_rows)


def read_streamed(database: Connection, query: str) -> int:
    return sum(each.num_rows for each in read_batches(database, query))


READERS = pytest.mark.parametrize("read", [read_whole, read_streamed])
Reader = Callable[[Connection, str], int]


@pytest.mark.case("P65")
@READERS
def test_it_spills_no_more_than_the_job_allows(tmp_path: Path, read: Reader) -> None:
    rows = "SELECT sha256(n::text) FROM generate_series(1000000) s(n) ORDER BY 1"
    resources = Resources(directory=str(tmp_path), threads=1, memory_bytes=2**26, spill_bytes=2**30)
    with connected(resources) as database:
        assert read(database, rows) == 1_000_001
    with (
        pytest.raises(SpillLimitError, match=r"execution\.spill"),
        connected(replace(resources, spill_bytes=2**20)) as database,
    ):
        read(database, rows)


@READERS
def test_too_little_memory_is_one_error_however_the_result_is_read(
    tmp_path: Path, read: Reader
) -> None:
    resources = Resources(directory=str(tmp_path), threads=1, memory_bytes=2**24, spill_bytes=2**30)
    text = "repeat(n::TEXT, 5000000)"
    with pytest.raises(MemoryError), connected(resources) as database:
        read(database, f"SELECT string_agg({text}, '') FROM range(10) s(n)")


def test_it_loads_no_extension(tmp_path: Path) -> None:
    resources = Resources(directory=str(tmp_path), threads=1, memory_bytes=2**26, spill_bytes=2**20)
    with connected(resources) as database, pytest.raises(duckdb.Error, match="httpfs"):
        database.sql("FROM 'https://example.com/x.parquet'")


def test_a_batch_holds_so_many_bytes_however_late_long_values_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rows are short, so an estimate from them would read all others at once."""
    monkeypatch.setattr(database_module, "BATCH_BYTES", 2**20)
    resources = Resources(directory=str(tmp_path), threads=1, memory_bytes=2**28, spill_bytes=2**30)
    long = 500
    text = f"CASE WHEN i < 20000 THEN 'x' ELSE repeat('x', {long}) END"
    query = f"SELECT i, {text} FROM range(40000) t(i)"
    with connected(resources) as database:
        batches = list(read_batches(database, query))
    assert sum(each.num_rows for each in batches) == 40_000
    # One more vector of DuckDB's than the bound.
    assert max(each.nbytes for each in batches) < 2**20 + 2_048 * (long + 20)
    assert len(batches) > 8


def test_a_query_that_fails_after_some_batches_raises_the_databases_error(tmp_path: Path) -> None:
    resources = Resources(directory=str(tmp_path), threads=1, memory_bytes=2**28, spill_bytes=2**30)
    late = "CASE WHEN i = 3000000 THEN error('datarecs:too-large:0:6b') ELSE i END"
    with connected(resources) as database, pytest.raises(duckdb.Error, match="too-large:0:6b"):
        for _ in read_batches(database, f"SELECT {late} AS k FROM range(4000000) t(i)"):
            pass
