"""Reading stored differences takes memory by a bound, whatever their texts hold."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_reports.difference_file import difference_schema
from datarecs_reports.stored_batches import BATCH_BYTES, stored_batches, with_short_texts

ROWS, WIDTH, AT_A_TIME = 4_000, 40_000, 250
MOST_MIB = 400
READ = r"""
import re, sys
from pathlib import Path
from types import SimpleNamespace
from datarecs_reports.differences import DifferenceFilter, all_differences, read_differences
from datarecs_reports.judged_rows import judged_rows
from datarecs_reports.stored_rows import smallest_breaks

stage = SimpleNamespace(dimensions=[SimpleNamespace(name="id")])
part = Path(sys.argv[1])
if sys.argv[2] == "hints":
    rows = len(list(smallest_breaks([part], stage, most=20_000)))
elif sys.argv[2] == "judge":
    rows = sum(1 for _ in judged_rows([part]))
elif sys.argv[2] == "export":
    rows = sum(1 for _ in all_differences([part], DifferenceFilter()))
else:
    content = (each.read_bytes() for each in [part])
    rows = len(read_differences(content, DifferenceFilter(), limit=50))
# The kernel counts a program anew; `ru_maxrss` begins with the peak of the process that forked.
peak_kib = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
print(rows, peak_kib // 1024)
"""


def maps(rows: list[list[tuple[str, str]]]) -> pa.Array:
    return pa.array(rows, pa.map_(pa.string(), pa.string()))


def wide_rows(first: int) -> pa.Table:
    numbers = range(first, first + AT_A_TIME)
    count = len(numbers)
    texts = [[("one", f"{at:06}" * (WIDTH // 6)), ("two", "x" * WIDTH)] for at in numbers]
    columns = {
        "break_id": pa.array([f"b{at:06}" for at in numbers]),
        "stage": pa.array(["rows"] * count),
        "measure": pa.array(["note"] * count),
        "outcome": pa.array(["BREAK"] * count),
        "class": pa.array(["OUTSIDE"] * count),
        "presence": pa.array([3] * count, pa.int64()),
        "odd_one_out": pa.nulls(count, pa.string()),
        "key": pa.array([{"id": str(at)} for at in numbers]),
        "key_hash": pa.array([bytes(16)] * count, pa.binary()),
        "values": maps(texts),
        **{name: maps([[]] * count) for name in ("raw_values", "deltas", "delta_percent")},
        "locator": maps([[]] * count),
        "sort_delta": pa.nulls(count, pa.float64()),
    }
    schema = difference_schema(["id"])
    return pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)


@pytest.fixture(scope="module")
def part(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two texts of 40 kB in each of 4,000 rows: 320 MB."""
    path = tmp_path_factory.mktemp("wide") / "part-0.parquet"
    with pq.ParquetWriter(
        path, difference_schema(["id"]), compression="zstd", use_dictionary=["stage"]
    ) as writer:
        for first in range(0, ROWS, AT_A_TIME):
            writer.write(wide_rows(first))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reader", "rows"), [("hints", ROWS), ("judge", ROWS), ("export", ROWS), ("diff", 50)]
)
def test_long_texts_are_read_within_a_bound_of_memory(part: Path, reader: str, rows: int) -> None:
    command = [sys.executable, "-c", READ, str(part), reader]
    reported = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    read, peak_mib = map(int, reported.split())
    assert read == rows
    assert peak_mib < MOST_MIB


def test_batches_are_small_where_rows_are_large_and_leave_no_row_out(part: Path) -> None:
    with pq.ParquetFile(part) as file:
        sizes = [(each.num_rows, each.nbytes) for each in stored_batches(file, most=100_000)]
    assert sum(rows for rows, _ in sizes) == ROWS
    assert max(size for _, size in sizes) < 2 * BATCH_BYTES


def test_a_cut_text_is_marked_and_differs_wherever_the_whole_one_does() -> None:
    long = "x" * WIDTH
    values = maps([[("one", long), ("two", long + " ")], [("one", "short"), ("two", long)], []])
    table = with_short_texts(pa.table({"values": values}), ["values", "raw_values"])
    (_, one), (_, two) = table["values"][0].as_py()
    assert one.startswith("x" * 500 + "… (40,000 characters, ")
    assert two.startswith("x" * 500 + "… (40,001 characters, ")
    assert table["values"][1].as_py() == [("one", "short"), ("two", one)]
    assert table["values"][2].as_py() == []
