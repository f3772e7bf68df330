"""How much disk a stage takes, looked at without Spark."""

from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from datarecs_spark.kernel_sql import connected, reason_of
from datarecs_spark.spilling import SpillLook
from datarecs_spark.watching import Watch
from datarecs_testing.kernel import a_task


@pytest.mark.case("P65")
@pytest.mark.parametrize(("written", "told"), [(10, 0), (11, 1)])
def test_what_is_written_meanwhile_has_a_limit(tmp_path: Path, written: int, told: int) -> None:
    """Of all folders together; what other runs have left does not count."""
    (tmp_path / "before").write_bytes(bytes(1000))
    heard: list[None] = []
    later = tmp_path / "later"
    look = SpillLook([tmp_path, later / "none"], limit=10, exceeded=lambda: heard.append(None))
    with Watch([look]):
        (later / "below").mkdir(parents=True)
        (later / "below" / "data").write_bytes(bytes(written))
    assert len(heard) == told


@pytest.mark.case("P65")
def test_the_kernels_database_spills_no_more_than_the_job_allows(tmp_path: Path) -> None:
    rows = "SELECT sha256(n::text) FROM generate_series(1000000) s(n) ORDER BY 1"
    task = replace(a_task(tmp_path, {"k": [1]}), memory_bytes=2**26)
    with connected(task) as database:
        assert database.sql(rows).to_arrow_table().num_rows == 1_000_001
    with connected(replace(task, spill_bytes=2**20)) as database:
        with pytest.raises(duckdb.OutOfMemoryException) as failure:
            database.sql(rows).to_arrow_table()
        with pytest.raises(OSError, match="No space left on device"):
            reason_of(failure.value)
