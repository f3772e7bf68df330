"""The kernel's database: what it may spill, and what it may not reach."""

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from datarecs_kernel import database as database_module
from datarecs_kernel.database import Resources, connected, read_batches


@pytest.mark.case("P65")
def test_it_spills_no_more_than_the_job_allows(tmp_path: Path) -> None:
    rows = "SELECT sha256(n::text) FROM generate_series(1000000) s(n) ORDER BY 1"
    resources = Resources(directory=str(tmp_path), threads=1, memory_bytes=2**26, spill_bytes=2**30)
    with connected(resources) as database:
        assert database.sql(rows).to_arrow_table().num_rows == 1_000_001
    with (
        pytest.raises(OSError, match="No space left on device"),
        connected(replace(resources, spill_bytes=2**20)) as database,
    ):
        database.sql(rows).to_arrow_table()


def test_it_loads_no_extension(tmp_path: Path) -> None:
    resources = Resources(directory=str(tmp_path), threads=1, memory_bytes=2**26, spill_bytes=2**20)
    with connected(resources) as database, pytest.raises(duckdb.Error, match="httpfs"):
        database.sql("FROM 'https://example.com/x.parquet'")


def test_a_batch_holds_so_many_bytes_however_late_long_values_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rows are short, so that whoever asked them would read all others at once."""
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
