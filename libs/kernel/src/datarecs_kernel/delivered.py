"""The rows of a scan as files hold them: columns by logical name, behind the source's filter.

Everything that one source contributes to a relation before rules: files, folder columns, companions
of INVALID values, and the condition that rows must meet.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from datarecs_core.comparison.planning.scan import Scan
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
from datarecs_kernel.refusals import SourceFailedError, UnreadableByKernelError
from datarecs_kernel.stored_files import (
    FileGroup,
    StoredFiles,
    file_groups,
    folder_values,
    stored_files,
)

INVALID = "$invalid."
"""Begins the name of a companion column of an extract."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Files of one source with the same columns."""

    table: str
    """What stands after FROM."""
    columns: Mapping[str, TypedBase]
    """By logical name, as the scan delivers them."""
    passing: tuple[str, ...]
    """Conditions of the source's own filter; all must be TRUE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """One source of a stage."""

    scan: Scan
    files: StoredFiles
    parts: tuple[Part, ...]
    checked: frozenset[str]
    """Logical columns with INVALID values beside them."""
    wide: frozenset[str]
    """Integer columns that hold unsigned numbers of 64 bits."""
    pinned_rows: int | None
    """Rows that the pin promises; None where it promises nothing, or a filter leaves some out."""


def delivered(connection: Connection, scan: Scan, *, check_texts: bool = False) -> Delivered:
    """The rows of a scan.

    Args:
        connection: in which relations of it will be made.
        scan: of a stage.
        check_texts: texts may be no UTF-8, and are then INVALID; else such a text ends the reading
            (`reading_failures.has_invalid_text`). Extracts hold none.

    Raises:
        SourceFailedError: a file is gone, damaged, or has other columns than were pinned.
        UnreadableByKernelError: DuckDB cannot read it, or cannot judge its filter.
    """
    if scan.groups is not None:
        raise UnreadableByKernelError(scan.source, "it gave groups, not rows")
    stored = stored_files(scan)
    is_checked = check_texts and scan.extract is None
    groups = (checked_groups if is_checked else file_groups)(connection, stored)
    wide = frozenset(
        column.name
        for column in scan.columns
        for group in groups
        if _type_of(group, _physical(scan, column.name)) == "UBIGINT"
    )
    reading = _Reading(connection=connection, scan=scan, stored=stored, groups=groups, wide=wide)
    is_whole = scan.extract is not None or scan.filter is None
    return Delivered(
        scan=scan,
        files=stored,
        parts=tuple(map(reading.part, groups)),
        checked=_checked(scan, check_texts=is_checked),
        wide=wide,
        pinned_rows=stored.pinned_rows if is_whole else None,
    )


def _checked(scan: Scan, *, check_texts: bool) -> frozenset[str]:
    if scan.extract is not None:
        return frozenset(scan.extract.invalid_columns)
    texts = (column.name for column in scan.columns if column.type.kind is TypeKind.TEXT)
    return frozenset(texts if check_texts else ())


def _type_of(group: FileGroup, name: str) -> str | None:
    column = group.columns.get(name)
    return None if column is None else column.type


def _physical(scan: Scan, name: str) -> str:
    """In an extract columns stand under their logical names."""
    return name if scan.extract is not None else scan.column(name).physical or name


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    connection: Connection
    scan: Scan
    stored: StoredFiles
    groups: Sequence[FileGroup]
    wide: frozenset[str]

    def part(self, group: FileGroup) -> Part:
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
        }
        return Part(table=group.table, columns=columns, passing=tuple(self._passing(group)))

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
            if name in self._folder_columns:
                return self._folder(group, name, kind)
            if not any(name in each.columns for each in self.groups):
                raise SourceFailedError(
                    RunDetail.SCHEMA_CHANGED,
                    source,
                    f"{self.stored.files[0].path} has no column {name!r} any more",
                )
        return base_column(stored, kind, source, wide=wide, raw=raw)

    @property
    def _folder_columns(self) -> frozenset[str]:
        options = dict(self.scan.options)
        if self.scan.extract is not None or self.scan.kind is not SourceKind.PARQUET:
            return frozenset()
        return frozenset() if options.get("hive_partitions") is False else self.stored.folder_names

    def _folder(self, group: FileGroup, name: str, kind: CanonicalType) -> BaseColumn:
        """What the folders of each file say: the same for all of its rows."""
        form = form_of([kind])
        if form is None:
            raise UnreadableByKernelError(self.scan.source, f"folder {name!r} has type {kind}")
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
        columns = {
            column.name: TypedBase(
                type=column.type, base=self._base(group, column.name, column.type)
            )
            for column in scan.schema.columns
            if column.name in group.columns or column.name in self._folder_columns
        }
        return (condition_of(self.connection, scan.filter, columns, scan.source),)


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
