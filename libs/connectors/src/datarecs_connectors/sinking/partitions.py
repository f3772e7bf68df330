"""Split rows by the values of a table's partition spec.

Times are divided as numbers; the other transforms are applied to the distinct values of a batch.
Values are the internal ones of Iceberg: days, months and microseconds as numbers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionField as SpecField
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DateType,
    IcebergType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from datarecs_core.sink.control import PartitionField

_HOUR_US, _DAY_US = 3_600_000_000, 86_400_000_000
_AS_NUMBER: dict[type[IcebergType], pa.DataType] = {
    DateType: pa.int32(),
    TimeType: pa.int64(),
    TimestampType: pa.int64(),
    TimestamptzType: pa.int64(),
}


@dataclass(frozen=True, slots=True)
class PartitionValues:
    """The values of one partition, in the order of the spec."""

    spec: PartitionSpec
    values: tuple[Any, ...]

    def fields(self, schema: Schema) -> tuple[PartitionField, ...]:
        types = self.spec.partition_type(schema).fields
        return tuple(
            PartitionField(
                field_id=kind.field_id,
                name=kind.name,
                type=str(kind.field_type),
                value=UUID(bytes=value) if _is_uuid(kind.field_type, value) else value,
            )
            for kind, value in zip(types, self.values, strict=True)
        )

    def path(self, schema: Schema) -> str:
        """As other writers name the folder; empty for a table without partitions."""
        return self.spec.partition_to_path(Record(*self.values), schema)


def _is_uuid(kind: IcebergType, value: object) -> bool:
    return isinstance(kind, UUIDType) and isinstance(value, bytes)


class Partitioner:
    """The partitions of a table's current spec."""

    def __init__(self, spec: PartitionSpec, schema: Schema) -> None:
        self.spec = spec
        self._fields = [_Transformed(field, schema) for field in spec.fields]

    def split(self, rows: pa.Table) -> Iterator[tuple[PartitionValues, pa.Table]]:
        """Each partition with its rows, in their order."""
        if rows.num_rows == 0:
            return
        if not self._fields:
            yield PartitionValues(self.spec, ()), rows
            return
        codes, distinct = zip(*(field.codes(rows) for field in self._fields), strict=True)
        combined = codes[0]
        for code, values in zip(codes[1:], distinct[1:], strict=True):
            combined = combined * len(values) + code
        _, firsts, groups = np.unique(combined, return_index=True, return_inverse=True)
        order = np.argsort(groups, kind="stable")
        ends = np.searchsorted(groups[order], np.arange(1, len(firsts) + 1))
        for start, end, first in zip((0, *ends[:-1]), ends, firsts, strict=True):
            values = tuple(known[code[first]] for known, code in zip(distinct, codes, strict=True))
            part = rows if len(firsts) == 1 else rows.take(order[start:end])
            yield PartitionValues(self.spec, values), part


class _Transformed:
    """One field of a partition spec."""

    def __init__(self, field: SpecField, schema: Schema) -> None:
        self._path = path_to(schema.as_struct(), field.source_id)
        self._transform = field.transform
        self._source = schema.find_type(field.source_id)

    def codes(self, rows: pa.Table) -> tuple[np.ndarray, list[Any]]:
        """A number for each row, and the value that each number stands for."""
        if isinstance(self._transform, VoidTransform):
            return np.zeros(rows.num_rows, np.int64), [None]
        column = rows.column(self._path[0]).combine_chunks()
        for position in self._path[1:]:
            column = pc.struct_field(column, [position])
        column, transform = self._prepared(column)
        encoded = column.dictionary_encode(null_encoding="encode")
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        results = [transform(value) for value in encoded.dictionary.to_pylist()]
        distinct = list(dict.fromkeys(map(_key, results)))
        at = {key: number for number, key in enumerate(distinct)}
        values: list[Any] = [None] * len(distinct)
        for value in results:
            values[at[_key(value)]] = value
        to_code = np.array([at[_key(value)] for value in results], np.int64)
        return to_code[encoded.indices.to_numpy(zero_copy_only=False)], values

    def _prepared(self, column: pa.Array) -> tuple[pa.Array, Callable[[Any], Any]]:
        """A column with fewer distinct values, and the transform of one of them."""
        number = _AS_NUMBER.get(type(self._source))
        if isinstance(column, pa.ExtensionArray):
            column = column.storage
        if number is not None:
            column = column.cast(number)
        if number == pa.int64() and not isinstance(self._source, TimeType):
            return self._of_instant(column)
        if isinstance(self._transform, IdentityTransform):
            return column, _same
        return column, self._transform.transform(self._source)

    def _of_instant(self, column: pa.Array) -> tuple[pa.Array, Callable[[Any], Any]]:
        match self._transform:
            case HourTransform():
                return _floor_divided(column, _HOUR_US), _same
            case DayTransform():
                return _floor_divided(column, _DAY_US), _same
            case MonthTransform() | YearTransform():
                days = _floor_divided(column, _DAY_US)
                return days, self._transform.transform(DateType())
            case IdentityTransform():
                return column, _same
        return column, self._transform.transform(self._source)


def _same(value: object) -> object:
    return value


def _key(value: object) -> object:
    """Equal for equal values; distinguishes the kinds that Python takes as equal."""
    if isinstance(value, float):
        return (float, str(value))
    return value


def _floor_divided(column: pa.Array, unit: int) -> pa.Array:
    """Whole units since the epoch, also before it."""
    missing = column.is_null()
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False) // unit
    return pa.array(numbers, mask=missing.to_numpy(zero_copy_only=False))


def path_to(struct: StructType, field_id: int) -> list[int]:
    """Positions of a field in the structs that contain it."""
    for position, field in enumerate(struct.fields):
        if field.field_id == field_id:
            return [position]
        if isinstance(field.field_type, StructType):
            deeper = path_to(field.field_type, field_id)
            if deeper:
                return [position, *deeper]
    return []
