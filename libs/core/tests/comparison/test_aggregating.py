from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.comparison.oracle.aggregating import OverflowedError, aggregate, average
from datarecs_core.comparison.values.canonical import (
    NULL,
    Value,
    canonical_text,
    invalid,
    number,
    text,
)
from datarecs_core.jobs import types
from datarecs_core.jobs.types import CanonicalType
from datarecs_core.jobs.vocabulary import Function

D = Decimal


def of(
    function: Function, *values: Value, kind: CanonicalType = types.NUMERIC, places: int = 6
) -> str | None:
    return canonical_text(aggregate(function, values, kind, places).value)


def numbers(*plain: str) -> list[Value]:
    return [number(D(each)) for each in plain]


@pytest.mark.case("P16")
@pytest.mark.parametrize(
    ("values", "kind", "total"),
    [
        (["9" * 38], types.INT, "9" * 38),
        (["9" * 37 + ".9", "0.0"], types.decimal(38, 1), "9" * 37 + ".9"),
        (["0.1", "0.2"], types.FLOAT64, "0.3"),
        (["9" * 20], types.FLOAT64, "9" * 20),
    ],
)
def test_sums_are_exact_up_to_38_digits(values: list[str], kind: CanonicalType, total: str) -> None:
    assert of(Function.SUM, *numbers(*values), kind=kind) == total
    for function in Function:
        assert aggregate(function, numbers(*values), kind, 6).rounded == 0


@pytest.mark.case("P16")
@pytest.mark.case("P54")
@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["9" * 38, "1"], types.INT),
        (["9" * 37 + ".9", "0.1"], types.decimal(38, 1)),
        (["9" * 38, "0.1"], types.NUMERIC),
        (["1e20"], types.FLOAT64),
        (["1e20", "-1e20"], types.FLOAT64),
        (["9e19", "1e19"], types.FLOAT64),
    ],
)
def test_more_is_an_error_and_never_wrapped(values: list[str], kind: CanonicalType) -> None:
    for function in (Function.SUM, Function.AVG):
        with pytest.raises(OverflowedError):
            of(function, *numbers(*values), kind=kind)


@pytest.mark.case("P54")
def test_float_sums_round_each_value_to_18_places_and_count_it() -> None:
    values = numbers("1e-19", "1e-18", "5e-19", "1.5e-18")
    result = aggregate(Function.SUM, values, types.FLOAT64, None)
    assert (canonical_text(result.value), result.rounded) == ("0.000000000000000003", 3)


def test_averages_of_floats_have_18_places() -> None:
    result = aggregate(Function.AVG, numbers("1", "0", "0"), types.FLOAT64, None)
    assert canonical_text(result.value) == "0.333333333333333333"


@pytest.mark.parametrize(
    ("values", "total"),
    [
        (["Infinity", "1"], "Inf"),
        (["-Infinity", "-Infinity"], "-Inf"),
        (["Infinity", "-Infinity"], "NaN"),
        (["NaN", "Infinity"], "NaN"),
        (["NaN", "1e300"], "NaN"),
    ],
)
def test_special_floats_add_up_by_rule(values: list[str], total: str) -> None:
    assert of(Function.SUM, *numbers(*values), kind=types.FLOAT64) == total


@pytest.mark.case("P18")
@pytest.mark.parametrize(
    ("function", "result"),
    [
        (Function.SUM, None),
        (Function.AVG, None),
        (Function.MIN, None),
        (Function.MAX, None),
        (Function.COUNT, "0"),
        (Function.COUNT_DISTINCT, "0"),
    ],
)
def test_nulls_are_ignored_and_nothing_has_no_sum(function: Function, result: str | None) -> None:
    assert of(function, NULL, NULL) == result
    assert of(function) == result


def test_extremes_follow_the_canonical_order() -> None:
    values = [text("b"), NULL, text("B"), text("é")]
    assert (of(Function.MIN, *values), of(Function.MAX, *values)) == ("B", "é")
    assert of(Function.MAX, *numbers("1", "NaN", "Infinity")) == "NaN"


def test_distinct_values_are_canonically_distinct() -> None:
    assert of(Function.COUNT_DISTINCT, *numbers("1", "1.0", "-0", "0"), NULL) == "2"


def test_an_invalid_value_makes_the_result_invalid() -> None:
    broken = [invalid("one", b"b"), invalid("one", b"a"), number(1)]
    for function in Function:
        assert of(function, *broken) == "INVALID(0x61)"


@pytest.mark.case("P17")
@given(st.lists(st.integers(-(10**9), 10**9), min_size=1, max_size=9), st.integers(0, 9))
def test_averages_are_the_nearest_and_on_a_tie_the_even(values: Sequence[int], places: int) -> None:
    result = average(D(sum(values)), len(values), places)
    exact = Fraction(sum(values), len(values))
    assert abs(Fraction(result) - exact) <= Fraction(1, 2 * 10**places)
    assert of(Function.AVG, *map(number, values), places=places) == canonical_text(number(result))


def test_a_tie_goes_to_the_even_digit() -> None:
    assert [average(D(n), 2, 0) for n in (1, 3, 5, -1)] == [0, 2, 2, 0]
