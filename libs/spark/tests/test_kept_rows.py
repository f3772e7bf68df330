"""Kept rows are judged in batches that fit in memory, and how they are cut changes nothing."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datarecs_kernel.layout import PlainColumns, layout_of
from datarecs_kernel.sink import SinkTask
from datarecs_kernel.storing import SinkPlan
from datarecs_spark import kept_rows
from datarecs_spark.kept_rows import Judged, judged
from datarecs_spark.kernel_work import KernelTask, kept_file
from datarecs_spark.ordered_rows import opened_in_order
from datarecs_testing.comparisons import a_measure, absolute, percentage, rows_by
from datarecs_testing.tables import a_job, a_table, plan_of

ROWS = 5_000
WIDTH = 1_000
"""Bytes of a text."""
BOUND = 2**20
"""Bytes of the texts of a batch."""


class Batches(SinkTask):
    """The sink, and how many bytes of texts came at a time."""

    seen: list[int]

    def take(self, batch: pa.RecordBatch) -> None:
        self.seen.append(sum(map(len, filter(None, batch.column("m0").to_pylist()))))
        super().take(batch)


def a_task(folder: Path) -> KernelTask:
    return KernelTask(
        sources=(),
        totals=(),
        salts=(1, 2, 3),
        weights=(),
        bucket_bits=1,
        directory=str(folder),
        threads=1,
        memory_bytes=2**28,
    )


def judged_texts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Judged, list[int]]:
    """What is counted of rows with wide texts that differ throughout, and each batch's bytes."""
    folder.mkdir()
    tables = [a_table(name, "k int, note text") for name in ("one", "two")]
    stage = plan_of(a_job(tables, rows_by("k", a_measure("note"))), tables).stages[0]
    for index, letter in enumerate("ab"):
        rows = pa.table({"k": range(ROWS), "note": [letter * WIDTH] * ROWS})
        pq.write_table(rows, folder / kept_file(index))
    layout = layout_of(stage, [PlainColumns()] * len(tables))
    plan = SinkPlan(layout=layout, key=b"k" * 80, directory=str(folder), scope_directory=None)
    seen: list[int] = []
    monkeypatch.setattr(Batches, "seen", seen, raising=False)
    monkeypatch.setattr(kept_rows, "SinkTask", Batches)
    found = judged(a_task(folder), plan, "0")
    assert found is not None
    return found, seen


def test_wide_texts_are_judged_in_several_batches_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, (most, *last) = judged_texts(tmp_path / "whole", monkeypatch)
    # The last group waits for rows that never come.
    assert last == [2 * WIDTH]
    everything = most + sum(last)
    assert everything == 2 * ROWS * WIDTH
    monkeypatch.setattr(kept_rows, "_BATCH_BYTES", BOUND)
    cut, batches = judged_texts(tmp_path / "cut", monkeypatch)
    assert sum(batches) == everything
    # DuckDB hands over whole vectors of 2,048 rows.
    assert max(batches) <= BOUND + 2_048 * WIDTH
    assert (cut.counted.stored, cut.counted.digest) == (ROWS, whole.counted.digest)
    assert cut.counted.groups == whole.counted.groups
    assert cut.tallies == whole.tallies


SOURCES = range(3)
KEYS = st.tuples(st.sampled_from(["", "a", "b"]), st.sampled_from([None, 0.0, 1.5, float("nan")]))
VALUES = st.tuples(
    st.sampled_from([None, Decimal("0.05"), Decimal("0.20")]),
    st.sampled_from([None, 0.1, -0.0, 0.30000000000000004, 1e300, float("nan")]),
    st.sampled_from([None, "", "x"]),
)
SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("d", pa.float64()),
        ("amount", pa.decimal128(12, 2)),
        ("f", pa.float64()),
        ("note", pa.string()),
    ]
)
LONE = st.dictionaries(KEYS, VALUES, max_size=8)
"""Rows of a source that has no key twice; all NaN are one, as they are drawn."""


def judged_rows(folder: Path, sources: list[list[tuple[object, ...]]]) -> Judged:
    folder.mkdir(exist_ok=True)
    tables = [
        a_table(f"source {at}", "k text, d float64, amount decimal(12,2), f float64, note text")
        for at in SOURCES
    ]
    measures = [a_measure("amount"), a_measure("f", absolute("0.15"), percentage("40"))]
    measures.append(a_measure("note"))
    stage = plan_of(a_job(tables, rows_by("k d", *measures)), tables).stages[0]
    for index, rows in enumerate(sources):
        columns = [dict(zip(SCHEMA.names, row, strict=True)) for row in rows]
        pq.write_table(pa.Table.from_pylist(columns, SCHEMA), folder / kept_file(index))
    layout = layout_of(stage, [PlainColumns()] * len(tables))
    plan = SinkPlan(layout=layout, key=b"k" * 80, directory=str(folder), scope_directory=None)
    found = judged(a_task(folder), plan, "0")
    assert found is not None
    return found


@settings(max_examples=20, deadline=None)
@given(sources=st.tuples(*(LONE for _ in SOURCES)), repeated=st.booleans())
def test_rows_of_keys_that_none_repeats_are_what_grouping_says(
    sources: tuple[dict[tuple[object, ...], tuple[object, ...]], ...],
    tmp_path_factory: pytest.TempPathFactory,
    *,
    repeated: bool,
) -> None:
    """`repeated` makes some source have a key several times, where there is one."""
    folder = tmp_path_factory.mktemp("kept")
    rows = [[(*key, *values) for key, values in source.items()] for source in sources]
    if repeated:
        rows[0] += rows[0][:1]
    found = judged_rows(folder / "found", rows)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kept_rows._Kept, "_repeats", lambda _: True)  # noqa: SLF001 - the other way
        grouped = judged_rows(folder / "grouped", rows)
    assert found == grouped


@given(
    keys=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), unique=True),
    step=st.integers(1, 4),
)
def test_groups_are_whole_wherever_rows_in_order_are_cut(
    keys: list[tuple[int, int]], step: int
) -> None:
    told = [{"s": source, "k0": key, "m0": key * source // 4} for key, source in sorted(keys)]
    schema = pa.schema([("s", pa.int32()), ("k0", pa.int64()), ("m0", pa.int64())])
    rows = pa.RecordBatch.from_pylist(told, schema)
    cuts = [rows.slice(at, step) for at in range(0, rows.num_rows, step)]
    opened = list(opened_in_order(cuts, ["k0"], ["m0"], SOURCES))
    found = [row for batch in opened for row in batch.to_pylist()]
    for batch in opened:
        assert not batch.num_rows or batch.column("is_first")[0].as_py()
    assert len(found) == len(told)
    for row, (key, source) in zip(found, sorted(keys), strict=True):
        own = [other for each, other in sorted(keys) if each == key]
        values = {key * other // 4 for other in own}
        assert row["is_open"] == (len(own) < len(SOURCES) or len(values) > 1)
        assert [row[f"n{at}"] for at in SOURCES] == [int(at in own) for at in SOURCES]
        assert [row[f"c{at}"] for at in SOURCES] == [int(at == source) for at in SOURCES]
        assert (row["is_first"], row["weight"]) == (source == own[0], int(source == own[0]))
