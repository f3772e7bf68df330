"""Every row of every file lies in exactly one share, wherever files and row groups end."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_spark.kernel_work import KernelSource
from datarecs_spark.native_errors import NotNativeError
from datarecs_spark.shares import RangeSource, Share, shares
from datarecs_testing.kernel import a_condition

GROUP = 3_000
"""Rows; no multiple of what DuckDB reads at once."""


def a_source(folder: Path, sizes: Sequence[int], *, column: str = "k") -> KernelSource:
    """Files of so many rows, numbered through."""
    folder.mkdir()
    files: list[str] = []
    first = 0
    for at, size in enumerate(sizes):
        path = folder / f"{at}.parquet"
        rows = pa.table({column: pa.array(range(first, first + size), pa.int64())})
        pq.write_table(rows, path, row_group_size=GROUP)
        files.append(str(path))
        first += size
    return KernelSource(files=tuple(files), rows=first, keys=(), values=())


def rows_of(found: Sequence[Share], index: int, column: str = "k") -> list[int]:
    """Of one source in all shares."""
    parts = [part.source for share in found for part in share if part.index == index]
    sql = [f'SELECT "{column}" FROM {part.relation}' for part in parts]  # noqa: S608 - SQL of this page
    with duckdb.connect() as connection:
        return sorted(row[0] for each in sql for row in connection.execute(each).fetchall())


@pytest.mark.parametrize("most", [1, 2, 5, 40])
def test_every_row_is_read_once(tmp_path: Path, most: int) -> None:
    sources = [
        a_source(tmp_path / "one", [10 * GROUP + 7]),
        a_source(tmp_path / "few", [GROUP, 0, 2 * GROUP + 1, 5]),
        a_source(tmp_path / "many", [100] * 30),
    ]
    found = shares(sources, most)
    assert 0 < len(found) <= most
    for index, source in enumerate(sources):
        assert rows_of(found, index) == list(range(source.rows))


def test_a_large_file_is_cut_between_its_row_groups_and_small_ones_are_read_together(
    tmp_path: Path,
) -> None:
    sources = [a_source(tmp_path / "one", [12 * GROUP]), a_source(tmp_path / "many", [GROUP] * 12)]
    found = shares(sources, 4)
    assert max(sum(part.index == 1 for part in share) for share in found) == 1
    parts = [[part.source for part in share] for share in found]
    ranges = [each for own in parts for each in own if isinstance(each, RangeSource)]
    assert len(ranges) > 1
    assert all(each.first % GROUP == each.end % GROUP == 0 for each in ranges)
    sizes = [
        sum(each.rows if isinstance(each, RangeSource) else GROUP * len(each.files) for each in own)
        for own in parts
    ]
    assert sum(sizes) == 24 * GROUP
    assert max(sizes) <= 8 * GROUP


def test_conditions_hold_in_every_share(tmp_path: Path) -> None:
    source = a_source(tmp_path / "one", [5 * GROUP])
    above, below = (a_condition(each, k="int") for each in ("k > 7", "k < 8000"))
    found = shares([replace(source, filter=above, where=below)], 3)
    assert rows_of(found, 0) == list(range(8, 8000))


def test_a_column_that_is_called_as_the_number_of_a_row_keeps_its_file_whole(
    tmp_path: Path,
) -> None:
    name = "File_Row_Number"
    source = a_source(tmp_path / "one", [5 * GROUP], column=name)
    found = shares([source], 3)
    assert len(found) == 1
    assert rows_of(found, 0, name) == list(range(5 * GROUP))


@pytest.mark.parametrize("left", [b"PAR1 and nothing else", None])
def test_a_file_that_changed_since_it_was_looked_at_is_no_share(
    tmp_path: Path, left: bytes | None
) -> None:
    source = a_source(tmp_path / "one", [GROUP])
    path = Path(source.files[0])
    path.unlink()
    if left is not None:
        path.write_bytes(left)
    with pytest.raises(NotNativeError, match="cannot be read"):
        shares([source], 2)
