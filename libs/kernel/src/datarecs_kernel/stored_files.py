"""The Parquet files with the rows of a scan: their paths, and their columns in DuckDB.

Files are grouped by their columns, so that each group is read by position: DuckDB matches the
names of several files without regard to case, but names here are case-sensitive.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import duckdb
import pyarrow.parquet as pq

from datarecs_core.comparison.planning.scan import Extract, FileList, PinnedFile, Scan
from datarecs_core.errors.run import RunDetail
from datarecs_kernel.database import Connection, sql_text
from datarecs_kernel.refusals import SourceFailedError

_NO_COLUMNS = "Need at least one non-root column"
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""Name of the folder for rows with the value NULL."""
_PATTERN = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredColumn:
    """A column of a group of files."""

    sql: str
    """Its name in the group's `table`."""
    type: str
    """In DuckDB's words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroup:
    """Files with the same columns in the same order."""

    files: tuple[PinnedFile, ...]
    table: str
    """SQL after FROM."""
    columns: Mapping[str, StoredColumn]
    """Columns by their names in the files, without names that occur twice."""
    has_row_numbers: bool = False
    """Whether the table has a column `file_row_number`, with which DuckDB skips parts of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFiles:
    """Files that exist with their pinned sizes."""

    source: str
    root: Path
    files: tuple[PinnedFile, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(str(self.root / file.path) for file in self.files)

    @property
    def pinned_rows(self) -> int | None:
        """Number of rows in the pin; None if it is unknown for a file."""
        counts = [file.rows for file in self.files]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    @property
    def folder_names(self) -> frozenset[str]:
        """Names of folders such as `day=2026-01-31`."""
        return frozenset(name for file in self.files for name in folder_values(file.path))


def folder_values(path: str) -> dict[str, str | None]:
    """The values of the folders of a path, by name; for a repeated name the innermost."""
    parts = (part.partition("=") for part in path.split("/")[:-1])
    return {
        name: None if value == _NO_VALUE else value for name, sign, value in parts if sign and name
    }


def stored_files(scan: Scan, numbers: Sequence[int] | None = None) -> StoredFiles:
    """The files of an extract or of a pin.

    Args:
        scan: of a stage.
        numbers: positions of the files to read in the list; None is all.

    Raises:
        SourceFailedError: a file is missing or has another size; the scan has no files.
    """
    place = scan.extract or scan.pin
    if not isinstance(place, Extract | FileList):
        message = f"{scan.kind} is compared from an extract, but there is none"
        raise SourceFailedError(RunDetail.SOURCE_UNSUPPORTED, scan.source, message)
    root = Path(
        unquote(urlsplit(place.root).path) if place.root.startswith("file:") else place.root
    )
    files = place.files if numbers is None else tuple(place.files[at] for at in numbers)
    for file in files:
        path = root / file.path
        if not path.is_file() or path.stat().st_size != file.size_bytes:
            raise SourceFailedError(
                RunDetail.SNAPSHOT_LOST,
                scan.source,
                f"{file.path} was removed or changed its size after it was pinned",
            )
    return StoredFiles(source=scan.source, root=root, files=files)


def file_groups(connection: Connection, stored: StoredFiles) -> tuple[FileGroup, ...]:
    """The files by their columns, in the order of the first of each group.

    Raises:
        SourceFailedError: a file is not a readable Parquet file.
    """
    if not stored.files:
        return ()
    try:
        schemas = _schemas(connection, stored)
    except duckdb.Error as failure:
        if _NO_COLUMNS not in str(failure):
            raise _unreadable(stored) from failure
        return (_without_columns(stored),)
    alike: dict[tuple[Any, ...], list[PinnedFile]] = {}
    for file in stored.files:
        alike.setdefault(schemas[str(stored.root / file.path)], []).append(file)
    return tuple(_group(connection, stored, files, schema) for schema, files in alike.items())


def _schemas(connection: Connection, stored: StoredFiles) -> dict[str, tuple[Any, ...]]:
    """Every element of the schema, by path."""
    element = "[name, duckdb_type, coalesce(num_children, 0)::VARCHAR, coalesce(logical_type, '')]"
    rows = _rows(
        connection,
        f"SELECT file_name, list({element} ORDER BY column_id) "
        f"FROM parquet_schema({_paths(stored, stored.files)}) GROUP BY ALL",
    )
    return {path: tuple(map(tuple, elements)) for path, elements in rows}


def _group(
    connection: Connection,
    stored: StoredFiles,
    files: Sequence[PinnedFile],
    schema: tuple[Any, ...],
) -> FileGroup:
    names = _top_names(schema)
    reader = reader_of(stored, files[:1])
    types = [row[1] for row in _queried(connection, stored, f"DESCRIBE FROM {reader}")]
    columns = {
        name: StoredColumn(sql=f"c{at}", type=kind)
        for at, (name, kind) in enumerate(zip(names, types, strict=True))
        if names.count(name) == 1
    }
    labels = ", ".join(f"c{at}" for at in range(len(names)))
    return FileGroup(
        files=tuple(files),
        table=f"{reader_of(stored, files)} AS stored({labels})",
        columns=columns,
        has_row_numbers=True,
    )


def _top_names(schema: tuple[Any, ...]) -> list[str]:
    """Names of the columns, without members of nested ones."""
    names, at = [], 1
    while at < len(schema):
        names.append(schema[at][0])
        open_members = 1
        while open_members:
            open_members += int(schema[at][2]) - 1
            at += 1
    return names


def reader_of(stored: StoredFiles, files: Sequence[PinnedFile]) -> str:
    """The FROM text that reads these files."""
    # Statistics exclude NaN, and DuckDB would simplify comparisons of floats with them.
    return f"read_parquet({_paths(stored, files)}, hive_partitioning=false, can_have_nan=true)"


def _paths(stored: StoredFiles, files: Sequence[PinnedFile]) -> str:
    """The paths as a list in SQL, with the pattern characters of DuckDB escaped."""
    paths = (str(stored.root / file.path) for file in files)
    plain = (sql_text(_PATTERN.sub(r"[\g<0>]", path)) for path in paths)
    return f"[{', '.join(plain)}]"


def has_unclear_paths(stored: StoredFiles) -> bool:
    """Whether a path has a backslash next to a bracket, which DuckDB's patterns cannot express."""
    return any(_PATTERN.search(path) and "\\" in path for path in stored.paths)


def _without_columns(stored: StoredFiles) -> FileGroup:
    """Files with only a number of rows, which DuckDB cannot open."""
    rows = stored.pinned_rows
    if rows is None:
        rows = sum(pq.read_metadata(path).num_rows for path in stored.paths)
    table = f"range({rows}) AS stored(c0)"
    return FileGroup(files=stored.files, table=table, columns={})


def _queried(connection: Connection, stored: StoredFiles, sql: str) -> list[tuple[Any, ...]]:
    try:
        return _rows(connection, sql)
    except duckdb.Error as cause:
        raise _unreadable(stored) from cause


def _rows(connection: Connection, sql: str) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
    return rows


def _unreadable(stored: StoredFiles) -> SourceFailedError:
    return SourceFailedError(
        RunDetail.CORRUPT_SOURCE,
        stored.source,
        "one of its files is not a readable Parquet file; deliver it again",
    )
