"""In which column type sources meet."""

import pytest

from datarecs_core.jobs.types import parse_type
from datarecs_kernel.forms import form_of, summed_form


@pytest.mark.parametrize(
    ("types", "meeting"),
    [
        ("int int", "BIGINT"),
        ("int decimal(10,2)", "DECIMAL(22,2)"),
        ("decimal(10,2) decimal(20,4)", "DECIMAL(20,4)"),
        ("decimal(38,2) decimal(20,4)", "STRING"),
        ("decimal decimal(10,2)", "STRING"),
        ("float64 float32", "DOUBLE"),
        ("float64 int", "STRING"),
        ("instant instant", "BIGINT"),
        ("instant(9) instant", "DECIMAL(22,3)"),
        ("time(7) time", "DECIMAL(22,3)"),
        ("uuid uuid", "BINARY"),
    ],
)
def test_types_meet_in_the_narrowest_form_that_preserves_every_digit(
    types: str, meeting: str
) -> None:
    form = form_of([parse_type(each) for each in types.split()])
    assert form is not None
    assert form.sql_type == meeting


def test_unsigned_integers_of_64_bits_need_a_decimal() -> None:
    form = form_of([parse_type("int")], wide_integers=True)
    assert form is not None
    assert form.sql_type == "DECIMAL(20,0)"


def test_there_is_no_form_for_what_is_not_covered() -> None:
    assert form_of([parse_type("interval")]) is None


@pytest.mark.parametrize(
    ("types", "meeting"),
    [
        ("int", "DECIMAL(20,0)"),
        ("decimal(10,2) int", "DECIMAL(22,2)"),
        ("float64", "DECIMAL(38,18)"),
        ("decimal", "DECIMAL(38,18)"),
        ("decimal(38,2) decimal(20,4)", "DECIMAL(38,4)"),
    ],
)
def test_sums_are_added_up_in_decimals(types: str, meeting: str) -> None:
    assert summed_form([parse_type(each) for each in types.split()]).sql_type == meeting
