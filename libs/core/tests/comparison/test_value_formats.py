"""Declared formats of numbers, dates and times: one reading, or none."""

import pytest

from datarecs_core.comparison.values.value_formats import (
    PLAIN_NUMBERS,
    DateFormat,
    NumberFormat,
    strict_reader,
)
from datarecs_core.jobs import types


@pytest.mark.parametrize(
    ("written", "text", "strict"),
    [
        ("%d.%m.%Y", "1.2.2026", "2026-02-01"),
        ("%d.%m.%Y", "1.2.26", None),
        ("%m/%d/%y", "12/31/69", "1969-12-31"),
        ("%m/%d/%y", "12/31/68", "2068-12-31"),
        ("%d-%b-%Y", "05-jan-2026", "2026-01-05"),
        ("%d %B %Y", "5 March 2026", "2026-03-05"),
        ("%d %B %Y", "5 Marchy 2026", None),
        ("%d-%b-%Y", "05-Xyz-2026", None),
        ("%Y%m%d", "20261301", "2026-13-01"),
        ("%d.%m.%Y %H:%M", "31.01.2026 7:05", "2026-01-31 07:05:00"),
        ("%Y-%m-%dT%H:%M:%S.%f%z", "2026-01-31T01:02:03.5Z", "2026-01-31 01:02:03.5Z"),
        ("%Y-%m-%d %H:%M%z", "2026-01-31 01:02-0530", "2026-01-31 01:02:00-05:30"),
        ("%Y-%m-%d %I:%M %p", "2026-01-31 12:30 am", "2026-01-31 00:30:00"),
        ("%Y-%m-%d %I:%M %p", "2026-01-31 12:30 PM", "2026-01-31 12:30:00"),
        ("%Y-%m-%d %I:%M %p", "2026-01-31 13:30 PM", None),
        ("%H:%M", "23:59", "23:59:00"),
        ("100%% %H:%M", "100% 23:59", "23:59:00"),
        ("%d/%m/%Y", "31/01/2026\n", None),
    ],
)
def test_a_value_in_its_format_has_one_strict_form(
    written: str, text: str, strict: str | None
) -> None:
    assert DateFormat.of(written).strict(text) == strict


@pytest.mark.parametrize(
    "written",
    ["", "%", "%Q", "%d.%m", "%Y %y %m %d", "%Y-%m-%d %d", "%H", "%H:%S", "%p %H:%M", "%H:%M %z",
     "%Y-%m-%d %f", "%Y-%m-%d %H:%M.%f", "%I:%M", "%Y %m %b %d"],
)  # fmt: skip
def test_a_format_that_names_no_whole_day_or_time_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        DateFormat.of(written)


@pytest.mark.parametrize(
    ("decimal", "thousands", "text", "strict"),
    [
        (",", ".", "1.234.567,89", "1234567.89"),
        (",", ".", "-1234,5", "-1234.5"),
        (",", ".", "12.34", None),
        (",", ".", "1.2345", None),
        (",", "", "1.234", None),
        (".", "'", "1'234.5", "1234.5"),
        (".", ",", "1,234", "1234"),
        (".", ",", "1,23", None),
        (".", "", "anything", "anything"),
        (",", "", "1,", None),
    ],
)
def test_a_number_is_read_by_its_declared_marks_alone(
    decimal: str, thousands: str, text: str, strict: str | None
) -> None:
    assert NumberFormat(decimal, thousands).strict(text) == strict


def test_only_numbers_and_times_have_formats() -> None:
    comma = NumberFormat(",", "")
    read = strict_reader(types.INT, comma, "")
    assert read is not None
    assert read("1,5") == "1.5"
    read = strict_reader(types.DATE, comma, "%Y%m%d")
    assert read is not None
    assert read("20260131") == "2026-01-31"
    assert strict_reader(types.TEXT, comma, "%Y%m%d") is None
    assert strict_reader(types.DATE, comma, "") is None
    assert strict_reader(types.INT, PLAIN_NUMBERS, "%Y%m%d") is None
