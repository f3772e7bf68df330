import struct
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.captures.bounds import MAX_BOUND_BYTES, bound_order, bound_text, float_text
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind, parse_type

SECONDS = parse_type("instant(0)")
NANOS = parse_type("local_timestamp(9)")


@pytest.mark.parametrize(
    ("content", "kind", "text"),
    [
        (True, types.BOOL, "true"),
        (False, types.BOOL, "false"),
        (-(2**70), types.INT, "-1180591620717411303424"),
        (Decimal("1.500"), types.decimal(10, 3), "1.5"),
        (Decimal("-0.00"), types.decimal(10, 2), "0"),
        (Decimal("1E+3"), types.NUMERIC, "1000"),
        (Decimal("NaN"), types.NUMERIC, "NaN"),
        (Decimal("-Infinity"), types.NUMERIC, "-Infinity"),
        (0.1, types.FLOAT64, "0.1"),
        (-0.0, types.FLOAT64, "0.0"),
        (float("nan"), types.FLOAT64, "NaN"),
        (float("inf"), types.FLOAT64, "Infinity"),
        (float("-inf"), types.FLOAT32, "-Infinity"),
        (struct.unpack("f", struct.pack("f", 0.1))[0], types.FLOAT32, "0.1"),
        (3.4028234663852886e38, types.FLOAT32, "3.4028235e+38"),
        ("Zürich", types.TEXT, "Zürich"),
        (b"\xff\x00", types.BINARY, "/wA="),
        (UUID(int=255), types.UUID, "00000000-0000-0000-0000-0000000000ff"),
        (UUID(int=255).bytes, types.UUID, "00000000-0000-0000-0000-0000000000ff"),
        (
            "00000000-0000-0000-0000-0000000000FF",
            types.UUID,
            "00000000-0000-0000-0000-0000000000ff",
        ),
        (0, types.DATE, "1970-01-01"),
        (Decimal("Infinity"), types.DATE, "Infinity"),
        (Decimal(2_932_897), types.DATE, "+10000-01-01"),
        (Decimal(1_500_000), types.TIME, "00:00:01.500000"),
        (Decimal(-1), types.INSTANT, "1969-12-31T23:59:59.999999Z"),
        (Decimal(1_000_000), SECONDS, "1970-01-01T00:00:01Z"),
        (Decimal("0.001"), NANOS, "1970-01-01T00:00:00.000000001"),
    ],
)
def test_a_value_has_one_text(content: object, kind: CanonicalType, text: str) -> None:
    assert bound_text(content, kind) == text


@pytest.mark.parametrize("kind", [TypeKind.JSON, TypeKind.INTERVAL, TypeKind.ARRAY, TypeKind.NULL])
def test_a_kind_without_order_has_no_text(kind: TypeKind) -> None:
    assert bound_text("x", CanonicalType(kind=kind)) is None


def test_a_long_text_is_no_bound() -> None:
    longest = "x" * MAX_BOUND_BYTES
    assert bound_text(longest, types.TEXT) == longest
    assert bound_text(longest + "x", types.TEXT) is None


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("bool", ["false", "true"]),
        ("int", ["-10", "-9", "0", "9", "10"]),
        ("decimal(10,2)", ["-1.5", "0", "0.5", "10"]),
        ("decimal", ["-Infinity", "2", "10", "NaN"]),
        ("float64", ["-Infinity", "-1.0", "1e-05", "2.0", "10.0", "Infinity", "NaN"]),
        ("text", ["Z", "a", "é", "\U0001f600"]),
        ("binary", ["AA==", "AP8=", "/w=="]),
        (
            "uuid",
            ["0f000000-0000-0000-0000-000000000000", "a0000000-0000-0000-0000-000000000000"],
        ),
        ("date", ["-Infinity", "-0044-03-15", "0001-01-01", "9999-12-31", "+10000-01-01"]),
        ("date", ["+10000-01-01", "+20000-01-01", "Infinity"]),
        ("instant(3)", ["1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.000Z"]),
        ("time", ["00:00:00.000000", "23:59:59.999999"]),
    ],
)
def test_texts_are_ordered_as_their_values(kind: str, texts: list[str]) -> None:
    assert sorted(texts[1:] + texts[:1], key=lambda text: bound_order(text, kind)) == texts


def test_a_text_that_is_no_time_has_no_order() -> None:
    with pytest.raises(ValueError, match="'noon'"):
        bound_order("noon", "date")


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_the_text_of_a_short_float_is_read_back_and_shortest(value: float) -> None:
    text = float_text(value, is_narrow=True)
    assert struct.pack("f", float(text)) == struct.pack("f", value + 0.0)
    assert len(text) <= max(len(repr(value)), 3)
