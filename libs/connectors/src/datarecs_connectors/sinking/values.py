"""Convert one value to that of a column, without loss or not at all.

Values are those of JSON, and what decoders make of other formats.

A value that a column cannot hold is refused with a reason; it is never cut or replaced by NULL, and
only a fraction in a column of binary fractions becomes the nearest one. Reasons name types and
limits and never the value.
"""

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from uuid import UUID

import pyarrow as pa
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from datarecs_connectors.avro.values import ExactDecimal, NoTextError, Unfit, json_text
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.sink import BadRecordError
from datarecs_core.values import EXACT

Convert = Callable[[object], object]
"""To the column's value; raises MismatchError."""

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,19}", re.ASCII)
_DECIMAL = re.compile(r"-?[0-9]{1,80}(\.[0-9]{1,80})?", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_CLOCK = r"([0-9]{2}:[0-9]{2})(:[0-9]{2})?(\.[0-9]{1,9})?"
_TIME = re.compile(_CLOCK, re.ASCII)
_TIMESTAMP = re.compile(rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})[T ]{_CLOCK}", re.ASCII)
_ZONED = re.compile(
    rf"([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})[T ]{_CLOCK}(Z|[+-][0-9]{{2}}:?[0-9]{{2}})", re.ASCII
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_WIDEST_EXPONENT, _MOST_DIGITS = 400, 800
"""Beyond them no number fits any column, and its digits would fill the memory."""
_KINDS = {
    bool: "a boolean",
    bytes: "bytes",
    ExactDecimal: "a decimal",
    date: "a date",
    time: "a time",
    datetime: "a timestamp",
    UUID: "a uuid",
    int: "a number",
    float: "a number",
    Decimal: "a number",
    str: "a string",
    dict: "an object",
    list: "an array",
}


class MismatchError(Exception):
    """A value does not fit; the text is the reason."""


REFUSALS = (
    MismatchError,
    pa.ArrowException,
    ValueError,
    TypeError,
    ArithmeticError,
    RecursionError,
)
"""What a conversion of records raises: each is the fault of a record."""


def unconvertible(cause: Exception, records: int) -> BadRecordError:
    """Of so many records, because of an exception without a reason for people."""
    name = type(cause).__name__
    reason = f"the records cannot be converted together ({name})"
    if records == 1:
        reason = f"the record cannot be converted ({name})"
    fault = BadRecordError(path="", reason=reason, at=0 if records == 1 else -1)
    fault.__cause__ = cause
    return fault


@contextmanager
def record_faults(records: int) -> Iterator[None]:
    """What nobody expects of a conversion without I/O is a fault of its records.

    Raises BadRecordError; of more than one record without its index, so that fewer are tried.
    """
    try:
        yield
    except (DatarecsError, OSError, MemoryError):
        raise
    except Exception as cause:
        raise unconvertible(cause, records) from cause


def kind_of(value: object) -> str:
    """What a JSON value is, in words."""
    return "null" if value is None else _KINDS.get(type(value), type(value).__name__)


def unfit(value: object, wanted: str) -> MismatchError:
    if isinstance(value, Unfit):
        return MismatchError(value.reason)
    return MismatchError(f"{kind_of(value)} does not fit a column of type {wanted}")


def to_boolean(value: object) -> object:
    if type(value) is not bool:
        raise unfit(value, "boolean")
    return value


def to_integer(bits: int, value: object) -> object:
    name = "int" if bits == 32 else "long"  # noqa: PLR2004  the two widths of Iceberg
    number = _whole(value, name)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise MismatchError(f"the number is outside of the range of {name}")
    return number


def _whole(value: object, name: str) -> int:
    if type(value) is int:
        return value
    if type(value) is Decimal:
        _bounded(value)
        if value == value.to_integral_value():
            return int(value)
        raise MismatchError(f"a number with a fraction does not fit a column of type {name}")
    if type(value) is str and _INTEGER.fullmatch(value):
        return int(value)
    if type(value) is str:
        raise MismatchError(f"the text is no whole number for a column of type {name}")
    raise unfit(value, name)


def to_double(value: object) -> object:
    """The nearest double of the number's text; whole numbers exactly."""
    if type(value) is float:
        return value
    if type(value) is int:
        try:
            exact = float(value)
        except OverflowError:
            raise MismatchError("the number is outside of the range of double") from None
        if int(exact) != value:
            raise MismatchError("the whole number has more digits than double holds")
        return exact
    if type(value) is not Decimal:
        raise unfit(value, "double")
    nearest = float(value)
    if math.isinf(nearest) or (nearest == 0 and value != 0):
        raise MismatchError("the number is outside of the range of double")
    return nearest


def to_float(value: object) -> object:
    """A float that equals the number, or that is written with the same digits."""
    wide = float(to_double(value))  # type: ignore[arg-type]  # a float
    try:
        narrow: float = struct.unpack("<f", struct.pack("<f", wide))[0]
    except OverflowError:
        raise MismatchError("the number is outside of the range of float") from None
    if narrow == wide or math.isnan(wide):
        return narrow
    if type(value) is Decimal and Decimal(_shortest(narrow)) == value:
        return narrow
    raise MismatchError("the number has more digits than float holds")


def _shortest(narrow: float) -> str:
    """The fewest digits that name this float."""
    for digits in range(1, 10):
        text = f"{narrow:.{digits}g}"
        with suppress(OverflowError):  # few digits of the largest floats are beyond all of them
            if struct.pack("<f", float(text)) == struct.pack("<f", narrow):
                return text
    return repr(narrow)


def to_decimal(precision: int, scale: int, value: object) -> object:
    name = f"decimal({precision}, {scale})"
    if type(value) is str:
        if not _DECIMAL.fullmatch(value):
            raise MismatchError(f"the text is no number for a column of type {name}")
        value = Decimal(value)
    if type(value) is int:
        if abs(value) >= 10**38:
            raise MismatchError(f"the number has more digits than {name} holds")
        value = Decimal(value)
    if not isinstance(value, Decimal):
        raise unfit(value, name)
    _bounded(value)
    scaled = value.scaleb(scale, EXACT)
    if scaled != scaled.to_integral_value() or abs(int(scaled)) >= 10**precision:
        raise MismatchError(f"the number has more digits than {name} holds")
    return Decimal(int(scaled)).scaleb(-scale, EXACT)


def _bounded(value: Decimal) -> None:
    parts = value.as_tuple()
    is_long = len(parts.digits) > _MOST_DIGITS
    if not value.is_finite() or is_long or abs(value.adjusted()) > _WIDEST_EXPONENT:
        raise MismatchError("the number is outside of the range of every column")


def to_string(value: object) -> object:
    """Text as it is; objects and arrays as `json_text`."""
    if type(value) is str:
        return _encodable(value)
    if isinstance(value, UUID):
        return str(value)
    if not isinstance(value, dict | list):
        raise unfit(value, "string")
    try:
        return _encodable(json_text(value))
    except NoTextError as cause:
        raise MismatchError(str(cause)) from None


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MismatchError("the text has half of a surrogate pair") from None
    return text


def to_date(value: object) -> object:
    if type(value) is date:
        return value
    text = _text(value, "date")
    if not _DATE.fullmatch(text):
        raise MismatchError("the text is no date such as 2026-01-31")
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise MismatchError("the text is no date of the calendar") from None


def to_time(value: object) -> object:
    if type(value) is time:
        return value
    match = _TIME.fullmatch(_text(value, "time"))
    if match is None:
        raise MismatchError("the text is no time such as 23:59:59.999999")
    return _time(match[1], match[2], match[3])


def to_timestamp(value: object) -> object:
    if isinstance(value, datetime) and value.tzinfo is None:
        return value
    match = _TIMESTAMP.fullmatch(_text(value, "timestamp"))
    if match is None:
        raise MismatchError("the text is no timestamp without offset, such as 2026-01-31T23:59:59")
    day = to_date(match[1])
    return datetime.combine(day, _time(match[2], match[3], match[4]))  # type: ignore[arg-type]  # a date


def to_timestamptz(value: object) -> object:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value
    match = _ZONED.fullmatch(_text(value, "timestamptz"))
    if match is None:
        raise MismatchError("the text is no timestamp with offset, such as 2026-01-31T23:59:59Z")
    day, clock = to_date(match[1]), _time(match[2], match[3], match[4])
    try:
        offset = datetime.strptime(match[5], "%z").tzinfo
        return datetime.combine(day, clock, offset).astimezone(UTC)  # type: ignore[arg-type]  # a date
    except (ValueError, OverflowError):
        raise MismatchError("the timestamp or its offset is out of range") from None


def _time(clock: str, seconds: str | None, fraction: str | None) -> time:
    digits = (fraction or ".")[1:].ljust(9, "0")
    if digits[6:] != "000":
        raise MismatchError("the fraction of the second has more than six digits")
    try:
        return time.fromisoformat(f"{clock}{seconds or ':00'}.{digits[:6]}")
    except ValueError:
        raise MismatchError("the text is no time of the day") from None


def to_uuid(value: object) -> object:
    """Its 16 bytes."""
    if isinstance(value, UUID):
        return value.bytes
    text = _text(value, "uuid")
    if not _UUID.fullmatch(text):
        raise MismatchError("the text is no uuid")
    return UUID(text).bytes


def to_binary(value: object) -> object:
    """Bytes as they are, or those of base64."""
    if type(value) is bytes:
        return value
    text = _text(value, "binary")
    try:
        content = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise MismatchError("the text is not base64") from None
    if base64.b64encode(content).decode() != text:
        raise MismatchError("the text is not base64")
    return content


def to_fixed(length: int, value: object) -> object:
    content = to_binary(value)
    if len(content) != length:  # type: ignore[arg-type]  # bytes
        raise MismatchError(f"the bytes are not {length}")
    return content


def _text(value: object, name: str) -> str:
    if type(value) is not str:
        raise unfit(value, name)
    return value


_CONVERSIONS: dict[type[IcebergType], Convert] = {
    BooleanType: to_boolean,
    IntegerType: partial(to_integer, 32),
    LongType: partial(to_integer, 64),
    FloatType: to_float,
    DoubleType: to_double,
    StringType: to_string,
    DateType: to_date,
    TimeType: to_time,
    TimestampType: to_timestamp,
    TimestamptzType: to_timestamptz,
    UUIDType: to_uuid,
    BinaryType: to_binary,
}


def conversion_to(kind: IcebergType) -> Convert:
    """The conversion to a primitive type; one that no record can have always refuses."""
    match kind:
        case DecimalType(precision=precision, scale=scale):
            return partial(to_decimal, precision, scale)
        case FixedType():
            return partial(to_fixed, len(kind))
    return _CONVERSIONS.get(type(kind), partial(_unsupported, str(kind)))


def _unsupported(name: str, value: object) -> object:
    raise unfit(value, name)
