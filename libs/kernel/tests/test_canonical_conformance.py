"""The kernel's texts and encodings against the published vectors of c1.

Texts are written by column in Arrow, encodings in DuckDB's SQL. INVALID values come as payloads and
are not covered here.
"""

from collections.abc import Sequence

import duckdb
import pyarrow as pa
import pytest

from datarecs_core.comparison.values.canonical import NULL, Tag
from datarecs_core.comparison.values.translating import canonical as canonical_value
from datarecs_kernel.columns import Values
from datarecs_kernel.decoding import native, represented, texts
from datarecs_kernel.encoding import encoded, encoded_tuple, payload_of
from datarecs_kernel.forms import ENCODED, Form, form_of
from datarecs_testing.conformance.canonical import (
    CanonicalConformance,
    Vector,
    Written,
    published,
)


def form(vector: Vector) -> Form:
    known = form_of([vector.type])
    assert known is not None
    return known


def column(vectors: Sequence[Vector]) -> pa.Array:
    """What Arrow holds in a relation."""
    values = (canonical_value(each.plain, each.type, published().source) for each in vectors)
    of = form(vectors[0])
    return pa.array(
        [None if each is NULL else represented(each, of) for each in values], native(of)
    )


class KernelWriter:
    """CanonicalWriter over the kernel's functions."""

    def covers(self, vector: Vector) -> bool:
        known = form_of([vector.type])
        if known is None or vector.encoding[0] == Tag.INVALID or known.kind in ENCODED:
            return False
        try:
            column([vector])
        except (ArithmeticError, OverflowError):
            return False  # a time that no column holds
        return True

    def write(self, vectors: Sequence[Vector]) -> Sequence[Written]:
        plain, of = column(vectors), form(vectors[0])
        table = pa.table({"v": plain, "n": range(len(vectors))})
        sql = encoded(of, payload_of(of, "v"))
        with duckdb.connect() as connection:
            connection.register("vectors", table)
            rows = connection.execute(f"SELECT {sql} FROM vectors ORDER BY n").fetchall()
        written = texts(of, Values(plain)).to_pylist()
        return [Written(text, encoding) for text, (encoding,) in zip(written, rows, strict=True)]

    def write_tuple(self, members: Sequence[Vector]) -> bytes:
        columns = {f"c{at}": column([each]) for at, each in enumerate(members)}
        table = pa.table({"n": [1], **columns})
        parts = [
            encoded(form(each), payload_of(form(each), f"c{at}")) for at, each in enumerate(members)
        ]
        with duckdb.connect() as connection:
            connection.register("members", table)
            ((encoding,),) = connection.execute(
                f"SELECT {encoded_tuple(parts)} FROM members"
            ).fetchall()
        return bytes(encoding)


class TestCanonical(CanonicalConformance):
    @pytest.fixture
    def writer(self) -> KernelWriter:
        return KernelWriter()
