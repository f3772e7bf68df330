from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.comparison.values.canonical import (
    NULL,
    Interval,
    Tag,
    Value,
    canonical_order,
    canonical_text,
    encode,
    encode_tuple,
    invalid,
    number,
    text,
)
from datarecs_core.comparison.values.encoded import decode
from datarecs_core.comparison.values.json_form import json_value
from datarecs_core.comparison.values.translating import Invalid, canonical, fits
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind

D = Decimal
STRUCT = CanonicalType(kind=TypeKind.STRUCT, members=(("b", types.INT), ("a", types.TEXT)))
MAP = CanonicalType(kind=TypeKind.MAP, members=(("key", types.TEXT), ("value", types.INT)))


def of(value: object, kind: CanonicalType) -> Value:
    return canonical(value, kind, "one")


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (NULL, "00 00000000"),
        (Value(Tag.BOOL, content=True), "01 00000001 01"),
        (number(1), "02 00000001 31"),
        (number(D("-0.50")), "02 00000004 2d302e35"),
        (number(D("Infinity")), "02 00000003 496e66"),
        (number(D("-Infinity")), "02 00000004 2d496e66"),
        (number(D("sNaN")), "02 00000003 4e614e"),
        (text("é"), "10 00000002 c3a9"),
        (Value(Tag.BINARY, b"\x00"), "11 00000001 00"),
        (Value(Tag.DATE, D(0)), "20 0000000a 313937302d30312d3031"),
        (Value(Tag.INSTANT, D("1.5")), "21 00000003 312e35"),
        (Value(Tag.INTERVAL, Interval(1, -2, 3)), "24 00000006 312c2d322c33"),
        (invalid("a", b"\xff"), "7f 00000007 10 00000001 61 ff"),
        (Value(Tag.ARRAY, (NULL,)), "50 00000007 0001 00 00000000"),
        (Value(Tag.STRUCT, (NULL,)), "51 00000007 0001 00 00000000"),
        (
            Value(Tag.MAP, ((NULL, NULL),)),
            "52 0000000e 0001 0002 00 00000000 00 00000000",
        ),
        (Value(Tag.UUID, b"\0" * 16), "30 00000010" + " 00" * 16),
        (Value(Tag.JSON, "{}"), "40 00000002 7b7d"),
    ],
)
def test_an_encoding_is_tag_length_and_payload(value: Value, encoded: str) -> None:
    assert encode(value) == bytes.fromhex(encoded)
    # As encodings, since NaN is not equal to itself.
    assert encode(decode(encode(value))) == encode(value)
    assert canonical_text(decode(encode(value))) == canonical_text(value)


def test_a_tuple_is_its_count_and_its_values() -> None:
    assert encode_tuple([]) == b"\0\0"
    assert encode_tuple([NULL, NULL]) == b"\0\2" + encode(NULL) * 2


@pytest.mark.case("P13")
def test_minus_zero_is_zero() -> None:
    assert encode(of(-0.0, types.FLOAT64)) == encode(of(0, types.INT))
    assert canonical_text(of(D("-0.00"), types.NUMERIC)) == "0"
    assert str(number(D("-0")).content) == "0"


@pytest.mark.case("P03")
def test_a_number_has_one_form_whatever_its_type() -> None:
    same = [of(1, types.INT), of(D("1.00"), types.decimal(5, 2)), of(1.0, types.FLOAT64)]
    assert len({encode(value) for value in same}) == 1


PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-99, max_value=99),
    st.text(max_size=4),
    st.binary(max_size=4),
    st.dates(),
)


def made(value: object) -> Value:
    match value:
        case bool():
            return of(value, types.BOOL)
        case int() | Decimal():
            return of(value, types.NUMERIC)
        case bytes():
            return of(value, types.BINARY)
        case date():
            return of(value, types.DATE)
        case _:
            return of(value, types.TEXT)


def same(one: object, other: object) -> bool:
    numbers = (int, Decimal)
    if isinstance(one, numbers) and isinstance(other, numbers):
        return isinstance(one, bool) is isinstance(other, bool) and one == other
    return type(one) is type(other) and one == other


@pytest.mark.case("F13")
@pytest.mark.case("P22")
@pytest.mark.case("P24")
@pytest.mark.case("P51")
@given(st.lists(PLAIN, max_size=4), st.lists(PLAIN, max_size=4))
def test_tuples_of_any_arity_encode_alike_exactly_when_they_are_equal(
    one: list[object], other: list[object]
) -> None:
    try:
        encoded = [encode_tuple([made(value) for value in values]) for values in (one, other)]
    except UnicodeError:  # a lone surrogate is INVALID and never reaches a tuple as text
        return
    equal = len(one) == len(other) and all(map(same, one, other))
    assert (encoded[0] == encoded[1]) is equal


@pytest.mark.case("P23")
def test_no_text_and_no_byte_means_null() -> None:
    others = [text(""), text("NULL"), text("\0"), Value(Tag.BINARY, b"")]
    assert encode(NULL) not in [encode(value) for value in others]


def test_the_canonical_order_is_by_kind_then_by_value() -> None:
    ordered = [
        NULL,
        Value(Tag.BOOL, content=False),
        number(D("-Infinity")),
        number(-2),
        number(D("-1.5")),
        number(10),
        number(D("Infinity")),
        number(D("NaN")),
        text(""),
        text("Z"),
        text("a"),
        text("é"),
        Value(Tag.DATE, D(-1)),
        Value(Tag.DATE, D("Infinity")),
        invalid("one", b""),
    ]
    shuffled = ordered[7:] + ordered[:7]
    assert sorted(shuffled, key=canonical_order) == ordered


@pytest.mark.parametrize(
    ("value", "kind", "written"),
    [
        (None, types.TEXT, None),
        (True, types.BOOL, "true"),
        (D("1.500"), types.NUMERIC, "1.5"),
        (1e23, types.FLOAT64, "100000000000000000000000"),
        (b"\xab", types.BINARY, "ab"),
        (UUID(int=10), types.UUID, "00000000-0000-0000-0000-00000000000a"),
        (date(2026, 1, 31), types.DATE, "2026-01-31"),
        (D(-719163), types.DATE, "+0000-12-31"),
        (D(4_000_000), types.DATE, "+12921-08-18"),
        (D("Infinity"), types.DATE, "Inf"),
        (datetime(1969, 12, 31, 23, 59, 59, 500_000, tzinfo=UTC), types.INSTANT, "…59.5Z"),
        (D("-Infinity"), types.INSTANT, "-Inf"),
        (datetime(2026, 1, 31, 12), types.LOCAL_TIMESTAMP, "2026-01-31T12:00:00"),  # noqa: DTZ001 - naive on purpose
        (time(1, 2, 3, 4), types.TIME, "01:02:03.000004"),
        (Interval(1, 2, 3), types.INTERVAL, "1,2,3"),
        ('{"b":1.0,"a":[]}', types.JSON, '{"a":[],"b":1}'),
        ('["é\\n", true, null, -0]', types.JSON, '["é\\n",true,null,0]'),
        ([1, None], types.array_of(types.INT), "[1, NULL]"),
        ({"b": 1, "a": "x"}, STRUCT, "[x, 1]"),
        ({"y": 2, "x": 1}, MAP, "[[x, 1], [y, 2]]"),
        (Invalid(b"\xff"), types.TEXT, "INVALID(0xff)"),
    ],
)
def test_every_value_has_a_text_for_people(
    value: object, kind: CanonicalType, written: str | None
) -> None:
    assert canonical_text(of(value, kind)) == (
        written.replace("…", "1969-12-31T23:59:") if written else written
    )


def test_only_finite_numbers_and_times_can_be_subtracted() -> None:
    assert of(date(1970, 1, 2), types.DATE).amount == 86_400_000_000
    assert of(D("Infinity"), types.DATE).amount is None
    assert of(float("nan"), types.FLOAT64).amount is None
    assert text("1").amount is None


@pytest.mark.case("P32")
@pytest.mark.parametrize("broken", [b"\xff\xfe", "\ud800"])
def test_text_that_is_not_utf_8_is_invalid(broken: object) -> None:
    assert of(broken, types.TEXT).is_invalid


def test_utf_8_bytes_are_text() -> None:
    assert encode(of("é".encode(), types.TEXT)) == encode(text("é"))


@pytest.mark.case("P42")
@pytest.mark.parametrize("broken", ['{"a":1,"a":2}', "NaN", "[1", "1e999999", "[" * 100_000])
def test_json_with_two_meanings_is_invalid(broken: str) -> None:
    assert of(broken, types.JSON).is_invalid


def test_an_invalid_member_makes_the_whole_value_invalid() -> None:
    broken = of([1, Invalid(b"x")], types.array_of(types.INT))
    assert broken.content == ("one", b"x")


@pytest.mark.case("P53")
@pytest.mark.parametrize(
    ("value", "valid"),
    [
        ("9" * 38, True),
        ("9" * 39, False),
        ("0." + "1" * 38, True),
        ("1." + "1" * 38, False),
        ("1E+37", True),
        ("1E+38", False),
        ("1E+999999", False),
        ("1." + "0" * 60, True),
        ("NaN", True),
    ],
)
def test_a_number_has_at_most_38_digits(value: str, *, valid: bool) -> None:
    assert of(value, types.NUMERIC).is_invalid is not valid


def test_digits_after_the_point_count_against_the_38() -> None:
    assert fits(D("9" * 36 + ".99"), 2)
    assert not fits(D("9" * 37), 2)
    assert not fits(D("0.001"), 2)
    assert not fits(D(1), 38)
    assert fits(D("0E+999"), 38)


def test_members_that_cannot_be_counted_make_a_value_invalid() -> None:
    assert of([1] * 65_536, types.array_of(types.INT)).content == ("one", b"65536 members")
    assert not of([1] * 65_535, types.array_of(types.INT)).is_invalid


@pytest.mark.parametrize(
    ("value", "digits", "fit"),
    [("1E+400", 401, True), ("1E+401", 402, False), ("1E-400", 400, True), ("1E-401", 401, False)],
)
def test_a_number_beyond_every_double_does_not_fit(value: str, digits: int, *, fit: bool) -> None:
    scale = digits if "-" in value else 0
    assert fits(D(value), scale, digits) is fit


@pytest.mark.parametrize(
    ("value", "kind", "raw"),
    [
        ("9" * 39, types.NUMERIC, b"9" * 39),
        ("\ud800", types.TEXT, b"\xed\xa0\x80"),
        (b"\xff", types.TEXT, b"\xff"),
        ("[1", types.JSON, b"[1"),
        (Invalid(b"x"), types.INT, b"x"),
    ],
)
def test_an_invalid_value_preserves_its_source_and_bytes(
    value: object, kind: CanonicalType, raw: bytes
) -> None:
    assert of(value, kind) == invalid("one", raw)


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("1e400", "1" + "0" * 400),
        ("1e401", None),
        ("1" + "0" * 401, None),
        ("-1e-401", None),
        ("0e999999", "0"),
        ('{"a":NaN}', None),
        ('"\\ud800"', None),
        ('[{"b":[2,1],"a":3},2,1,2]', '[1,2,2,{"a":3,"b":[1,2]}]'),
        ('{"é":"é"}', '{"é":"é"}'),
    ],
)
def test_json_has_one_text_even_as_sets(written: str, form: str | None) -> None:
    assert json_value(written, arrays_as_sets=True) == form


def test_maps_encode_as_pairs_in_the_order_of_their_keys() -> None:
    one, other = of({"y": 2, "x": 1}, MAP), of({"x": 1, "y": 2}, MAP)
    assert encode(one) == encode(other) != encode(of({"x": 2, "y": 1}, MAP))


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        (True, types.INT, "a boolean is not a number"),
        ([], types.INT, "list is not a number"),
        ("x", types.BOOL, "str is no bool"),
        (1, types.TEXT, "int is no text"),
        (datetime(2026, 1, 1, tzinfo=UTC), types.LOCAL_TIMESTAMP, "datetime is no local_timestamp"),
        (datetime(2026, 1, 1, tzinfo=UTC), types.DATE, "datetime is no date"),
        (1, types.array_of(types.INT), "int is no array<int>"),
    ],
)
def test_a_reader_that_delivers_another_type_is_refused(
    value: object, kind: CanonicalType, message: str
) -> None:
    with pytest.raises(TypeError) as raised:
        of(value, kind)
    assert str(raised.value) == message


@pytest.mark.parametrize("days", ["-719529", "-719162", "0", "2932896", "2932897", "-Infinity"])
def test_dates_of_every_year_are_decoded(days: str) -> None:
    value = Value(Tag.ARRAY, (Value(Tag.DATE, D(days)), Value(Tag.TIME, D("1.5"))))
    assert decode(encode(value)) == value


def test_a_map_is_sorted_by_key_and_its_last_value_of_a_key_counts() -> None:
    pairs = [("b", 1), ("a", 2), ("b", 3)]
    assert canonical_text(of(pairs, MAP)) == "[[a, 2], [b, 3]]"
    assert encode(of(dict(pairs), MAP)) == encode(of(pairs, MAP))
