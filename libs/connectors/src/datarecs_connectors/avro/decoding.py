"""Avro's binary form to values, by the schema of the producer, and Confluent's head before it.

A schema is compiled once to functions. A value is refused where two readers could understand it
differently, and where few bytes would become much memory; the message has none of it.
"""

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from uuid import UUID

from datarecs_connectors.avro.schemas import (
    MOST_DIGITS,
    Kind,
    Leaf,
    ListNode,
    MapNode,
    Node,
    RecordNode,
    UnionNode,
)
from datarecs_connectors.avro.values import ExactDecimal, NoTextError, Unfit, json_text
from datarecs_core.values import EXACT

HEAD_BYTES = 5
"""A zero and the id of the schema, before the value."""
MOST_ITEMS = 1_000_000
"""Of all arrays and maps of one value; an item of one byte becomes an object of a hundred."""
_MORE, _LOW = 0x80, 0x7F
_MOST_SHIFT = 63
_INT = 1 << 31
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  of local timestamps
_EPOCH_UTC = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MICROS = 86_400_000_000
_OUT_OF_RANGE = Unfit("the time is outside of the years 1 to 9999")
_TOO_FINE = Unfit("the fraction of the second has more than six digits")
_TOO_LONG = Unfit("the number has more digits than its schema declares")
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


class AvroValueError(ValueError):
    """Bytes that are no value of the schema; the text is the reason."""


class _Bytes:
    """The bytes of one value; `at` moves on."""

    __slots__ = ("at", "data", "items")

    def __init__(self, data: bytes) -> None:
        self.data, self.at, self.items = data, HEAD_BYTES, 0

    def take(self, size: int) -> bytes:
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise AvroValueError("the value ends too early")
        part = self.data[self.at : end]
        self.at = end
        return part

    def number(self) -> int:
        """Raises IndexError at the end of the bytes."""
        byte = self.data[self.at]
        self.at += 1
        if byte < _MORE:
            return (byte >> 1) ^ -(byte & 1)
        value, shift = byte & _LOW, 7
        while byte >= _MORE:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & _LOW) << shift
            shift += 7
            if shift > _MOST_SHIFT and value >> 64 | byte & _MORE:
                raise AvroValueError("a number has more than 64 bits")
        return (value >> 1) ^ -(value & 1)

    def block(self) -> int:
        """How many items follow; 0 ends the array or map."""
        count = self.number()
        if count < 0:
            count = -count
            self.number()  # its bytes, for readers that pass over it
        self.items += count
        if self.items > MOST_ITEMS:
            raise AvroValueError(f"its arrays and maps have more than {MOST_ITEMS} items")
        return count


Read = Callable[[_Bytes], object]


def schema_id(value: bytes) -> int:
    """Of the schema that a value was written by. Raises AvroValueError."""
    if len(value) < HEAD_BYTES or value[0] != 0:
        raise AvroValueError(
            "the value does not begin with a zero byte and the id of a schema, as producers with a "
            "schema registry write it"
        )
    return int.from_bytes(value[1:HEAD_BYTES])


def reader_of(node: Node) -> Callable[[bytes], object]:
    """Reads whole values, after their head. The function raises AvroValueError."""
    read = _Compiler().read_of(node)

    def whole(value: bytes) -> object:
        source = _Bytes(value)
        try:
            made = read(source)
        except IndexError:
            raise AvroValueError("the value ends too early") from None
        if source.at != len(value):
            raise AvroValueError(f"{len(value) - source.at} bytes follow the value")
        return made

    return whole


class _Compiler:
    """Functions by their nodes: named types are used many times."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bool], Read] = {}

    def read_of(self, node: Node, *, in_text: bool = False) -> Read:
        """Args: in_text: whether the value is part of a JSON text, which has no text for itself."""
        key = id(node), in_text
        if key not in self._known:
            self._known[key] = self._function(node, in_text)
        return self._known[key]

    def _function(self, node: Node, in_text: bool) -> Read:  # noqa: FBT001  as above
        match node:
            case Leaf():
                return _leaf(node)
            case ListNode(items=items):
                return partial(_list, self.read_of(items, in_text=in_text))
            case MapNode(values=values):
                return partial(_map, self.read_of(values, in_text=in_text))
            case RecordNode(fields=fields):
                reads = [(name, self.read_of(inner, in_text=in_text)) for name, inner in fields]
                return partial(_record, reads)
            case UnionNode(branches=branches):
                is_text = node.only is None and not in_text
                inner = [self.read_of(one, in_text=is_text or in_text) for one in branches]
                return partial(_branch_text if is_text else _branch, inner)


def _record(fields: Sequence[tuple[str, Read]], source: _Bytes) -> object:
    return {name: read(source) for name, read in fields}


def _list(read: Read, source: _Bytes) -> object:
    items: list[object] = []
    while count := source.block():
        items += [read(source) for _ in range(count)]
    return items


def _map(read: Read, source: _Bytes) -> object:
    members: dict[str, object] = {}
    while count := source.block():
        for _ in range(count):
            name = _text(source)
            if name in members:
                raise AvroValueError("a key occurs twice in a map")
            members[name] = read(source)
    return members


def _branch(reads: Sequence[Read], source: _Bytes) -> object:
    index = source.number()
    if not 0 <= index < len(reads):
        raise AvroValueError("it names a branch that its union does not have")
    return reads[index](source)


def _branch_text(reads: Sequence[Read], source: _Bytes) -> object:
    """JSON, since the column of a union of several types has one type."""
    value = _branch(reads, source)
    if value is None:
        return None
    try:
        return json_text(value)
    except NoTextError as cause:
        return Unfit(str(cause))


def _text(source: _Bytes) -> str:
    try:
        return source.take(source.number()).decode()
    except UnicodeDecodeError:
        raise AvroValueError("a text is not UTF-8") from None


def _sized(source: _Bytes) -> bytes:
    return source.take(source.number())


def _boolean(source: _Bytes) -> object:
    byte = source.take(1)
    if byte > b"\x01":
        raise AvroValueError("a boolean is neither 0 nor 1")
    return byte == b"\x01"


def _int(source: _Bytes) -> int:
    number = source.number()
    if not -_INT <= number < _INT:
        raise AvroValueError("an int has more than 32 bits")
    return number


def _unpacked(form: struct.Struct, source: _Bytes) -> object:
    return form.unpack(source.take(form.size))[0]


def _symbol(symbols: Sequence[str], source: _Bytes) -> object:
    index = source.number()
    if not 0 <= index < len(symbols):
        raise AvroValueError("it names a symbol that its enum does not have")
    return symbols[index]


def _decimal(leaf: Leaf, source: _Bytes) -> object:
    digits = _sized(source) if leaf.size is None else source.take(leaf.size)
    if not digits:
        raise AvroValueError("a decimal has no bytes")
    # A digit needs less than half a byte; more of them would take long to convert.
    longest = leaf.precision + 1
    number = int.from_bytes(digits[-longest:], signed=True)
    if digits[:-longest].strip(b"\xff" if number < 0 else b"\x00"):
        return _TOO_LONG
    if abs(number) >= 10**leaf.precision:
        return _TOO_LONG
    value = Decimal(number).scaleb(-leaf.scale, EXACT)
    return ExactDecimal(value) if leaf.precision <= MOST_DIGITS else format(value, "f")


def _uuid(source: _Bytes) -> object:
    return UUID(bytes=source.take(16))


def _date(source: _Bytes) -> object:
    try:
        return date.fromordinal(_int(source) + _EPOCH_DAY)
    except (ValueError, OverflowError):
        return _OUT_OF_RANGE


def _time(read: Callable[[_Bytes], int], micros: int, source: _Bytes) -> object:
    since = read(source) * micros
    if not 0 <= since < _DAY_MICROS:
        return Unfit("the time is outside of the day")
    return (_EPOCH + timedelta(microseconds=since)).time()


def _moment(epoch: datetime, micros: int, source: _Bytes) -> object:
    try:
        return epoch + timedelta(microseconds=source.number() * micros)
    except OverflowError:
        return _OUT_OF_RANGE


def _fine_moment(epoch: datetime, source: _Bytes) -> object:
    micros, rest = divmod(source.number(), 1_000)
    return _TOO_FINE if rest else epoch + timedelta(microseconds=micros)


_READS: dict[Kind, Read] = {
    Kind.NULL: lambda _: None,
    Kind.BOOLEAN: _boolean,
    Kind.INT: _int,
    Kind.LONG: _Bytes.number,
    Kind.FLOAT: partial(_unpacked, _FLOAT),
    Kind.DOUBLE: partial(_unpacked, _DOUBLE),
    Kind.BYTES: _sized,
    Kind.STRING: _text,
    Kind.DATE: _date,
    Kind.TIME_MILLIS: partial(_time, _int, 1_000),
    Kind.TIME_MICROS: partial(_time, _Bytes.number, 1),
    Kind.TIMESTAMP_MILLIS: partial(_moment, _EPOCH_UTC, 1_000),
    Kind.TIMESTAMP_MICROS: partial(_moment, _EPOCH_UTC, 1),
    Kind.TIMESTAMP_NANOS: partial(_fine_moment, _EPOCH_UTC),
    Kind.LOCAL_TIMESTAMP_MILLIS: partial(_moment, _EPOCH, 1_000),
    Kind.LOCAL_TIMESTAMP_MICROS: partial(_moment, _EPOCH, 1),
    Kind.LOCAL_TIMESTAMP_NANOS: partial(_fine_moment, _EPOCH),
}


def _leaf(leaf: Leaf) -> Read:
    match leaf:
        case Leaf(kind=Kind.ENUM, symbols=symbols):
            return partial(_symbol, symbols)
        case Leaf(kind=Kind.DECIMAL):
            return partial(_decimal, leaf)
        case Leaf(kind=Kind.UUID):
            return _text if leaf.size is None else _uuid
        case Leaf(kind=Kind.FIXED, size=int() as size):
            return lambda source: source.take(size)
    return _READS[leaf.kind]
