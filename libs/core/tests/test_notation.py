"""How decimals, durations and sizes are written."""

from datetime import timedelta
from decimal import Decimal
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.notation import (
    duration_text,
    parse_decimal,
    parse_duration,
    parse_size,
    size_text,
)

DIGITS_38 = "12345678901234567890.123456789012345678"


@pytest.mark.parametrize(
    "text", ["0", "0.01", "0.10", "100", DIGITS_38, "012", f"{0:0>38}", "9" * 38]
)
def test_a_decimal_preserves_every_digit_it_is_written_with(text: str) -> None:
    assert parse_decimal(text) == Decimal(text)


@pytest.mark.case("U18")
def test_a_decimal_preserves_its_trailing_zero() -> None:
    assert str(parse_decimal("0.10")) == "0.10"


@pytest.mark.case("X27")
@pytest.mark.parametrize(
    "text",
    [
        "1e999999",
        "1e999999999999999999",
        "1" * 39,
        f"{DIGITS_38}9",
        "1" * 38 + ".5",
        "0." + "1" * 19,
        "0,01",
        "\uff10.\uff11",
        "+1",
        "-1",
        ".5",
        "5.",
        "NaN",
        "Infinity",
        "",
        " 1",
        "1 ",
        "1_000",
        "0x1f",
        "1\n",
        "9" * 100_000,
    ],
)
def test_what_is_no_plain_decimal_is_refused_at_once(text: str) -> None:
    started = perf_counter()
    value = parse_decimal(text)
    assert (value, perf_counter() - started < 0.01) == (None, True)


def test_a_minus_is_read_only_where_it_is_allowed() -> None:
    assert (parse_decimal("-1.5", signed=True), parse_decimal("-1.5")) == (Decimal("-1.5"), None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT0S", 0),
        ("PT1S", 1),
        ("PT0.5S", 0.5),
        ("PT15M", 900),
        ("P1D", 86_400),
        ("P2W", 1_209_600),
        ("P1DT1H1M1S", 90_061),
        ("PT36H", 129_600),
    ],
)
def test_a_duration_is_iso_8601(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["5m", "P", "PT", "P1Y", "P1M", "PT-1S", "-PT1S", "PT1.5M", "PT1S ", "pt1s", "PT0.1234567S"],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    assert parse_duration(text) is None


@given(st.timedeltas(min_value=timedelta(), max_value=timedelta(days=99_999)))
def test_a_duration_reads_back_as_it_was(length: timedelta) -> None:
    assert parse_duration(duration_text(length)) == length


def test_a_negative_duration_has_no_text() -> None:
    with pytest.raises(ValueError, match="not negative"):
        duration_text(timedelta(seconds=-1))


@given(st.integers(min_value=0, max_value=2**40))
def test_a_size_reads_back_as_it_was(kibibytes: int) -> None:
    size = kibibytes % 999_999_999 * 1024
    assert parse_size(size_text(size)) == size


@pytest.mark.parametrize("text", ["1GB", "1 GiB", "1.5GiB", "GiB", "-1GiB", "1gib", "1B"])
def test_what_is_no_size_is_refused(text: str) -> None:
    assert parse_size(text) is None


def test_a_size_is_written_in_its_largest_whole_unit() -> None:
    assert [size_text(2**31), size_text(1536 * 1024), size_text(0)] == ["2GiB", "1536KiB", "0KiB"]


def test_a_size_between_units_has_no_text() -> None:
    with pytest.raises(ValueError, match="KiB"):
        size_text(1500)
