from decimal import Decimal

import pytest

from datarecs_core.comparison.values.canonical import Tag, canonical_text
from datarecs_core.comparison.values.forms import (
    Inference,
    read_bool,
    read_date,
    read_float,
    read_moment,
    read_number,
    read_text,
    read_time,
    read_uuid,
)
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType, TypeKind


@pytest.mark.parametrize("written", ["0", "-1", "10", "0.10", "-0.5", "9" * 38, "0." + "9" * 38])
def test_plain_numbers_are_numbers(written: str) -> None:
    value = read_number(written)
    assert value is not None
    assert value.content == Decimal(written)


@pytest.mark.case("P41")
@pytest.mark.case("P67")
@pytest.mark.parametrize(
    "written",
    [
        "",
        "007",
        "+7",
        " 7",
        "7 ",
        "1e0",
        "1,234.5",
        ".5",
        "5.",
        "0x10",
        "1_0",
        "٣",
        "9" * 39,
        "NaN",
    ],
)
def test_everything_else_is_no_number(written: str) -> None:
    assert read_number(written) is None


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1e10", "10000000000"),
        ("-1.50E-2", "-0.015"),
        ("1e+0", "1"),
        ("-0.0e9", "0"),
        ("NaN", "NaN"),
        ("nan", "NaN"),
        ("Infinity", "Inf"),
        ("-inf", "-Inf"),
        ("0." + "0" * 330 + "5", None),
        ("0" * 400, None),
        ("1e999", None),
        ("1e999999999", None),
        ("1e", None),
        ("e1", None),
        ("+1e1", None),
        ("01e1", None),
        (" 1e1", None),
        (".5", None),
        ("infinity", None),
        ("٣e1", None),
    ],
)
def test_floats_are_read_as_exporters_write_them(written: str, read: str | None) -> None:
    value = read_float(written)
    assert (None if value is None else canonical_text(value)) == read


@pytest.mark.parametrize(("written", "read"), [("true", True), ("TRUE", None), ("1", None)])
def test_only_two_words_are_boolean(written: str, *, read: bool | None) -> None:
    value = read_bool(written)
    assert (value.content if value else None) is read


@pytest.mark.parametrize("written", ["2024-02-29", "2000-02-29", "0001-01-01", "9999-12-31"])
def test_days_that_exist_are_dates(written: str) -> None:
    value = read_date(written)
    assert value is not None
    assert canonical_text(value) == written


@pytest.mark.parametrize(
    "written",
    [
        "2023-02-29",
        "1900-02-29",
        "2024-13-01",
        "2024-00-01",
        "2024-04-31",
        "0000-01-01",
        "24-01-01",
    ],
)
def test_days_that_do_not_exist_are_no_dates(written: str) -> None:
    assert read_date(written) is None


@pytest.mark.parametrize(
    ("written", "tag", "shown"),
    [
        ("2026-01-31T12:00:00Z", Tag.INSTANT, "2026-01-31T12:00:00Z"),
        ("2026-01-31 12:00:00.1234567+02:30", Tag.INSTANT, "2026-01-31T09:30:00.1234567Z"),
        ("2026-01-31T12:00:00-01:00", Tag.INSTANT, "2026-01-31T13:00:00Z"),
        ("2026-01-31T12:00:00.5", Tag.LOCAL, "2026-01-31T12:00:00.5"),
    ],
)
def test_moments_with_an_offset_are_instants(written: str, tag: Tag, shown: str) -> None:
    value = read_moment(written)
    assert value is not None
    assert (value.tag, canonical_text(value)) == (tag, shown)


@pytest.mark.parametrize(
    "written",
    [
        "2026-01-31T12:00",
        "2026-01-31T24:00:00Z",
        "2026-02-30T12:00:00",
        "2026-01-31  12:00:00",
        "x",
    ],
)
def test_other_texts_are_no_moments(written: str) -> None:
    assert read_moment(written) is None


def test_times_of_day_have_seconds() -> None:
    value = read_time("23:59:59.5")
    assert value is not None
    assert value.content == Decimal(86399500000)
    assert read_time("24:00:00") is None


def test_uuids_come_in_any_case() -> None:
    upper, lower = (
        read_uuid("ABCDEF00-0000-0000-0000-000000000001"),
        "abcdef00-0000-0000-0000-000000000001",
    )
    assert upper == read_uuid(lower)
    assert read_uuid(lower.replace("-", "")) is None


@pytest.mark.parametrize(
    ("written", "kind", "read"),
    [
        ("x", types.TEXT, True),
        ("1.5", types.FLOAT64, True),
        ("true", types.BOOL, True),
        ("12:00:00", types.TIME, True),
        ("00", types.BINARY, False),
    ],
)
def test_a_type_has_its_form_or_none(written: str, kind: CanonicalType, *, read: bool) -> None:
    assert (read_text(written, kind) is not None) is read


@pytest.mark.case("P67")
@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        ([None, None], None),
        (["1", None, "2"], types.INT),
        (["1", str(2**63)], types.decimal(38, 0)),
        (["1.5", "10"], types.decimal(3, 1)),
        (["10", "0.25"], types.decimal(4, 2)),
        (["1" * 30 + ".1", "0." + "1" * 20], types.NUMERIC),
        (["true", "false"], types.BOOL),
        (["true", "1"], types.TEXT),
        (["2026-01-31"], types.DATE),
        (["2026-01-31", "2026-01-31T00:00:00"], types.TEXT),
        (["2026-01-31T00:00:00Z"], types.INSTANT),
        (["2026-01-31T00:00:00"], types.LOCAL_TIMESTAMP),
        (["007", "8"], types.TEXT),
        (["8", "1,234.5"], types.TEXT),
        (["1", "TRUE"], types.TEXT),
    ],
)
def test_a_column_is_what_all_its_values_are(
    texts: list[str | None], kind: CanonicalType | None
) -> None:
    seen = Inference()
    for text in texts:
        seen = seen.see(text)
    assert seen.type == kind


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["2026-01-31T12:00:00.123456789Z", "2026-01-31T12:00:00Z"], "instant(9)"),
        (["2026-01-31T12:00:00.1234567+02:00", "9999-12-31T00:00:00Z"], "text"),
        (["1969-12-31 23:59:59.9999999", None, "2026-01-31T00:00:00.5"], "local_timestamp(9)"),
        (["2026-01-31T12:00:00.123456789", "0001-01-01T00:00:00"], "text"),
        (["2026-01-31T12:00:00.123456789Z", "2026-01-31T12:00:00.123456789"], "text"),
        (["2026-01-31T12:00:00.123456789Z", "2026-01-31"], "text"),
        (["2026-01-31T12:00:00.123456789Z", "2026-01-31T12:00:00.1234567890Z"], "text"),
        (["2026-01-31T12:00:00.123456000Z", "9999-12-31T00:00:00.000000000Z"], "instant"),
        (["1677-09-21T00:12:43.145224192Z", "2262-04-11T23:47:16.854775807Z"], "instant(9)"),
        (["1677-09-21T00:12:43.145224191Z"], "text"),
        (["2262-04-11T23:47:16.854775808Z"], "text"),
    ],
)
def test_moments_are_nanoseconds_where_one_needs_them_and_all_are_within_their_reach(
    texts: list[str | None], kind: str
) -> None:
    for order in (texts, texts[::-1]):
        seen = Inference()
        for text in order:
            seen = seen.see(text)
        assert str(seen.type) == kind


def test_the_order_of_values_does_not_change_what_is_inferred() -> None:
    texts = ["1.25", "100", str(2**63), "-7"]
    kinds = set()
    for shift in range(4):
        seen = Inference()
        for text in texts[shift:] + texts[:shift]:
            seen = seen.see(text)
        kinds.add(seen.type)
    assert kinds == {types.decimal(21, 2)}
    assert {kind.kind for kind in kinds if kind} == {TypeKind.DECIMAL}
