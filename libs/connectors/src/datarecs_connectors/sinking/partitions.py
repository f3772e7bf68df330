"""Split rows by the values of a table's partition spec.

Times are divided as numbers; the other transforms are applied to the distinct values of a batch.
Values are the internal ones of Iceberg: days, months and microseconds as numbers.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
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
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import (
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from datarecs_connectors.sinking.values import MismatchError
from datarecs_core.sink.control import PartitionField
from datarecs_core.values import EXACT

_HOUR_US, _DAY_US = 3_600_000_000, 86_400_000_000
_AS_NUMBER: dict[type[IcebergType], pa.DataType] = {
    DateType: pa.int32(),
    TimeType: pa.int64(),
    TimestampType: pa.int64(),
    TimestamptzType: pa.int64(),
}
_MOST_FOLDER_BYTES = 100
"""Of the name of a folder; file systems take 255."""
_FOLDER_PREFIX_BYTES = 80
_LAST_ESCAPES = re.compile(r"(%[0-9A-F]{0,2})+\Z")
"""At the end of a name: the last character may be cut in its middle."""


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
        """As other writers name the folders, long names cut; empty without partitions.

        Nobody reads a value from a path, so a cut one loses nothing.
        """
        folders = self.spec.partition_to_path(Record(*self.values), schema).split("/")
        return "/".join(map(_short, folders))


def _short(folder: str) -> str:
    """A name of plain ASCII; a long one as its begin and 16 digits of its hash."""
    if len(folder) <= _MOST_FOLDER_BYTES:
        return folder
    begin = _LAST_ESCAPES.sub("", folder[:_FOLDER_PREFIX_BYTES])
    return f"{begin}-{hashlib.sha256(folder.encode()).hexdigest()[:16]}"


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
        # Once for all: each take costs as much as the rows have chunks.
        ordered = rows if len(firsts) == 1 else rows.take(order)
        for start, end, first in zip((0, *ends[:-1]), ends, firsts, strict=True):
            values = tuple(known[code[first]] for known, code in zip(distinct, codes, strict=True))
            yield PartitionValues(self.spec, values), ordered.slice(start, end - start)


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
        column, transform = self._prepared(_column(rows, self._path))
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


class BelowRangeError(MismatchError):
    """The partition of a row is a number that the type of its column does not have."""

    def __init__(self, *, path: str, at: int) -> None:
        super().__init__("the number is too small for the partition of the table that rounds it")
        self.path, self.at = path, at


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastNumber:
    """Of a column that a partition rounds down to a multiple: what is below has no partition."""

    name: str
    path: tuple[int, ...]
    """As of `path_to`."""
    least: int | Decimal

    def check(self, rows: pa.Table) -> None:
        """Raises BelowRangeError for the first row that is below."""
        column = _column(rows, self.path)
        below = pc.less(column, pa.scalar(self.least, type=column.type)).fill_null(False)  # noqa: FBT003  pyarrow's signature
        at = pc.index(below, True).as_py()
        if at >= 0:
            raise BelowRangeError(path=self.name, at=at)


def least_numbers(spec: PartitionSpec, schema: Schema) -> tuple[LeastNumber, ...]:
    """Of every column where a number of its type can be too small."""
    limits = []
    for field in spec.fields:
        if not isinstance(field.transform, TruncateTransform):
            continue
        least = _least(schema.find_type(field.source_id), field.transform.width)
        if least is not None:
            path = tuple(path_to(schema.as_struct(), field.source_id))
            name = str(schema.find_column_name(field.source_id))
            limits.append(LeastNumber(name=name, path=path, least=least))
    return tuple(limits)


def _least(kind: IcebergType, width: int) -> int | Decimal | None:
    """The smallest multiple of the width that the type has; None for a type without numbers."""
    match kind:
        case IntegerType():
            return -(2**31 // width) * width
        case LongType():
            return -(2**63 // width) * width
        case DecimalType(precision=precision, scale=scale):
            unscaled = -((10**precision - 1) // width) * width
            return Decimal(unscaled).scaleb(-scale, EXACT)
    return None


def _column(rows: pa.Table, path: Sequence[int]) -> pa.Array:
    column = rows.column(path[0]).combine_chunks()
    for position in path[1:]:
        column = pc.struct_field(column, [position])
    return column


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
