"""The SQL of canonical values against core's own functions, byte for byte."""

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from datarecs_core.comparison.values.canonical import (
    NULL,
    Tag,
    Value,
    canonical_order,
    canonical_text,
    encode,
    encode_tuple,
    invalid,
    text,
)
from datarecs_kernel.decoding import from_text, native
from datarecs_kernel.forms import BOOL, INTEGER, NUMBER, TEXT, Form, FormKind, decimal
from datarecs_kernel.sort_keys import size_key_of
from datarecs_spark import canonical
from datarecs_spark.session import SparkRuntime

pytestmark = pytest.mark.spark
D = Decimal
DAY_ONE, LAST_DAY = -719162, 2932896
FIRST, LAST = -62135596800000000, 253402300799999999
KEY = b"k" * 70
"""Longer than a block of SHA-256."""


def of(kind: FormKind) -> Form:
    return Form(kind=kind)


def finer(kind: FormKind) -> Form:
    return Form(kind=kind, precision=22, scale=3)


DAY = D(86_400_000_000)
MOMENTS: list[object] = [
    *(D("0.000"), D("0.001"), D("-0.001"), D("500000.000"), D("1000000.010"), D(LAST) + D("0.999")),
    *(DAY - D("0.001"), D(FIRST), None),
]
POOLS: list[tuple[Form, list[object]]] = [
    (INTEGER, [0, -1, 10, 100, 2**63 - 1, -(2**63), None]),
    (decimal(38, 2), [D("0.00"), D("-0.01"), D("1.10"), D("100.00"), D("9" * 36 + ".99"), None]),
    (decimal(20, 18), [D("0.000000000000000001"), D("1E-7"), D("-12.5")]),
    (decimal(38, 0), [D("1" * 38), D(-10)]),
    (TEXT, ["", "NULL", "é", "e\u0301", "a\x00b", "\U0001f600", " ", None]),
    (BOOL, [True, False, None]),
    (of(FormKind.BINARY), [b"", b"\x00", b"\xff\x10", None]),
    (of(FormKind.UUID), [UUID(int=10).bytes, None]),
    (of(FormKind.JSON), ['{"a":1}', None]),
    (NUMBER, ["0", "-1.5", "15", "0.001", "NaN", "Inf", "-Inf", "1" * 60, None]),
    (of(FormKind.DATE), [0, -1, DAY_ONE, LAST_DAY, None]),
    (of(FormKind.TIME), [0, 1, 86_399_999_999, 500_000, None]),
    (of(FormKind.INSTANT), [0, -1, 500_000, FIRST, LAST, None]),
    (of(FormKind.LOCAL), [0, 1_000_000, FIRST, LAST, None]),
    *((finer(kind), MOMENTS) for kind in (FormKind.INSTANT, FormKind.LOCAL)),
    (finer(FormKind.TIME), [D("0.000"), D("0.001"), D("1000000.010"), DAY - D("0.001"), None]),
]
NAMES = [str(form.kind) + str(form.scale or "") for form, _ in POOLS]


def frame(spark: SparkRuntime, form: Form, plain: Sequence[object]) -> DataFrame:
    table = pa.table({"v": pa.array(plain, native(form)), "n": pa.array(range(len(plain)))})
    return spark.session().createDataFrame(table).repartition(1).sortWithinPartitions("n")


def values(form: Form, plain: Sequence[object]) -> list[Value]:
    """The pool as core sees it."""
    return [NULL if each is None else value(form, each) for each in plain]


def value(form: Form, plain: object) -> Value:
    if isinstance(plain, bytes):
        return from_text(form, plain.hex())
    return from_text(form, str(plain).lower() if isinstance(plain, bool) else str(plain))


def column(rows: DataFrame, sql: str) -> list[object]:
    return [row[0] for row in rows.selectExpr(sql).collect()]


@pytest.mark.parametrize(("form", "plain"), POOLS, ids=NAMES)
def test_texts_and_encodings_are_cores(
    spark_runtime: SparkRuntime, form: Form, plain: list[object]
) -> None:
    rows, expected = frame(spark_runtime, form, plain), values(form, plain)
    assert column(rows, canonical.text_of(form, "v")) == [canonical_text(each) for each in expected]
    assert column(rows, canonical.encoded(form, "v")) == [encode(each) for each in expected]
    written = column(rows, canonical.lossless(form, "v"))
    again = [NULL if each is None else from_text(form, str(each)) for each in written]
    assert [encode(each) for each in again] == [encode(each) for each in expected]


@pytest.mark.parametrize(("form", "plain"), POOLS, ids=NAMES)
def test_rows_sort_canonically(
    spark_runtime: SparkRuntime, form: Form, plain: list[object]
) -> None:
    rows, expected = frame(spark_runtime, form, plain), values(form, plain)
    order = sorted(range(len(plain)), key=lambda at: canonical_order(expected[at]))
    found = rows.selectExpr("n", f"{canonical.sort_key(form, 'v')} AS o").orderBy("o").collect()
    assert [row["n"] for row in found] == order


def test_years_that_spark_writes_otherwise_are_left_to_python(spark_runtime: SparkRuntime) -> None:
    form = of(FormKind.DATE)
    rows = frame(spark_runtime, form, [DAY_ONE - 1, LAST_DAY + 1])
    assert column(rows, canonical.text_of(form, "v")) == [None, None]


@pytest.mark.case("P38")
def test_dates_of_every_year_are_encoded_as_core_does(spark_runtime: SparkRuntime) -> None:
    form = of(FormKind.DATE)
    days = [DAY_ONE - 1, DAY_ONE - 366, DAY_ONE - 367, LAST_DAY + 1, LAST_DAY + 40_000_000]
    rows = frame(spark_runtime, form, days)
    assert column(rows, canonical.encoded(form, "v")) == [
        encode(each) for each in values(form, days)
    ]


def test_doubles_are_left_to_python(spark_runtime: SparkRuntime) -> None:
    form = of(FormKind.DOUBLE)
    rows = frame(spark_runtime, form, [0.1, 1e300])
    assert column(rows, canonical.text_of(form, "v")) == [None, None]
    written = [str(each) for each in column(rows, canonical.lossless(form, "v"))]
    assert [float(each) for each in written] == [0.1, 1e300]


def test_invalid_values_and_tuples_encode_as_in_core(spark_runtime: SparkRuntime) -> None:
    rows = frame(spark_runtime, of(FormKind.BINARY), [b"\xff", b""])
    payload = canonical.invalid_payload("é", "v")
    broken = [invalid("é", b"\xff"), invalid("é", b"")]
    cell = canonical.encoded(TEXT, "CAST(NULL AS STRING)", payload)
    assert column(rows, canonical.encoded_tuple([cell, canonical.encoded(TEXT, "'x'")])) == [
        encode_tuple([each, text("x")]) for each in broken
    ]
    assert column(rows, canonical.invalid_text(payload)) == [
        canonical_text(each) for each in broken
    ]


def test_size_keys_of_sql_and_python_are_one(spark_runtime: SparkRuntime) -> None:
    sizes = ["0", "1", "10", "1050", "0.5", "0.05", "123.456", "9" * 38, "0." + "0" * 30 + "7"]
    rows = frame(spark_runtime, NUMBER, sizes)
    assert column(rows, canonical.size_key("v")) == [size_key_of(D(each)) for each in sizes]


@pytest.mark.parametrize(
    "written", ["plain", "it's", "back\\slash", "new\nline", "é", '"', "`", ""]
)
def test_any_text_is_a_literal(spark_runtime: SparkRuntime, written: str) -> None:
    rows = frame(spark_runtime, INTEGER, [1])
    assert column(rows, canonical.text_literal(written)) == [written]
    named = rows.selectExpr(f"v AS {canonical.name(written or 'x')}")
    assert named.columns == [written or "x"]


def test_moments_are_written_in_iso_8601(spark_runtime: SparkRuntime) -> None:
    moment = dt.datetime(2026, 1, 31, 12, 0, 0, 500, tzinfo=dt.UTC)
    micros = (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    rows = frame(spark_runtime, of(FormKind.INSTANT), [micros])
    assert column(rows, canonical.text_of(of(FormKind.INSTANT), "v")) == [
        canonical_text(Value(Tag.INSTANT, D(micros)))
    ]
