"""Convert the values of many records to Arrow columns, column by column.

Columns that hold only plain values of their type are converted by Arrow at once. Everything else
goes through the exact conversions, and a refused batch is searched for its first bad record, so
that both ways accept the same values.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from types import NoneType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from datarecs_connectors.sinking.values import (
    REFUSALS,
    Convert,
    MismatchError,
    conversion_to,
    unconvertible,
    unfit,
)
from datarecs_core.errors.sink import BadRecordError

Values = Sequence[Any]
"""JSON values, one for each row."""
_REQUIRED = "the column is required and has no value"
_TWICE = "two fields belong to one column"
_AMBIGUOUS = "two columns have this name in other cases"
_UNCLEAR = -1
_DIGITS_OF_ARROW = 38
_SHORTEST_TIMESTAMP = len("2026-01-31T23:59")
_PLAIN: Mapping[type[IcebergType], frozenset[type]] = {
    BooleanType: frozenset({bool, NoneType}),
    IntegerType: frozenset({int, NoneType}),
    LongType: frozenset({int, NoneType}),
    DoubleType: frozenset({Decimal, NoneType}),
    DecimalType: frozenset({Decimal, int, NoneType}),
    StringType: frozenset({str, NoneType}),
    DateType: frozenset({str, NoneType}),
    TimestampType: frozenset({str, NoneType}),
    TimestamptzType: frozenset({str, NoneType}),
}
"""Types of values that Arrow converts without loss, or refuses."""


class _NotPlainError(Exception):
    """Arrow would not refuse or convert a value as the exact conversion does."""


def _by_arrow(values: Values, kind: pa.DataType) -> pa.Array:
    return pa.array(values, type=kind)


def _doubles(values: Values, kind: pa.DataType) -> pa.Array:
    column = pa.array([None if value is None else float(value) for value in values], type=kind)
    zeros = pc.any(pc.equal(column, 0.0)).as_py()
    if zeros or pc.all(pc.is_finite(column)).as_py() is False:
        raise _NotPlainError
    return column


def _decimals(values: Values, kind: pa.DataType) -> pa.Array:
    # Of more than 38 digits, and of exponents, Arrow makes other numbers without an error.
    texts = list(map(str, values))
    if max(map(len, texts), default=0) > _DIGITS_OF_ARROW or any("E" in text for text in texts):
        raise _NotPlainError
    return pa.array(values, type=kind)


def _dates(values: Values, kind: pa.DataType) -> pa.Array:
    return pc.cast(pa.array(values, type=pa.string()), kind)


def _timestamps(values: Values, kind: pa.DataType) -> pa.Array:
    texts = pa.array(values, type=pa.string())
    shortest = pc.min(pc.binary_length(texts)).as_py()
    if shortest is not None and shortest < _SHORTEST_TIMESTAMP:
        raise _NotPlainError
    return pc.cast(texts, kind)


_QUICK: Mapping[type[IcebergType], Callable[[Values, pa.DataType], pa.Array]] = {
    DoubleType: _doubles,
    DecimalType: _decimals,
    DateType: _dates,
    TimestampType: _timestamps,
    TimestamptzType: _timestamps,
}
_ARROW_REFUSALS = (pa.ArrowException, OverflowError, ValueError, _NotPlainError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A column of a primitive type."""

    kind: IcebergType
    arrow: pa.DataType
    convert: Convert

    @property
    def names(self) -> Mapping[str, int]:
        return {}

    def build(self, values: Values) -> pa.Array:
        """Raises MismatchError."""
        plain = _PLAIN.get(type(self.kind))
        if plain is not None and plain.issuperset(map(type, values)):
            try:
                return _QUICK.get(type(self.kind), _by_arrow)(values, self.arrow)
            except _ARROW_REFUSALS:
                pass
        convert = self.convert
        exact = [None if value is None else convert(value) for value in values]
        if isinstance(self.kind, UUIDType):
            return pa.ExtensionArray.from_storage(self.arrow, pa.array(exact, type=pa.binary(16)))
        return pa.array(exact, type=self.arrow)

    def check(self, value: object, path: str) -> None:
        """Raises BadRecordError for the value that `build` refuses."""
        try:
            self.convert(value)
        except MismatchError as cause:
            raise BadRecordError(path=path, reason=str(cause)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A field of a struct or of the table."""

    name: str
    column: "Column"
    is_required: bool


@dataclass(slots=True, kw_only=True)
class Struct:
    """Members by the names that records use."""

    arrow: pa.StructType
    members: Sequence[Member]
    positions: Mapping[str, int]
    """Name in a record to the index of the member."""
    any_case: Mapping[str, int] = field(default_factory=dict)
    """The same for names without case; `_UNCLEAR` for two members. Empty: case matters."""
    dropped: int = 0
    """Values of unknown names so far."""

    def build(self, values: Values) -> pa.Array:
        for value in values:
            if value is not None and type(value) is not dict:
                raise unfit(value, "struct")
        nulls = [value is None for value in values]
        columns = self.columns([value or {} for value in values], sum(nulls))
        mask = pa.array(nulls) if any(nulls) else None
        return pa.StructArray.from_arrays(columns, fields=list(self.arrow), mask=mask)

    def position(self, name: str) -> int | None:
        """Of the member for a name in a record. Raises MismatchError for two of them."""
        return position_of(name, self.positions, self.any_case)

    def columns(self, rows: Sequence[Mapping[str, Any]], absent: int = 0) -> list[pa.Array]:
        """One column for each member.

        Args:
            rows: objects by their names.
            absent: how many of the rows stand for no object, which has no required member.

        Raises MismatchError.
        """
        names: list[list[str]] = [[] for _ in self.members]
        for name in set().union(*rows):
            position = self.position(name)
            if position is None:
                self.dropped += sum(name in row for row in rows)
            else:
                names[position].append(name)
        columns = []
        for member, aliases in zip(self.members, names, strict=True):
            column = member.column.build(_values_by_name(rows, aliases))
            if member.is_required and column.null_count > absent:
                raise MismatchError(_REQUIRED)
            columns.append(column)
        return columns

    def check(self, value: object, path: str) -> None:
        if type(value) is not dict:
            raise BadRecordError(path=path, reason=str(unfit(value, "struct")))
        self.check_members(value, path)

    def _checked_position(self, name: str, path: str) -> int | None:
        try:
            return self.position(name)
        except MismatchError as cause:
            raise BadRecordError(path=_below(path, name), reason=str(cause)) from None

    def check_members(self, row: Mapping[str, Any], path: str) -> None:
        names: dict[int, str] = {}
        for name in row:
            position = self._checked_position(name, path)
            if position is not None and names.setdefault(position, name) != name:
                raise BadRecordError(path=_below(path, name), reason=_TWICE)
        for position, member in enumerate(self.members):
            name = names.get(position, member.name)
            value = row.get(name)
            if value is not None:
                member.column.check(value, _below(path, name))
            elif member.is_required:
                raise BadRecordError(path=_below(path, name), reason=_REQUIRED)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _values_by_name(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[Any]:
    """The values of the first name that a row has. Raises MismatchError for two of them."""
    if not names:
        return [None] * len(rows)
    if len(names) == 1:
        name = names[0]
        return [row.get(name) for row in rows]
    values = []
    for row in rows:
        present = [name for name in names if name in row]
        if len(present) > 1:
            raise MismatchError(_TWICE)
        values.append(row[present[0]] if present else None)
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    arrow: pa.DataType
    element: "Column"
    is_required: bool

    def build(self, values: Values) -> pa.Array:
        for value in values:
            if value is not None and type(value) is not list:
                raise unfit(value, "list")
        items = [item for value in values if value for item in value]
        if self.is_required and None in items:
            raise MismatchError(_REQUIRED)
        offsets = _offsets(values)
        return pa.LargeListArray.from_arrays(offsets, self.element.build(items), type=self.arrow)

    def check(self, value: object, path: str) -> None:
        if type(value) is not list:
            raise BadRecordError(path=path, reason=str(unfit(value, "list")))
        for number, item in enumerate(value):
            where = f"{path}[{number}]"
            if item is not None:
                self.element.check(item, where)
            elif self.is_required:
                raise BadRecordError(path=where, reason=_REQUIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    arrow: pa.MapType
    key: "Column"
    value: "Column"
    is_required: bool

    def build(self, values: Values) -> pa.Array:
        for value in values:
            if value is not None and type(value) is not dict:
                raise unfit(value, "map")
        keys = self.key.build([name for value in values if value for name in value])
        items = [item for value in values if value for item in value.values()]
        if self.is_required and None in items:
            raise MismatchError(_REQUIRED)
        offsets = _offsets(values, pa.int32())
        return pa.MapArray.from_arrays(offsets, keys, self.value.build(items), type=self.arrow)

    def check(self, value: object, path: str) -> None:
        if type(value) is not dict:
            raise BadRecordError(path=path, reason=str(unfit(value, "map")))
        for name, item in value.items():
            self.key.check(name, f"{path} (key)")
            if item is not None:
                self.value.check(item, f"{path} (value)")
            elif self.is_required:
                raise BadRecordError(path=f"{path} (value)", reason=_REQUIRED)


Column = Leaf | Struct | Listing | Mapped


def _offsets(values: Values, kind: pa.DataType | None = None) -> pa.Array:
    """Where the items of each value begin; NULL for a value that is NULL."""
    offsets: list[int | None] = []
    total = 0
    for value in values:
        offsets.append(None if value is None else total)
        total += len(value) if value else 0
    return pa.array([*offsets, total], type=kind or pa.int64())


def column_of(
    kind: IcebergType,
    arrow: pa.DataType,
    mapping: Sequence[MappedField],
    *,
    ignores_case: bool = False,
) -> Column:
    """The conversion to a column.

    Args:
        kind: of the column.
        arrow: the same type in Arrow.
        mapping: names of the fields inside, as the table's name mapping has them.
        ignores_case: whether a name in another case is the same.
    """
    match kind:
        case StructType(fields=fields):
            return struct_of(fields, arrow, mapping, ignores_case=ignores_case)
        case ListType(element_type=element, element_required=is_required):
            inner = mapped_below(kind.element_id, mapping)
            column = column_of(element, arrow.value_type, inner, ignores_case=ignores_case)
            return Listing(arrow=arrow, element=column, is_required=is_required)
        case MapType(key_type=key, value_type=value, value_required=is_required):
            return Mapped(
                arrow=arrow,
                key=column_of(key, arrow.key_type, mapped_below(kind.key_id, mapping)),
                value=column_of(
                    value,
                    arrow.item_type,
                    mapped_below(kind.value_id, mapping),
                    ignores_case=ignores_case,
                ),
                is_required=is_required,
            )
    return Leaf(kind=kind, arrow=arrow, convert=conversion_to(kind))


def struct_of(
    fields: Sequence[NestedField],
    arrow: Iterable[pa.Field],
    mapping: Sequence[MappedField],
    *,
    ignores_case: bool = False,
) -> Struct:
    """A struct, or the columns of a table; a name of the mapping comes before a column's."""
    types = list(arrow)
    members = [
        Member(
            name=each.name,
            column=column_of(
                each.field_type,
                kind.type,
                mapped_below(each.field_id, mapping),
                ignores_case=ignores_case,
            ),
            is_required=each.required,
        )
        for each, kind in zip(fields, types, strict=True)
    ]
    positions = field_positions(fields, mapping)
    return Struct(
        arrow=pa.struct(types),
        members=members,
        positions=positions,
        any_case=any_case(positions) if ignores_case else {},
    )


def position_of(
    name: str, positions: Mapping[str, int], without_case: Mapping[str, int]
) -> int | None:
    """The index of the field for a name in a record. Raises MismatchError for two fields."""
    position = positions.get(name)
    if position is None and without_case:
        position = without_case.get(name.casefold())
    if position == _UNCLEAR:
        raise MismatchError(_AMBIGUOUS)
    return position


def any_case(positions: Mapping[str, int]) -> dict[str, int]:
    """Positions by names without case; `_UNCLEAR` for a name of two fields."""
    folded: dict[str, int] = {}
    for name, position in positions.items():
        if folded.setdefault(name.casefold(), position) != position:
            folded[name.casefold()] = _UNCLEAR
    return folded


def field_positions(
    fields: Sequence[NestedField], mapping: Sequence[MappedField]
) -> dict[str, int]:
    """The names that records use, with the index of the field; the mapping's come first."""
    by_id = {each.field_id: position for position, each in enumerate(fields)}
    positions = {
        name: by_id[mapped.field_id]
        for mapped in mapping
        if mapped.field_id in by_id
        for name in mapped.names
    }
    for position, each in enumerate(fields):
        positions.setdefault(each.name, position)
    return positions


def dropped_in(column: Column) -> int:
    """Values of unknown names in a column and below it."""
    match column:
        case Struct(members=members, dropped=dropped):
            return dropped + sum(dropped_in(member.column) for member in members)
        case Listing(element=element):
            return dropped_in(element)
        case Mapped(key=key, value=value):
            return dropped_in(key) + dropped_in(value)
    return 0


def nullable_members(kind: pa.DataType) -> pa.DataType:
    """The type with optional members in every struct.

    A struct that is NULL has no values for its members, and Parquet would refuse that of required
    ones. Iceberg reads an optional column of a file as well where the table requires it.
    """
    if pa.types.is_struct(kind):
        return pa.struct(
            [each.with_type(nullable_members(each.type)).with_nullable(True) for each in kind]  # noqa: FBT003  pyarrow's signature
        )
    if pa.types.is_large_list(kind):
        return pa.large_list(_with_members(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, _with_members(kind.item_field))
    return kind


def _with_members(member: pa.Field) -> pa.Field:
    return member.with_type(nullable_members(member.type))


def mapped_fields(mapping: NameMapping | None) -> Sequence[MappedField]:
    return mapping.root if mapping is not None else ()


def mapped_below(field_id: int, mapping: Sequence[MappedField]) -> Sequence[MappedField]:
    """The names of the fields inside of one field."""
    return next((each.fields for each in mapping if each.field_id == field_id), ())


def fault_alone(convert: Callable[[int], object], count: int, cause: Exception) -> BadRecordError:
    """The error of the first row that is refused alone; the index is -1 if there is none.

    Args:
        convert: the row of an index.
        count: of rows.
        cause: why they are refused together.
    """
    for at in range(count):
        try:
            convert(at)
        except REFUSALS as refusal:
            fault = unconvertible(refusal, 1)
            fault.at = at
            return fault
    return unconvertible(cause, count)


def first_fault(table: Struct, rows: Sequence[Mapping[str, Any]]) -> BadRecordError | None:
    """The error of the first row that does not fit, with its index."""
    for at, row in enumerate(rows):
        try:
            table.check_members(row, "")
        except BadRecordError as fault:
            return BadRecordError(path=fault.path, reason=fault.reason, at=at)
    return None
