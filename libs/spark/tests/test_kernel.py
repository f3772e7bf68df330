"""The scan kernel alone, without Spark: what it keeps, what it counts, what its hashes tell.

Every question is asked of both scanners, by SQL and by frames.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from datarecs_kernel.forms import decimal
from datarecs_kernel.hash_sums import weights_for
from datarecs_spark import frame_columns, kernel_frames, pairing
from datarecs_spark.kernel import narrow
from datarecs_spark.kernel_sql import first_hash, key_hash, second_hash
from datarecs_spark.kernel_work import (
    KernelAnswer,
    KernelSource,
    kept_file,
    read_answer,
)
from datarecs_spark.row_counts import rows_counted
from datarecs_testing.kernel import DRAWS, SALTS, a_condition, a_task, kept

TWO_BITS = 3 << 62
SCANNERS = ("sql", "frames", "pairs")


@pytest.fixture(autouse=True, params=SCANNERS)
def scanner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """By which the kernel reads; rows of files in the same order are paired, or all are hashed."""
    if request.param == "sql":
        monkeypatch.setattr(kernel_frames, "frames_fit", lambda _: False)
    elif request.param == "frames":
        monkeypatch.setattr(kernel_frames, "paired", lambda *_: None)
    return str(request.param)


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


def test_one_of_sources_with_the_same_files_tells_the_numbers_of_all(tmp_path: Path) -> None:
    rows = {"k": [*KEYS, 1, None], "v": [*PLAIN["v"], 5, None]}
    task = a_task(tmp_path, rows, rows, totals=(0,))
    each = narrow(task)
    shutil.rmtree(task.directory)
    Path(task.directory).mkdir()
    Path(task.sources[1].files[0]).unlink()
    one = narrow(replace(task, sources=(task.sources[0], task.sources[0]), alike=True))
    assert one == each
    assert (one.closed_groups, one.closed_repeated) == (1001, 1)


@pytest.mark.parametrize("moved", [False, True])
def test_keys_that_ascend_need_no_hashes_to_be_counted(tmp_path: Path, *, moved: bool) -> None:
    """Footers may be wrong: rows tell."""
    keys = [*KEYS[:600], KEYS[5], *KEYS[600:]] if moved else [*KEYS]
    rows = {"k": keys, "v": [key % 7 for key in keys]}
    task = a_task(tmp_path, rows, rows, totals=(0,))
    each = narrow(task)
    sources = (replace(source, has_numbers=True, ascends=True) for source in task.sources)
    shutil.rmtree(task.directory)
    Path(task.directory).mkdir()
    one = narrow(replace(task, sources=tuple(sources), alike=True))
    assert one == each
    assert (one.closed_groups, one.closed_repeated) == (1000, int(moved))
    assert rows_counted(Path(task.directory)) == 2 * len(keys)


def test_one_of_sources_with_the_same_files_tells_what_conditions_leave_out(
    tmp_path: Path,
) -> None:
    task = a_task(tmp_path, PLAIN, PLAIN)
    above, below = (a_condition(each, v="int") for each in ("v > 1", "v < 5"))
    sources = (replace(source, filter=above, where=below) for source in task.sources)
    task = replace(task, sources=tuple(sources))
    answer = narrow(replace(task, alike=True))
    assert answer == narrow(task)
    assert answer.read == (1000, 1000)
    assert answer.filtered[0] > answer.rows[0] > 0


@pytest.mark.parametrize("alike", [True, False])
def test_same_bytes_that_are_no_text_are_not_taken_for_equal(
    tmp_path: Path, *, alike: bool
) -> None:
    broken = {"k": [1, 2], "v": pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())}
    assert narrow(a_task(tmp_path, broken, broken, alike=alike)).given_up is not None


def test_a_changed_row_is_kept_on_both_sides(tmp_path: Path) -> None:
    task = a_task(tmp_path, PLAIN, CHANGED)
    answer = narrow(task)
    assert answer.open_buckets == 1
    assert {"k": 500, "v": 500 % 7} in kept(task, 0)
    assert {"k": 500, "v": 0} in kept(task, 1)
    assert answer.closed_groups == 1000 - answer.kept[0]


def test_rows_beside_the_conditions_are_told_and_nothing_else(tmp_path: Path) -> None:
    rows = {"k": KEYS, "v": [None if key == 0 else key for key in KEYS]}
    other = {"k": KEYS, "v": [5000 if key in {7, 300} else key for key in KEYS]}
    task = a_task(tmp_path, rows, other, totals=(0,))
    above, below = (a_condition(each, v="int") for each in ("v >= 100 OR v IS NULL", "v < 500"))
    sources = (replace(source, filter=above, where=below) for source in task.sources)
    answer = narrow(replace(task, sources=tuple(sources)))
    assert answer.read == (1000, 1000)
    assert answer.filtered == (901, 901)
    assert answer.rows == (400, 399)
    assert answer.totals == ((str(sum(range(100, 500))),), (str(sum(range(100, 500)) - 300),))
    assert {"k": 300, "v": 300} in kept(task, 0)
    assert all(row["k"] != 300 for row in kept(task, 1))
    assert answer.closed_groups == 400 - answer.kept[0]


def test_all_rows_are_counted_while_they_are_read(tmp_path: Path) -> None:
    """Also those that conditions leave out; for whoever looks at the folder."""
    task = a_task(tmp_path, PLAIN, CHANGED)
    above = a_condition("v > 3", v="int")
    task = replace(task, sources=(task.sources[0], replace(task.sources[1], filter=above)))
    assert narrow(task).read == (1000, 1000)
    assert rows_counted(tmp_path / "kept") == 2000


def test_what_frames_have_no_bound_for_is_left_to_sql(tmp_path: Path, scanner: str) -> None:
    task = a_task(tmp_path, PLAIN, PLAIN, totals=(0,))
    (value,) = task.sources[0].values
    wide = replace(value, form=decimal(32, 0))
    refused: tuple[dict[str, Any], ...] = (
        {"values": (replace(value, form=None),)},
        {"values": (wide,)},
        {"group_bytes": task.memory_bytes // 2 + 1},
    )
    if scanner != "sql":
        assert kernel_frames.frames_fit(task)
    for fields in refused:
        sources = (task.sources[0], replace(task.sources[1], **fields))
        assert not kernel_frames.frames_fit(replace(task, sources=sources))


@pytest.mark.case("P65")
def test_as_many_columns_as_there_may_be_are_hashed(tmp_path: Path) -> None:
    """2,000; each added to the sum of those before it took Polars minutes."""
    wide = {"k": KEYS[:50]} | {f"c{at}": KEYS[at % 7 : at % 7 + 50] for at in range(1999)}
    answer = narrow(a_task(tmp_path, wide, {**wide, "c1998": [0] * 50}))
    assert (answer.given_up, answer.kept[0]) == (None, 50)


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
    of_frames = frame_columns.key_hash
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            "datarecs_spark.kernel_sql.key_hash",
            lambda source, salt: f"({key_hash(source, salt)} & {TWO_BITS})",
        )
        for module in (kernel_frames, pairing):
            patched.setattr(
                module,
                "key_hash",
                lambda source, salt: of_frames(source, salt) & pl.lit(TWO_BITS, pl.UInt64),
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
def test_bytes_that_are_no_text_send_the_stage_to_spark(
    tmp_path: Path, scanner: str, raw: bytes
) -> None:
    """Equal bytes in two sources are INVALID and never equal."""
    broken = {"k": [1, 2], "v": pa.array([b"a", raw], pa.binary()).view(pa.string())}
    answer = narrow(a_task(tmp_path, broken, broken))
    reason = "InvalidInputException" if scanner == "sql" else "ComputeError"
    assert answer == KernelAnswer(given_up=f"the kernel cannot read it ({reason})")


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

PAIRS = 20_000
SEED = 7


def wide_rows(count: int) -> pl.DataFrame:
    """A key and a column of every type, `g` with some NULLs."""
    drawn = np.random.default_rng(SEED)

    def some(most: int) -> pl.Series:
        return pl.Series(drawn.integers(0, most, count))

    return pl.DataFrame({"k": range(count)}).with_columns(
        a=some(1000),
        b=some(100_000).cast(pl.Decimal(12, 2)),
        c="t" + some(1000).cast(pl.String),
        d=some(1000) / 8,
        e=some(2) == 0,
        f=some(99).cast(pl.Date),
        g=pl.when(some(50) > 0).then(some(50)),
    )


def hashes(scanner: str, rows: pl.DataFrame, folder: Path) -> tuple[Any, Any]:
    """Both row hashes, in the order of `k`."""
    (source,) = a_task(folder, rows.to_arrow(compat_level=pl.CompatLevel.oldest())).sources
    if scanner != "sql":
        hashed = (
            frame_columns.first_hash(source, SALTS[0]).alias("first"),
            frame_columns.second_hash(source, SALTS[1]).alias("second"),
        )
        found = rows.sort("k").select(hashed)
        return found["first"].to_numpy(), found["second"].to_numpy()
    columns = f"{first_hash(source, SALTS[0])} AS h1, {second_hash(source, SALTS[1])} AS h2"
    with duckdb.connect() as connection:
        told = connection.execute(f"SELECT {columns} FROM rows ORDER BY k").fetchnumpy()  # noqa: S608 - SQL of this page
    return told["h1"].astype(np.uint64), told["h2"].astype(np.uint64)


@pytest.mark.parametrize("swapped", "abcdefg")
def test_values_swapped_between_two_rows_never_cancel(
    tmp_path: Path, scanner: str, swapped: str
) -> None:
    """Without an outer hash the last column is only XORed in and swapped values vanish."""
    rows = wide_rows(2 * PAIRS)
    halves = [rows[swapped][PAIRS:], rows[swapped][:PAIRS]]
    changed = rows.with_columns(pl.concat(halves))
    (tmp_path / "changed").mkdir()
    found = (hashes(scanner, rows, tmp_path), hashes(scanner, changed, tmp_path / "changed"))
    for before, after in zip(*found, strict=True):
        same_rows = before == after
        told = before[:PAIRS] + before[PAIRS:] != after[:PAIRS] + after[PAIRS:]
        assert np.all(told | (same_rows[:PAIRS] & same_rows[PAIRS:]))
        assert np.count_nonzero(told) > PAIRS // 4


@pytest.mark.parametrize("changed", "abcdf")
def test_collisions_of_cut_hashes_are_as_rare_as_chance_has_them(
    tmp_path: Path, scanner: str, changed: str
) -> None:
    """With five bits of each, one changed bucket in 2^10 closes wrongly.

    So with 64 bits of each one in 2^128 would, and of 2^24 changed buckets any with odds of 2^-104.
    """
    rows = wide_rows(PAIRS * 10)
    other = {"c": pl.col("c") + "x", "f": pl.col("f").dt.offset_by("1d")}
    now = rows.with_columns(other.get(changed, (pl.col(changed) + 1).cast(rows.schema[changed])))
    cut = np.uint64(2**5 - 1)
    closed = np.ones(PAIRS * 10, np.bool_)
    (tmp_path / "now").mkdir()
    found = (hashes(scanner, rows, tmp_path), hashes(scanner, now, tmp_path / "now"))
    for before, after in zip(*found, strict=True):
        closed &= ((before - after) & cut) == 0
    expected = PAIRS * 10 / 2**10
    assert abs(int(np.count_nonzero(closed)) - expected) < 6 * expected**0.5


def test_nulls_are_told_apart_by_their_place(tmp_path: Path, scanner: str) -> None:
    rows = pl.DataFrame({"k": [1, 1], "a": [None, 5], "b": [5, None]})
    for found in hashes(scanner, rows, tmp_path):
        assert found[0] != found[1]
