"""Captures of folders: which files are a table, and what is known without opening them."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_connectors.capturing.files import FileCaptureSource
from datarecs_connectors.capturing.lists import native_id_of, state_of
from datarecs_connectors.errors import (
    CorruptSourceError,
    NoFilesError,
    PermissionDeniedError,
    SchemaChangedError,
    SnapshotLostError,
    SourceUnsupportedError,
)
from datarecs_connectors.parquet_files import read_batches
from datarecs_core.captures.request import CapturePolicy, CaptureScope, ObjectName, Output
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail

Folder = Any
ROWS_ONLY = CapturePolicy(outputs=(Output.TABLE_STATS, Output.FILE_STATS))


def write(path: Path, **columns: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        pq.write_table(pa.table(columns), stream)
    return path


def test_entries_of_the_root_are_tables(folder: Folder) -> None:
    write(folder.root / "orders.parquet", n=[1])
    write(folder.root / "parts/day=2026-01-31/a.parquet", n=[1])
    write(folder.root / "parts/day=2026-02-01/b.parquet", n=[1])
    (folder.root / "rates.csv").write_text("a,b\n1,2\n")
    (folder.root / "notes.json").write_text('{"a": 1}\n')
    (folder.root / "_SUCCESS").touch()
    (folder.root / "README.md").write_text("text")
    write(folder.root / ".hidden/a.parquet", n=[1])
    write(folder.root / "_temporary/a.parquet", n=[1])
    assert folder.tables() == ["notes", "orders", "parts", "rates"]
    chosen = CaptureScope(tables=tuple(_names("orders", "gone")))
    assert folder.tables(chosen) == ["orders"]
    assert folder.tables(CaptureScope(namespaces=(("other",),))) == []


def _names(*names: str) -> list[ObjectName]:
    return [ObjectName(namespace=("default",), name=name) for name in names]


def test_folders_of_partitions_are_columns_of_the_table(folder: Folder) -> None:
    write(folder.root / "parts/day=2026-01-31/a.parquet", n=[1, 2])
    write(folder.root / "parts/day=2026-02-01/b.parquet", n=[1])
    table = folder.table("parts")
    assert table.partition_keys == ("day",)
    assert [(column.field_id, column.name, column.type) for column in table.columns] == [
        (1, "n", "int"),
        (2, "day", "date"),
    ]
    days = [captured.columns[1] for captured in folder.capture("parts")]
    assert [(day.rows, day.min, day.max, day.ndv) for day in days] == [
        (2, "2026-01-31", "2026-01-31", "1"),
        (1, "2026-02-01", "2026-02-01", "1"),
    ]


def test_a_column_of_folders_alone_is_captured(
    folder: Folder, explicit: Callable[..., CapturePolicy]
) -> None:
    write(folder.root / "t/day=2026-01-31/a.parquet", n=list(range(200_000)))
    (captured,) = folder.capture("t", explicit("day"))
    (day,) = captured.columns
    assert (captured.rows, day.rows, day.nulls, day.ndv) == (200_000, 200_000, 0, "1")


def test_ids_of_the_format_are_the_ids_of_columns(folder: Folder) -> None:
    field = pa.field("n", pa.int64(), metadata={b"PARQUET:field_id": b"17"})
    pq.write_table(pa.table([[1]], pa.schema([field])), folder.root / "t.parquet")
    table = folder.table("t")
    assert (table.column_ids, [column.field_id for column in table.columns]) == ("FIELD_ID", [17])
    write(folder.root / "u.parquet", n=[1])
    assert folder.table("u").column_ids == "PATH_ORDINAL"


def test_text_files_have_the_types_of_all_files(folder: Folder) -> None:
    (folder.root / "rates").mkdir()
    (folder.root / "rates/a.csv").write_text("code,rate\nEUR,1\nUSD,\n")
    (folder.root / "rates/b.csv").write_text("rate,code\n1.50,GBP\n")
    first, second = folder.capture("rates")
    assert [(c.type, c.min, c.max, c.nulls, c.ndv) for c in first.columns] == [
        ("text", "EUR", "USD", 0, "2"),
        ("decimal(3,2)", "1", "1", 1, "1"),
    ]
    assert [(c.name, c.max) for c in second.columns] == [("code", "GBP"), ("rate", "1.5")]
    lines = [{"a": {"b": 1}, "c": [1]}, {"a": {"b": None}, "c": None}, {"a": {"b": 2}, "c": [1]}]
    (folder.root / "docs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (docs,) = folder.capture("docs")
    assert [(c.name, c.type, c.nulls, c.min, c.max, c.ndv) for c in docs.columns] == [
        ("a.b", "int", 1, "1", "2", "2"),
        ("c", "json", 1, None, None, "1"),
    ]
    assert docs.is_complete


def test_compressed_text_is_one_table(folder: Folder) -> None:
    with pa.CompressedOutputStream(str(folder.root / "t.csv.gz"), "gzip") as stream:
        stream.write(b"a\n1\n2\n")
    assert folder.tables() == ["t"]
    (captured,) = folder.capture("t")
    assert (captured.rows, captured.columns[0].max) == (2, "2")


def test_two_formats_in_a_folder_are_an_error_of_this_table_alone(folder: Folder) -> None:
    write(folder.root / "mixed/a.parquet", n=[1])
    (folder.root / "mixed/b.csv").write_text("n\n1\n")
    write(folder.root / "twice/a.parquet", n=[1])
    write(folder.root / "twice.parquet", n=[1])
    write(folder.root / "good.parquet", n=[1])
    assert folder.tables() == ["good", "mixed", "twice"]
    with pytest.raises(SourceUnsupportedError, match="several formats"):
        folder.table("mixed")
    with pytest.raises(SourceUnsupportedError, match=r"twice\.parquet and twice/"):
        folder.table("twice")
    assert folder.table("good").format == "parquet"


def test_a_known_snapshot_opens_no_data_file(folder: Folder) -> None:
    for name in "abc":
        write(folder.root / f"t/{name}.parquet", n=[1])
    source = folder.open()
    native_id = source.table(_names("t")[0], known=()).snapshots[0].native_id
    assert source.opened_files == 1
    again = folder.open()
    assert again.table(_names("t")[0], known=(native_id,)).snapshots == ()
    assert len(again.files(_names("t")[0], native_id)) == 3
    assert again.opened_files == 0


def test_a_new_file_is_a_new_snapshot_and_the_only_one_that_is_opened(folder: Folder) -> None:
    for name in "abc":
        os.utime(write(folder.root / f"t/{name}.parquet", n=[1]), (1, 1))
    before, planned = folder.table("t").snapshots[0], folder.plan("t")
    os.utime(write(folder.root / "t/b.parquet", n=[1, 2]), (1_000_000, 1_000_000))
    source = folder.open()
    table = source.table(_names("t")[0], known=(before.native_id,))
    after = table.snapshots[0]
    assert after.native_id != before.native_id
    known = {file.identity for file in planned}
    new = [file for file in folder.plan("t") if file.identity not in known]
    (captured,) = folder.capture("t", files=new, table=table, source=source)
    assert (captured.path, captured.rows, source.opened_files) == ("t/b.parquet", 2, 1)


def test_each_state_of_a_folder_is_of_the_time_when_it_was_listed(folder: Folder) -> None:
    """Whatever times its files have: copies keep theirs, and a removal leaves only older ones."""
    os.utime(write(folder.root / "t/a.parquet", n=[1]), (2_000_000_000, 2_000_000_000))
    known: list[str] = []
    for change in (
        lambda: None,
        lambda: os.utime(write(folder.root / "t/b.parquet", n=[2]), (1, 1)),
        (folder.root / "t/b.parquet").unlink,
        lambda: os.utime(write(folder.root / "t/b.parquet", n=[2]), (1, 1)),
    ):
        change()
        (state,) = folder.open().table(_names("t")[0], known=known).snapshots
        assert state.committed_at == datetime(2026, 1, 31, 12, tzinfo=UTC)
        assert len(folder.open().files(_names("t")[0], state.native_id)) in {1, 2}
        assert folder.open().table(_names("t")[0], known=[state.native_id, *known]).snapshots == ()
        known.insert(0, state.native_id)
    assert len(set(known)) == 4


@pytest.mark.parametrize(
    ("known", "state"),
    [
        ([], ("d", False)),
        (["x"], ("d", False)),
        (["d", "x"], ("d", True)),
        (["x", "d"], ("d-1", False)),
        (["d-1", "x", "d"], ("d-1", True)),
        (["x", "d-1"], ("d-2", False)),
    ],
)
def test_a_state_is_new_unless_it_is_the_newest(known: list[str], state: tuple[str, bool]) -> None:
    """The last one: the first snapshot with these files was removed."""
    assert state_of("d", known) == state


def test_a_changed_list_is_a_lost_snapshot(folder: Folder) -> None:
    write(folder.root / "t/a.parquet", n=[1])
    native_id = folder.table("t").snapshots[0].native_id
    write(folder.root / "t/b.parquet", n=[1])
    with pytest.raises(SnapshotLostError, match="'t'"):
        folder.open().files(_names("t")[0], native_id)
    for name in "ab":
        (folder.root / f"t/{name}.parquet").unlink()
    with pytest.raises(SnapshotLostError, match="'t'"):
        folder.open().files(_names("t")[0], native_id)
    with pytest.raises(NoFilesError):
        folder.table("t")


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def _flip(path: Path) -> None:
    """Change bytes of a page, and keep the size and the time of the last change."""
    content = bytearray(path.read_bytes())
    content[8:40] = b"\xff" * 32
    stat = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        _truncate,
        _flip,
        Path.unlink,
        lambda path: path.rename(path.with_name("other.parquet")),
        lambda path: write(path, n=[2]),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.rename(path.with_name("x")), path.symlink_to("x")),
    ],
    ids=[
        "truncated",
        "same size and time",
        "removed",
        "renamed",
        "rewritten",
        "a folder",
        "a link",
    ],
)
def test_a_file_changed_after_its_plan_is_never_captured(
    folder: Folder, change: Callable[[Path], object]
) -> None:
    path = write(folder.root / "t/a.parquet", n=[1])
    table, planned = folder.table("t"), folder.plan("t")
    change(path)
    with pytest.raises(SnapshotLostError, match=r"a\.parquet") as caught:
        folder.capture("t", files=planned, table=table)
    assert caught.value.code is RunDetail.SNAPSHOT_LOST


def test_a_file_changed_during_its_capture_is_never_captured(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(folder.root / "t/a.parquet", n=list(range(10)))
    table, planned = folder.table("t"), folder.plan("t")

    def changing(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - passed on
        _flip(path)
        return read_batches(*args, **options)

    monkeypatch.setattr("datarecs_connectors.capturing.parquet_capture.read_batches", changing)
    with pytest.raises(SnapshotLostError):
        folder.capture("t", files=planned, table=table)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PAR1",
        b"PAR1" + b"\xff" * 50 + b"\x10\x00\x00\x00PAR1",
        b"PAR1" + b"\x00" * 50 + b"\xff\xff\xff\x7fPAR1",
        b"text",
    ],
    ids=["empty", "short", "damaged footer", "long footer", "text"],
)
def test_a_hostile_file_is_an_error_that_names_it(folder: Folder, content: bytes) -> None:
    path = write(folder.root / "t/a.parquet", n=[1])
    table = folder.table("t")
    path.write_bytes(content)
    with pytest.raises(CorruptSourceError, match=r"a\.parquet"):
        folder.table("t")
    (planned,) = folder.open().files(_names("t")[0], _current(folder))
    with pytest.raises(CorruptSourceError, match=r"a\.parquet"):
        folder.capture("t", files=[planned], table=table)


def _current(folder: Folder) -> str:
    """The native id of a table that cannot be described."""
    source = folder.open()
    assert isinstance(source, FileCaptureSource)
    return native_id_of(source.tree.listing("t"))


def test_a_damaged_page_is_an_error_that_names_its_file(folder: Folder) -> None:
    path = write(folder.root / "t/a.parquet", n=list(range(1000)))
    table = folder.table("t")
    _flip(path)
    with pytest.raises(DatarecsError, match=r"a\.parquet"):
        folder.capture("t", files=folder.plan("t"), table=table)


def test_a_file_with_other_columns_is_refused_when_it_is_captured(folder: Folder) -> None:
    os.utime(write(folder.root / "t/a.parquet", n=["x"]), (1, 1))
    os.utime(write(folder.root / "t/b.parquet", n=[1]), (9, 9))
    with pytest.raises(SchemaChangedError, match="'n' is text, then int"):
        folder.capture("t")
    os.utime(write(folder.root / "t/a.parquet", m=[1]), (1, 1))
    with pytest.raises(SchemaChangedError, match="missing 'm'; added 'n'"):
        folder.capture("t")


def test_a_column_without_values_has_the_type_of_other_files(folder: Folder) -> None:
    os.utime(write(folder.root / "t/a.parquet", n=[1]), (1, 1))
    os.utime(write(folder.root / "t/b.parquet", n=pa.nulls(2)), (9, 9))
    assert folder.table("t").columns[0].type == "int"
    assert [file.columns[0].nulls for file in folder.capture("t")] == [0, 2]


def test_long_texts_that_repeat_are_read_as_dictionaries(folder: Folder) -> None:
    texts = [["x" * 100_000, "y" * 100_000][one % 2] for one in range(4_000)]
    pq.write_table(pa.table({"s": texts}), folder.root / "t.parquet")
    (captured,) = folder.capture("t")
    (text,) = captured.columns
    assert (text.ndv, text.average_width, text.min) == ("2", "100000", None)


def test_rows_alone_need_no_page(folder: Folder) -> None:
    path = write(folder.root / "t.parquet", n=list(range(1000)))
    table = folder.table("t")
    _flip(path)
    (captured,) = folder.capture("t", ROWS_ONLY, files=folder.plan("t"), table=table)
    assert (captured.rows, captured.columns, captured.is_complete) == (1000, (), True)
    (folder.root / "c.csv").write_text("n\n1\n2\n")
    assert folder.capture("c", ROWS_ONLY)[0].rows == 2
    (folder.root / "j.json").write_text("{}\n{}\n")
    assert folder.capture("j", ROWS_ONLY)[0].rows == 2


def test_a_policy_chooses_columns(folder: Folder, explicit: Callable[..., CapturePolicy]) -> None:
    write(folder.root / "t.parquet", a=[1], b=[1], c=[1])
    (captured,) = folder.capture("t", explicit("c", "a", "unknown"))
    assert [column.name for column in captured.columns] == ["a", "c"]
    first = replace(ROWS_ONLY, outputs=(Output.COLUMN_STATS,), first_columns=2)
    (captured,) = folder.capture("t", first)
    assert [column.name for column in captured.columns] == ["a", "b"]


def test_figures_that_cannot_be_computed_are_absent(folder: Folder) -> None:
    long = "x" * 2000
    write(
        folder.root / "t.parquet",
        span=pa.array([1], pa.duration("s")),
        long=[long],
        broken=pa.array([b"\xff"], pa.binary()).view(pa.string()),
        n=[1],
    )
    (captured,) = folder.capture("t")
    span, text, broken, n = captured.columns
    assert not captured.is_complete
    assert (span.nulls, span.ndv, span.min) == (None, None, None)
    assert (text.nulls, text.ndv, text.min, text.average_width) == (0, "1", None, "2000")
    assert (broken.nulls, broken.ndv, broken.min, broken.average_width) == (0, None, None, None)
    assert (n.min, n.max) == ("1", "1")


def test_an_unreadable_file_is_an_error_that_names_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder.root / "t/a.parquet", n=[1])
    table, planned = folder.table("t"), folder.plan("t")
    opened = os.open

    def refusing(path: str, *args: Any, **options: Any) -> int:  # noqa: ANN401 - passed on
        if str(path).endswith("a.parquet"):
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **options)

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(PermissionDeniedError, match=r"a\.parquet"):
        folder.table("t")
    with pytest.raises(PermissionDeniedError, match=r"a\.parquet"):
        folder.capture("t", files=planned, table=table)


NOT_UTF8 = os.fsdecode(b"bad\xff")


@pytest.mark.parametrize(
    "entry", [f"{NOT_UTF8}.parquet", f"{NOT_UTF8}/a.parquet"], ids=["file", "folder"]
)
def test_an_entry_with_a_name_that_is_not_utf8_is_left_out_alone(
    folder: Folder, entry: str
) -> None:
    write(folder.root / "good.parquet", n=[1])
    write(folder.root / entry, n=[1])
    objects = folder.open().objects(CaptureScope())
    assert ([table.name for table in objects.tables], objects.ignored) == (["good"], 1)
    (captured,) = folder.capture("good")
    assert captured.rows == 1


def test_a_file_with_a_name_that_is_not_utf8_fails_only_its_table(folder: Folder) -> None:
    write(folder.root / "good/a.parquet", n=[1])
    write(folder.root / "poor/a.parquet", n=[1])
    write(folder.root / f"poor/{NOT_UTF8}.parquet", n=[1])
    assert folder.tables() == ["good", "poor"]
    with pytest.raises(SourceUnsupportedError, match=r"bad\\xff\.parquet' is not UTF-8") as failed:
        folder.table("poor")
    str(failed.value).encode()
    assert [captured.rows for captured in folder.capture("good")] == [1]


def test_entries_that_are_no_table_are_counted(folder: Folder) -> None:
    write(folder.root / "orders.parquet", n=[1])
    write(folder.root / "parts/a.parquet", n=[1])
    (folder.root / "parts/notes.txt").write_text("x")
    (folder.root / "README.md").write_text("text")
    (folder.root / "texts").mkdir()
    (folder.root / "texts/a.txt").write_text("text")
    objects = folder.open().objects(CaptureScope())
    assert ([table.name for table in objects.tables], objects.ignored) == (["orders", "parts"], 2)
    chosen = CaptureScope(tables=tuple(_names("orders")))
    assert folder.open().objects(chosen).ignored == 0


def test_files_that_begin_with_a_dot_are_tables_and_folders_are_not(folder: Folder) -> None:
    for entry in (".orders.parquet", "_parts.parquet", ".orders/a.parquet", "...parquet"):
        write(folder.root / entry, n=[1])
    assert folder.tables() == [".orders", "_parts"]
    for name in folder.tables():
        (captured,) = folder.capture(name)
        assert captured.path == f"{name}.parquet"
    for name in (".", "..", ""):
        with pytest.raises(NoFilesError):
            folder.table(name)


@pytest.mark.parametrize("name", ["pct%2Fx", "a:b", "c[1]", "what?", "all*"])
def test_letters_with_a_meaning_in_paths_are_ordinary_in_listed_names(
    folder: Folder, name: str
) -> None:
    write(folder.root / f"{name}.parquet", n=[1])
    (folder.root / f"{name} text.csv").write_text("n\n1\n")
    write(folder.root / f"{name} folder/a.parquet", n=[1])
    assert folder.tables() == [name, f"{name} folder", f"{name} text"]
    assert [len(folder.capture(table)) for table in folder.tables()] == [1, 1, 1]


@pytest.mark.parametrize(
    ("is_int96", "ndv", "bounds"),
    [
        (True, "2", ("1970-01-01T00:00:00.000001Z", "1970-01-01T00:00:00.000002Z")),
        (False, "3", ("1970-01-01T00:00:00.000001000Z", "1970-01-01T00:00:00.000002000Z")),
    ],
)
def test_times_of_int96_count_by_the_microseconds_of_comparisons(
    folder: Folder, *, is_int96: bool, ndv: str, bounds: tuple[str, str]
) -> None:
    times = pa.array([1_000, 1_001, 2_000], pa.timestamp("ns", tz="UTC"))
    pq.write_table(
        pa.table({"t": times}),
        folder.root / "t.parquet",
        use_deprecated_int96_timestamps=is_int96,
    )
    (captured,) = folder.capture("t")
    (column,) = captured.columns
    assert (column.ndv, (column.min, column.max)) == (ndv, bounds)
