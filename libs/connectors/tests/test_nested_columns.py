"""Nested columns encoded at once have the bytes of their values encoded one by one."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datarecs_connectors.arrow_types import canonical_type
from datarecs_connectors.nested_columns import decoded_column, encoded_column, encoded_one_by_one
from datarecs_connectors.nested_encoding import NotByColumnError, payloads_of
from datarecs_core.comparison.values.canonical import payload_of

_MOMENTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds are naive
LEAVES: Mapping[pa.DataType, st.SearchStrategy[object]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0]),
    pa.float32(): st.floats(width=32),
    pa.decimal128(6, 2): st.decimals(-99, 99, places=2),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    pa.binary(): st.binary(max_size=4),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us", tz="UTC"): _MOMENTS,
    pa.null(): st.none(),
}


@st.composite
def nested_arrays(draw: st.DrawFn, depth: int = 2) -> pa.Array:
    kind, values = draw(_kinds(depth))
    rows = draw(st.lists(st.none() | values, max_size=6))
    array = pa.array(rows, kind)
    return array.slice(draw(st.integers(0, len(rows))))


def _kinds(depth: int) -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[object]]]:
    inner = st.sampled_from(list(LEAVES.items()))
    if depth > 1:
        inner = inner | _kinds(depth - 1)
    return st.one_of(
        inner.map(lambda each: (pa.list_(each[0]), st.lists(st.none() | each[1], max_size=3))),
        inner.map(
            lambda each: (
                pa.list_(each[0], 2),
                st.lists(st.none() | each[1], min_size=2, max_size=2),
            )
        ),
        st.tuples(inner, inner).map(
            lambda both: (
                pa.struct([("b", both[0][0]), ("a", both[1][0])]),
                st.fixed_dictionaries({"b": st.none() | both[0][1], "a": st.none() | both[1][1]}),
            )
        ),
        inner.map(
            lambda each: (
                pa.map_(pa.string(), each[0]),
                st.lists(st.tuples(st.sampled_from("abc"), st.none() | each[1]), max_size=3),
            )
        ),
    )


@settings(deadline=None)
@given(column=nested_arrays())
def test_a_column_at_once_is_its_values_one_by_one(column: pa.Array) -> None:
    kind = canonical_type(column.type)
    assert kind is not None
    assert encoded_column(column, kind) == encoded_one_by_one(column, kind)


@settings(deadline=None)
@given(column=nested_arrays())
def test_payloads_are_decoded_into_the_values_that_were_encoded(column: pa.Array) -> None:
    kind = canonical_type(column.type)
    assert kind is not None
    payloads = encoded_column(column, kind).values
    values = decoded_column(payloads, kind)
    assert [None if each is None else payload_of(each) for each in values] == payloads.to_pylist()


def test_extension_types_inside_lists_are_encoded_by_their_meaning() -> None:
    uuids = pa.array([UUID(int=1).bytes, UUID(int=1).bytes, None], pa.binary(16))
    column = pa.ListArray.from_arrays([0, 2, 3], pa.ExtensionArray.from_storage(pa.uuid(), uuids))
    kind = canonical_type(column.type)
    assert kind is not None
    assert str(kind) == "array<uuid>"
    assert encoded_column(column, kind) == encoded_one_by_one(column, kind)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64())),
        pa.ListArray.from_arrays([0, 1], pa.array([b"\xff"], pa.binary()).view(pa.string())),
        pa.array([[0] * 65_536]),
    ],
    ids=["repeated key", "no UTF-8", "too many members"],
)
def test_what_columns_cannot_say_is_encoded_one_by_one(column: pa.Array) -> None:
    kind = canonical_type(column.type)
    assert kind is not None
    with pytest.raises(NotByColumnError):
        payloads_of(column, kind)
    assert encoded_column(column, kind) == encoded_one_by_one(column, kind)


def test_numbers_inside_are_compared_by_value() -> None:
    whole = pa.array([[1, None]], pa.list_(pa.int32()))
    exact = pa.array([[Decimal("1.00"), None]], pa.list_(pa.decimal128(5, 2)))
    one, other = (encoded_column(each, canonical_type(each.type)) for each in (whole, exact))  # type: ignore[arg-type]  # both have a type
    assert one.values == other.values
