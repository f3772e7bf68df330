"""Hashes of keys in SQL: the bytes of `comparison.fingerprints`."""

from collections.abc import Sequence

from datarecs_core.comparison.results.fingerprints import BUCKET_BITS, KEY_HASH_BYTES, KEY_MARK
from datarecs_kernel.layout import Field
from datarecs_spark.canonical import binary_literal, encoded, encoded_tuple


def bucket(keys: Sequence[Field], key: bytes) -> str:
    """The number of the bucket of a row's key."""
    return _number(_hashed_key(keys, key), 1, BUCKET_BITS // 4)


def key_hash(keys: Sequence[Field], key: bytes) -> str:
    """The 16 bytes of `comparison.fingerprints.key_hash` of a row's key."""
    return f"unhex(substr({_hashed_key(keys, key)}, 1, {2 * KEY_HASH_BYTES}))"


def _hashed_key(keys: Sequence[Field], key: bytes) -> str:
    """In hexadecimal digits."""
    parts = [_encoded(field) for field in keys]
    return f"sha2(concat({binary_literal(key + KEY_MARK)}, {encoded_tuple(parts)}), 256)"


def _encoded(field: Field) -> str:
    return encoded(field.form, field.name, field.payload if field.may_be_invalid else None)


def _number(digits: str, start: int, length: int) -> str:
    return f"CAST(conv(substr({digits}, {start}, {length}), 16, 10) AS BIGINT)"
