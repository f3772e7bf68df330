"""Read and write jsonb digit for digit: decimals stay decimals of any length.

Python's encoder writes no Decimal and its decoder converts fractions to floats; payloads and pins
contain money, so this adapter has its own encoder and decoder.
"""

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal


def read(text: str | bytes) -> object:
    """A JSON value; numbers with a fraction or exponent arrive as Decimal."""
    return json.loads(text, parse_float=Decimal)


def write(value: object) -> str:
    """Compact JSON. Decimals are numbers with exactly their digits.

    Raises:
        TypeError: a value without a JSON form; also a float, because its digits are not its value.
        ValueError: a Decimal that is not finite.
    """
    return "".join(_parts(value))


def _parts(value: object) -> list[str]:
    match value:
        case None | bool() | int() | str():
            return [json.dumps(value, ensure_ascii=False)]
        case Decimal():
            return [_number(value)]
        case Mapping():
            inner = [
                [json.dumps(str(key), ensure_ascii=False), ":", *_parts(item)]
                for key, item in value.items()
            ]
            return ["{", *_joined(inner), "}"]
        case Sequence() if not isinstance(value, bytes | bytearray):
            return ["[", *_joined([_parts(item) for item in value]), "]"]
        case _:
            raise TypeError(f"a {type(value).__name__} has no place in JSON")


def _joined(inner: list[list[str]]) -> list[str]:
    return [part for index, item in enumerate(inner) for part in ([","] if index else []) + item]


def _number(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError("JSON has no number that is not finite")
    return str(value)
