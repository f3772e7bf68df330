"""An extract ends with the limits of its source, counted while it is written."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from errno import ENOSPC
from pathlib import Path
from threading import Event

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_connectors.errors import QueryFailedError, SourceLimitError
from datarecs_connectors.extracting import Part, Readers, write_extract, write_together
from datarecs_core.comparison.planning.faults import ValueTooLargeError
from datarecs_core.comparison.planning.scan import Scan, SourceSchema
from datarecs_core.jobs.definition import DEFAULT_LIMITS, Limits
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_testing.tables import a_table

SCAN = Scan(
    source="ledger",
    index=0,
    kind=SourceKind.POSTGRES,
    columns=(),
    schema=SourceSchema(columns=()),
    pin=a_table("ledger", "v text").pin,
)


def written(folder: Path, column: pa.Array, limits: Limits = DEFAULT_LIMITS) -> int:
    """Rows of an extract of one column."""
    batch = pa.RecordBatch.from_arrays([column], names=["v"])
    scan = replace(SCAN, limits=limits)
    made = write_extract(scan, [(batch, ())], str(folder), lambda _: None)
    assert made.extract is not None
    return made.extract.rows


@pytest.mark.case("P65")
@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_a_value_of_16_mib_works_and_one_byte_more_is_refused(
    tmp_path: Path, kind: pa.DataType
) -> None:
    most = DEFAULT_LIMITS.max_value_bytes
    assert written(tmp_path, pa.array(["x" * most, None], kind)) == 2
    with pytest.raises(
        ValueTooLargeError, match="a value of 'v' has more than the allowed 16,777,216 bytes"
    ):
        written(tmp_path, pa.array(["x", "x" * (most + 1)], kind))


@pytest.mark.case("P65")
def test_decoded_bytes_end_with_their_limit(tmp_path: Path) -> None:
    column = pa.array([1, 2, 3], pa.int64())
    assert written(tmp_path, column, Limits(max_bytes=column.nbytes)) == 3
    with pytest.raises(SourceLimitError, match="decoded bytes"):
        written(tmp_path, column, Limits(max_bytes=column.nbytes - 1))


LARGE = "x" * 2**23
"""Two of them are more than a row group."""


def watch_groups(
    monkeypatch: pytest.MonkeyPatch, wait: Callable[[], None], fault: OSError | None = None
) -> list[int]:
    """Rows of every group that was written; each waits before it is."""
    groups: list[int] = []
    write = pq.ParquetWriter.write_table

    def watched(writer: pq.ParquetWriter, table: pa.Table) -> None:
        wait()
        if fault is not None:
            raise fault
        write(writer, table)
        groups.append(table.num_rows)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", watched)
    return groups


def test_a_reader_reads_on_while_a_group_is_written_and_one_group_ahead_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_on, ahead = Event(), []

    def rows() -> Iterator[tuple[pa.RecordBatch, tuple[str, ...]]]:
        for number in range(6):
            ahead.append(number - len(groups))
            if number == 1:
                read_on.set()
            yield pa.RecordBatch.from_arrays([pa.array([LARGE, LARGE])], names=["v"]), ()

    groups = watch_groups(monkeypatch, lambda: None if read_on.wait(5) else pytest.fail("waits"))
    made = write_extract(SCAN, rows(), str(tmp_path), lambda _: None)
    assert made.extract is not None
    assert (groups, max(ahead) <= 2) == ([2] * 6, True)
    stored = pq.read_table(tmp_path).column("v")
    assert stored.to_pylist() == [LARGE] * 12 == [LARGE] * made.extract.rows


def test_a_disk_that_is_full_ends_the_extract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it occurs in the last group or in an earlier one."""
    for many in (1, 5):
        batch = pa.RecordBatch.from_arrays([pa.array([LARGE, LARGE])], names=["v"])
        with monkeypatch.context() as patch:
            watch_groups(patch, lambda: None, OSError(ENOSPC, "full"))
            with pytest.raises(OSError, match="full"):
                write_extract(SCAN, [(batch, ())] * many, str(tmp_path), lambda _: None)


@pytest.mark.parametrize(("distinct", "bytes_a_row"), [(3, range(2)), (40_000, range(20, 30))])
def test_values_that_repeat_are_written_once_and_others_as_they_come(
    tmp_path: Path, distinct: int, bytes_a_row: range
) -> None:
    texts = [None if at % 7 == 0 else f"{at % distinct:020}" for at in range(100_000)]
    assert written(tmp_path, pa.array(texts)) == len(texts)
    assert pq.read_table(tmp_path).column("v").to_pylist() == texts
    (file,) = tmp_path.iterdir()
    column = pq.ParquetFile(file).metadata.row_group(0).column(0)
    assert column.total_uncompressed_size // len(texts) in bytes_a_row


def some_rows(*values: int) -> Generator[tuple[pa.RecordBatch, tuple[str, ...]], None, None]:
    yield pa.RecordBatch.from_arrays([pa.array(values, pa.int64())], names=["v"]), ()


def together(
    folder: Path, parts: list[Part], *, interrupt: Callable[[], None] = lambda: None, most: int = 9
) -> tuple[Scan, list[int]]:
    """Parts that two readers write, and the reported rows."""
    row_counts: list[int] = []
    made = write_together(
        replace(SCAN, limits=Limits(max_rows=most)),
        parts,
        str(folder),
        lambda read: row_counts.append(read.rows),
        readers=Readers(at_once=2, interrupt=interrupt),
    )
    return made, row_counts


def test_parts_are_files_in_their_order_and_empty_ones_are_none(tmp_path: Path) -> None:
    made, row_counts = together(
        tmp_path, [some_rows, lambda: some_rows(3, 4), some_rows, lambda: some_rows(1)]
    )
    assert made.extract is not None
    assert [file.path for file in made.extract.files] == [
        "part-00001.parquet",
        "part-00003.parquet",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        file.path for file in made.extract.files
    ]
    assert (made.extract.rows, made.extract.decoded_bytes, row_counts[-1]) == (3, 24, 3)
    assert row_counts == sorted(row_counts)
    nothing, _ = together(tmp_path, [some_rows, some_rows])
    assert nothing.extract is not None
    assert [file.rows for file in nothing.extract.files] == [0]


@pytest.mark.case("P65")
def test_parts_are_held_to_their_limits_together(tmp_path: Path) -> None:
    parts: list[Part] = [lambda: some_rows(1, 2), lambda: some_rows(3, 4), lambda: some_rows(5, 6)]
    made, _ = together(tmp_path / "fits", parts, most=6)
    assert made.extract is not None
    assert made.extract.rows == 6
    with pytest.raises(SourceLimitError, match="more than 5 rows"):
        together(tmp_path / "x", parts, most=5)
    assert list((tmp_path / "x").iterdir()) == []


def test_the_first_failure_ends_the_others_and_is_the_one_that_is_reported(tmp_path: Path) -> None:
    """A reader that waits is interrupted, one that never began is not begun."""
    waiting, interrupted, begun = Event(), Event(), []

    def slow() -> Generator[tuple[pa.RecordBatch, tuple[str, ...]], None, None]:
        yield from some_rows()
        waiting.set()
        interrupted.wait(5)
        raise QueryFailedError("ledger", "interrupted")

    def failing() -> Generator[tuple[pa.RecordBatch, tuple[str, ...]], None, None]:
        waiting.wait(5)
        yield from some_rows(1)
        raise QueryFailedError("ledger", "the first")

    def third() -> Generator[tuple[pa.RecordBatch, tuple[str, ...]], None, None]:
        begun.append(1)
        yield from some_rows(1)

    with pytest.raises(QueryFailedError, match="the first"):
        together(tmp_path, [slow, failing, third, third], interrupt=interrupted.set)
    assert begun == []
    assert list(tmp_path.iterdir()) == []
