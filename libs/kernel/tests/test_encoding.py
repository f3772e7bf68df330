"""DuckDB's SQL writes the very bytes, texts and orders that core writes of the same values."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from datarecs_core.comparison.values.canonical import (
    canonical_order,
    encode,
    invalid,
    number,
    number_text,
)
from datarecs_core.comparison.values.normalizing import round_half_even
from datarecs_core.values import EXACT
from datarecs_kernel.decoding import cell, native
from datarecs_kernel.encoding import encoded, number_order, payload_of
from datarecs_kernel.exact_sums import parts_of, read_sum
from datarecs_kernel.forms import BOOL, DOUBLE, INTEGER, NUMBER, TEXT, Form, FormKind, decimal
from datarecs_kernel.whole_sql import LARGEST, average, divided, written

DATE, INSTANT = Form(kind=FormKind.DATE), Form(kind=FormKind.INSTANT)
BINARY, UUID = Form(kind=FormKind.BINARY), Form(kind=FormKind.UUID)
FINER = Form(kind=FormKind.LOCAL, precision=22, scale=3)
INTS = st.integers(-(2**63), 2**63 - 1)
DAYS = st.integers(-2_000_000_000, 2_000_000_000) | st.integers(-800_000, 3_000_000)
FLOATS = st.floats().map(lambda each: each + 0.0)
TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.just("é\x00" * 200)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return st.integers(-most, most).map(lambda each: Decimal(each).scaleb(-scale, EXACT))


VALUES = {
    INTEGER: INTS,
    DOUBLE: FLOATS,
    BOOL: st.booleans(),
    TEXT: TEXTS,
    BINARY: st.binary(max_size=300),
    UUID: st.binary(min_size=16, max_size=16),
    DATE: DAYS,
    INSTANT: INTS,
    FINER: decimals(22, 3),
    decimal(12, 2): decimals(12, 2),
    decimal(38, 0): decimals(38, 0),
    decimal(38, 18): decimals(38, 18),
    decimal(4, 4): decimals(4, 4),
}


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        yield opened


def computed(
    connection: duckdb.DuckDBPyConnection, sql: str, columns: dict[str, pa.Array]
) -> list[object]:
    """What an expression is over columns, row by row."""
    connection.register("given_values", pa.table(columns))
    rows = connection.execute(f"SELECT {sql} FROM given_values").fetchall()
    connection.unregister("given_values")
    return [value for (value,) in rows]


@pytest.mark.case("F13")
@pytest.mark.parametrize("form", VALUES, ids=lambda form: form.sql_type + form.kind)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_values_are_encoded_as_core_encodes_them(
    connection: duckdb.DuckDBPyConnection, form: Form, data: st.DataObject
) -> None:
    plain = data.draw(st.lists(st.none() | VALUES[form], min_size=1, max_size=20))
    broken = data.draw(st.lists(st.none() | st.binary(), min_size=len(plain), max_size=len(plain)))
    payloads = [None if each is None else encode(invalid("one", each))[5:] for each in broken]
    columns = {"v": pa.array(plain, native(form)), "x": pa.array(payloads, pa.binary())}
    columns["p"] = pa.array(computed(connection, payload_of(form, "v"), columns), pa.binary())
    assert computed(connection, encoded(form, "p"), columns) == [
        encode(cell(form, each, None)) for each in plain
    ]
    assert computed(connection, encoded(form, "p", "x"), columns) == [
        encode(cell(form, one, other)) for one, other in zip(plain, payloads, strict=True)
    ]


NUMBERS = st.sampled_from([Decimal("NaN"), Decimal("Inf"), Decimal("-Inf"), Decimal(0)]) | (
    st.integers(-(10**38), 10**38).flatmap(
        lambda each: st.integers(0, 38).map(lambda scale: Decimal(each).scaleb(-scale, EXACT))
    )
)


@settings(max_examples=40, deadline=None)
@given(numbers=st.lists(NUMBERS, min_size=1, max_size=20))
def test_texts_of_numbers_are_put_in_canonical_order(
    connection: duckdb.DuckDBPyConnection, numbers: Sequence[Decimal]
) -> None:
    texts = [number_text(each) for each in numbers]
    keys = computed(connection, number_order("v"), {"v": pa.array([*texts, None])})
    assert keys.pop() is None
    by_key = sorted(zip(map(str, keys), texts, strict=True))
    by_core = sorted((canonical_order(number(each)), number_text(each)) for each in numbers)
    assert [text for _, text in by_key] == [text for _, text in by_core]


LARGE = decimals(38, 18) | decimals(38, 18).map(lambda each: each.scaleb(-20, EXACT))


@example(values=[Decimal(LARGEST).scaleb(-18, EXACT)] * 5, form=decimal(38, 18))
@settings(max_examples=40, deadline=None)
@given(values=st.lists(LARGE, max_size=30), form=st.just(decimal(38, 18)))
def test_parts_of_large_decimals_add_up_exactly(
    connection: duckdb.DuckDBPyConnection, values: list[Decimal], form: Form
) -> None:
    cut = [round_half_even(each, 18) for each in values]
    assert _added(connection, form, cut) == sum(map(Fraction, cut))


@settings(max_examples=40, deadline=None)
@given(values=st.lists(NUMBERS, max_size=30))
def test_texts_of_numbers_add_up_exactly(
    connection: duckdb.DuckDBPyConnection, values: list[Decimal]
) -> None:
    finite = [each for each in values if each.is_finite()]
    fits = [each for each in finite if abs(each) < 10**38 and len(number_text(abs(each))) < 40]
    others = [each for each in values if not each.is_finite()]
    texts = [number_text(each) for each in [*fits, *others]]
    assert _added(connection, NUMBER, texts) == sum(map(Fraction, fits))


def _added(connection: duckdb.DuckDBPyConnection, form: Form, values: Sequence[object]) -> Fraction:
    columns = {"v": pa.array([*values, None], native(form))}
    parts = parts_of(form, "v")
    sums = [computed(connection, f"sum({part.sql})", columns)[0] for part in parts]
    return Fraction(read_sum(parts, sums))  # type: ignore[arg-type]  # sums are numbers or NULL


UNITS = st.integers(-LARGEST, LARGEST) | st.integers(-1000, 1000)


@settings(max_examples=40, deadline=None)
@given(units=UNITS, divisor=st.sampled_from([1, 2, 10, 10**18, 10**38]))
def test_units_are_divided_half_even(
    connection: duckdb.DuckDBPyConnection, units: int, divisor: int
) -> None:
    sql = divided(f"CAST({units} AS HUGEINT)", f"CAST({divisor} AS HUGEINT)")
    assert computed(connection, sql, {"v": pa.array([1])}) == [round(Fraction(units, divisor))]


@settings(max_examples=80, deadline=None)
@given(units=UNITS, count=st.integers(0, 10**12), more=st.integers(-10, 18))
def test_averages_are_rounded_half_even_once_or_do_not_fit(
    connection: duckdb.DuckDBPyConnection, units: int, count: int, more: int
) -> None:
    sql = average(f"CAST({units} AS HUGEINT)", f"CAST({count} AS BIGINT)", more)
    (texts,) = computed(connection, sql, {"v": pa.array([1])})
    exact = round(Fraction(units) * Fraction(10) ** more / count) if count else None
    if exact is not None and abs(exact) > LARGEST:
        assert texts is None or abs(texts) > LARGEST  # type: ignore[arg-type]  # a number
    else:
        assert texts == exact


@settings(max_examples=25, deadline=None)
@given(units=UNITS, scale=st.integers(0, 38))
def test_units_are_written_as_canonical_texts(
    connection: duckdb.DuckDBPyConnection, units: int, scale: int
) -> None:
    sql = written(f"CAST({units} AS HUGEINT)", scale)
    texts = computed(connection, sql, {"v": pa.array([1])})
    assert texts == [number_text(Decimal(units).scaleb(-scale, EXACT))]
