"""Equal keys hash alike, whatever their bits: their rows meet in one bucket and one share.

Sources are narrowed by such hashes, and kept keys are shared among tasks by them. A NaN of one
source apart from another source's would be a group of its own.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_core.comparison.planning.scan import FileList, PinnedFile
from datarecs_kernel.forms import DOUBLE
from datarecs_spark.kept_rows import KeyShare, in_form, in_share
from datarecs_spark.kernel_sql import key_hash
from datarecs_spark.kernel_work import KernelSource
from datarecs_spark.native import native_sources
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.tables import NOON, a_job, a_table, plan_of

NANS = (0x7FF8 << 48, (0x7FF8 << 48) + 1, (0x7FF0 << 48) + 1, 2**63 - 1, 0xFFF8 << 48, 2**64 - 1)
SINGLE_NANS = (0x7FC0 << 16, (0x7FC0 << 16) + 1, (0x7F80 << 16) + 1, 2**31 - 1, 2**32 - 1)
ZEROS, SINGLE_ZEROS = (0, 1 << 63), (0, 1 << 31)
SHARES = 7


def doubles(bits: Sequence[int]) -> pa.Array:
    return pa.array(np.array(bits, np.uint64).view(np.float64))


def singles(bits: Sequence[int]) -> pa.Array:
    return pa.array(np.array(bits, np.uint32).view(np.float32))


def source_of(folder: Path, kind: str, keys: pa.Array) -> KernelSource:
    """The kernel's source over one file of these keys."""
    path = folder / "rows.parquet"
    pq.write_table(pa.table({"k": keys, "v": range(len(keys))}), path)
    # Written as they were made: neither library cleans them.
    assert pq.read_table(path)["k"].combine_chunks().buffers()[1] == keys.buffers()[1]
    tables = [a_table("one", f"k {kind}, v int"), a_table("two", f"k {kind}, v int")]
    plan = plan_of(a_job(tables, rows_by("k", a_measure("v"))), tables)
    file = PinnedFile(path=path.name, size_bytes=path.stat().st_size, rows=len(keys))
    pin = FileList(root=str(folder), files=(file,), taken_at=NOON)
    scans = tuple(replace(scan, pin=pin) for scan in plan.scans)
    return native_sources(plan.with_scans(scans).stages[0], salt="s")[0]


@pytest.mark.case("P11")
@pytest.mark.case("P13")
@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("float64", doubles(NANS)),
        ("float64", doubles(ZEROS)),
        ("float32", singles(SINGLE_NANS)),
        ("float32", singles(SINGLE_ZEROS)),
    ],
)
def test_nans_of_any_bits_and_both_zeros_are_one_key(
    tmp_path: Path, kind: str, keys: pa.Array
) -> None:
    source = source_of(tmp_path, kind, keys)
    asked = [in_share([in_form(DOUBLE, "k")], KeyShare(at, SHARES)) for at in range(SHARES)]
    found = ", ".join(f"count(*) FILTER (WHERE {each})" for each in asked)
    with duckdb.connect() as connection:
        ((hashes, *shares),) = connection.execute(
            f"SELECT count(DISTINCT {key_hash(source, 11)}), {found} FROM {source.relation}"  # noqa: S608 - the kernel's own SQL
        ).fetchall()
    assert hashes == 1
    assert sorted(shares) == [0] * (SHARES - 1) + [len(keys)]


def test_other_doubles_are_other_keys(tmp_path: Path) -> None:
    source = source_of(tmp_path, "float64", pa.array([0.0, 5e-324, 1.0, float("inf"), -1.0]))
    with duckdb.connect() as connection:
        (hashes,) = connection.execute(
            f"SELECT count(DISTINCT {key_hash(source, 11)}) FROM {source.relation}"  # noqa: S608 - as above
        ).fetchall()
    assert hashes == (5,)
