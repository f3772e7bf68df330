"""Digest stages: keyed fingerprints of rows, added up in 4,096 buckets of the key space.

Sums, because exclusive-or cancels pairs of equal rows; keyed, because the bucket of a single row
would reveal a value that can be guessed. Every engine computes the same bytes for the same rows.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from datarecs_core.comparison.planning.plan import (
    DimensionPlan,
    HashedRows,
    InputPlan,
    MeasurePlan,
)
from datarecs_core.comparison.values.canonical import Tag, Value, encode_tuple, number
from datarecs_core.jobs import types
from datarecs_core.jobs.vocabulary import CompareTo, Function

BUCKET, FINGERPRINT = "bucket", "fingerprint"
BUCKET_BITS = 12
FINGERPRINT_BYTES = KEY_HASH_BYTES = 16
COUNT_BYTES = 8
ROW_MARK, KEY_MARK = b"\x01", b"\x02"
"""Follows the tenant's key in the hashed bytes: for fingerprints, for keys."""
NAN = b"NaN"
"""Raw bytes of a NaN that equals nothing: it is hashed as INVALID, different in every source."""


def key_hash(key: bytes, group: bytes) -> bytes:
    """16 bytes that name an encoded key tuple without telling it; the first 12 bits its bucket."""
    return hashlib.sha256(key + KEY_MARK + group).digest()[:KEY_HASH_BYTES]


def bucket_of(key: bytes, group: bytes) -> int:
    """The bucket of an encoded key tuple, 0 to 4,095."""
    return int.from_bytes(key_hash(key, group)[:2]) >> (16 - BUCKET_BITS)


def bucket_key(key: bytes, group: bytes) -> bytes:
    """The encoded key of the bucket, as groups of a digest stage are called."""
    return encode_tuple((number(bucket_of(key, group)),))


def fingerprint_of(key: bytes, group: bytes, values: bytes) -> int:
    """The first 128 bits of a row's hash; both tuples are encoded."""
    digest = hashlib.sha256(key + ROW_MARK + group + values).digest()
    return int.from_bytes(digest[:FINGERPRINT_BYTES])


def bucket_value(rows: int, total: int) -> Value:
    """What buckets are compared by: rows (8 bytes) and the sum of fingerprints modulo 2^128."""
    summed = (total % 2 ** (8 * FINGERPRINT_BYTES)).to_bytes(FINGERPRINT_BYTES)
    return Value(Tag.BINARY, rows.to_bytes(COUNT_BYTES) + summed)


def read_bucket_value(value: Value) -> tuple[int, int]:
    """Rows and sum of what `bucket_value` made.

    Raises:
        ValueError: another value.
    """
    if (
        not isinstance(value.content, bytes)
        or len(value.content) != COUNT_BYTES + FINGERPRINT_BYTES
    ):
        raise ValueError("no value of a bucket")
    return int.from_bytes(value.content[:COUNT_BYTES]), int.from_bytes(value.content[COUNT_BYTES:])


def bucket_dimension(sources: int) -> DimensionPlan:
    """The group of a digest stage."""
    return DimensionPlan(name=BUCKET, inputs=(InputPlan(column=BUCKET, type=types.INT),) * sources)


def bucket_measures(
    rows: Sequence[MeasurePlan], sources: int, compare_to: CompareTo
) -> tuple[MeasurePlan, ...]:
    """`fingerprint`, then the columns that cannot be part of one: outside in every bucket."""
    fingerprint = MeasurePlan(
        name=FINGERPRINT,
        index=0,
        function=Function.VALUE,
        inputs=(InputPlan(column=FINGERPRINT, type=types.BINARY),) * sources,
        compare_to=compare_to,
    )
    others = (each for each in rows if not each.comparable)
    return (fingerprint, *(replace(each, index=at) for at, each in enumerate(others, start=1)))


def hashed_rows(
    dimensions: tuple[DimensionPlan, ...], measures: Sequence[MeasurePlan]
) -> HashedRows:
    """The values in the rows of the fingerprints."""
    named = sorted((each for each in measures if each.comparable), key=lambda each: each.name)
    return HashedRows(
        dimensions=dimensions,
        measures=tuple(replace(each, index=at) for at, each in enumerate(named)),
    )
