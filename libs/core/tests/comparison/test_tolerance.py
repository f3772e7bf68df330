from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.comparison.planning.tolerance import (
    AbsoluteTolerance,
    DurationTolerance,
    ExactTolerance,
    Gap,
    PercentageTolerance,
    Tolerance,
    gap_between,
    tolerance_of,
    tolerance_type,
    tolerance_value,
)
from datarecs_core.jobs.definition import Tolerance as Declared
from datarecs_core.jobs.vocabulary import Bound, ToleranceBase, ToleranceType

D = Decimal
INCLUSIVE, EXCLUSIVE = Bound.INCLUSIVE, Bound.EXCLUSIVE


def gap(one: str, other: str) -> Gap:
    return gap_between([D(one), D(other)], D(one))


@pytest.mark.case("P06")
def test_the_edge_agrees_unless_it_is_excluded() -> None:
    cent = AbsoluteTolerance(limit=D("0.01"))
    assert cent.allows(gap("1.00", "1.01"), INCLUSIVE)
    assert not cent.allows(gap("1.00", "1.01"), EXCLUSIVE)
    assert not cent.allows(gap("1.00", "1.0100000000000000000001"), INCLUSIVE)


@pytest.mark.case("P05")
def test_a_cent_is_a_cent_although_doubles_differ() -> None:
    assert AbsoluteTolerance(limit=D("0.1")).allows(gap("1.1", "1.0"), INCLUSIVE)
    assert abs(1.1 - 1.0) > 0.1


@pytest.mark.case("P07")
@pytest.mark.parametrize(
    ("base", "up", "down"),
    [
        (ToleranceBase.REFERENCE, False, True),
        (ToleranceBase.MAX_ABS, True, True),
        (ToleranceBase.MIN_ABS, False, False),
    ],
)
def test_a_percentage_is_of_its_base(base: ToleranceBase, *, up: bool, down: bool) -> None:
    nearly_ten = PercentageTolerance(limit=D("9.5"), base=base)
    assert nearly_ten.allows(gap("100", "110"), INCLUSIVE) is up
    assert nearly_ten.allows(gap("110", "100"), INCLUSIVE) is down
    assert PercentageTolerance(limit=D(10), base=base).allows(gap("100", "110"), INCLUSIVE)


@pytest.mark.case("P08")
def test_a_base_of_zero_allows_no_gap() -> None:
    assert not PercentageTolerance(limit=D(100)).allows(gap("0", "0.001"), INCLUSIVE)


@pytest.mark.case("P09")
def test_the_base_counts_by_its_size() -> None:
    assert PercentageTolerance(limit=D(5)).allows(gap("-100", "-105"), INCLUSIVE)


def test_without_a_finite_reference_no_percentage_agrees() -> None:
    lost = gap_between([D(1), D(1)], None)
    assert not PercentageTolerance(limit=D(100)).allows(lost, INCLUSIVE)


def test_a_duration_is_written_in_seconds() -> None:
    second = DurationTolerance(microseconds=D(1_500_000))
    assert second.seconds == D("1.5")
    assert second.allows(gap("0", "1500000"), INCLUSIVE)
    assert not second.allows(gap("0", "1500001"), INCLUSIVE)


def test_exact_allows_no_gap_at_all() -> None:
    assert not ExactTolerance().allows(gap("1", "1"), INCLUSIVE)


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False), min_size=2, max_size=5))
def test_the_gap_of_a_set_is_that_of_its_ends(values: Sequence[Decimal]) -> None:
    small = [value for value in values if abs(value.adjusted()) < 300 and len(str(value)) < 60]
    if len(small) > 1:
        assert gap_between(small, None).size == gap_between([min(small), max(small)], None).size


@pytest.mark.parametrize(
    ("declared", "made", "wording"),
    [
        (Declared(type=ToleranceType.EXACT), ExactTolerance(), "0"),
        (
            Declared(type=ToleranceType.ABSOLUTE, value=D("0.01")),
            AbsoluteTolerance(limit=D("0.01")),
            "0.01",
        ),
        (
            Declared(type=ToleranceType.PERCENTAGE, value=D(5), base=ToleranceBase.MAX_ABS),
            PercentageTolerance(limit=D(5), base=ToleranceBase.MAX_ABS),
            "5",
        ),
        (
            Declared(
                type=ToleranceType.DURATION, value=timedelta(days=1, seconds=1, microseconds=1)
            ),
            DurationTolerance(microseconds=D(86_401_000_001)),
            "86401.000001",
        ),
    ],
)
def test_a_declared_tolerance_becomes_its_judge(
    declared: Declared, made: Tolerance, wording: str
) -> None:
    assert tolerance_of(declared) == made
    assert tolerance_type(made) is declared.type
    assert tolerance_value(made) == D(wording)


def test_a_value_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="does not take"):
        tolerance_of(Declared(type=ToleranceType.EXACT, value=D(1)))
