"""Conformance suite of file connectors: each row of the pinned files once, or no verdict.

The rows are the same for every format, so that a format can only differ in how it writes them.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from datarecs_application.ports.comparing import Connector, Read
from datarecs_connectors.extracted import extracted_rows
from datarecs_core.comparison.planning.scan import FileList, Scan, ScanColumn
from datarecs_core.comparison.values.canonical import canonical_text
from datarecs_core.comparison.values.translating import canonical
from datarecs_core.errors.base import DatarecsError
from datarecs_core.jobs.definition import Limits, Source
from datarecs_core.jobs.vocabulary import SourceKind

NAMES = ("id", "word")
FIRST = ((1, "one"), (2, "zwei \u20ac"), (3, None))
SECOND = ((4, "a,b"), (5, 'say "x"'))
BOTH = [("1", "one"), ("2", "zwei \u20ac"), ("3", None), ("4", "a,b"), ("5", 'say "x"')]
Rows = Sequence[tuple[int, str | None]]


@dataclass
class RecordedReads:
    """Progress as it was reported."""

    reads: list[Read] = field(default_factory=list)

    def __call__(self, read: Read) -> None:
        self.reads.append(read)


class FileConnectorConformance(ABC):
    """Subclass with `kind` and `suffix`, how rows are written, and how a folder is connected."""

    kind: SourceKind
    suffix: str
    broken: bytes
    """A file that cannot be read completely."""

    @abstractmethod
    def write(self, path: Path, names: Sequence[str], rows: Rows) -> None:
        """A file of an int and a text column."""

    @abstractmethod
    def connect(self, folder: Path, source: Source) -> Connector:
        """The connector of a source whose paths begin in the folder."""

    @pytest.fixture
    def source(self, tmp_path: Path) -> Source:
        """Two files, pinned as one source."""
        for name, rows in (("1", FIRST), ("2", SECOND)):
            self.write(tmp_path / f"{name}.{self.suffix}", NAMES, rows)
        return Source(name="s", kind=self.kind, connection="c", path=f"*.{self.suffix}")

    @pytest.fixture
    def connector(self, tmp_path: Path, source: Source) -> Connector:
        return self.connect(tmp_path, source)

    def test_every_row_of_every_file_is_delivered_once(
        self, connector: Connector, source: Source
    ) -> None:
        assert delivered(connector, scan_of(connector, source)) == BOTH

    def test_only_the_requested_columns_are_delivered_by_their_logical_names(
        self, connector: Connector, source: Source, tmp_path: Path
    ) -> None:
        scan = scan_of(connector, source)
        word = replace(scan.column("word"), name="Wort")
        scan = replace(scan, columns=(word,))
        assert delivered(connector, scan) == [(word,) for _, word in BOTH]
        brought = connector.extract(scan, str(tmp_path / "out"), RecordedReads())
        if brought.extract is not None:
            assert set(pq.read_schema(extracted(brought)).names) <= {"Wort", "$invalid.Wort"}

    def test_an_extract_holds_what_the_rows_say(
        self, connector: Connector, source: Source, tmp_path: Path
    ) -> None:
        scan, progress = scan_of(connector, source), RecordedReads()
        brought = connector.extract(scan, str(tmp_path / "out"), progress)
        if brought.extract is None:
            assert brought == scan
            return
        table = pq.read_table(extracted(brought)).to_pylist()
        assert [(str(row["id"]), row["word"]) for row in table] == BOTH
        assert (brought.extract.rows, brought.extract.invalid_columns) == (len(BOTH), ())
        again = extracted_rows(brought, brought.extract)
        assert [(str(one), word) for one, word in again] == BOTH
        assert progress.reads[-1].rows == len(BOTH)
        assert [one.rows for one in progress.reads] == sorted(one.rows for one in progress.reads)

    @pytest.mark.case("P65")
    def test_more_rows_than_the_limit_are_refused(
        self, connector: Connector, source: Source, tmp_path: Path
    ) -> None:
        scan = scan_of(connector, source)
        limited = replace(scan, limits=Limits(max_rows=len(BOTH)))
        connector.extract(limited, str(tmp_path / "fits"), RecordedReads())
        with pytest.raises(DatarecsError) as caught:
            connector.extract(
                replace(scan, limits=Limits(max_rows=len(BOTH) - 1)),
                str(tmp_path / "out"),
                RecordedReads(),
            )
        assert caught.value.code.name == "SOURCE_LIMIT"

    def test_a_pin_names_files_and_what_they_hold(
        self, connector: Connector, source: Source
    ) -> None:
        one, other = connector.pin(source), connector.pin(source)
        assert isinstance(one.pin, FileList)
        assert isinstance(other.pin, FileList)
        assert [file.path for file in one.pin.files] == [f"1.{self.suffix}", f"2.{self.suffix}"]
        assert one.pin.files == other.pin.files
        pin = one.check()
        assert isinstance(pin, FileList)
        assert all((file.sha256 or file.etag) and file.size_bytes for file in pin.files)
        assert one.pin == replace(pin, files=tuple(replace(f, sha256=None) for f in pin.files))

    @pytest.mark.parametrize("gone", [False, True])
    def test_a_file_that_changes_or_goes_after_the_pin_loses_the_snapshot(
        self, connector: Connector, source: Source, tmp_path: Path, *, gone: bool
    ) -> None:
        held = connector.pin(source)
        held.check()
        path = tmp_path / f"2.{self.suffix}"
        path.unlink()
        if not gone:
            self.write(path, NAMES, FIRST)
        with pytest.raises(DatarecsError) as caught:
            held.check()
        assert caught.value.code.name == "SNAPSHOT_LOST"
        held.close()
        held.close()

    def test_files_with_other_columns_are_refused_by_name(
        self, connector: Connector, source: Source, tmp_path: Path
    ) -> None:
        self.write(tmp_path / f"3.{self.suffix}", ("id", "wort"), SECOND)
        with pytest.raises(DatarecsError) as caught:
            scan_of(connector, source)
        assert caught.value.code.name == "SCHEMA_CHANGED"
        for file in ("1", "3"):
            assert f"{file}.{self.suffix}" in str(caught.value)

    def test_no_file_differs_from_an_empty_one(self, tmp_path: Path, source: Source) -> None:
        nothing = replace(source, path=f"none-*.{self.suffix}")
        with pytest.raises(DatarecsError) as caught:
            self.connect(tmp_path, nothing).pin(nothing)
        assert caught.value.code.name == "NO_FILES"

    def test_a_broken_file_is_corrupt_and_named(
        self, connector: Connector, source: Source, tmp_path: Path
    ) -> None:
        (tmp_path / f"2.{self.suffix}").write_bytes(self.broken)
        with pytest.raises(DatarecsError) as caught:
            delivered(connector, scan_of(connector, source))
        assert caught.value.code.name == "CORRUPT_SOURCE"
        assert f"2.{self.suffix}" in str(caught.value)

    def test_a_probe_reports_its_steps_and_ends_at_the_first_that_fails(
        self, connector: Connector, source: Source, tmp_path: Path
    ) -> None:
        assert [step.ok for step in connector.probe(source)] == [True, True]
        nothing = replace(source, path=f"none-*.{self.suffix}")
        steps = self.connect(tmp_path, nothing).probe(nothing)
        assert [(step.ok, step.code) for step in steps] == [(True, None), (False, "NO_FILES")]


def scan_of(connector: Connector, source: Source) -> Scan:
    """Pinned and described, every column under its own name."""
    pin = connector.pin(source).pin
    schema = connector.describe(source, pin)
    return Scan(
        source=source.name,
        index=0,
        kind=source.kind,
        connection=source.connection,
        path=source.path,
        columns=tuple(
            ScanColumn(name=column.name, physical=column.name, type=column.type)
            for column in schema.columns
        ),
        schema=schema,
        pin=pin,
    )


def delivered(connector: Connector, scan: Scan) -> list[tuple[str | None, ...]]:
    """Rows as canonical texts."""
    kinds = [column.type for column in scan.columns]
    return [
        tuple(
            canonical_text(canonical(one, kind, scan.source))
            for one, kind in zip(row, kinds, strict=True)
        )
        for row in connector.rows(scan)
    ]


def extracted(scan: Scan) -> Path:
    assert scan.extract is not None
    (file,) = scan.extract.files
    return Path(scan.extract.root) / file.path
