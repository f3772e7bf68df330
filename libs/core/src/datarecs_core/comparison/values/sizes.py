"""How large one value and one key may be: what counts as their size, on every engine alike.

Only texts, JSON, binaries and nested values can be large, so only they count, as UTF-8, as bytes
and as encoded; a number or a time has a few dozen at most. Values count as their source delivers
them, keys as rows are grouped by them. Separate from the oracle's reading because engines measure
the same in SQL.
"""

from collections.abc import Iterable

from datarecs_core.comparison.planning.faults import KeyTooLargeError, ValueTooLargeError
from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.comparison.values.canonical import Tag, Value, payload_of

_NESTED = frozenset({Tag.ARRAY, Tag.STRUCT, Tag.MAP})
_LONGEST_CODE_POINT = 4
"""Bytes of UTF-8."""


def size_of(value: Value) -> int:
    """Bytes that count against the limits; 0 for NULL and for all that is small by its type."""
    match value.content:
        case str(text):
            return len(text.encode(errors="surrogatepass"))
        case bytes(raw) if value.tag is Tag.BINARY:
            return len(raw)
        case (_, bytes(raw)):
            return len(raw)  # of an INVALID value, after its source's name
        case tuple() if value.tag in _NESTED:
            return len(payload_of(value))
        case _:
            return 0


def check_value(value: Value, scan: Scan, column: str) -> None:
    """Raises ValueTooLargeError above the limit of the scan."""
    limit, content = scan.limits.max_value_bytes, value.content
    if isinstance(content, str) and len(content) * _LONGEST_CODE_POINT <= limit:
        return
    if size_of(value) > limit:
        raise ValueTooLargeError(source=scan.source, column=column, limit=limit)


def check_key(key: Iterable[Value], scan: Scan) -> None:
    """Raises KeyTooLargeError above the limit of the scan."""
    limit = scan.limits.max_key_bytes
    if sum(map(size_of, key)) > limit:
        raise KeyTooLargeError(source=scan.source, limit=limit)
