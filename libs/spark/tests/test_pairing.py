"""Rows that stand in the same order in all sources: what is left, and what never changes."""

import math
import random
import struct
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_spark import kernel_frames, pairing
from datarecs_spark.kernel import narrow
from datarecs_spark.kernel_work import KernelAnswer, KernelTask
from datarecs_testing.kernel import a_condition, a_task, kept

Rows = Sequence[tuple[int | None, int | None]]
SMALL: Mapping[str, Any] = {
    "_WINDOW": 7,
    "_LEAST_WINDOW": 1,
    "_RUN": 3,
    "_REACHES": (2, 4),
    "_SHORTEST": 0,
    "_MOST_LEFT": 100,
    "_WRITTEN_BYTES": 100,
    "_PIECE": 2,
}
"""So that every edge of a window is met; all sources have an order in common."""


def columns(rows: Rows) -> dict[str, pa.Array]:
    return {
        name: pa.array([row[at] for row in rows], pa.int64()) for at, name in enumerate(("k", "v"))
    }


def ordered(rows: int, *, without: range = range(0)) -> dict[str, pa.Array]:
    return columns([(key, key % 7) for key in range(rows) if key not in without])


def left(task: KernelTask, index: int) -> list[int]:
    """Keys of the rows that were hashed."""
    found: list[int] = pq.read_table(Path(task.directory) / f"left-{index}.parquet")[
        "k"
    ].to_pylist()
    return found


def by_sums(task: KernelTask) -> KernelAnswer:
    """The answer when nothing is paired."""
    with patch.object(kernel_frames, "paired", lambda *_: None):
        return narrow(task)


def test_only_rows_that_differ_are_hashed(tmp_path: Path) -> None:
    one = [(key, key % 7) for key in range(1000)]
    two = [row for row in one if row[0] != 300]
    two[499:500] = [(500, 99)]
    two[700:700] = [(2000, 1)]
    two[800:801] = [(3000, 1)]
    task = a_task(tmp_path, columns(one), columns(two))
    answer = narrow(task)
    assert left(task, 0) == [300, 500, 800]
    assert left(task, 1) == [500, 2000, 3000]
    assert answer.kept == (3, 3)
    assert answer.closed_groups == 997


@pytest.mark.parametrize("gap", [1, 15, 200, 3_000, 30_000])
def test_rows_are_paired_again_behind_a_gap_in_either_source(tmp_path: Path, gap: int) -> None:
    first, second = range(40_000, 40_000 + gap), range(120_000, 120_000 + gap)
    task = a_task(tmp_path, ordered(200_000, without=first), ordered(200_000, without=second))
    answer = narrow(task)
    assert left(task, 0) == list(second)
    assert left(task, 1) == list(first)
    assert answer.closed_groups == 200_000 - 2 * gap


def test_several_sources_are_paired_at_once(tmp_path: Path) -> None:
    sources = [ordered(1000, without=range(at, at + 1)) for at in (10, 10, 500, 999)]
    task = a_task(tmp_path, *sources)
    assert narrow(task).closed_groups == 997
    assert [left(task, index) for index in range(4)] == [
        [500, 999],
        [500, 999],
        [10, 999],
        [10, 500],
    ]


def shuffled(rows: Mapping[str, pa.Array], behind: int = 0) -> dict[str, pa.Array]:
    """In another order, from some row on."""
    places = list(range(behind, len(rows["k"])))
    random.Random(7).shuffle(places)  # noqa: S311 - the same every time
    return {name: each.take([*range(behind), *places]) for name, each in rows.items()}


@pytest.mark.parametrize("behind", [0, 70_000])
def test_sources_without_a_common_order_are_hashed_whole(tmp_path: Path, behind: int) -> None:
    rows = ordered(200_000)
    task = a_task(tmp_path, rows, shuffled(rows, behind))
    counts: list[int] = []
    assert pairing.paired(task, counts.append, kernel_frames.FrameScanner) is None
    assert sum(counts) == 0
    assert narrow(task) == by_sums(task)


def test_one_source_that_is_much_smaller_is_not_paired(tmp_path: Path) -> None:
    task = a_task(tmp_path, ordered(1000), ordered(10))
    assert pairing.paired(task, lambda _: None, kernel_frames.FrameScanner) is None


def test_rows_that_memory_does_not_hold_are_not_paired(tmp_path: Path) -> None:
    task = a_task(tmp_path, ordered(1000), ordered(1000))

    def is_paired(*, group: int, decoded: int) -> bool:
        sources = (
            replace(source, group_bytes=group, decoded_bytes=decoded) for source in task.sources
        )
        again = replace(task, sources=tuple(sources))
        return pairing.paired(again, lambda _: None, kernel_frames.FrameScanner) is not None

    assert is_paired(group=task.memory_bytes // 11, decoded=task.memory_bytes // 100)
    assert not is_paired(group=task.memory_bytes // 9, decoded=task.memory_bytes // 100)
    assert not is_paired(group=task.memory_bytes // 11, decoded=task.memory_bytes)


def test_rows_done_with_are_counted_once_and_those_that_are_left_not_yet(tmp_path: Path) -> None:
    task = a_task(tmp_path, ordered(1000), ordered(1000, without=range(5)))
    counts: list[int] = []
    assert pairing.paired(task, counts.append, kernel_frames.FrameScanner) is not None
    assert sum(counts) == 2 * 995


def test_rows_beside_the_conditions_are_counted_and_not_paired(tmp_path: Path) -> None:
    task = a_task(tmp_path, ordered(1000), ordered(1000, without=range(500, 505)))
    above = a_condition("k >= 400", k="int")
    sources = tuple(replace(source, filter=above) for source in task.sources)
    task = replace(task, sources=sources)
    counts: list[int] = []
    assert pairing.paired(task, counts.append, kernel_frames.FrameScanner) is not None
    assert sum(counts) == 2 * 995
    assert (left(task, 0), left(task, 1)) == (list(range(500, 505)), [])


def test_a_key_with_equal_and_other_rows_is_kept_whole(tmp_path: Path) -> None:
    one = [*((key, 0) for key in range(100)), (50, 1)]
    two = [*((key, 0) for key in range(100)), (50, 2)]
    task = a_task(tmp_path, columns(one), columns(two))
    answer = narrow(task)
    assert [sorted(row["v"] for row in kept(task, at) if row["k"] == 50) for at in (0, 1)] == [
        [0, 1],
        [0, 2],
    ]
    assert answer.rows == (101, 101)
    assert answer.closed_groups == 101 - answer.kept[0]


NOT_A_NUMBER, OTHER = (
    struct.unpack("<d", struct.pack("<Q", bits))[0]
    for bits in (0x7FF8_0000_0000_0000, 0xFFF8_0000_0000_0BAD)
)


@pytest.mark.parametrize("beside", [0.0, 1.0])
@pytest.mark.parametrize(
    ("one", "two"), [(NOT_A_NUMBER, OTHER), (0.0, -0.0), (None, None), (1.5, 1.5)]
)
def test_values_that_are_canonically_equal_are_paired(
    tmp_path: Path, one: float | None, two: float | None, beside: float
) -> None:
    tables = [{"k": [1, 2], "v": [each, at]} for each, at in ((one, 0.0), (two, beside))]
    task = a_task(tmp_path, *tables)
    assert narrow(task).closed_groups == 2 - math.ceil(beside)
    assert left(task, 0) == ([2] if beside else [])


@pytest.mark.parametrize(("one", "two"), [(None, 0.0), (NOT_A_NUMBER, None), (1.0, math.inf)])
def test_null_equals_nothing_else(tmp_path: Path, one: float | None, two: float | None) -> None:
    task = a_task(
        tmp_path, *({"k": [1], "v": pa.array([each], pa.float64())} for each in (one, two))
    )
    narrow(task)
    assert (left(task, 0), left(task, 1)) == ([1], [1])


ROW = st.tuples(st.one_of(st.none(), st.integers(0, 12)), st.one_of(st.none(), st.integers(0, 2)))


@st.composite
def edited(draw: st.DrawFn) -> list[Rows]:
    """Sources that are mostly the same, in mostly the same order."""
    rows = draw(st.lists(ROW, max_size=40))
    sources: list[Rows] = []
    for _ in range(draw(st.integers(2, 3))):
        own = list(rows)
        for at in draw(st.lists(st.integers(0, max(len(rows) - 1, 0)), max_size=4)):
            change = draw(st.sampled_from(["drop", "swap", "insert", "replace"]))
            if change == "drop":
                del own[at : at + 1 + at % 5]
            elif change == "swap":
                own[at : at + 4] = own[at : at + 4][::-1]
            else:
                own[at : at + (change == "replace")] = [draw(ROW)]
        sources.append(own)
    return sources


@given(sources=edited())
def test_every_key_is_done_with_in_all_sources_or_kept_with_all_its_rows(
    sources: Sequence[Rows],
) -> None:
    with TemporaryDirectory() as folder, patch.multiple(pairing, **SMALL):
        task = a_task(Path(folder), *map(columns, sources), totals=(0,))
        answer = narrow(task)
        assert answer.given_up is None
        found = [[(row["k"], row["v"]) for row in kept(task, at)] for at in range(len(sources))]
    by_key = [grouped(rows) for rows in sources]
    open_keys = {key for rows in found for key, _ in rows}
    keys = {key for rows in by_key for key in rows}
    assert {key for key in keys if len({tuple(rows[key]) for rows in by_key}) > 1} <= open_keys
    for rows, own in zip(found, by_key, strict=True):
        assert Counter(rows) == Counter(
            (key, value) for key in open_keys for value in own.get(key, ())
        )
    closed = [by_key[0][key] for key in keys - open_keys]
    assert answer.closed_groups == len(closed)
    assert answer.closed_repeated == sum(len(values) > 1 for values in closed)
    assert answer.rows == answer.read == tuple(map(len, sources))
    assert answer.null_keys == tuple(sum(key is None for key, _ in rows) for rows in sources)
    assert [total or "0" for (total,) in answer.totals] == [
        str(sum(value for _, value in rows if value is not None)) for rows in sources
    ]


def grouped(rows: Rows) -> dict[int | None, tuple[int | None, ...]]:
    found: dict[int | None, list[int | None]] = defaultdict(list)
    for key, value in rows:
        found[key].append(value)
    return defaultdict(
        tuple, {key: tuple(sorted(values, key=str)) for key, values in found.items()}
    )
