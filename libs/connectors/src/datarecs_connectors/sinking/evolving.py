"""The schema that a table needs for records: new optional columns, wider and optional ones.

Pure: nothing is asked or changed here. Columns are never dropped or renamed, and a value that no
wider type holds either changes nothing.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import count as numbers
from typing import Any

from pyiceberg.partitioning import validate_partition_name
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import MappedField
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
)

from datarecs_application.ports.sinking import SinkRecord
from datarecs_connectors.sinking.avro_shapes import typed_rows
from datarecs_connectors.sinking.columns import (
    any_case,
    field_positions,
    mapped_below,
    mapped_fields,
)
from datarecs_connectors.sinking.creating import one_spelling
from datarecs_connectors.sinking.shapes import (
    MOST_FIELDS,
    FieldsError,
    MapShape,
    check_fields,
    merged_members,
    typed,
)
from datarecs_connectors.sinking.values import MismatchError, conversion_to
from datarecs_core.errors.sink import BadRecordError
from datarecs_core.sink.definition import Evolution

Rows = Sequence[Mapping[str, Any]]
_WIDEST = 38
_WIDER: Mapping[type[IcebergType], IcebergType] = {
    IntegerType: LongType(),
    FloatType: DoubleType(),
}


def evolved_schema(
    metadata: TableMetadata,
    records: Sequence[SinkRecord],
    evolution: Evolution,
    *,
    ignores_case: bool = False,
) -> Schema | None:
    """The current schema with what the records need; None if that is nothing.

    The id is the next one. Whether every record fits the new schema is not checked.

    Raises:
        BadRecordError: for the first record whose fields cannot all be columns of one table.
    """
    rows, places = typed_rows(records)

    def evolved(count: int) -> Schema | None:
        change = _Change(
            ids=numbers(metadata.last_column_id + 1),
            is_full=evolution is Evolution.FULL,
            ignores_case=ignores_case,
            identifiers=frozenset(metadata.schema().identifier_field_ids),
        )
        return _evolved(metadata, rows[:count], change)

    try:
        return evolved(len(rows))
    except ValueError as cause:
        at, reason = places[_first_refused(evolved, len(rows))], str(cause)
        if not isinstance(cause, FieldsError):
            reason = "two fields of the table would have one name"
        raise BadRecordError(path="", reason=reason, at=at) from None


def _first_refused(evolved: Callable[[int], object], rows: int) -> int:
    """Index of the row that completes the fault; more rows never remove one."""
    good, bad = 0, rows
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            evolved(middle)
            good = middle
        except ValueError:
            bad = middle
    return bad - 1


def _evolved(metadata: TableMetadata, rows: Rows, change: "_Change") -> Schema | None:
    schema = metadata.schema()
    fields = change.members(schema.fields, rows, mapped_fields(metadata.name_mapping()))
    if fields == schema.fields:
        return None
    evolved = Schema(
        *fields,
        schema_id=max(each.schema_id for each in metadata.schemas) + 1,
        identifier_field_ids=schema.identifier_field_ids,
    )
    check_fields(evolved, most=max(MOST_FIELDS, len(schema.field_ids)))
    for spec in metadata.partition_specs:
        for each in spec.fields:
            validate_partition_name(each.name, each.transform, each.source_id, evolved, set())
    return evolved


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """What one schema may become, column by column."""

    ids: Iterator[int]
    is_full: bool
    ignores_case: bool
    identifiers: frozenset[int]

    def members(
        self, fields: Sequence[NestedField], rows: Rows, mapping: Sequence[MappedField]
    ) -> tuple[NestedField, ...]:
        """The fields of a table or a struct, and after them the new ones."""
        positions = self._positions(fields, rows, mapping)
        values: list[list[Any]] = [[] for _ in fields]
        unknown: list[dict[str, Any]] = []
        for row in rows:
            unknown.append({name: row[name] for name in row if name not in positions})
            for name in row:
                # A name of two columns is none here: its record is refused.
                if positions.get(name, -1) >= 0 and row[name] is not None:
                    values[positions[name]].append(row[name])
        if self.ignores_case:
            unknown = one_spelling(unknown)
        known = [
            self._field(field, inside, len(rows), mapping)
            for field, inside in zip(fields, values, strict=True)
        ]
        return (*known, *self._new(merged_members(unknown)))

    def _positions(
        self, fields: Sequence[NestedField], rows: Rows, mapping: Sequence[MappedField]
    ) -> Mapping[str, int]:
        """Of every known name of the rows."""
        positions = field_positions(fields, mapping)
        if not self.ignores_case:
            return positions
        folded = any_case(positions)
        others = {name for row in rows for name in row if name.casefold() in folded}
        return {**{name: folded[name.casefold()] for name in others}, **positions}

    def _new(self, shapes: Mapping[str, Any]) -> Iterator[NestedField]:
        for name, shape in shapes.items():
            number = next(self.ids)
            yield NestedField(
                field_id=number, name=name, field_type=typed(shape, self.ids), required=False
            )

    def _field(
        self,
        field: NestedField,
        values: Sequence[Any],
        rows: int,
        mapping: Sequence[MappedField],
    ) -> NestedField:
        kind = self._kind(field.field_type, values, mapped_below(field.field_id, mapping))
        is_missing = self.is_full and len(values) < rows
        is_required = field.required and (field.field_id in self.identifiers or not is_missing)
        if kind == field.field_type and is_required == field.required:
            return field
        return field.model_copy(update={"field_type": kind, "required": is_required})

    def _kind(
        self, kind: IcebergType, values: Sequence[Any], mapping: Sequence[MappedField]
    ) -> IcebergType:
        match kind:
            case StructType(fields=fields):
                rows = [value for value in values if isinstance(value, dict)]
                return StructType(*self.members(fields, rows, mapping))
            case ListType():
                return self._list(kind, values, mapping)
            case MapType():
                return self._map(kind, values, mapping)
        return self._wider(kind, values) if self.is_full else kind

    def _list(
        self, kind: ListType, values: Sequence[Any], mapping: Sequence[MappedField]
    ) -> IcebergType:
        items = [item for value in values if isinstance(value, list) for item in value]
        present = [item for item in items if item is not None]
        below = mapped_below(kind.element_id, mapping)
        return ListType(
            element_id=kind.element_id,
            element_type=self._kind(kind.element_type, present, below),
            element_required=self._required(kind.element_required, items, present),
        )

    def _map(
        self, kind: MapType, values: Sequence[Any], mapping: Sequence[MappedField]
    ) -> IcebergType:
        items = [item for value in values if isinstance(value, dict) for item in value.values()]
        items += [value.values for value in values if isinstance(value, MapShape)]
        present = [item for item in items if item is not None]
        below = mapped_below(kind.value_id, mapping)
        return MapType(
            key_id=kind.key_id,
            key_type=kind.key_type,
            value_id=kind.value_id,
            value_type=self._kind(kind.value_type, present, below),
            value_required=self._required(kind.value_required, items, present),
        )

    def _required(
        self,
        is_required: bool,  # noqa: FBT001  of the type
        items: Sequence[Any],
        present: Sequence[Any],
    ) -> bool:
        return is_required and not (self.is_full and len(present) < len(items))

    def _wider(self, kind: IcebergType, values: Sequence[Any]) -> IcebergType:
        """The type that holds what this one does not, where there is one."""
        if isinstance(kind, DecimalType):
            needed = max((_digits(value, kind.scale) for value in values), default=0)
            return kind if needed <= kind.precision else DecimalType(needed, kind.scale)
        wider = _WIDER.get(type(kind))
        if wider is None:
            return kind
        refused = (value for value in values if not _fits(value, kind))
        return wider if any(_fits(value, wider) for value in refused) else kind


def _fits(value: object, kind: IcebergType) -> bool:
    try:
        conversion_to(kind)(value)
    except MismatchError:
        return False
    return True


def _digits(value: object, scale: int) -> int:
    """Digits that a decimal of this scale needs; 0 for a value that none holds."""
    try:
        number = conversion_to(DecimalType(_WIDEST, scale))(value)
    except MismatchError:
        return 0
    if not isinstance(number, Decimal) or not number:
        return 0
    return max(number.adjusted() + 1 + scale, 0)
