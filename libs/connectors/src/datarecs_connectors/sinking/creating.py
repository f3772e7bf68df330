"""The table that a sink creates: its columns from the first records, its partitions as declared."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import DoubleType, IcebergType, MapType, NestedField

from datarecs_application.ports.sinking import SinkRecord
from datarecs_connectors.sinking.avro_shapes import typed_rows
from datarecs_connectors.sinking.catalog_changes import NewTable
from datarecs_connectors.sinking.partitions import path_to
from datarecs_connectors.sinking.rows import place_columns
from datarecs_connectors.sinking.shapes import (
    FieldsError,
    check_count,
    check_fields,
    merged_members,
    typed,
)
from datarecs_connectors.sinking.values import record_faults
from datarecs_core.errors.sink import BadRecordError, SinkCode, SinkError
from datarecs_core.sink.definition import SinkTable

_SAMPLE = 1_000
_FORMAT = {"format-version": "2"}
_TERM = re.compile(
    r"\s*(?:([A-Za-z]+)\s*\(\s*(?:([0-9]{1,10})\s*,\s*)?([^(),\s]+)\s*\)|([^(),\s]+))\s*", re.ASCII
)
_TIMES: Mapping[str, Callable[[], Transform[Any, Any]]] = {
    "year": YearTransform,
    "month": MonthTransform,
    "day": DayTransform,
    "hour": HourTransform,
}
_SIZED: Mapping[str, Callable[[int], Transform[Any, Any]]] = {
    "bucket": BucketTransform,
    "truncate": TruncateTransform,
}
_SHORT = {"truncate": "trunc"}
_LARGEST_SIZE = 2**31 - 1
_FORMS = (
    "write col, year(col), month(col), day(col), hour(col), bucket(16, col) or truncate(4, col)"
)


def new_table(sink: SinkTable, records: Sequence[SinkRecord]) -> NewTable:
    """The table for these records, or for those of them that make one together.

    Raises:
        SinkError: PARTITION_TERM_INVALID, IDENTIFIER_MISSING; no record makes a table.
        BadRecordError: no column can be derived from the records.
    """
    sample = records[:_SAMPLE]
    try:
        return _table_of(sink, sample)
    except (SinkError, BadRecordError):
        fitting = _fitting(sink, sample)
        if len(fitting) in {0, len(sample)}:
            raise
        return _table_of(sink, fitting)


def _fitting(sink: SinkTable, records: Sequence[SinkRecord]) -> list[SinkRecord]:
    """The first record that makes a table alone, and those that do not prevent it."""
    good = next((at for at, one in enumerate(records) if _makes_table(sink, [one])), None)
    if good is None:
        return []
    before = [one for one in records[:good] if _makes_table(sink, [one, records[good]])]
    after = [one for one in records[good + 1 :] if _makes_table(sink, [records[good], one])]
    return [*before, records[good], *after]


def _makes_table(sink: SinkTable, records: Sequence[SinkRecord]) -> bool:
    try:
        _table_of(sink, records)
    except (SinkError, BadRecordError):
        return False
    return True


def _table_of(sink: SinkTable, records: Sequence[SinkRecord]) -> NewTable:
    with record_faults(len(records)):
        schema = inferred_schema(sink, records)
    spec = PartitionSpec(
        *(_partition_field(number, term, schema) for number, term in enumerate(sink.partition_by))
    )
    names = [field.name for field in spec.fields]
    if len(set(names)) < len(names):
        raise _invalid(len(names) - 1, sink.partition_by[-1], 1, "two terms have one name")
    return NewTable(schema=schema, spec=spec, properties=dict(_FORMAT))


def inferred_schema(sink: SinkTable, records: Sequence[SinkRecord]) -> Schema:
    """Columns in the order in which the records have them; optional, except the id columns."""
    rows: Sequence[Mapping[str, Any]] = typed_rows(records)[0]
    places = place_columns(sink.metadata_columns)
    reserved = {place.name for place in places}
    ids = count(1)
    if sink.case_insensitive:
        rows = one_spelling(rows, sink.id_columns)
    columns = merged_members(rows)
    fields = [
        NestedField(
            field_id=next(ids),
            name=name,
            field_type=typed(shape, ids),
            required=name in sink.id_columns,
        )
        for name, shape in columns.items()
        if name not in reserved
    ]
    fields += [
        NestedField(field_id=next(ids), name=place.name, field_type=_renumbered(place.type, ids))
        for place in places
    ]
    if not fields:
        raise BadRecordError(path="", reason="no column can be derived from the record", at=0)
    try:
        check_count(next(ids) - 1)
        schema = Schema(*fields, identifier_field_ids=_identifiers(sink, fields))
        check_fields(schema)
    except ValueError as cause:
        reason = "two fields of the record would have one name in the table"
        if isinstance(cause, FieldsError):
            reason = str(cause)
        at = 0 if len(records) == 1 else -1
        raise BadRecordError(path="", reason=reason, at=at) from None
    return schema


def _identifiers(sink: SinkTable, fields: Sequence[NestedField]) -> list[int]:
    by_name = {field.name: field for field in fields}
    for name in sink.id_columns:
        field = by_name.get(name)
        if field is None:
            raise SinkError(
                SinkCode.IDENTIFIER_MISSING,
                f"id_columns names {name!r}, and no record of the first ones has a value for it",
            )
        if not field.field_type.is_primitive or isinstance(field.field_type, DoubleType):
            raise SinkError(
                SinkCode.IDENTIFIER_MISSING,
                f"id_columns names {name!r}, which is {field.field_type}; use columns of text, "
                "whole numbers or booleans",
            )
    return [by_name[name].field_id for name in sink.id_columns]


def one_spelling(
    rows: Sequence[Mapping[str, Any]], known: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """The rows with one spelling for names that differ in case: a known one, or the first."""
    spelling = {name.casefold(): name for name in known}

    def spelled(value: object) -> Any:  # noqa: ANN401 - any JSON, as it came
        if isinstance(value, dict):
            return {
                spelling.setdefault(name.casefold(), name): spelled(member)
                for name, member in value.items()
            }
        return [spelled(item) for item in value] if isinstance(value, list) else value

    return [spelled(dict(row)) for row in rows]


def _renumbered(kind: IcebergType, ids: Iterator[int]) -> IcebergType:
    if not isinstance(kind, MapType):
        return kind
    return MapType(
        key_id=next(ids),
        key_type=kind.key_type,
        value_id=next(ids),
        value_type=kind.value_type,
        value_required=kind.value_required,
    )


def _partition_field(number: int, term: str, schema: Schema) -> PartitionField:
    match = _TERM.fullmatch(term)
    if match is None:
        raise _invalid(number, term, _first_fault(term), _FORMS)
    word, _, inner, column = match.groups()
    name = inner or column
    transform = _transform(number, term, match)
    try:
        field = schema.find_field(name)
    except ValueError:
        at = match.start(3 if inner else 4) + 1
        raise _invalid(number, term, at, f"the table has no column {name!r}") from None
    if not path_to(schema.as_struct(), field.field_id) or not transform.can_transform(
        field.field_type
    ):
        at = match.start(1 if word else 4) + 1
        raise _invalid(
            number, term, at, f"column {name!r} of type {field.field_type} cannot be divided so"
        )
    suffix = f"_{_SHORT.get(word.lower(), word.lower())}" if word else ""
    return PartitionField(
        source_id=field.field_id,
        field_id=PARTITION_FIELD_ID_START + number,
        transform=transform,
        name=f"{name}{suffix}",
    )


def _transform(number: int, term: str, match: re.Match[str]) -> Transform[Any, Any]:
    word, size = match[1], match[2]
    if word is None:
        return IdentityTransform()
    timed, sized = _TIMES.get(word.lower()), _SIZED.get(word.lower())
    if timed is not None and size is None:
        return timed()
    if sized is not None and size is not None and 0 < int(size) <= _LARGEST_SIZE:
        return sized(int(size))
    if sized is not None or timed is not None:
        at = match.start(2) if size is not None else match.end(1)
        raise _invalid(number, term, at + 1, _FORMS)
    raise _invalid(number, term, match.start(1) + 1, f"there is no transform {word!r}; {_FORMS}")


def _first_fault(term: str) -> int:
    """The first character after which no term can continue; counted from 1."""
    longest = _TERM.match(term)
    return (longest.end() if longest is not None else 0) + 1


def _invalid(number: int, term: str, at: int, why: str) -> SinkError:
    return SinkError(
        SinkCode.PARTITION_TERM_INVALID,
        f"partition_by[{number}] {term!r}, character {at}: {why}",
    )
