"""Canonical JSON (RFC 8785, for the values that occur here) and its sha256: one form of each."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal

JsonValue = None | bool | int | str | Decimal | Sequence["JsonValue"] | Mapping[str, "JsonValue"]


def _plain(value: JsonValue) -> object:
    match value:
        case None | bool() | str():
            return value
        case int():
            if abs(value) >= 2**53:
                raise ValueError("an integer in canonical JSON stays below 2^53; write it as text")
            return value
        case Decimal():
            return format(value, "f")
        case Mapping():
            ordered = sorted(value.items(), key=lambda item: item[0].encode("utf-16-be"))
            return {key: _plain(item) for key, item in ordered}
        case _:
            return [_plain(item) for item in value]


def canonical_json(value: JsonValue) -> bytes:
    """UTF-8 bytes: keys in UTF-16 order, no white space, decimals as exact text.

    Raises:
        ValueError: an integer of 2^53 or more, which RFC 8785 readers would round.
    """
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":")).encode()


def sha256_hex(data: bytes) -> str:
    """64 lower-case hexadecimal characters."""
    return hashlib.sha256(data).hexdigest()
