"""Captures of folders and buckets with Parquet, CSV and JSON files.

The snapshot of a table is the list of its files: another list is another snapshot, and only the
current one exists. Which files are a table is decided by `layout`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import duckdb
import pyarrow as pa

from datarecs_application.ports.capturing import FileRequest
from datarecs_connectors.capturing.columns import PATH_ORDINAL
from datarecs_connectors.capturing.counted_tree import CountedTree
from datarecs_connectors.capturing.layout import (
    NAMESPACE,
    TableFiles,
    files_of,
    kind_of,
    root_tables,
)
from datarecs_connectors.capturing.lists import has_digest, native_id_of, state_of
from datarecs_connectors.capturing.parquet_capture import ParquetCapture, ParquetColumns, pinned
from datarecs_connectors.capturing.sidecars import SidecarWriter
from datarecs_connectors.capturing.statistics import StatisticsEngine, statistics_engine
from datarecs_connectors.capturing.text_capture import TextCapture
from datarecs_connectors.errors import (
    CorruptSourceError,
    NoFilesError,
    SchemaChangedError,
    SnapshotLostError,
    SourceUnsupportedError,
)
from datarecs_connectors.source_trees import ListedFile
from datarecs_core.captures.request import CapturePolicy, CaptureScope, ObjectName
from datarecs_core.captures.source_facts import (
    CapturedFile,
    CapturedTable,
    Completion,
    SourceFile,
    SourceObjects,
    SourceSnapshot,
    SourceTable,
    SourceView,
)
from datarecs_core.comparison.planning.scan import FileList, PinnedFile
from datarecs_core.jobs.vocabulary import SourceKind


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCaptureSource:
    """Port CaptureSource over a folder or a bucket."""

    tree: CountedTree
    uri: str
    """Of the root."""
    now: Callable[[], datetime]

    @property
    def opened_files(self) -> int:
        return len(self.tree.opened)

    def objects(self, scope: CaptureScope) -> SourceObjects:
        if scope.view is not None or (scope.namespaces and NAMESPACE not in scope.namespaces):
            return SourceObjects(tables=(), views=())
        try:
            names, ignored = root_tables(self.tree.find("*"))
        except NoFilesError:
            names, ignored = [], 0
        tables = [ObjectName(namespace=NAMESPACE, name=name) for name in names]
        chosen = [table for table in tables if not scope.tables or table in scope.tables]
        left_out = 0 if scope.tables else ignored
        return SourceObjects(tables=tuple(chosen), views=(), ignored=left_out)

    def table(self, name: ObjectName, *, known: Sequence[str]) -> SourceTable:
        """The table with its current snapshot.

        Raises SourceUnsupportedError for a folder with several formats, NoFilesError if it is gone,
        and what reading its columns raises.
        """
        listed = self._table_files(name)
        native_id, is_known = state_of(native_id_of(listed.files), known)
        described = _NO_COLUMNS
        if not is_known:
            paths = [file.path for file in listed.files]
            with self._named(listed.kind, paths), self._translated(listed.entry):
                described = self._columns(listed)
        snapshot = SourceSnapshot(
            native_id=native_id,
            # Not the time of the files: copies keep it, and a deletion leaves only older ones.
            committed_at=self.now(),
            columns=described.columns,
            summary={},
        )
        return SourceTable(
            name=name,
            uri=f"{self.uri.rstrip('/')}/{listed.entry}",
            format=listed.kind.value,
            completion=Completion.FILE_GROUPS,
            columns=described.columns,
            column_ids=described.column_ids,
            partition_keys=described.partition_keys,
            constraints=(),
            snapshots=() if is_known else (snapshot,),
            known_snapshots=(native_id,) if is_known else (),
            properties={},
        )

    def view(self, name: ObjectName) -> SourceView:
        """Raises SourceUnsupportedError: files have no views."""
        raise SourceUnsupportedError(self.tree.source, f"{name.name!r} is no view; files have none")

    def files(self, name: ObjectName, native_id: str) -> Sequence[SourceFile]:
        try:
            listed = self._table_files(name)
        except NoFilesError as gone:
            raise self._lost(name) from gone
        if not has_digest(native_id, native_id_of(listed.files)):
            raise self._lost(name)
        return [
            SourceFile(
                path=file.path,
                size_bytes=file.size_bytes,
                etag=file.etag,
                format=listed.kind.value,
            )
            for file in listed.files
        ]

    def capture_files(
        self, name: ObjectName, native_id: str, files: Sequence[SourceFile], request: FileRequest
    ) -> Iterator[CapturedFile]:
        """Statistics of each file; another file of the snapshot may have changed meanwhile."""
        del name, native_id  # files are pinned one by one
        with statistics_engine() as engine:
            for file in files:
                with self._named(SourceKind(file.format), [file.path]), self._unchanged(file):
                    captured = self._captured(file, request, engine)
                yield captured

    def capture_table(self, name: ObjectName, policy: CapturePolicy) -> CapturedTable:
        """Raises SourceUnsupportedError: files are captured one by one."""
        del policy
        message = f"table {name.name!r} is captured by its files"
        raise SourceUnsupportedError(self.tree.source, message)

    def close(self) -> None:
        self.tree.close()

    def _table_files(self, name: ObjectName) -> TableFiles:
        if name.namespace != NAMESPACE:
            raise NoFilesError(self.tree.source, ".".join((*name.namespace, name.name)))
        return files_of(self.tree, name.name)

    def _columns(self, listed: TableFiles) -> ParquetColumns:
        if listed.kind is SourceKind.PARQUET:
            newest = sorted(listed.files, key=lambda file: (file.modified_at, file.path))
            return ParquetCapture(tree=self.tree).describe([_pin(file) for file in newest[::-1]])
        files = self._list([_pin(file) for file in listed.files])
        columns = TextCapture(tree=self.tree, kind=listed.kind).describe(files)
        return ParquetColumns(columns=columns, column_ids=PATH_ORDINAL, partition_keys=())

    def _captured(
        self, file: SourceFile, request: FileRequest, engine: StatisticsEngine
    ) -> CapturedFile:
        kind = SourceKind(file.format)
        if kind is SourceKind.PARQUET:
            return ParquetCapture(tree=self.tree).capture(
                file,
                request.columns,
                request.policy,
                engine=engine,
                sidecars=SidecarWriter(directory=request.directory),
            )
        text = TextCapture(tree=self.tree, kind=kind)
        return text.capture(self._list([pinned(file)]), request.columns, request.policy, engine)

    def _list(self, files: Sequence[PinnedFile]) -> FileList:
        return FileList(root=self.uri, files=tuple(files), taken_at=self.now())

    @contextmanager
    def _unchanged(self, file: SourceFile) -> Iterator[None]:
        """Raises SnapshotLostError if the file is not the one of the snapshot, or was changed.

        A store reads exactly the version of an etag; a folder is checked before and after.
        """
        self._check(file)
        try:
            with self._translated(file.path):
                yield
        finally:
            self._check(file)

    def _check(self, file: SourceFile) -> None:
        if self.tree.is_remote:
            return
        now = self.tree.listed(file.path)
        if (now.size_bytes, now.etag) != (file.size_bytes, file.etag):
            raise SnapshotLostError(
                self.tree.source,
                f"{file.path} has changed since its snapshot was planned; the next capture plans "
                "the new files",
            )

    @contextmanager
    def _translated(self, place: str) -> Iterator[None]:
        """Errors of libraries without their texts, which may quote values."""
        try:
            yield
        except (pa.ArrowException, duckdb.Error, UnicodeError):
            raise CorruptSourceError(
                self.tree.source,
                f"{place} holds a value or a name that is not of its type; deliver it again",
            ) from None

    @contextmanager
    def _named(self, kind: SourceKind, paths: Sequence[str]) -> Iterator[None]:
        """Says of a file that cannot be read why it is read, if its own name does not."""
        try:
            yield
        except (CorruptSourceError, SchemaChangedError, SourceUnsupportedError) as error:
            reason = str(error).removeprefix(f"source {self.tree.source}: ")
            strange = next((one for one in paths if kind_of(one) is None and one in reason), None)
            if strange is None:
                raise
            raise SourceUnsupportedError(
                self.tree.source,
                f"{strange} has the ending of no format and is read as {kind}, as by a source with "
                f"the folder as its path: {reason}. Move it out of the folder, or into one "
                "that begins with _",
            ) from error

    def _lost(self, name: ObjectName) -> SnapshotLostError:
        return SnapshotLostError(
            self.tree.source,
            f"the files of table {name.name!r} have changed since its snapshot was planned; the "
            "next capture plans the new files",
        )


_NO_COLUMNS = ParquetColumns(columns=(), column_ids=PATH_ORDINAL, partition_keys=())


def _pin(file: ListedFile) -> PinnedFile:
    return PinnedFile(path=file.path, size_bytes=file.size_bytes, etag=file.etag)
