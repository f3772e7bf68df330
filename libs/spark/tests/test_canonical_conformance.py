"""The SQL of canonical values against the published vectors of c1.

What only Python writes (floats, bare numerics, intervals, nested values, times beyond the years 1
to 9999) comes to SQL as text or not at all, and is not covered here.
"""

from collections.abc import Sequence
from decimal import Decimal

import pyarrow as pa
import pytest

from datarecs_core.comparison.values.canonical import NULL, Tag
from datarecs_core.comparison.values.translating import canonical as canonical_value
from datarecs_kernel.decoding import native, represented
from datarecs_kernel.forms import ENCODED, Form, FormKind, form_of
from datarecs_spark import canonical
from datarecs_spark.session import SparkRuntime
from datarecs_testing.conformance.canonical import (
    CanonicalConformance,
    Vector,
    Written,
    published,
)

pytestmark = pytest.mark.spark
IN_PYTHON = {FormKind.DOUBLE, FormKind.NUMBER}


def form(vector: Vector) -> Form | None:
    return form_of([vector.type])


def cell(vector: Vector) -> object:
    """What Arrow holds after a reader and `prepare`."""
    value = canonical_value(vector.plain, vector.type, published().source)
    of = form(vector)
    assert of is not None
    return None if value is NULL else represented(value, of)


class SparkSql:
    """CanonicalWriter over the functions of `datarecs_spark.canonical`."""

    def __init__(self, runtime: SparkRuntime) -> None:
        self.runtime = runtime

    def covers(self, vector: Vector) -> bool:
        found = form(vector)
        if found is None or vector.encoding[0] == Tag.INVALID:
            return False
        if found.kind in IN_PYTHON | ENCODED:
            return False
        moment = vector.plain
        return moment is None or not (found.is_moment and isinstance(moment, Decimal))

    def write(self, vectors: Sequence[Vector]) -> Sequence[Written]:
        of = form(vectors[0])
        assert of is not None
        plain = pa.array([cell(vector) for vector in vectors], native(of))
        table = pa.table({"v": plain, "n": pa.array(range(len(vectors)))})
        rows = self.runtime.session().createDataFrame(table)
        found = rows.selectExpr(
            "n", f"{canonical.text_of(of, 'v')} AS t", f"{canonical.encoded(of, 'v')} AS e"
        ).collect()
        return [
            Written(row["t"], bytes(row["e"])) for row in sorted(found, key=lambda row: row["n"])
        ]

    def write_tuple(self, members: Sequence[Vector]) -> bytes:
        forms = [(vector, form(vector)) for vector in members]
        cells = {
            f"c{at}": pa.array([cell(vector)], native(of))
            for at, (vector, of) in enumerate(forms)
            if of is not None
        }
        rows = self.runtime.session().createDataFrame(pa.table({"n": [1], **cells}))
        parts = [
            canonical.encoded(of, f"c{at}") for at, (_, of) in enumerate(forms) if of is not None
        ]
        return bytes(rows.selectExpr(f"{canonical.encoded_tuple(parts)} AS e").collect()[0]["e"])


class TestCanonical(CanonicalConformance):
    @pytest.fixture
    def writer(self, spark_runtime: SparkRuntime) -> SparkSql:
        return SparkSql(spark_runtime)
