"""The scan kernel alone, without Spark: what it keeps, what it counts, what its hashes tell."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_spark.kernel import (
    KernelAnswer,
    KernelColumn,
    KernelSource,
    KernelTask,
    first_hash,
    kept_file,
    key_hash,
    narrow,
    quoted,
    read_answer,
    second_hash,
    weights_for,
)
from datarecs_spark.row_counts import rows_counted

SALTS = (4_611_686_018_427_387_847, 1_152_921_504_606_846_883, 288_230_376_151_711_717)
DRAWS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x27D4EB2F165667C5)
ALL_BUCKETS_HALF_FULL = 12


def a_column(name: str, *, text: bool = False) -> KernelColumn:
    meeting = quoted(name)
    salted = f"('datarecs' || {meeting})" if text else meeting
    return KernelColumn(name=name, physical=name, meeting=meeting, salted=salted)


def a_source(path: Path, rows: Mapping[str, Any]) -> KernelSource:
    """Rows as a file; the first column is the key, texts are salted."""
    table = pa.table(rows)
    pq.write_table(table, path)
    columns = [a_column(field.name, text=pa.types.is_string(field.type)) for field in table.schema]
    return KernelSource(
        files=(str(path),), rows=table.num_rows, keys=(columns[0],), values=tuple(columns[1:])
    )


def a_task(folder: Path, *tables: Mapping[str, Any], **fields: Any) -> KernelTask:  # noqa: ANN401 - any field of KernelTask
    (folder / "kept").mkdir()
    sources = tuple(a_source(folder / f"{at}.parquet", rows) for at, rows in enumerate(tables))
    given: dict[str, Any] = {
        "totals": (),
        "bucket_bits": ALL_BUCKETS_HALF_FULL,
        "threads": 1,
        "memory_bytes": 2**28,
    }
    return KernelTask(
        sources=sources,
        salts=SALTS,
        weights=weights_for(len(sources), DRAWS),
        directory=str(folder / "kept"),
        **{**given, **fields},
    )


def kept(task: KernelTask, index: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(Path(task.directory) / kept_file(index)).to_pylist()
    return found


KEYS = list(range(1000))
PLAIN = {"k": KEYS, "v": [key % 7 for key in KEYS]}
CHANGED = {"k": KEYS, "v": [0 if key == 500 else key % 7 for key in KEYS]}


def test_equal_sources_close_every_bucket(tmp_path: Path) -> None:
    answer = narrow(a_task(tmp_path, PLAIN, PLAIN, PLAIN))
    assert answer == KernelAnswer(
        read=(1000, 1000, 1000),
        filtered=(1000, 1000, 1000),
        rows=(1000, 1000, 1000),
        null_keys=(0, 0, 0),
        totals=((), (), ()),
        kept=(0, 0, 0),
        closed_groups=1000,
    )


def test_a_changed_row_is_kept_on_both_sides(tmp_path: Path) -> None:
    task = a_task(tmp_path, PLAIN, CHANGED)
    answer = narrow(task)
    assert answer.open_buckets == 1
    assert {"k": 500, "v": 500 % 7} in kept(task, 0)
    assert {"k": 500, "v": 0} in kept(task, 1)
    assert answer.closed_groups == 1000 - answer.kept[0]


def test_all_rows_are_counted_while_they_are_read(tmp_path: Path) -> None:
    """Also those that conditions leave out; for whoever looks at the folder."""
    task = a_task(tmp_path, PLAIN, CHANGED)
    task = replace(task, sources=(task.sources[0], replace(task.sources[1], filter="v > 3")))
    assert narrow(task).read == (1000, 1000)
    assert rows_counted(tmp_path / "kept") == 2000


@pytest.mark.parametrize("sources", [2, 3, 5])
def test_a_row_that_stands_once_more_in_one_source_is_kept(tmp_path: Path, sources: int) -> None:
    more = {name: [*values, values[3]] for name, values in PLAIN.items()}
    answer = narrow(a_task(tmp_path, *[PLAIN] * (sources - 1), more))
    assert answer.open_buckets == 1


def test_repeated_keys_are_groups_and_not_rows(tmp_path: Path) -> None:
    repeated = {"k": [*KEYS, 1, 1, 2, None, None], "v": [*KEYS, 10, 11, 12, 13, 13]}
    answer = narrow(a_task(tmp_path, repeated, repeated))
    assert (answer.closed_groups, answer.closed_repeated) == (1001, 3)
    assert answer.null_keys == (2, 2)


def test_keys_whose_hashes_meet_are_counted_by_their_keys(tmp_path: Path) -> None:
    """Two bits of hash: every key meets others."""
    task = a_task(tmp_path, PLAIN, PLAIN)
    coarse = tuple(
        replace(source, keys=(replace(source.keys[0], meeting='"k"'),)) for source in task.sources
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "datarecs_spark.kernel.key_hash",
            lambda source, salt: f"({key_hash(source, salt)} & 13835058055282163712)",
        )
        answer = narrow(replace(task, sources=coarse))
    assert (answer.closed_groups, answer.closed_repeated) == (1000, 0)


def test_totals_are_exact_and_told_per_source(tmp_path: Path) -> None:
    wide = {"k": [1, 2, 3], "v": [2**63 - 1, 2**63 - 1, None]}
    none = {"k": [1, 2, 3], "v": pa.array([None] * 3, pa.int64())}
    answer = narrow(a_task(tmp_path, wide, none, totals=(0,)))
    assert answer.totals == ((str(2**64 - 2),), (None,))


def test_too_many_open_rows_send_the_stage_to_spark(tmp_path: Path) -> None:
    other = {"k": [key + 1000 for key in KEYS], "v": KEYS}
    answer = narrow(a_task(tmp_path, PLAIN, other, most_open=0.5))
    assert "of the rows are in open buckets" in str(answer.given_up)


@pytest.mark.case("P65")
@pytest.mark.parametrize(
    ("key", "value", "fits"), [("ab\u20ac", "\u20ac\u20ac12", True), ("ab\u20ac", "x" * 9, False)]
)
def test_values_and_keys_end_with_their_limits(
    tmp_path: Path, key: str, value: str, *, fits: bool
) -> None:
    """At 5 and 8 bytes; the key counts all its texts together, NULL is none."""
    task = a_task(tmp_path, {"k": [key, None], "v": [value, None]}, {"k": ["a"], "v": ["b"]})

    def limited(source: KernelSource) -> KernelSource:
        sized = [replace(each, size=f"strlen({each.meeting})") for each in source.columns]
        return replace(
            source, keys=(sized[0],), values=(sized[1],), max_value_bytes=8, max_key_bytes=5
        )

    answer = narrow(replace(task, sources=tuple(map(limited, task.sources))))
    assert (answer.given_up is None) is fits


@pytest.mark.case("P65")
def test_a_key_of_two_long_columns_is_too_large(tmp_path: Path) -> None:
    task = a_task(tmp_path, {"k": ["abc"], "l": ["def"]}, {"k": ["a"], "l": ["b"]})
    for most, fits in ((6, True), (5, False)):
        sources = tuple(
            replace(
                each,
                keys=tuple(replace(c, size=f"strlen({c.meeting})") for c in each.columns),
                values=(),
                max_key_bytes=most,
            )
            for each in task.sources
        )
        assert (narrow(replace(task, sources=sources)).given_up is None) is fits


@pytest.mark.parametrize("raw", [b"\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80"])
def test_bytes_that_are_no_text_send_the_stage_to_spark(tmp_path: Path, raw: bytes) -> None:
    """Equal bytes in two sources are INVALID and never equal."""
    broken = {"k": [1, 2], "v": pa.array([b"a", raw], pa.binary()).view(pa.string())}
    answer = narrow(a_task(tmp_path, broken, broken))
    assert answer == KernelAnswer(given_up="the kernel cannot read it (InvalidInputException)")


def on_a_full_disk(folder: Path) -> None:
    """Whatever is kept there meets a device without space."""
    for name in (kept_file(0), f"tmp_{kept_file(0)}"):
        (folder / name).symlink_to("/dev/full")


def test_a_full_disk_is_not_left_to_spark_which_would_fill_it_too(tmp_path: Path) -> None:
    task = a_task(tmp_path, PLAIN, {"k": KEYS, "v": [value + 1 for value in KEYS]})
    on_a_full_disk(Path(task.directory))
    with pytest.raises(OSError, match="No space left on device"):
        narrow(task)


def test_a_file_cut_in_the_middle_sends_the_stage_to_spark(tmp_path: Path) -> None:
    task = a_task(tmp_path, PLAIN, PLAIN)
    path = Path(task.sources[1].files[0])
    path.write_bytes(path.read_bytes()[:-100])
    assert "the kernel cannot read it" in str(narrow(task).given_up)


def test_another_version_of_the_kernel_answers_nothing(tmp_path: Path) -> None:
    task = replace(a_task(tmp_path, PLAIN, PLAIN), version="0")
    assert narrow(task) == KernelAnswer(given_up="the kernel has version 3")


def test_an_answer_survives_its_way_to_the_driver(tmp_path: Path) -> None:
    answer = narrow(a_task(tmp_path, PLAIN, CHANGED, totals=(0,)))
    assert read_answer(answer.written()) == answer


@pytest.mark.parametrize("sources", range(2, 6))
def test_weights_vanish_together_and_not_alone(sources: int) -> None:
    weights = weights_for(sources, DRAWS)
    assert sum(weights) % 2**64 == 0
    assert all(weights)
    assert all(weight % 2 for weight in weights[:-1])


# Hashes

WIDE = (
    "range AS k, (hash(range, 1) % 1000)::BIGINT AS a,"
    " (hash(range, 2) % 100000)::DECIMAL(12,2) AS b,"
    " 't' || (hash(range, 3) % 1000) AS c, (hash(range, 4) % 1000)::DOUBLE / 8 AS d,"
    " hash(range, 5) % 2 = 0 AS e, DATE '2026-01-01' + (hash(range, 6) % 99)::INTEGER AS f,"
    " NULLIF(hash(range, 7) % 50, 0)::BIGINT AS g"
)
PAIRS = 20_000


def wide_source(columns: str) -> KernelSource:
    names = [column for column in columns if column != "k"]
    return KernelSource(
        files=(),
        rows=0,
        keys=(a_column("k"),),
        values=tuple(a_column(name, text=name == "c") for name in names),
    )


def hashes(sql: str, source: KernelSource) -> tuple[Any, Any]:
    """Both row hashes, in the order of `k`."""
    columns = f"{first_hash(source, SALTS[0])} AS h1, {second_hash(source, SALTS[1])} AS h2"
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT {columns} FROM ({sql}) ORDER BY k").fetchnumpy()  # noqa: S608 - SQL of this page
    return found["h1"].astype(np.uint64), found["h2"].astype(np.uint64)


@pytest.mark.parametrize("swapped", "abcdefg")
def test_values_swapped_between_two_rows_never_cancel(swapped: str) -> None:
    """Without an outer hash the last column is only XORed in and swapped values vanish."""
    rows = f"SELECT {WIDE} FROM range({2 * PAIRS})"  # noqa: S608 - SQL of this page
    partner = f"SELECT k - 1 + 2 * ((k + 1) % 2) AS k, {swapped} FROM ({rows})"  # noqa: S608 - SQL of this page
    changed = f"SELECT one.* EXCLUDE ({swapped}), two.{swapped} FROM ({rows}) one JOIN ({partner}) two USING (k)"  # noqa: S608, E501 - SQL of this page
    source = wide_source("kabcdefg")
    for before, after in zip(hashes(rows, source), hashes(changed, source), strict=True):
        same_rows = before == after
        told = (before[0::2] + before[1::2]) != (after[0::2] + after[1::2])
        assert np.all(told | (same_rows[0::2] & same_rows[1::2]))
        assert np.count_nonzero(told) > PAIRS // 4


def test_collisions_of_cut_hashes_are_as_rare_as_chance_has_them() -> None:
    """With five bits of each, one changed bucket in 2^10 closes wrongly.

    So with 64 bits of each one in 2^128 would, and of 2^24 changed buckets any with odds of 2^-104.
    """
    rows = f"SELECT {WIDE} FROM range({PAIRS * 10})"  # noqa: S608 - SQL of this page
    changed = f"SELECT * REPLACE (a + 1 AS a) FROM ({rows})"  # noqa: S608 - SQL of this page
    source = wide_source("kabcdefg")
    cut = np.uint64(2**5 - 1)
    closed = np.ones(PAIRS * 10, np.bool_)
    for before, after in zip(hashes(rows, source), hashes(changed, source), strict=True):
        closed &= ((before - after) & cut) == 0
    expected = PAIRS * 10 / 2**10
    assert abs(int(np.count_nonzero(closed)) - expected) < 6 * expected**0.5


def test_nulls_are_told_apart_by_their_place() -> None:
    rows = "SELECT * FROM (VALUES (1, NULL, 5), (1, 5, NULL)) t(k, a, b)"
    for found in hashes(rows, wide_source("kab")):
        assert found[0] != found[1]
