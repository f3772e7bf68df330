"""Read JSON values as a sink writes them into a table: forms that casts refuse and sinks accept.

A value is read by the rules of every JSON source; only where these have no answer, the conversion
of the sink decides. So a wrong conversion of a common form shows as a difference.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from uuid import UUID

from datarecs_connectors.declared_types import declared_types
from datarecs_connectors.json_values import Number, Read, exact, reader_of
from datarecs_core.comparison.values.translating import Invalid
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind, parse_type

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LONG_BITS = 64
"""An int column of the table is an integer too: the sink refuses what is out of its range."""


def written_types(source: str, written: Mapping[str, str]) -> dict[str, CanonicalType]:
    """The types of columns of a table, by name; binary is base64 in JSON.

    Raises SourceUnsupportedError.
    """
    binary = {name for name, kind in written.items() if parse_type(kind) == types.BINARY}
    others = {name: kind for name, kind in written.items() if name not in binary}
    readable = declared_types(source, others)
    return {name: types.BINARY if name in binary else readable[name] for name in written}


def reader_as_written(kind: CanonicalType) -> Read:
    """Converts values of a column to plain values, or `Invalid` where a sink refuses them too."""
    read = reader_of(kind)

    def read_as_written(value: object) -> object:
        if kind.kind is TypeKind.BINARY or _is_nested_text(value, kind):
            made: object = Invalid(b"")
        else:
            made = read(value)
        if not isinstance(made, Invalid):
            return made
        converted = _converted(value, kind)
        return made if converted is None else converted

    return read_as_written


def _is_nested_text(value: object, kind: CanonicalType) -> bool:
    return kind.kind is TypeKind.TEXT and isinstance(value, dict | list)


def _converted(value: object, kind: CanonicalType) -> object:
    """None for a value that the sink refuses as well."""
    # pyiceberg takes half a second to import: only the proof of a table needs it.
    from datarecs_connectors.sinking import values  # noqa: PLC0415  the reason above

    conversions: Mapping[TypeKind, Callable[[object], object]] = {
        TypeKind.BOOL: values.to_boolean,
        TypeKind.INT: partial(values.to_integer, _LONG_BITS),
        TypeKind.FLOAT32: values.to_float,
        TypeKind.FLOAT64: values.to_double,
        TypeKind.DECIMAL: partial(values.to_decimal, kind.precision or 0, kind.scale or 0),
        TypeKind.TEXT: values.to_string,
        TypeKind.DATE: values.to_date,
        TypeKind.TIME: values.to_time,
        TypeKind.LOCAL_TIMESTAMP: values.to_timestamp,
        TypeKind.INSTANT: values.to_timestamptz,
        TypeKind.UUID: values.to_uuid,
        TypeKind.BINARY: values.to_binary,
    }
    try:
        parsed = _numbered(value)
        return _plain(conversions[kind.kind](parsed), kind) if kind.kind in conversions else None
    except (values.MismatchError, ValueError):
        return None


def _plain(value: object, kind: CanonicalType) -> object:
    """A value of the sink as readers of JSON deliver it."""
    match value:
        case datetime():
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            return Decimal((aware - _EPOCH) // _MICROSECOND)
        case date():
            return Decimal((value - _EPOCH.date()).days)
        case time():
            return Decimal((datetime.combine(_EPOCH, value, UTC) - _EPOCH) // _MICROSECOND)
        case bytes() if kind.kind is TypeKind.UUID:
            return UUID(bytes=value)
        case int() if kind.kind is TypeKind.INT:
            return Decimal(value)
    return value


def _numbered(value: object) -> object:
    """Numbers as the sink parses them. Raises ValueError for one with too many digits."""
    match value:
        case Number():
            is_whole = value.lstrip("-").isdigit()
            return int(value) if is_whole else exact(value)
        case dict():
            return {name: _numbered(member) for name, member in value.items()}
        case list():
            return [_numbered(member) for member in value]
        case _:
            return value
