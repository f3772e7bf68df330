"""The kernel's work in many tasks, without Spark: what they find together, and when they refuse."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_kernel.hash_sums import weights_for
from datarecs_spark import share_tasks
from datarecs_spark.kernel import narrow
from datarecs_spark.kernel_sql import Connection, key_hash, write_rows
from datarecs_spark.kernel_work import KernelColumn, KernelSource, KernelTask, quoted
from datarecs_spark.native_errors import NotNativeError
from datarecs_spark.row_counts import rows_counted
from datarecs_spark.share_work import Work
from datarecs_spark.spreading import spread_by, work_of
from datarecs_testing.spreading import an_exchange, in_many_tasks

SALTS = (4_611_686_018_427_387_847, 1_152_921_504_606_846_883, 288_230_376_151_711_717)
KEYS = list(range(1000))
PLAIN = {"k": KEYS, "v": [key % 7 for key in KEYS]}
CHANGED = {"k": KEYS, "v": [0 if key == 500 else key % 7 for key in KEYS]}
FILES = 3


def a_source(folder: Path, rows: Mapping[str, Sequence[Any]]) -> KernelSource:
    """Rows in a few files; the first column is the key."""
    folder.mkdir()
    table = pa.table({name: pa.array(values) for name, values in rows.items()})
    size = -(-table.num_rows // FILES)
    for at in range(FILES):
        pq.write_table(table.slice(at * size, size), folder / f"{at}.parquet", row_group_size=50)
    key, *values = [
        KernelColumn(name=name, physical=name, meeting=quoted(name), salted=quoted(name))
        for name in table.schema.names
    ]
    files = tuple(str(folder / f"{at}.parquet") for at in range(FILES))
    return KernelSource(files=files, rows=table.num_rows, keys=(key,), values=tuple(values))


def a_task(folder: Path, *tables: Mapping[str, Sequence[Any]], **fields: Any) -> KernelTask:  # noqa: ANN401 - any field of KernelTask
    (folder / "kept").mkdir()
    sources = tuple(a_source(folder / str(at), rows) for at, rows in enumerate(tables))
    given: dict[str, Any] = {"totals": (), "bucket_bits": 10, "threads": 1, "memory_bytes": 2**27}
    return KernelTask(
        sources=sources,
        salts=SALTS,
        weights=weights_for(len(sources), [2**61 - 1, 2**31 - 1, 2**19 - 1]),
        directory=str(folder / "kept"),
        **{**given, **fields},
    )


def refused(work: Work) -> str:
    with pytest.raises(NotNativeError) as caught:
        spread_by(an_exchange(), work, "rows")
    return str(caught.value)


def test_equal_sources_have_the_answer_of_one_task(tmp_path: Path) -> None:
    task = a_task(tmp_path, PLAIN, PLAIN, PLAIN, totals=(0,))
    assert replace(in_many_tasks(task, row_group=50), kept=()) == replace(narrow(task), kept=())


def test_a_changed_row_is_kept_and_nothing_else_is_left(tmp_path: Path) -> None:
    work = work_of(a_task(tmp_path, PLAIN, CHANGED), 4)
    found = spread_by(an_exchange(), work, "rows")
    assert found.answer.open_buckets == 1
    kept = [
        [row for name, _ in files for row in pq.read_table(tmp_path / "kept" / name).to_pylist()]
        for files in found.files
    ]
    assert {"k": 500, "v": 500 % 7} in kept[0]
    assert {"k": 500, "v": 0} in kept[1]
    assert found.answer.kept == (len(kept[0]), len(kept[1]))
    named = {name for files in found.files for name, _ in files}
    left = {path.relative_to(tmp_path / "kept").as_posix() for path in tmp_path.rglob("kept/**/*")}
    assert {name for name in left if not name.endswith(".counted")} == {"rows", *named}
    assert rows_counted(tmp_path / "kept") >= 2000  # one task of each step ran twice


@pytest.mark.parametrize("again", [share_tasks.MOST_AGAIN, 0], ids=["by hash", "all of them"])
def test_keys_that_occur_again_are_counted_by_their_keys(
    tmp_path: Path, again: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In whichever files and tasks their rows lie; one key has more rows than all others."""
    monkeypatch.setattr(share_tasks, "MOST_AGAIN", again)
    keys = [*KEYS, 1, 1, 2, None, None, *[7] * 300]
    same: dict[str, Sequence[Any]] = {
        "k": keys,
        "v": [0 if key is None else key % 7 for key in keys],
    }
    other: dict[str, Sequence[Any]] = {
        "k": keys,
        "v": [None if key is None else key % 7 for key in keys],
    }
    equal = in_many_tasks(a_task(tmp_path, same, same), row_group=50)
    assert (equal.closed_groups, equal.closed_repeated) == (1001, 4)
    assert equal.null_keys == (2, 2)
    (tmp_path / "again").mkdir()
    differing = in_many_tasks(a_task(tmp_path / "again", same, other), row_group=50)
    assert (differing.closed_groups, differing.closed_repeated) == (1001 - differing.kept[0] + 1, 3)


def test_keys_whose_hashes_meet_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two bits of hash: every key meets others."""
    monkeypatch.setattr(
        share_tasks,
        "key_hash",
        lambda source, salt: f"({key_hash(source, salt)} & 13835058055282163712)",
    )
    answer = in_many_tasks(a_task(tmp_path, PLAIN, PLAIN), row_group=50)
    assert (answer.closed_groups, answer.closed_repeated) == (1000, 0)


def test_a_source_without_rows_opens_every_bucket_of_the_other(tmp_path: Path) -> None:
    none: dict[str, Sequence[Any]] = {name: pa.array([], pa.int64()) for name in PLAIN}
    answer = in_many_tasks(a_task(tmp_path, PLAIN, none))
    assert (answer.kept, answer.closed_groups) == ((1000, 0), 0)


def test_many_open_rows_are_read_whole(tmp_path: Path) -> None:
    other = {"k": [key + 1000 for key in KEYS], "v": KEYS}
    work = work_of(a_task(tmp_path, PLAIN, other, most_open=0.5), 4)
    assert "of the rows are in open buckets" in refused(work)


@pytest.mark.parametrize("times", [0, 2])
def test_a_share_that_is_missing_or_told_twice_is_noticed(tmp_path: Path, times: int) -> None:
    work = work_of(a_task(tmp_path, PLAIN, PLAIN), 4)
    one, *others = work.shares
    assert refused(replace(work, shares=(*[one] * times, *others))) == (
        "tasks have not read every row once"
    )


def test_executors_that_hash_otherwise_take_no_part(tmp_path: Path) -> None:
    work = work_of(a_task(tmp_path, PLAIN, PLAIN), 4)
    assert refused(replace(work, hashes="1.0 1")) == "executors have other releases of DuckDB"


@pytest.mark.case("P65")
def test_bytes_that_are_no_text_and_values_that_are_too_large_are_left_to_spark(
    tmp_path: Path,
) -> None:
    broken = {"k": [1, 2], "v": pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())}
    work = work_of(a_task(tmp_path, broken, broken), 2)
    assert refused(work) == "the kernel cannot read it (InvalidInputException)"
    (tmp_path / "large").mkdir()
    task = a_task(tmp_path / "large", {"k": [1], "v": ["four"]}, {"k": [1], "v": ["a"]})
    sized = tuple(
        replace(each, values=(replace(each.values[0], size='strlen("v")'),), max_value_bytes=3)
        for each in task.sources
    )
    assert "cannot read it" in refused(work_of(replace(task, sources=sized), 2))


def test_a_full_disk_is_not_left_to_spark_which_would_fill_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(source: KernelSource, wanted: str, _: Path, connection: Connection) -> int:
        return write_rows(source, wanted, Path("/dev/full"), connection)

    monkeypatch.setattr(share_tasks, "write_rows", written)
    work = work_of(a_task(tmp_path, PLAIN, CHANGED), 1)
    whole = tuple(part for share in work.shares for part in share)
    with pytest.raises(OSError, match="No space left on device"):
        spread_by(an_exchange(), replace(work, shares=(whole,)), "rows")
