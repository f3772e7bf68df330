"""How much disk a stage takes, checked without Spark."""

from pathlib import Path

import pytest

from datarecs_kernel.watching import Watch
from datarecs_spark.spilling import SpillGuard


@pytest.mark.case("P65")
@pytest.mark.parametrize(("written", "report_count"), [(10, 0), (11, 1)])
def test_what_is_written_meanwhile_has_a_limit(
    tmp_path: Path, written: int, report_count: int
) -> None:
    """Of all folders together; what other runs have left does not count."""
    (tmp_path / "before").write_bytes(bytes(1000))
    reports: list[None] = []
    later = tmp_path / "later"
    guard = SpillGuard([tmp_path, later / "none"], limit=10, exceeded=lambda: reports.append(None))
    with Watch([guard]):
        (later / "below").mkdir(parents=True)
        (later / "below" / "data").write_bytes(bytes(written))
    assert len(reports) == report_count
