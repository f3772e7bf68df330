"""The rows of a scan in its files: columns by logical name, with the source's filter.

Everything that one source adds to a relation before rules: files, folder columns, companions of
INVALID values, numbers of groups that the source computed, and the condition that rows must meet. A
task that reads a share of the files also receives the columns of the other files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from datarecs_core.comparison.expressions.condition import named_columns
from datarecs_core.comparison.planning.scan import GROUP_ROWS, Scan
from datarecs_core.comparison.values.forms import read_text
from datarecs_core.errors.run import RunDetail
from datarecs_core.jobs.types import CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_kernel.base_columns import BaseColumn, base_column, null_of
from datarecs_kernel.checked_files import checked_groups
from datarecs_kernel.condition_functions import condition_of
from datarecs_kernel.condition_sql import TypedBase
from datarecs_kernel.database import Connection, sql_text
from datarecs_kernel.encoding import blob
from datarecs_kernel.forms import Form, form_of
from datarecs_kernel.refusals import SourceFailedError
from datarecs_kernel.stored_files import (
    FileGroup,
    StoredColumn,
    StoredFiles,
    file_groups,
    folder_values,
    has_unclear_paths,
    stored_files,
)

INVALID = "$invalid."
"""Prefix of the name of a companion column of an extract."""
_UNSIGNED = "UBIGINT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Files of one source with the same columns."""

    table: str
    """SQL after FROM."""
    columns: Mapping[str, TypedBase]
    """Columns of the scan by logical name."""
    passing: tuple[str, ...]
    """Conditions of the source's filter; all must be TRUE."""
    partials: Mapping[str, StoredColumn] = field(default_factory=dict)
    """Numbers of groups, by their names in the scan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePiece:
    """Rows of one file."""

    file: int
    """Its position in the list of files."""
    rows: tuple[int, int] | None = None
    """Row range [first, after) of a file that several tasks read; None is all rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The part of a source that one task reads."""

    pieces: tuple[FilePiece, ...]
    columns: frozenset[str]
    """In any of the source's files or folders."""
    wide: frozenset[str]
    """As in `Delivered`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """One source of a stage."""

    scan: Scan
    files: StoredFiles | None
    """None if the plan contains the rows."""
    parts: tuple[Part, ...]
    checked: frozenset[str]
    """Logical columns with a companion of INVALID values."""
    wide: frozenset[str]
    """Integer columns with unsigned numbers of 64 bits."""
    pinned_rows: int | None
    """Number of rows in the pin; None if it is unknown, or if a filter excludes rows."""
    columns: frozenset[str] = frozenset()
    """Columns in any of the files or their folders."""
    has_row_numbers: bool = False
    """Tasks may read parts of its files."""


def delivered(
    connection: Connection, scan: Scan, *, check_texts: bool = False, share: Share | None = None
) -> Delivered:
    """The rows of a scan.

    Args:
        connection: for the relations over these rows.
        scan: of a stage.
        check_texts: text that is not UTF-8 becomes INVALID; if false, such text ends the reading
            (`reading_failures.has_invalid_text`). Extracts have no such text.
        share: the part to read; None is all.

    Raises:
        SourceFailedError: a file is missing, damaged, or has other columns than the pin; its
            filter cannot be evaluated.
    """
    if share is not None:
        return _shared(connection, scan, share, check_texts=check_texts)
    stored = stored_files(scan)
    is_checked = _is_checked(scan, stored, check_texts=check_texts)
    groups = (checked_groups if is_checked else file_groups)(connection, stored)
    wide = frozenset(
        column.name
        for column in scan.columns
        for group in groups
        if _type_of(group, _physical(scan, column.name)) == _UNSIGNED
    )
    columns = _folder_columns(scan, stored).union(*(group.columns for group in groups))
    reading = _Reading(connection=connection, scan=scan, stored=stored, columns=columns, wide=wide)
    is_whole = scan.groups is None and (scan.extract is not None or scan.filter is None)
    return Delivered(
        scan=scan,
        files=stored,
        parts=tuple(map(reading.part, groups)),
        checked=_checked(scan, check_texts=is_checked),
        wide=wide,
        pinned_rows=stored.pinned_rows if is_whole else None,
        columns=columns,
        has_row_numbers=all(group.has_row_numbers for group in groups),
    )


def _shared(connection: Connection, scan: Scan, share: Share, *, check_texts: bool) -> Delivered:
    whole = sorted(piece.file for piece in share.pieces if piece.rows is None)
    stored = stored_files(scan, sorted({piece.file for piece in share.pieces}))
    is_checked = _is_checked(scan, stored, check_texts=check_texts)
    groups_of = checked_groups if is_checked else file_groups
    reading = _Reading(
        connection=connection, scan=scan, stored=stored, columns=share.columns, wide=share.wide
    )
    parts = list(map(reading.part, groups_of(connection, stored_files(scan, whole))))
    for piece in share.pieces:
        if piece.rows is not None:
            groups = groups_of(connection, stored_files(scan, [piece.file]))
            parts += [_cut(reading.part(group), piece.rows) for group in groups]
    return Delivered(
        scan=scan,
        files=stored,
        parts=tuple(parts),
        checked=_checked(scan, check_texts=is_checked),
        wide=share.wide,
        pinned_rows=None,
        columns=share.columns,
    )


def _cut(part: Part, rows: tuple[int, int]) -> Part:
    first, after = rows
    within = f"file_row_number >= {first} AND file_row_number < {after}"
    return replace(part, passing=(within, *part.passing))


def _is_checked(scan: Scan, stored: StoredFiles, *, check_texts: bool) -> bool:
    return (check_texts and scan.extract is None) or has_unclear_paths(stored)


def _checked(scan: Scan, *, check_texts: bool) -> frozenset[str]:
    if scan.extract is not None:
        return frozenset(scan.extract.invalid_columns)
    texts = (column.name for column in scan.columns if column.type.kind is TypeKind.TEXT)
    return frozenset(texts if check_texts else ())


def _type_of(group: FileGroup, name: str) -> str | None:
    column = group.columns.get(name)
    return None if column is None else column.type


def _physical(scan: Scan, name: str) -> str:
    """The name of a column in the files; extracts use logical names."""
    return name if scan.extract is not None else scan.column(name).physical or name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    connection: Connection
    scan: Scan
    stored: StoredFiles
    columns: frozenset[str]
    """In any of the source's files or folders."""
    wide: frozenset[str]

    def part(self, group: FileGroup) -> Part:
        groups = self.scan.groups
        columns = {
            column.name: TypedBase(
                type=column.type,
                base=self._base(
                    group,
                    _physical(self.scan, column.name),
                    column.type,
                    wide=column.name in self.wide,
                    raw=self._raw(group, column.name),
                ),
            )
            for column in self.scan.columns
            if groups is None or column.name in groups.dimensions
        }
        return Part(
            table=group.table,
            columns=columns,
            passing=tuple(self._passing(group)),
            partials=self._partials(group),
        )

    def _partials(self, group: FileGroup) -> dict[str, StoredColumn]:
        groups = self.scan.groups
        if groups is None:
            return {}
        names = (GROUP_ROWS, *(each.name for each in groups.partials))
        return {name: group.columns[name] for name in names}

    def _raw(self, group: FileGroup, name: str) -> str | None:
        extract = self.scan.extract
        if extract is None or name not in extract.invalid_columns:
            return None
        column = group.columns.get(f"{INVALID}{name}")
        return None if column is None else column.sql

    def _base(
        self,
        group: FileGroup,
        name: str,
        kind: CanonicalType,
        *,
        wide: bool = False,
        raw: str | None = None,
    ) -> BaseColumn:
        stored, source = group.columns.get(name), self.scan.source
        if stored is None:
            if name in _folder_columns(self.scan, self.stored):
                return self._folder(group, name, kind)
            if name not in self.columns:
                raise SourceFailedError(
                    RunDetail.SCHEMA_CHANGED,
                    source,
                    f"{group.files[0].path} no longer has column {name!r}",
                )
        return base_column(stored, kind, source, wide=wide, raw=raw)

    def _folder(self, group: FileGroup, name: str, kind: CanonicalType) -> BaseColumn:
        """The folder values of each file: the same for all of its rows."""
        form = form_of([kind])
        if form is None:
            raise TypeError(f"{kind} has no form, which `check_covered` should have said")
        values = [folder_values(file.path).get(name) for file in group.files]
        literals = [_folder_literal(value, kind, form) for value in values]
        if len(set(literals)) == 1:
            value = literals[0]
        else:
            value = f"list_extract([{', '.join(literals)}], CAST(file_index + 1 AS BIGINT))"
        return BaseColumn(form=form, value=value, source=self.scan.source)

    def _passing(self, group: FileGroup) -> Sequence[str]:
        scan = self.scan
        if scan.extract is not None or scan.filter is None:
            return ()
        named = self.columns & set(named_columns(scan.filter))
        columns = {
            column.name: TypedBase(
                type=column.type,
                base=self._base(
                    group,
                    column.name,
                    column.type,
                    wide=_type_of(group, column.name) == _UNSIGNED,
                ),
            )
            for column in scan.schema.columns
            if column.name in named
        }
        return (condition_of(self.connection, scan.filter, columns, scan.source),)


def _folder_columns(scan: Scan, stored: StoredFiles) -> frozenset[str]:
    """Names of folders that are columns."""
    has_folders = scan.extract is None and scan.kind is SourceKind.PARQUET
    if not has_folders or dict(scan.options).get("hive_partitions") is False:
        return frozenset()
    return stored.folder_names


def _folder_literal(written: str | None, kind: CanonicalType, form: Form) -> str:
    if written is None:
        return null_of(form)
    value = read_text(written, kind)
    content = written if value is None else value.content
    kind_sql = null_of(form).removeprefix("CAST(NULL AS ").removesuffix(")")
    match content:
        case bool():
            return "TRUE" if content else "FALSE"
        case Decimal():
            return f"CAST('{content:f}' AS {kind_sql})"
        case bytes():
            return blob(content)
        case _:
            return sql_text(str(content))
