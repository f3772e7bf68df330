"""Sources of a stage as relations: views in which every source has the columns of a layout.

A view reads the pinned files at each query, in the common form of the sources; its rows are those
that pass the filter of the source, the conditions of the stage and its scope. For a source that
returns groups the rows are its groups, with numbers after their keys.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count

from datarecs_core.comparison.planning.plan import InputPlan
from datarecs_core.jobs.types import TypeKind
from datarecs_kernel.base_columns import BaseColumn, duckdb_type
from datarecs_kernel.condition_functions import condition_of
from datarecs_kernel.database import Connection, quoted
from datarecs_kernel.delivered import Delivered, Part
from datarecs_kernel.forms import form_of
from datarecs_kernel.group_values import group_values
from datarecs_kernel.layout import Field, Layout
from datarecs_kernel.partials import delivers_groups, partial_columns
from datarecs_kernel.prepared_values import AMBIGUOUS, ColumnInput
from datarecs_kernel.regular_values import regular_values
from datarecs_kernel.rules_sql import can_prepare, columns_of, nulls_of
from datarecs_kernel.scopes import Scope, limit_rows
from datarecs_kernel.size_limits import limited_base, limited_key
from datarecs_kernel.value_functions import create_value_function, structure_of

_LARGE = frozenset({TypeKind.TEXT, TypeKind.BINARY})
_numbers = count()


def create_relation(
    connection: Connection,
    layout: Layout,
    source: Delivered,
    *,
    conditions: Sequence[str | None] = (),
    scopes: Sequence[Scope] = (),
) -> str:
    """Create the view of one source and return its name.

    Args:
        connection: for the view and its functions.
        layout: of the rows; `relation_columns` lists the columns.
        source: of the layout's stage.
        conditions: of the stage and of its scope, over logical columns; None is no condition.
        scopes: further limits of the rows; scopes with the same fields have the same groups.

    Raises:
        SourceFailedError: a condition says more than compare.
    """
    number = next(_numbers)
    name = f"rows_of_{source.scan.index}_{number}"
    making = _Making(
        connection=connection,
        source=source,
        scope_fields=tuple(_distinct(scope.fields for scope in scopes)),
        layout=layout,
        number=number,
    )
    making.create_functions()
    inner = " UNION ALL ".join(making.part(part, conditions) for part in source.parts)
    rows = f"({making.columns_of(inner or making.nothing)})"
    for scope in scopes:
        rows = limit_rows(rows, scope)
    columns = {label: label for label, _ in relation_columns(layout, source.scan.index)}
    columns = limited_key(layout, source.scan, columns)
    listed = ", ".join(f"{sql} AS {label}" for label, sql in columns.items())
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT {listed} FROM {rows}")
    return name


def relation_columns(layout: Layout, source: int) -> list[tuple[str, str]]:
    """Name and type in DuckDB's SQL of the columns of a source's relation."""
    columns = [column for field in _row_fields(layout, source) for column in field.columns]
    columns.append((AMBIGUOUS, "INT"))
    if delivers_groups(layout.stage, source):
        columns += [(label, form.sql_type) for label, form in partial_columns(layout)]
    return [(label, duckdb_type(kind)) for label, kind in columns]


def _row_fields(layout: Layout, source: int) -> tuple[Field, ...]:
    return layout.keys if delivers_groups(layout.stage, source) else layout.fields


def _distinct(fields: Iterable[tuple[Field, ...]]) -> Iterable[Field]:
    return {field.name: field for each in fields for field in each}.values()


def rows_behind_filter(connection: Connection, source: Delivered) -> int:
    """Number of rows of a source that pass its filter; without a filter from the footers."""
    counted = 0
    for part in source.parts:
        where = passing_sql(connection, source, part)
        query = f"SELECT count(*) FROM {part.table}{where}"
        ((rows,),) = connection.execute(query).fetchall()
        counted += rows
    return counted


def passing_sql(
    connection: Connection, source: Delivered, part: Part, conditions: Sequence[str | None] = ()
) -> str:
    """The conditions of the rows of a part as a WHERE clause; empty without a condition.

    Raises:
        SourceFailedError: a condition says more than compare.
    """
    written = [each for each in conditions if each is not None]
    name = source.scan.source
    judged = (condition_of(connection, each, part.columns, name) for each in written)
    tests = [*part.passing, *judged]
    return f" WHERE {' AND '.join(tests)}" if tests else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Making:
    connection: Connection
    source: Delivered
    scope_fields: tuple[Field, ...]
    layout: Layout
    number: int

    @property
    def row_fields(self) -> tuple[Field, ...]:
        return _row_fields(self.layout, self._index)

    @property
    def _partials(self) -> list[tuple[str, str]]:
        """Name and SQL type of the numbers of groups."""
        if not delivers_groups(self.layout.stage, self._index):
            return []
        return [(label, form.sql_type) for label, form in partial_columns(self.layout)]

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.scope_fields, *self.row_fields)

    @property
    def _index(self) -> int:
        return self.source.scan.index

    def columns_of(self, inner: str) -> str:
        """SELECT of the fields' columns and `dst` from the columns of `part`."""
        columns: dict[str, str] = {}
        ambiguous = []
        for field in self.fields:
            if self._in_python(field):
                columns |= {label: _member(field, label) for label, _ in field.columns}
                if field in self.row_fields:
                    ambiguous.append(_member(field, AMBIGUOUS))
            else:
                columns |= {label: label for label, _ in field.columns}
        total = " + ".join(ambiguous) or "0"
        columns[AMBIGUOUS] = f"CAST({total} AS INTEGER)"
        columns |= {label: label for label, _ in self._partials}
        listed = ", ".join(f"{sql} AS {label}" for label, sql in columns.items())
        return f"SELECT {listed} FROM ({inner})"

    @property
    def nothing(self) -> str:
        """The part of a source without files: its columns without rows."""
        kinds = []
        for field in self.fields:
            if self._in_python(field):
                kinds.append((_made(field), structure_of(self._column_input(field))))
            else:
                kinds += [(label, duckdb_type(kind)) for label, kind in field.columns]
        kinds += [(label, duckdb_type(kind)) for label, kind in self._partials]
        columns = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(label)}" for label, kind in kinds)
        return f"SELECT {columns or 'NULL AS nothing'} WHERE FALSE"

    def part(self, part: Part, conditions: Sequence[str | None]) -> str:
        """SELECT of the fields: one column per SQL column, one structure per Python column."""
        columns: dict[str, str] = {}
        for field in self.fields:
            plan = field.inputs[self._index]
            if plan is None:
                columns |= nulls_of(field)
                continue
            base = self._base(part, plan)
            if self._in_python(field):
                columns[_made(field)] = self._structure(field, plan, base)
            else:
                columns |= columns_of(field, base)
        if self._partials:
            columns |= group_values(self.layout, self.source.scan, part)
        selected = ", ".join(f"{sql} AS {quoted(label)}" for label, sql in columns.items())
        where = passing_sql(self.connection, self.source, part, conditions)
        return f"SELECT {selected or 'NULL AS nothing'} FROM {part.table}{where}"

    def _structure(self, field: Field, plan: InputPlan, base: BaseColumn) -> str:
        """The columns of a field in one structure: SQL for regular values, else its function."""
        call = f"{self._function(field)}({base.value}, {base.payload})"
        regular = regular_values(field, plan, base)
        if regular is None:
            return call
        members = [f"{label} := {regular.columns[label]}" for label, _ in field.columns]
        packed = f"struct_pack({', '.join(members)}, {AMBIGUOUS} := CAST(0 AS INTEGER))"
        return f"CASE WHEN {regular.condition} THEN {packed} ELSE {call} END"

    def _base(self, part: Part, plan: InputPlan) -> BaseColumn:
        base = part.columns[plan.column].base
        if plan.type.kind in _LARGE:
            return limited_base(base, self.source.scan, plan.column)
        return base

    def _in_python(self, field: Field) -> bool:
        plan = field.inputs[self._index]
        if plan is None:
            return False
        if field.python[self._index]:
            return True
        return not can_prepare(field, self._column_input(field).base)

    def _column_input(self, field: Field) -> ColumnInput:
        plan = field.inputs[self._index]
        if plan is None:
            raise TypeError(f"{field.label} is no column of {self.source.scan.source}")
        form = form_of([plan.type], wide_integers=plan.column in self.source.wide)
        if form is None:
            raise TypeError(f"{plan.type} has no form, which `check_covered` should have said")
        return ColumnInput(field=field, plan=plan, source=self.source.scan.source, base=form)

    def _function(self, field: Field) -> str:
        return f"prepare_{field.name}_{self._index}_{self.number}"

    def create_functions(self) -> None:
        for field in filter(self._in_python, self.fields):
            column = self._column_input(field)
            create_value_function(self.connection, self._function(field), column)


def _made(field: Field) -> str:
    """Column of `part`: the structure that a function returns."""
    return f"made_{field.name}"


def _member(field: Field, label: str) -> str:
    return f"{_made(field)}.{label}"
