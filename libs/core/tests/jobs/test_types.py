import pytest

from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind, comparable, parse_type

STRUCT = CanonicalType(kind=TypeKind.STRUCT, members=(("a", types.INT), ("b", types.TEXT)))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("int", types.INT),
        ("decimal(20,4)", types.decimal(20, 4)),
        ("decimal(20, 4)", types.decimal(20, 4)),
        ("decimal(5)", types.decimal(5, 0)),
        ("decimal", types.NUMERIC),
        ("instant(3)", CanonicalType(kind=TypeKind.INSTANT, precision=3)),
        ("local_timestamp", types.LOCAL_TIMESTAMP),
        ("array<decimal(3,1)>", types.array_of(types.decimal(3, 1))),
    ],
)
def test_a_type_is_read_as_a_job_writes_it(text: str, kind: CanonicalType) -> None:
    assert parse_type(text) == kind
    assert parse_type(str(kind)) == kind


@pytest.mark.parametrize(
    "text",
    [
        "",
        "number",
        "decimal(39,0)",
        "decimal(0,0)",
        "decimal(3,4)",
        "int(3)",
        "instant(10)",
        "instant(3,1)",
        "array<>",
        "INT",
        "struct",
    ],
)
def test_other_texts_name_no_type(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_type(text)


def test_nested_types_show_their_members() -> None:
    assert str(STRUCT) == "struct<a: int, b: text>"
    assert str(types.array_of(STRUCT)) == "array<struct<a: int, b: text>>"


def test_a_clock_time_has_six_digits_unless_declared() -> None:
    assert types.INSTANT.second_digits == 6
    assert parse_type("time(0)").second_digits == 0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (types.INT, types.FLOAT32, True),
        (types.decimal(3, 1), types.decimal(38, 10), True),
        (types.TEXT, types.UUID, False),
        (types.INSTANT, parse_type("instant(3)"), True),
        (types.INSTANT, types.LOCAL_TIMESTAMP, False),
        (types.array_of(types.INT), types.array_of(types.FLOAT64), True),
        (types.array_of(types.INT), types.array_of(types.TEXT), False),
        (STRUCT, CanonicalType(kind=TypeKind.STRUCT, members=STRUCT.members[::-1]), True),
        (STRUCT, CanonicalType(kind=TypeKind.STRUCT, members=STRUCT.members[:1]), False),
    ],
)
def test_types_compare_by_family(one: CanonicalType, other: CanonicalType, *, same: bool) -> None:
    assert comparable(one, other) is same
