"""Fingerprints of rows and their sums per bucket in DuckDB: the bytes of core's `fingerprints`.

Rows are encoded and hashed in DuckDB, which returns at most 4,096 sums per source. A sum of 128
bits is two sums of 64 bits; a HUGEINT holds each of them for any number of rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from datarecs_core.comparison.results.fingerprints import (
    BUCKET_BITS,
    FINGERPRINT_BYTES,
    KEY_HASH_BYTES,
    KEY_MARK,
    NAN,
    ROW_MARK,
    bucket_value,
)
from datarecs_core.comparison.results.results import BucketSum
from datarecs_core.comparison.values.canonical import encode, invalid
from datarecs_core.jobs.vocabulary import NanRule
from datarecs_kernel.database import Connection
from datarecs_kernel.encoding import blob, encoded, encoded_tuple, payload_of
from datarecs_kernel.forms import Form
from datarecs_kernel.group_table import GROUPS, group_table, grouped_rows, is_nan
from datarecs_kernel.layout import Layout, MeasureLayout
from datarecs_kernel.settling import SinkPlan

_LIMB_DIGITS = FINGERPRINT_BYTES
"""Hexadecimal digits of half a fingerprint."""
_MODULUS = 2 ** (8 * FINGERPRINT_BYTES)
_HEAD = 5
"""Bytes of an encoding before its payload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A column of the tuples that are hashed."""

    form: Form
    value: str
    broken: str | None
    """SQL of payloads of INVALID values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hashed:
    """Rows of one source that are hashed."""

    relation: str
    condition: str
    keys: Sequence[_Part]
    values: Sequence[_Part]


def seal(
    connection: Connection, plan: SinkPlan, layout: Layout, relations: Sequence[str]
) -> tuple[BucketSum, ...]:
    """`proof: rows`: sums of fingerprints by source and bucket.

    Args:
        connection: a database without concurrent queries.
        plan: of the stage.
        layout: of the rows that are hashed (`layout.hashed` of a digest stage, `sealing_layout` of
            one that compares rows). For a stage with functions that aggregate rows it is the
            stage's layout, because the results of groups are hashed.
        relations: per source, in the columns of that layout; each is read once.
    """
    if layout.stage.collapses:
        with group_table(connection, layout, relations):
            hashed = [_of_groups(layout, index) for index in layout.sources]
            return _bucket_sums(connection, plan.key, hashed)
    return _bucket_sums(connection, plan.key, _of_relations(layout, relations))


def bucket_table(
    connection: Connection, rows_layout: Layout, key: bytes, relations: Sequence[str]
) -> pa.Table:
    """The groups of a digest stage: `k0`, per source rows `n<source>` and sum `v0_<source>`.

    A source without rows in a bucket has 0 and NULL.
    """
    bucket_sums = _bucket_sums(connection, key, _of_relations(rows_layout, relations))
    by_source: list[dict[int, BucketSum]] = [{} for _ in rows_layout.sources]
    for each in bucket_sums:
        by_source[each.source][each.bucket] = each
    buckets = sorted({each.bucket for each in bucket_sums})
    columns = {"k0": pa.array(buckets, pa.int64())}
    for index, source_sums in enumerate(by_source):
        sums = [source_sums.get(bucket) for bucket in buckets]
        columns[f"n{index}"] = pa.array([each.rows if each else 0 for each in sums], pa.int64())
        values = [bucket_value(each.rows, each.total).content if each else None for each in sums]
        columns[f"v0_{index}"] = pa.array(values, pa.binary())
    return pa.table(columns)


def _of_relations(layout: Layout, relations: Sequence[str]) -> list[_Hashed]:
    return [
        _Hashed(
            relation=relation,
            condition=grouped_rows(layout),
            keys=_keys(layout),
            values=[_column(each, layout.stage.sources[index]) for each in layout.measures],
        )
        for index, relation in enumerate(relations)
    ]


def _of_groups(layout: Layout, index: int) -> _Hashed:
    """Results of one source, one row per group."""
    named = sorted(layout.compared, key=lambda each: each.plan.name)
    return _Hashed(
        relation=GROUPS,
        condition="TRUE" if layout.always_present else f"n{index} > 0",
        keys=_keys(layout),
        values=[_result(each, index, layout.stage.sources[index]) for each in named],
    )


def _keys(layout: Layout) -> list[_Part]:
    return [
        _Part(
            form=field.form,
            value=field.name,
            broken=field.payload if field.may_be_invalid else None,
        )
        for field in layout.keys
    ]


def _column(measure: MeasureLayout, source: str) -> _Part:
    field = measure.field
    if field is None:
        raise TypeError(f"{measure.plan.name} is no column, so it has no fingerprint")
    broken = field.payload if field.may_be_invalid else None
    return _strict(measure, _Part(form=field.form, value=field.name, broken=broken), source)


def _result(measure: MeasureLayout, index: int, source: str) -> _Part:
    at = f"{measure.index}_{index}"
    broken = f"x{at}" if measure.may_be_invalid else None
    return _strict(measure, _Part(form=measure.result, value=f"v{at}", broken=broken), source)


def _strict(measure: MeasureLayout, part: _Part, source: str) -> _Part:
    """A NaN that equals nothing is an INVALID value of its source."""
    if measure.plan.rules.nan is not NanRule.UNEQUAL or not part.form.is_number:
        return part
    payload = blob(encode(invalid(source, NAN))[_HEAD:])
    broken = (
        f"CASE WHEN {is_nan(part.form, part.value)} THEN {payload} ELSE {part.broken or 'NULL'} END"
    )
    return replace(part, broken=broken)


def _bucket_sums(
    connection: Connection, key: bytes, sources: Sequence[_Hashed]
) -> tuple[BucketSum, ...]:
    """Sums by source and bucket."""
    return tuple(
        BucketSum(
            source=index,
            bucket=bucket,
            rows=rows,
            total=((int(high) << 8 * FINGERPRINT_BYTES // 2) + int(low)) % _MODULUS,
        )
        for index, hashed in enumerate(sources)
        for bucket, rows, high, low in connection.execute(_query(hashed, key)).fetchall()
    )


def bucket_number(encoded_key: str, key: bytes) -> str:
    """SQL of the number of a bucket, from a key as an encoded tuple and the key of the tenant."""
    return f"CAST('0x' || left({_hashed_key(encoded_key, key)}, {BUCKET_BITS // 4}) AS INTEGER)"


def key_hash(encoded_key: str, key: bytes) -> str:
    """SQL of core's `fingerprints.key_hash`, from the same arguments."""
    return f"unhex(left({_hashed_key(encoded_key, key)}, {2 * KEY_HASH_BYTES}))"


def _hashed_key(encoded_key: str, key: bytes) -> str:
    """In hexadecimal digits."""
    return f"sha256({blob(key + KEY_MARK)} || {encoded_key})"


def _query(hashed: _Hashed, key: bytes) -> str:
    """Bucket, rows, and the sums of both halves of their fingerprints."""
    parts = {f"k{at}": each for at, each in enumerate(hashed.keys)}
    parts |= {f"v{at}": each for at, each in enumerate(hashed.values)}
    # A payload is read several times, so it becomes a column first.
    payloads = [f"{payload_of(each.form, each.value)} AS p{name}" for name, each in parts.items()]
    payloads += [f"{each.broken} AS x{name}" for name, each in parts.items() if each.broken]
    codes = {
        name: encoded(each.form, f"p{name}", f"x{name}" if each.broken else None)
        for name, each in parts.items()
    }
    tuples = [
        encoded_tuple([code for name, code in codes.items() if name[0] == letter])
        for letter in "kv"
    ]
    digits = (1, 1 + _LIMB_DIGITS)
    halves = (f"CAST('0x' || substr(h, {at}, {_LIMB_DIGITS}) AS UBIGINT)" for at in digits)
    bucket = bucket_number("k", key)
    query = (
        f"SELECT {', '.join(payloads) or 'NULL'} FROM {hashed.relation} WHERE {hashed.condition}"
    )
    query = f"SELECT {tuples[0]} AS k, {tuples[1]} AS v FROM ({query})"
    query = f"SELECT {bucket} AS b, sha256({blob(key + ROW_MARK)} || k || v) AS h FROM ({query})"
    sums = ", ".join(f"sum({half})" for half in halves)
    return f"SELECT b, count(*), {sums} FROM ({query}) GROUP BY b ORDER BY b"
