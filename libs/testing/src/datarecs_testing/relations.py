"""The rows of a stage as relations of the kernel, prepared value by value by the rules of core.

The required relations of every feeder for the same rows, so that kernel tests need no feeder.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from datarecs_core.comparison.expressions.condition import parse_condition
from datarecs_core.comparison.oracle.grouping import (
    DeliveredRow,
    KeyReader,
    Outside,
    Rows,
    deliveries,
)
from datarecs_core.comparison.planning.cataloguing import column_rows, over_columns
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.comparison.results.fingerprints import bucket_key
from datarecs_core.comparison.values.canonical import (
    NULL,
    Value,
    canonical_text,
    encode,
    encode_tuple,
)
from datarecs_core.comparison.values.casting import Zones
from datarecs_core.comparison.values.normalizing import on_result
from datarecs_core.comparison.values.preparing import Preparation
from datarecs_core.comparison.values.sizes import check_key, check_value
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs.types import TypeKind
from datarecs_core.jobs.vocabulary import NullKeys
from datarecs_kernel.amounts import column_amount, column_value
from datarecs_kernel.database import Connection
from datarecs_kernel.decoding import native
from datarecs_kernel.layout import Field, Layout, PlainColumns, Role, layout_of, sealing_layout
from datarecs_kernel.sort_keys import sort_key_of

AMBIGUOUS = "dst"
_WIDEST = 2**63
_TEXTS = frozenset({TypeKind.TEXT, TypeKind.JSON})
_ENCODED_HEAD = 5
"""Bytes of an encoding before its payload."""


def rows_layout(stage: StagePlan, rows: Sequence[Rows]) -> Layout:
    """The layout of a stage over rows, which may hold INVALID values and unsigned integers.

    Args:
        stage: any.
        rows: per source, as its scan delivers them; of a schema stage any.
    """
    return layout_of(stage, _delivered(stage, rows))


def hashed_layout(stage: StagePlan, rows: Sequence[Rows]) -> Layout:
    """The layout of what `proof: rows` hashes: rows, or groups where functions collapse them."""
    if stage.collapses or stage.hashed is not None:
        return rows_layout(stage, rows).of_rows
    return sealing_layout(stage, _delivered(stage, rows))


def relations_of(
    connection: Connection, layout: Layout, rows: Sequence[Rows], outside: Outside
) -> list[str]:
    """Names of one new table per source, in the columns of the layout's rows.

    Args:
        connection: in which the tables are made.
        layout: as `rows_layout` gives it; or `hashed_layout`.
        rows: per source, as its scan delivers them; of a schema stage any.
        outside: key, zones and scopes, as the oracle takes them.
    """
    stage = layout.stage
    if stage.catalogue is not None:
        rows, stage = column_rows(stage), over_columns(stage)
    names = []
    for scan, plain in zip(stage.scans, rows, strict=True):
        prepared = _Prepared(layout.of_rows, scan, outside)
        passes = _passing(stage, scan, outside)
        delivered = filter(passes, map(deliveries(scan), plain))
        names.append(_table(connection, scan.index, prepared.table(delivered)))
    return names


def _table(connection: Connection, index: int, table: pa.Table) -> str:
    ((made,),) = connection.execute("SELECT count(*) FROM duckdb_tables()").fetchall()
    name = f"source_{index}_{made}"
    connection.register("prepared_rows", table)
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM prepared_rows")  # noqa: S608  own name
    connection.unregister("prepared_rows")
    return name


def _delivered(stage: StagePlan, rows: Sequence[Rows]) -> list[PlainColumns]:
    if stage.catalogue is not None:
        return [PlainColumns()] * len(stage.scans)
    return [_columns(*each) for each in zip(stage.scans, rows, strict=True)]


def _columns(scan: Scan, rows: Rows) -> PlainColumns:
    checked, wide = set(), set()
    for at, column in enumerate(scan.columns):
        values = [row[at] for row in rows]
        if any(isinstance(each, Invalid) for each in values):
            checked.add(column.name)
        if column.type.kind in _TEXTS:
            checked.add(column.name)
        if column.type.kind is TypeKind.INT:
            numbers = [each for each in values if isinstance(each, int)]
            wide |= {column.name} if any(each >= _WIDEST for each in numbers) else set()
    return PlainColumns(checked=frozenset(checked), wide=frozenset(wide))


def _passing(stage: StagePlan, scan: Scan, outside: Outside) -> Callable[[DeliveredRow], bool]:
    """`where` and scope of a stage for rows of one source."""
    scope = stage.scope
    wheres = (stage.where, scope.where if scope else None)
    conditions = [parse_condition(where) for where in wheres if where is not None]
    keys = KeyReader(scope.dimensions if scope else (), scan, Zones(known=outside.zones))

    def passes(delivered: DeliveredRow) -> bool:
        if not all(each.admits(delivered) for each in conditions):
            return False
        if scope is None:
            return True
        key = encode_tuple(keys.of(delivered))
        wanted = bucket_key(outside.key, key) if scope.buckets else key
        return wanted in outside.scopes[scope.from_stage]

    return passes


class _Prepared:
    """Rows of one source in the columns of a layout."""

    def __init__(self, layout: Layout, scan: Scan, outside: Outside) -> None:
        self.scan, self.zones = scan, Zones(known=outside.zones)
        self.fields = [_PreparedField(each, scan, self.zones) for each in layout.fields]
        self.keys = self.fields[: len(layout.keys)]
        self.excludes = layout.stage.null_keys is NullKeys.EXCLUDE
        columns = [column for each in self.fields for column in each.columns]
        self.schema = pa.schema([*columns, (AMBIGUOUS, pa.int32())])

    def table(self, delivered: Any) -> pa.Table:  # noqa: ANN401 - rows in any iterable
        rows = [self._row(each) for each in delivered]
        values = list(zip(*rows, strict=True)) or [()] * len(self.schema)
        arrays = [
            pa.array(column, each.type) for column, each in zip(values, self.schema, strict=True)
        ]
        return pa.table(arrays, schema=self.schema)

    def _row(self, delivered: DeliveredRow) -> tuple[object, ...]:
        self._check_sizes(delivered)
        met = self._ambiguous()
        values = [value for each in self.fields for value in each.values(delivered)]
        return (*values, self._ambiguous() - met)

    def _check_sizes(self, delivered: DeliveredRow) -> None:
        """Raises what the oracle raises of a value or key that is too large."""
        key = [each.value(delivered) for each in self.keys]
        if self.excludes and any(part.is_null for part in key):
            return
        for each in self.fields:
            if each.preparation is not None:
                column = each.preparation.plan.column
                check_value(delivered[column], self.scan, column)
        check_key(key, self.scan)

    def _ambiguous(self) -> int:
        return self.zones.ambiguous.get(self.scan.source, 0)


class _PreparedField:
    def __init__(self, field: Field, scan: Scan, zones: Zones) -> None:
        self.field = field
        plan, rules = field.inputs[scan.index], field.rules
        self.preparation = (
            None
            if plan is None
            else Preparation(source=scan.source, plan=plan, rules=rules, zones=zones)
        )

    @property
    def columns(self) -> list[tuple[str, pa.DataType]]:
        kinds = {"BINARY": pa.binary(), "INT": pa.int32(), "STRING": pa.string()}
        (name, _), *companions = self.field.columns
        return [
            (name, native(self.field.form)),
            *((each, kinds[kind]) for each, kind in companions),
        ]

    def value(self, delivered: DeliveredRow) -> Value:
        """As it is grouped, or as functions take it."""
        if self.preparation is None:
            return NULL
        value = self.preparation.apply(delivered[self.preparation.plan.column])
        if self.field.role in {Role.KEY, Role.VALUE, Role.HASHED}:
            value = on_result(value, self.field.rules)
        return value

    def values(self, delivered: DeliveredRow) -> list[object]:
        """Value, payload, state, text before rules and what sorts it, as far as there are such."""
        if self.preparation is None:
            return [None for _ in self.field.columns]
        raw, value = delivered[self.preparation.plan.column], self.value(delivered)
        plain, state = self._plain(value, is_float=self.preparation.plan.result.is_float)
        members: list[object] = [plain]
        if self.field.may_be_invalid:
            members.append(encode(value)[_ENCODED_HEAD:] if value.is_invalid else None)
        if self.field.stateful:
            members.append(state)
        if self.field.changes:
            members += [canonical_text(raw), sort_key_of(raw)]
        return members

    def _plain(self, value: Value, *, is_float: bool) -> tuple[object, int]:
        if value.is_invalid and not self.field.may_be_invalid:
            raise ValueError(f"{self.field.label} holds an INVALID value and may hold none")
        plain = NULL if value.is_invalid else value
        if self.field.role is not Role.AMOUNT:
            return column_value(plain, self.field), 0
        amount, state = column_amount(plain, self.field.form, is_float=is_float)
        return amount, int(state)
