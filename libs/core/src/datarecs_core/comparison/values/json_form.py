"""The canonical text of a JSON value: keys by code point, numbers by value, no white space.

Separate from `canonical` because it is the one place where text is parsed to become a value.
"""

import json
from collections.abc import Sequence
from decimal import Decimal

from datarecs_core.documents import decimal_text

_MAX_EXPONENT = 400
"""No double reaches it; a wider number would cost its exponent in digits."""


def json_value(raw: str, *, arrays_as_sets: bool = False) -> str | None:
    """Canonical text, or None when the text is not one JSON value.

    Duplicate keys, NaN, lone surrogates, numbers beyond a double's exponent and nesting too deep
    to read are refused. `arrays_as_sets` sorts array elements by their text; copies stay.
    """
    try:
        parsed = json.loads(
            raw,
            parse_float=Decimal,
            parse_int=Decimal,
            parse_constant=_refuse,
            object_pairs_hook=_object,
        )
        written = _write(parsed, arrays_as_sets=arrays_as_sets)
        written.encode()
    except (ValueError, ArithmeticError, RecursionError):
        return None
    return written


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is not JSON")


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a key occurs twice")
    return members


def _write(value: object, *, arrays_as_sets: bool) -> str:
    match value:
        case Decimal():
            if value != 0 and abs(value.adjusted()) > _MAX_EXPONENT:
                raise ValueError("a number outside the range of double")
            return decimal_text(value)
        case list():
            items = [_write(item, arrays_as_sets=arrays_as_sets) for item in value]
            return f"[{','.join(sorted(items) if arrays_as_sets else items)}]"
        case dict():
            members = (
                f"{json.dumps(key, ensure_ascii=False)}:"
                f"{_write(value[key], arrays_as_sets=arrays_as_sets)}"
                for key in sorted(value)
            )
            return f"{{{','.join(members)}}}"
        case _:
            return json.dumps(value, ensure_ascii=False)
