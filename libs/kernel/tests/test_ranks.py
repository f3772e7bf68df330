"""Ranks of keys of every form: DuckDB says what core says."""

from collections.abc import Sequence
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from datarecs_core.comparison.planning.rules import STRICT
from datarecs_core.comparison.results.differences import group_rank
from datarecs_core.comparison.values.canonical import NULL, Tag, Value, encode, invalid, number
from datarecs_kernel.decoding import native, represented
from datarecs_kernel.forms import BOOL, DOUBLE, INTEGER, NUMBER, TEXT, Form, FormKind, decimal
from datarecs_kernel.layout import Field, Role
from datarecs_kernel.ranks import ranks_of

CONNECTION = duckdb.connect()
_DOUBLES = st.floats(allow_nan=True).map(lambda each: number(Decimal(repr(each))))
_MICROS = st.integers(-(2**62), 2**62)


def _decimals(digits: int, places: int) -> st.SearchStrategy[Value]:
    whole = st.integers(-(10**digits) + 1, 10**digits - 1)
    return whole.map(lambda each: number(Decimal(each).scaleb(-places)))


def _moments(tag: Tag) -> st.SearchStrategy[Value]:
    return _MICROS.map(lambda each: Value(tag, Decimal(each)))


FORMS: dict[str, tuple[Form, st.SearchStrategy[Value]]] = {
    "integer": (INTEGER, st.integers(-(2**63), 2**63 - 1).map(number)),
    "decimal": (decimal(18, 4), _decimals(18, 4)),
    "fraction": (decimal(3, 3), _decimals(3, 3)),
    "whole decimal": (decimal(38, 0), _decimals(28, 0)),
    "double": (DOUBLE, _DOUBLES),
    "number": (NUMBER, st.decimals().map(number)),
    "text": (TEXT, st.text().map(lambda each: Value(Tag.TEXT, each))),
    "json": (Form(kind=FormKind.JSON), st.text().map(lambda each: Value(Tag.JSON, each))),
    "bool": (BOOL, st.booleans().map(lambda each: Value(Tag.BOOL, each))),
    "binary": (
        Form(kind=FormKind.BINARY),
        st.binary().map(lambda each: Value(Tag.BINARY, each)),
    ),
    "uuid": (
        Form(kind=FormKind.UUID),
        st.binary(min_size=16, max_size=16).map(lambda each: Value(Tag.UUID, each)),
    ),
    "date": (
        Form(kind=FormKind.DATE),
        st.integers(-(10**6), 10**6).map(lambda each: Value(Tag.DATE, Decimal(each))),
    ),
    "time": (Form(kind=FormKind.TIME), _moments(Tag.TIME)),
    "instant": (Form(kind=FormKind.INSTANT), _moments(Tag.INSTANT)),
    "nanoseconds": (
        Form(kind=FormKind.LOCAL, precision=22, scale=3),
        _MICROS.map(lambda each: Value(Tag.LOCAL, Decimal(each).scaleb(-3))),
    ),
}
_BROKEN = st.binary(max_size=5).map(lambda raw: invalid("one", raw))


def a_field(name: str, form: Form) -> Field:
    return Field(
        name=name,
        label=name,
        role=Role.KEY,
        inputs=(),
        rules=STRICT,
        form=form,
        python=(),
        may_be_invalid=True,
    )


def column(form: Form, values: Sequence[Value]) -> pa.Array:
    plain = [
        None if each.is_null or each.is_invalid else represented(each, form) for each in values
    ]
    return pa.array(plain, native(form))


def payloads(values: Sequence[Value]) -> pa.Array:
    encoded = [encode(each)[5:] if each.is_invalid else None for each in values]
    return pa.array(encoded, pa.binary())


def ranked(fields: Sequence[Field], keys: Sequence[Sequence[Value]]) -> list[int]:
    columns = {}
    for field, values in zip(fields, zip(*keys, strict=True), strict=True):
        columns[field.name] = column(field.form, values)
        columns[field.payload] = payloads(values)
    rows = pa.RecordBatch.from_pydict(columns)
    return [int(each) for each in ranks_of(CONNECTION, fields, rows)]


@pytest.mark.case("P61")
@pytest.mark.parametrize("name", FORMS)
def test_duckdb_ranks_keys_of_a_form_as_core_does(name: str) -> None:
    form, values = FORMS[name]

    @example(plain=[number(0)] if form.is_number else [])
    @settings(max_examples=30, deadline=None)
    @given(plain=st.lists(values, min_size=1, max_size=30))
    def agrees(plain: list[Value]) -> None:
        keys = [(each,) for each in [*plain, NULL, invalid("one", b"\xff;x")]]
        assert ranked([a_field("k0", form)], keys) == [group_rank(key) for key in keys]

    agrees()


@pytest.mark.parametrize(
    "value",
    ["1e20", "1e16", "123456789012345678", "1e-5", "1e-7", "5e-324", "-1.5e300", "1e15", "0.0001"],
)
def test_doubles_with_an_exponent_have_the_rank_of_their_digits(value: str) -> None:
    key = (number(Decimal(repr(float(value)))),)
    assert ranked([a_field("k0", DOUBLE)], [key]) == [group_rank(key)]


@settings(max_examples=20, deadline=None)
@given(
    keys=st.lists(
        st.tuples(st.integers(-9, 9).map(number), FORMS["text"][1] | st.just(NULL) | _BROKEN),
        min_size=1,
        max_size=40,
    )
)
def test_many_parts_are_ranked_together(keys: list[tuple[Value, Value]]) -> None:
    fields = [a_field("k0", INTEGER), a_field("k1", TEXT)]
    assert ranked(fields, keys) == [group_rank(key) for key in keys]


def test_ranks_preserve_the_order_of_their_rows() -> None:
    keys = [(number(at),) for at in range(70_000)]
    expected = [group_rank(key) for key in keys]
    assert ranked([a_field("k0", INTEGER)], keys) == expected


def test_a_group_without_a_key_has_a_rank() -> None:
    rows = pa.RecordBatch.from_pydict({"n": pa.array([1])})
    assert ranks_of(CONNECTION, [], rows).tolist() == [group_rank(())]
