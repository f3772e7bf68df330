"""Rows that stand in the same order in all sources: what is left, and what never changes."""

import math
import random
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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

from datarecs_spark import kernel_frames, left_rows, pairing
from datarecs_spark.kernel import narrow
from datarecs_spark.kernel_work import KernelAnswer, KernelTask, kept_file
from datarecs_testing.kernel import a_condition, a_task, kept

Told = Callable[[KernelTask], KernelTask]
Rows = Sequence[tuple[int | None, int | None]]
SMALL: Mapping[str, Any] = {
    "_WINDOW": 7,
    "_LEAST_WINDOW": 1,
    "_RUN": 3,
    "_REACHES": (2, 4),
    "_SHORTEST": 3,
    "_MOST_LEFT": 100,
    "_PIECE": 2,
    "_FEW": 2,
}


@contextmanager
def small() -> Iterator[None]:
    """Every edge of a window is met; all sources have an order in common."""
    with patch.multiple(pairing, **SMALL), patch.object(left_rows, "_WRITTEN_BYTES", 100):
        yield


MET = patch("datarecs_spark.pairing._Pairing._are_short", lambda self: self.by_numbers)
"""Runs are never too short to be paired by hashes, and always short enough to meet by keys."""


def numbered(task: KernelTask) -> KernelTask:
    """As if footers told that keys ascend in every source."""
    sources = (replace(source, has_numbers=True, ascends=True) for source in task.sources)
    return replace(task, sources=tuple(sources))


@pytest.fixture(params=[numbered, lambda task: task], ids=["by numbers", "by hashes"])
def told(request: pytest.FixtureRequest) -> Told:
    """What footers tell of the keys."""
    found: Told = request.param
    return found


def columns(rows: Rows) -> dict[str, pa.Array]:
    return {
        name: pa.array([row[at] for row in rows], pa.int64()) for at, name in enumerate(("k", "v"))
    }


def ordered(rows: int, *, without: range = range(0)) -> dict[str, pa.Array]:
    return columns([(key, key % 7) for key in range(rows) if key not in without])


def left(task: KernelTask, index: int) -> list[int]:
    """Keys of the rows that were left: all of them are kept where none can have an equal one."""
    path = Path(task.directory) / f"left-{index}.parquet"
    rows = pq.read_table(path if path.exists() else path.with_name(kept_file(index)))
    found: list[int] = rows["k"].to_pylist()
    return found


def by_sums(task: KernelTask) -> KernelAnswer:
    """The answer when nothing is paired."""
    with patch.object(kernel_frames, "paired", lambda *_: None):
        return narrow(task)


def test_only_rows_that_differ_are_hashed(tmp_path: Path, told: Told) -> None:
    one = [(key, key % 7) for key in range(1000)]
    two = [row for row in one if row[0] != 300]
    two[499:500] = [(500, 99)]
    two[700:700] = [(2000, 1)]
    two[800:801] = [(3000, 1)]
    task = told(a_task(tmp_path, columns(one), columns(two)))
    answer = narrow(task)
    assert left(task, 0) == [300, 500, 800]
    assert left(task, 1) == [500, 2000, 3000]
    assert answer.kept == (3, 3)
    assert answer.closed_groups == 997


@pytest.mark.parametrize("gap", [1, 15, 200, 3_000, 30_000])
def test_rows_are_paired_again_behind_a_gap_in_either_source(
    tmp_path: Path, told: Told, gap: int
) -> None:
    first, second = range(40_000, 40_000 + gap), range(120_000, 120_000 + gap)
    task = told(a_task(tmp_path, ordered(200_000, without=first), ordered(200_000, without=second)))
    answer = narrow(task)
    assert left(task, 0) == list(second)
    assert left(task, 1) == list(first)
    assert answer.closed_groups == 200_000 - 2 * gap


def test_several_sources_are_paired_at_once(tmp_path: Path, told: Told) -> None:
    sources = [ordered(1000, without=range(at, at + 1)) for at in (10, 10, 500, 999)]
    task = told(a_task(tmp_path, *sources))
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


def test_rows_done_with_are_counted_once_and_those_that_are_left_not_yet(
    tmp_path: Path, told: Told
) -> None:
    task = told(a_task(tmp_path, ordered(1000), ordered(1000, without=range(5))))
    counts: list[int] = []
    assert pairing.paired(task, counts.append, kernel_frames.FrameScanner) is not None
    assert sum(counts) == 2 * 995


def test_rows_beside_the_conditions_are_counted_and_not_paired(tmp_path: Path, told: Told) -> None:
    task = a_task(tmp_path, ordered(1000), ordered(1000, without=range(500, 505)))
    above = a_condition("k >= 400", k="int")
    sources = tuple(replace(source, filter=above) for source in task.sources)
    task = told(replace(task, sources=sources))
    counts: list[int] = []
    assert pairing.paired(task, counts.append, kernel_frames.FrameScanner) is not None
    assert sum(counts) == 2 * 995
    assert (left(task, 0), left(task, 1)) == (list(range(500, 505)), [])


def test_a_key_with_equal_and_other_rows_is_kept_whole(tmp_path: Path, told: Told) -> None:
    one = [*((key, 0) for key in range(100)), (50, 1)]
    two = [*((key, 0) for key in range(100)), (50, 2)]
    task = told(a_task(tmp_path, columns(one), columns(two)))
    answer = narrow(task)
    assert [sorted(row["v"] for row in kept(task, at) if row["k"] == 50) for at in (0, 1)] == [
        [0, 1],
        [0, 2],
    ]
    assert answer.rows == (101, 101)
    assert answer.closed_groups == 101 - answer.kept[0]


@pytest.mark.parametrize("every", [3, 10, 1_000])
@pytest.mark.parametrize(
    ("least", "apart"), [(0, 1), (2**63 - 1_060_000, 1), (-(2**63), 4), (-(2**63), 10**12)]
)
def test_rows_meet_by_their_numbers_however_many_one_source_lacks(
    tmp_path: Path, every: int, least: int, apart: int
) -> None:
    one = [(key, key % 7) for key in range(60_000)]
    two = [(key, value + (key % 50 == 1)) for key, value in one if key % every]
    two[::40] = [(1_000_000 + key, value) for key, value in two[::40]]
    one, two = ([(least + key * apart, value) for key, value in rows] for rows in (one, two))
    task = numbered(a_task(tmp_path, columns(one), columns(two), totals=(0,)))
    answer = narrow(task)
    first, second = dict(one), dict(two)
    if every > 3:
        assert sorted(left(task, 0)) == [key for key in first if first[key] != second.get(key)]
        assert sorted(left(task, 1)) == sorted(
            key for key in second if second[key] != first.get(key)
        )
        assert answer.kept == (len(left(task, 0)), len(left(task, 1)))
    assert answer.closed_groups == len(one) - answer.kept[0]
    assert answer.totals == tuple((str(sum(each.values())),) for each in (first, second))


@pytest.mark.parametrize("moved", [1, 300])
def test_a_row_that_stands_elsewhere_is_closed_by_its_hash(
    tmp_path: Path, told: Told, moved: int
) -> None:
    one = [(key, key % 7) for key in range(30_000)]
    two = [*one[:100], *one[100 + moved :], *one[100 : 100 + moved]]
    task = told(a_task(tmp_path, columns(one), columns(two)))
    answer = narrow(task)
    assert (answer.kept, answer.closed_groups) == ((0, 0), 30_000)
    assert left(task, 0) == list(range(100, 100 + moved))


def test_numbers_that_do_not_ascend_as_footers_tell_are_hashed(tmp_path: Path) -> None:
    rows = [*range(50_000), 7, *range(50_000, 60_000)]
    tables = [columns([(key, key % 7) for key in rows]) for _ in range(2)]
    task = numbered(a_task(tmp_path, *tables))
    counts: list[int] = []
    found = pairing.paired(task, counts.append, kernel_frames.FrameScanner)
    assert found is not None
    assert not found.once
    assert sum(counts) == 2 * len(rows)
    answer = narrow(task)
    assert (answer.closed_groups, answer.closed_repeated) == (60_000, 1)


def test_a_number_that_is_null_elsewhere_is_hashed(tmp_path: Path) -> None:
    one = [(key, key % 7) for key in range(1_000)]
    task = numbered(a_task(tmp_path, columns(one), columns([*one, (None, 1)])))
    found = pairing.paired(task, lambda _: None, kernel_frames.FrameScanner)
    assert found is not None
    assert not found.once


@pytest.mark.parametrize("key", range(15))
def test_a_key_that_comes_twice_is_found_wherever_windows_end(tmp_path: Path, key: int) -> None:
    one = [(at, at % 7) for at in range(30)]
    again = [*one[: key + 1], *one[key:]]
    task = numbered(a_task(tmp_path, columns(again), columns(again)))
    with small():
        answer = narrow(task)
    assert (answer.closed_groups, answer.closed_repeated) == (30, 1)


@pytest.mark.parametrize("key", range(15))
def test_a_second_row_of_a_key_that_is_done_with_opens_it(tmp_path: Path, key: int) -> None:
    one = [(at, at % 7) for at in range(30)]
    task = numbered(a_task(tmp_path, columns(one), columns([*one[:20], (key, 9), *one[20:]])))
    with small():
        answer = narrow(task)
    assert sorted(row["v"] for row in kept(task, 1) if row["k"] == key) == [key % 7, 9]
    assert answer.closed_groups == 30 - answer.kept[0]


NOT_A_NUMBER, OTHER = (
    struct.unpack("<d", struct.pack("<Q", bits))[0]
    for bits in (0x7FF8_0000_0000_0000, 0xFFF8_0000_0000_0BAD)
)


@pytest.mark.parametrize("beside", [0.0, 1.0])
@pytest.mark.parametrize(
    ("one", "two"), [(NOT_A_NUMBER, OTHER), (0.0, -0.0), (None, None), (1.5, 1.5)]
)
def test_values_that_are_canonically_equal_are_paired(
    tmp_path: Path, told: Told, one: float | None, two: float | None, beside: float
) -> None:
    tables = [{"k": [1, 2], "v": [each, at]} for each, at in ((one, 0.0), (two, beside))]
    task = told(a_task(tmp_path, *tables))
    assert narrow(task).closed_groups == 2 - math.ceil(beside)
    assert left(task, 0) == ([2] if beside else [])


@pytest.mark.parametrize(("one", "two"), [(None, 0.0), (NOT_A_NUMBER, None), (1.0, math.inf)])
def test_null_equals_nothing_else(
    tmp_path: Path, told: Told, one: float | None, two: float | None
) -> None:
    tables = ({"k": [1], "v": pa.array([each], pa.float64())} for each in (one, two))
    task = told(a_task(tmp_path, *tables))
    narrow(task)
    assert (left(task, 0), left(task, 1)) == ([1], [1])


ROW = st.tuples(st.one_of(st.none(), st.integers(0, 12)), st.one_of(st.none(), st.integers(0, 2)))


@st.composite
def edited(draw: st.DrawFn) -> list[Rows]:
    """Sources that are mostly the same, in mostly the same order."""
    rows = draw(st.lists(ROW, max_size=40))
    if draw(st.booleans()):
        rows = [(at, value) for at, (_, value) in enumerate(rows)]
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


@given(sources=edited(), told=st.sampled_from([numbered, lambda task: task]))
def test_every_key_is_done_with_in_all_sources_or_kept_with_all_its_rows(
    sources: Sequence[Rows], told: Told
) -> None:
    """Whatever footers tell, true or not."""
    with TemporaryDirectory() as folder, small(), MET:
        task = told(a_task(Path(folder), *map(columns, sources), totals=(0,)))
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
