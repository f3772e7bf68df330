"""Sums in parts are Python's sums of the same numbers, whatever their size and form."""

from collections.abc import Sequence
from decimal import Decimal
from functools import reduce

import duckdb
import pytest

from datarecs_core.values import EXACT
from datarecs_kernel.exact_sums import Part, halves_of, parts_of, read_sum
from datarecs_kernel.forms import INTEGER, NUMBER, Form, decimal

COPIES = 30
"""Of the largest number of 38 digits, in more than 38 digits."""


def sums_in_parts(
    parts: Sequence[Part], sql_type: str, values: Sequence[int | Decimal | str], copies: int = 1
) -> list[Decimal]:
    """What DuckDB adds up of copies of every value, one by one, and of all together, last."""
    sums = ", ".join(f"sum({part.sql})" for part in parts)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE numbers (place INTEGER, v {sql_type})")
        rows = [(at, written(value)) for at, value in enumerate(values)]
        connection.executemany("INSERT INTO numbers VALUES (?, ?)", rows or [(0, None)])
        records = connection.execute(
            f"SELECT {sums} FROM numbers, range({copies})"
            " GROUP BY GROUPING SETS ((place), ()) ORDER BY place NULLS LAST"
        ).fetchall()
    return [read_sum(parts, row) for row in records]


def written(value: int | Decimal | str) -> str:
    """Without an exponent."""
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def exact_sum(values: Sequence[int | Decimal]) -> Decimal:
    return reduce(EXACT.add, map(Decimal, values), Decimal(0))


def numbers_of(form: Form) -> list[Decimal]:
    """Of both signs, around the places at which they are cut."""
    sizes = {0, 1, 9, 10**18, *(10**power + step for power in (19, 28) for step in (-1, 0, 1))}
    sizes |= {10**form.precision - 1, 12345678901234567890123456789012345678}
    units = [each for each in sorted(sizes) if each < 10**form.precision]
    return [Decimal(sign * each).scaleb(-form.scale, EXACT) for each in units for sign in (1, -1)]


@pytest.mark.case("P16")
@pytest.mark.parametrize(
    "form",
    [decimal(12, 2), *(decimal(28, scale) for scale in (0, 28)), decimal(29, 1)]
    + [decimal(38, scale) for scale in (0, 10, 28, 29, 38)],
    ids=lambda form: form.sql_type,
)
def test_sums_of_decimals_are_exact_one_by_one_and_in_38_digits_and_more(form: Form) -> None:
    parts, values = parts_of(form, "v"), numbers_of(form)
    assert sums_in_parts(parts, form.sql_type, values) == [*values, 0]
    largest = max(values)
    (copied, _) = sums_in_parts(parts, form.sql_type, [largest], COPIES)
    assert copied == EXACT.multiply(largest, COPIES)


@pytest.mark.case("P16")
def test_sums_of_integers_are_exact_beyond_64_bits() -> None:
    values = [2**63 - 1, 2**63 - 1, -5]
    assert sums_in_parts(parts_of(INTEGER, "v"), "BIGINT", values) == [*values, sum(values)]


NUMBERS = ["0", "0.5", "-12.25", "-3", "1234567890", "99999999999999999999999999999999999999"]
NUMBERS += ["12345678901234567890.12345678901234567890123456789", "-0.0000000000000000001", "1E-38"]


@pytest.mark.case("P16")
def test_sums_of_numbers_as_texts_are_exact_and_leave_out_what_is_not_finite() -> None:
    parts, values = parts_of(NUMBER, "v"), list(map(Decimal, NUMBERS))
    expected = [*values, 0, 0, 0, exact_sum(values)]
    assert sums_in_parts(parts, "VARCHAR", [*values, "NaN", "Inf", "-Inf"]) == expected
    *_, copied = sums_in_parts(parts, "VARCHAR", values, COPIES)
    assert copied == EXACT.multiply(exact_sum(values), COPIES)


@pytest.mark.case("P16")
def test_integers_of_38_digits_are_added_up_in_halves() -> None:
    sizes = (0, 1, 10**19 - 1, 10**19, 10**38 - 1)
    values, parts = [sign * each for each in sizes for sign in (1, -1)], halves_of("v")
    assert sums_in_parts(parts, "HUGEINT", values) == [*values, 0]
    *_, copied = sums_in_parts(parts, "HUGEINT", sizes, COPIES)
    assert copied == sum(sizes) * COPIES


def test_the_sum_of_nothing_is_0() -> None:
    for parts, kind in ((parts_of(INTEGER, "v"), "BIGINT"), (parts_of(NUMBER, "v"), "VARCHAR")):
        assert sums_in_parts(parts, kind, []) == [0, 0]
