"""Conformance suite of captures of files, the same for a folder and for a bucket."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_application.ports.capturing import CaptureSource, FileRequest
from datarecs_connectors.errors import NoFilesError, SnapshotLostError, SourceUnsupportedError
from datarecs_core.captures.request import (
    CapturePolicy,
    CaptureScope,
    ColumnChoice,
    ObjectName,
    Output,
)
from datarecs_core.captures.source_facts import CapturedFile, Completion, SourceFile, SourceTable

ALL_FIGURES = CapturePolicy(
    outputs=(
        *(Output.TABLE_STATS, Output.COLUMN_STATS, Output.FILE_STATS),
        Output.PARQUET_PAGE_INDEX,
    ),
    column_choice=ColumnChoice.ALL,
)


class CapturePlace(Protocol):
    """Where the files of a connection are."""

    def put(self, path: str, content: bytes) -> None:
        """Create or replace a file below the root."""

    def remove(self, path: str) -> None: ...

    def open(self) -> CaptureSource: ...


def in_default(name: str) -> ObjectName:
    return ObjectName(namespace=("default",), name=name)


def parquet(**columns: object) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


class CaptureFilesConformance:
    """Subclass it; `place` is a fixture with an empty root."""

    def test_entries_of_the_root_are_tables(self, place: CapturePlace) -> None:
        place.put("orders.parquet", parquet(n=[1]))
        place.put("parts/day=2026-01-31/a.parquet", parquet(n=[1]))
        place.put("rates.csv", b"a,b\n1,2\n")
        place.put("notes/a.jsonl", b'{"a": 1}\n')
        place.put("README.md", b"text")
        place.put("_temporary/a.parquet", parquet(n=[1]))
        place.put("parts/_SUCCESS", b"")
        source = place.open()
        names = ("notes", "orders", "parts", "rates")
        assert source.objects(CaptureScope()).tables == tuple(map(in_default, names))
        chosen = CaptureScope(tables=(in_default("parts"), in_default("gone")))
        assert source.objects(chosen).tables == (in_default("parts"),)
        assert [source.table(in_default(name), known=()).format for name in names] == [
            *("json", "parquet", "parquet", "csv")
        ]
        source.close()

    def test_an_empty_root_has_no_tables(self, place: CapturePlace) -> None:
        assert place.open().objects(CaptureScope()).tables == ()
        with pytest.raises(NoFilesError):
            place.open().table(in_default("orders"), known=())

    def test_figures_of_every_format(self, place: CapturePlace, tmp_path: Path) -> None:
        place.put("p/day=2026-01-31/a.parquet", parquet(n=[1, None, 3]))
        place.put("c.csv", b"n,m\n1,a\n,b\n3,c\n")
        place.put("j.json", b'{"n": 1}\n{"n": null}\n{"n": 3}\n')
        captured = {name: self.capture(place, name, tmp_path)[0] for name in ("p", "c", "j")}
        for name, file in captured.items():
            column = file.columns[0]
            figures = (column.rows, column.nulls, column.ndv, column.min, column.max)
            assert figures == (3, 1, "2", "1", "3"), name
        assert captured["p"].columns[1].max == "2026-01-31"
        sidecar = captured["p"].sidecar
        assert sidecar is not None
        assert (tmp_path / f"{sidecar.sha256}.parquet").stat().st_size == sidecar.size_bytes
        assert (captured["j"].sidecar, captured["c"].sidecar) == (None, None)

    def test_a_known_list_opens_no_file_and_one_new_file_opens_one(
        self, place: CapturePlace, tmp_path: Path
    ) -> None:
        name = in_default("t")
        for number in range(5):
            place.put(f"t/{number}.parquet", parquet(n=[number]))
        before = self.table(place, "t").snapshots[0]
        planned = {file.identity for file in place.open().files(name, before.native_id)}
        again = place.open()
        assert again.table(name, known=(before.native_id,)).snapshots == ()
        assert again.opened_files == 0
        place.put("t/9.parquet", parquet(n=[9, 10]))
        source = place.open()
        table = source.table(name, known=(before.native_id,))
        native_id = table.snapshots[0].native_id
        new = [file for file in source.files(name, native_id) if file.identity not in planned]
        request = FileRequest(policy=ALL_FIGURES, columns=table.columns, directory=str(tmp_path))
        (captured,) = source.capture_files(name, native_id, new, request)
        assert (captured.path, captured.rows) == ("t/9.parquet", 2)
        assert table.completion is Completion.FILE_GROUPS
        assert source.opened_files == 1

    def test_a_changed_file_or_list_is_never_captured(
        self, place: CapturePlace, tmp_path: Path
    ) -> None:
        place.put("t/a.parquet", parquet(n=[1]))
        place.put("t/b.parquet", parquet(n=[1]))
        table = self.table(place, "t")
        native_id = table.snapshots[0].native_id
        planned = place.open().files(in_default("t"), native_id)
        place.put("t/a.parquet", parquet(n=[2]))
        place.remove("t/b.parquet")
        for file in planned:
            with pytest.raises(SnapshotLostError, match=file.path):
                self.capture(place, "t", tmp_path, files=[file], table=table)
        with pytest.raises(SnapshotLostError):
            place.open().files(in_default("t"), native_id)
        place.remove("t/a.parquet")
        with pytest.raises(SnapshotLostError):
            place.open().files(in_default("t"), native_id)

    def test_two_formats_are_an_error_of_their_table(self, place: CapturePlace) -> None:
        place.put("mixed/a.parquet", parquet(n=[1]))
        place.put("mixed/b.csv", b"n\n1\n")
        place.put("good.csv", b"n\n1\n")
        with pytest.raises(SourceUnsupportedError, match="several formats"):
            self.table(place, "mixed")
        assert self.table(place, "good").columns[0].name == "n"

    def test_names_without_an_ending_and_endings_in_upper_case_are_read(
        self, place: CapturePlace, tmp_path: Path
    ) -> None:
        for rows, name in enumerate(("a.parquet", "B.PARQUET", "part-0001", "d=1/part-0002"), 1):
            place.put(f"y/{name}", parquet(n=list(range(rows))))
        place.put("y/_SUCCESS", b"")
        place.put("y/_temporary/c.parquet", parquet(n=[1]))
        place.put("y2/UPPER.CSV", b"n\n1\n")
        place.put("ROOT.CSV", b"n\n1\n2\n")
        source = place.open()
        tables = source.objects(CaptureScope()).tables
        assert tables == (*map(in_default, ("ROOT", "y", "y2")),)
        source.close()
        assert sum(file.rows for file in self.capture(place, "ROOT", tmp_path)) == 2
        assert sum(file.rows for file in self.capture(place, "y2", tmp_path)) == 1
        place.remove("y/d=1/part-0002")
        files = self.capture(place, "y", tmp_path)
        assert [(file.path, file.rows) for file in files] == [
            *(("y/B.PARQUET", 2), ("y/a.parquet", 1), ("y/part-0001", 3)),
        ]

    def test_files_have_no_views_and_are_not_captured_as_a_whole(self, place: CapturePlace) -> None:
        place.put("t.csv", b"n\n1\n")
        source = place.open()
        with pytest.raises(SourceUnsupportedError, match="no view"):
            source.view(in_default("t"))
        with pytest.raises(SourceUnsupportedError, match="by its files"):
            source.capture_table(in_default("t"), ALL_FIGURES)
        assert source.objects(CaptureScope(view=in_default("t"))).tables == ()

    def test_names_with_marks_of_patterns_are_names(
        self, place: CapturePlace, tmp_path: Path
    ) -> None:
        for name in ("a[1]", "a1", "b c", "ü"):
            place.put(f"{name}.csv", f"n\n{len(name)}\n".encode())
        assert self.capture(place, "a[1]", tmp_path)[0].path == "a[1].csv"
        assert self.capture(place, "ü", tmp_path)[0].path == "ü.csv"

    def table(self, place: CapturePlace, name: str) -> SourceTable:
        return place.open().table(in_default(name), known=())

    def capture(
        self,
        place: CapturePlace,
        name: str,
        directory: Path,
        *,
        files: Sequence[SourceFile] | None = None,
        table: SourceTable | None = None,
    ) -> list[CapturedFile]:
        source = place.open()
        table = table or source.table(in_default(name), known=())
        native_id = table.snapshots[0].native_id
        planned = source.files(table.name, native_id) if files is None else files
        request = FileRequest(policy=ALL_FIGURES, columns=table.columns, directory=str(directory))
        return list(source.capture_files(table.name, native_id, planned, request))
