"""Sources of a stage as relations: views in which every source has the columns of a layout.

A view reads the pinned files whenever it is read, in the form in which sources meet; rows are
those that pass the filter of the source, the conditions of the stage and its scope.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from datarecs_core.comparison.planning.plan import InputPlan
from datarecs_core.jobs.types import TypeKind
from datarecs_kernel.base_columns import BaseColumn, duckdb_type
from datarecs_kernel.condition_functions import condition_of
from datarecs_kernel.database import Connection, quoted, sql_text
from datarecs_kernel.delivered import Delivered, Part
from datarecs_kernel.encoding import encoded, encoded_tuple, payload_of
from datarecs_kernel.fingerprints import bucket_number
from datarecs_kernel.forms import form_of
from datarecs_kernel.layout import Field, Layout
from datarecs_kernel.prepared_values import AMBIGUOUS, ColumnInput
from datarecs_kernel.regular_values import regular_values
from datarecs_kernel.rules_sql import can_prepare, columns_of, nulls_of
from datarecs_kernel.size_limits import limited_base, limited_key
from datarecs_kernel.value_functions import create_value_function, structure_of

_LARGE = frozenset({TypeKind.TEXT, TypeKind.BINARY})
_numbers = count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Groups of an earlier stage that rows have to be in."""

    fields: tuple[Field, ...]
    """The dimensions of those groups over this stage's sources; their names begin with `z`."""
    files: Sequence[str]
    """Parquet with one row per group, in the columns of a key: `k0`, `k0x`, `k1`."""
    bucket_key: bytes | None = None
    """The tenant's key, where the groups are buckets of these dimensions, of the role HASHED."""


def create_relation(
    connection: Connection,
    layout: Layout,
    source: Delivered,
    *,
    conditions: Sequence[str | None] = (),
    scope: Scope | None = None,
) -> str:
    """Create the view of one source and return its name.

    Args:
        connection: in which the view and its functions live.
        layout: of the rows; its fields are the columns.
        source: of the layout's stage.
        conditions: of the stage and of its scope, over logical columns; None is no condition.
        scope: None where every row belongs to the stage.

    Raises:
        UnreadableByKernelError: a condition says more than compare.
    """
    number = next(_numbers)
    name = f"rows_of_{source.scan.index}_{number}"
    making = _Making(
        connection=connection,
        source=source,
        scope_fields=() if scope is None else scope.fields,
        row_fields=layout.fields,
        number=number,
    )
    making.create_functions()
    inner = " UNION ALL ".join(making.part(part, conditions) for part in source.parts)
    rows = f"({making.columns_of(inner or making.nothing)})"
    if scope is not None:
        rows = _within(rows, scope)
    columns = {label: label for field in layout.fields for label, _ in field.columns}
    columns = limited_key(layout, source.scan, {**columns, AMBIGUOUS: AMBIGUOUS})
    listed = ", ".join(f"{sql} AS {label}" for label, sql in columns.items())
    connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT {listed} FROM {rows}")
    return name


def _within(rows: str, scope: Scope) -> str:
    """The rows whose key is that of a group, NULL and INVALID values included."""
    if not scope.files:
        return f"(FROM {rows} WHERE FALSE)"
    groups = f"read_parquet([{', '.join(map(sql_text, scope.files))}], hive_partitioning=false)"
    return f"(FROM {rows} r SEMI JOIN {groups} g ON {_same_group(scope)})"


def _same_group(scope: Scope) -> str:
    if scope.bucket_key is not None:
        return f"{_bucket(scope.fields, scope.bucket_key)} = g.k0"
    labels = [label for field in scope.fields for label, _ in field.columns]
    same = " AND ".join(f"r.{label} IS NOT DISTINCT FROM g.k{label[1:]}" for label in labels)
    return same or "TRUE"


def _bucket(fields: Sequence[Field], key: bytes) -> str:
    """The number of the bucket of a row's key."""
    parts = [
        encoded(
            field.form,
            payload_of(field.form, f"r.{field.name}"),
            f"r.{field.payload}" if field.may_be_invalid else None,
        )
        for field in fields
    ]
    return bucket_number(encoded_tuple(parts), key)


def rows_behind_filter(connection: Connection, source: Delivered) -> int:
    """Rows of a source that pass its own filter; without one its footers know them."""
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
    """What rows of a part must fulfil, as a WHERE clause; empty without a condition.

    Raises:
        UnreadableByKernelError: a condition says more than compare.
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
    row_fields: tuple[Field, ...]
    number: int

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.scope_fields, *self.row_fields)

    @property
    def _index(self) -> int:
        return self.source.scan.index

    def columns_of(self, inner: str) -> str:
        """SELECT of the fields' columns and `dst` from what `part` gives."""
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
        listed = ", ".join(f"{sql} AS {label}" for label, sql in columns.items())
        return f"SELECT {listed} FROM ({inner})"

    @property
    def nothing(self) -> str:
        """Of a source without files: no rows in the columns of a part."""
        kinds = []
        for field in self.fields:
            if self._in_python(field):
                kinds.append((_made(field), structure_of(self._column_input(field))))
            else:
                kinds += [(label, duckdb_type(kind)) for label, kind in field.columns]
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
        selected = ", ".join(f"{sql} AS {quoted(label)}" for label, sql in columns.items())
        where = passing_sql(self.connection, self.source, part, conditions)
        return f"SELECT {selected or 'NULL AS nothing'} FROM {part.table}{where}"

    def _structure(self, field: Field, plan: InputPlan, base: BaseColumn) -> str:
        """The columns of a field in one: from SQL for regular values, else from its function."""
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
    """Column of `part`: the structure that a function gives."""
    return f"made_{field.name}"


def _member(field: Field, label: str) -> str:
    return f"{_made(field)}.{label}"
