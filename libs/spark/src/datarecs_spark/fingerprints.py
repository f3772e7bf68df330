"""Fingerprints of rows and their sums per bucket, in SQL: the bytes of `comparison.fingerprints`.

Rows are hashed where they are read; only sums cross the exchange, at most 4,096 per source and
task. A sum of 128 bits is four sums of 32 bits, which a BIGINT holds for two thousand million rows.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from datarecs_core.comparison.results.fingerprints import (
    BUCKET_BITS,
    COUNT_BYTES,
    FINGERPRINT_BYTES,
    KEY_HASH_BYTES,
    KEY_MARK,
    NAN,
    ROW_MARK,
)
from datarecs_core.comparison.values.canonical import encode, invalid
from datarecs_core.jobs.vocabulary import NanRule
from datarecs_kernel.forms import FormKind
from datarecs_kernel.layout import Field, Layout
from datarecs_spark.canonical import binary_literal, encoded, encoded_tuple
from datarecs_spark.prepare import SOURCE

_LIMBS = range(4)
"""Of 32 bits each, the highest first."""
_LIMB_DIGITS = 2 * FINGERPRINT_BYTES // len(_LIMBS)
_LOW = "4294967295L"


def bucket(keys: Sequence[Field], key: bytes) -> str:
    """The number of the bucket of a row's key."""
    return _number(_hashed_key(keys, key), 1, BUCKET_BITS // 4)


def key_hash(keys: Sequence[Field], key: bytes) -> str:
    """The 16 bytes of `comparison.fingerprints.key_hash` of a row's key."""
    return f"unhex(substr({_hashed_key(keys, key)}, 1, {2 * KEY_HASH_BYTES}))"


def summed(rows_layout: Layout, rows: DataFrame, key: bytes) -> DataFrame:
    """One row per bucket `k0`: rows per source in `n<source>`, rows and sum in `v0_<source>`.

    The columns are those of `grouping.aggregated`, so that buckets are judged like other groups.

    Args:
        rows_layout: of the prepared rows.
        rows: prepared and united.
        key: the tenant's.
    """
    own = bucket_totals(rows_layout, rows, key)
    sources = rows_layout.sources
    counts = [f"coalesce(max(rows) FILTER (WHERE {SOURCE} = {at}), 0L) AS n{at}" for at in sources]
    totals = [f"max(total) FILTER (WHERE {SOURCE} = {at}) AS v0_{at}" for at in sources]
    return own.groupBy("k0").agg(*map(F.expr, (*counts, *totals)))


def bucket_totals(rows_layout: Layout, rows: DataFrame, key: bytes) -> DataFrame:
    """One row per source and bucket `k0` with any: its `rows`, and rows and sum in `total`."""
    told = f"{binary_literal(key + ROW_MARK)}, {_key(rows_layout.keys)}, {_values(rows_layout)}"
    hashed = rows.selectExpr(
        SOURCE, f"{bucket(rows_layout.keys, key)} AS k0", f"sha2(concat({told}), 256) AS hashed"
    )
    limbs = [f"{_number('hashed', 1 + _LIMB_DIGITS * at, _LIMB_DIGITS)} AS l{at}" for at in _LIMBS]
    own = (
        hashed.selectExpr(SOURCE, "k0", *limbs)
        .groupBy(SOURCE, "k0")
        .agg(F.expr("count(*) AS rows"), *(F.expr(f"sum(l{at}) AS l{at}") for at in _LIMBS))
    )
    for at in reversed(_LIMBS[:-1]):
        carried = f"l{at} + shiftright(l{at + 1}, 32)"
        own = own.selectExpr(*(f"{carried} AS l{at}" if c == f"l{at}" else c for c in own.columns))
    parts = [_hex("rows", 2 * COUNT_BYTES)]
    parts += [_hex(f"(l{at} & {_LOW})", _LIMB_DIGITS) for at in _LIMBS]
    return own.selectExpr(SOURCE, "k0", "rows", f"unhex(concat({', '.join(parts)})) AS total")


def _hashed_key(keys: Sequence[Field], key: bytes) -> str:
    """In hexadecimal digits."""
    return f"sha2(concat({binary_literal(key + KEY_MARK)}, {_key(keys)}), 256)"


def _key(keys: Sequence[Field]) -> str:
    return encoded_tuple([_encoded(field) for field in keys])


def _values(layout: Layout) -> str:
    parts = []
    for measure in layout.measures:
        if measure.field is None:
            raise TypeError(f"{measure.plan.name} is no column, so it has no fingerprint")
        whole = _encoded(measure.field)
        strict = measure.plan.rules.nan is NanRule.UNEQUAL
        if strict and measure.field.form.kind is FormKind.NUMBER:
            whole = f"IF({measure.field.name} <=> 'NaN', {_strict_nan(layout)}, {whole})"
        parts.append(whole)
    return encoded_tuple(parts)


def _strict_nan(layout: Layout) -> str:
    """A NaN that equals nothing: INVALID of its own source."""
    each = [binary_literal(encode(invalid(source, NAN))) for source in layout.stage.sources]
    return f"element_at(array({', '.join(each)}), {SOURCE} + 1)"


def _encoded(field: Field) -> str:
    return encoded(field.form, field.name, field.payload if field.may_be_invalid else None)


def _number(digits: str, start: int, length: int) -> str:
    return f"CAST(conv(substr({digits}, {start}, {length}), 16, 10) AS BIGINT)"


def _hex(number: str, digits: int) -> str:
    return f"lpad(hex({number}), {digits}, '0')"
