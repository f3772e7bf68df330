from decimal import Decimal
from typing import Any

import pytest

from datarecs_core.comparison.oracle.agreement import (
    agreement,
    deltas,
    equal,
    equal_once_cut,
    holds,
    odd_one_out,
    odd_presence,
)
from datarecs_core.comparison.planning.plan import Cut, InputPlan, MeasurePlan
from datarecs_core.comparison.planning.rules import Rules
from datarecs_core.comparison.planning.tolerance import (
    AbsoluteTolerance,
    ExactTolerance,
    PercentageTolerance,
    Tolerance,
)
from datarecs_core.comparison.values.canonical import NULL, Tag, Value, number, text
from datarecs_core.jobs.types import INT
from datarecs_core.jobs.vocabulary import Combine, CompareTo, Function, NanRule, ToleranceBase

D = Decimal
NAN = number(D("NaN"))
INFINITE = number(D("Infinity"))
ONE = AbsoluteTolerance(limit=D(1))


def a_plan(*tolerances: Tolerance, **fields: Any) -> MeasurePlan:  # noqa: ANN401 - any field of a measure
    source = InputPlan(column="v", type=INT)
    return MeasurePlan(
        name="v",
        index=0,
        function=Function.VALUE,
        inputs=(source, source),
        tolerances=tolerances or (ExactTolerance(),),
        **fields,
    )


def numbers(*plain: str | int) -> list[Value]:
    return [number(D(each)) for each in plain]


def within(measure: MeasurePlan, *plain: str | int, reference: int = 0) -> bool:
    return agreement(measure, numbers(*plain), reference).within


@pytest.mark.case("P46")
@pytest.mark.parametrize(
    ("way", "reference", "expected"),
    [
        (CompareTo.REFERENCE, 0, False),
        (CompareTo.REFERENCE, 1, True),
        (CompareTo.ALL_PAIRS, 1, False),
        (CompareTo.SPREAD, 1, False),
    ],
)
def test_the_worked_group_of_three(way: CompareTo, reference: int, *, expected: bool) -> None:
    cent = a_plan(AbsoluteTolerance(limit=D("0.01")), compare_to=way)
    assert within(cent, "100.00", "100.01", "100.02", reference=reference) is expected


def test_two_sources_are_one_pair() -> None:
    pairs = a_plan(ONE, compare_to=CompareTo.ALL_PAIRS)
    assert within(pairs, 1, 2)
    assert not within(pairs, 1, 3)


def test_the_base_of_a_pair_stays_the_reference() -> None:
    """Sources 1 and 2 differ by 10, which is 10 % of the reference but 100 % of each other."""
    tenth = a_plan(PercentageTolerance(limit=D(10)), compare_to=CompareTo.ALL_PAIRS)
    assert within(tenth, 100, 105, 95)
    of_itself = PercentageTolerance(limit=D(10), base=ToleranceBase.MIN_ABS)
    assert not within(a_plan(of_itself, compare_to=CompareTo.ALL_PAIRS), 100, 105, 95)


def test_the_base_of_a_set_is_its_largest_or_smallest() -> None:
    for base, expected in ((ToleranceBase.MAX_ABS, True), (ToleranceBase.MIN_ABS, False)):
        tenth = PercentageTolerance(limit=D(10), base=base)
        assert within(a_plan(tenth, compare_to=CompareTo.SPREAD), -100, -95, -90) is expected


@pytest.mark.case("P10")
def test_any_is_judged_per_pair_and_all_too() -> None:
    """The first pair needs the percentage, the second the distance."""
    both = (AbsoluteTolerance(limit=D(5)), PercentageTolerance(limit=D(1)))
    anyhow = agreement(a_plan(*both, combine=Combine.ANY), numbers(1000, 1005, 1009), 0)
    assert (anyhow.within, anyhow.alone_within) == (True, (False, True))
    strictly = agreement(a_plan(*both, combine=Combine.ALL), numbers(1000, 1005, 1009), 0)
    assert (strictly.within, strictly.alone_within) == (False, (False, True))


@pytest.mark.case("P19")
@pytest.mark.case("P18")
@pytest.mark.parametrize("way", CompareTo)
def test_nulls_agree_among_themselves_alone(way: CompareTo) -> None:
    loose = a_plan(AbsoluteTolerance(limit=D(1000)), compare_to=way)
    assert agreement(loose, [NULL, NULL, NULL], 0).within
    for mixed in ([NULL, number(0), NULL], [number(0), number(0), NULL], [NULL, NULL, number(0)]):
        result = agreement(loose, mixed, 1)
        assert (result.within, result.equal, result.alone_within) == (False, False, (False,))


@pytest.mark.case("P11")
@pytest.mark.case("P12")
def test_nan_and_infinities_agree_only_when_equal() -> None:
    loose = a_plan(ONE)
    assert agreement(loose, [NAN, NAN], 0).within
    assert agreement(loose, [INFINITE, INFINITE], 0).within
    for other in (NAN, number(D("-Infinity")), number(1)):
        assert not agreement(loose, [INFINITE, other], 0).within
    strict = a_plan(ONE, rules=Rules(nan=NanRule.UNEQUAL))
    assert not equal(strict, [NAN, NAN])
    assert equal(strict, numbers(1, 1))
    assert not agreement(strict, [NAN, NAN], 0).within


def test_what_is_not_comparable_never_agrees() -> None:
    lost = a_plan(ONE, comparable=False)
    result = agreement(lost, numbers(1, 1), 0)
    assert (result.equal, result.within, result.alone_within) == (False, False, (False,))
    assert odd_one_out(lost, numbers(1, 1, 5), 0) is None


def test_a_time_and_a_number_are_never_subtracted() -> None:
    later = Value(Tag.INSTANT, D(2))
    assert deltas([number(1), later], 0) == {}
    assert deltas([NULL, number(1)], 0) == {}
    assert deltas(numbers(5, 7, 2), 1) == {0: D(-2), 2: D(-5)}


@pytest.mark.parametrize(
    ("values", "odd"),
    [
        ((1, 1, 5), 2),
        ((5, 1, 1), 0),
        ((1, 5, 1), 1),
        ((1, 2, 9), 2),
        ((1, 5, 9), None),
        ((1, 1, 1), None),
        ((1, 1, 5, 5), None),
        ((1, 2, 3), None),
        ((1, 5), None),
    ],
)
def test_the_odd_one_is_outside_to_all_while_the_others_agree(
    values: tuple[int, ...], odd: int | None
) -> None:
    assert odd_one_out(a_plan(ONE), numbers(*values), 0) == odd


def test_the_odd_one_follows_the_combination_of_tolerances() -> None:
    both = (AbsoluteTolerance(limit=D(1)), AbsoluteTolerance(limit=D(5)))
    values = numbers(1, 4, 9)
    assert odd_one_out(a_plan(*both, combine=Combine.ANY), values, 0) is None
    assert odd_one_out(a_plan(*both, combine=Combine.ANY), numbers(1, 4, 19), 0) == 2
    assert odd_one_out(a_plan(*both, combine=Combine.ALL), numbers(1, 4, 19), 0) is None


def test_a_null_may_be_the_odd_one() -> None:
    assert odd_one_out(a_plan(ONE), [number(1), NULL, number(2)], 0) == 1
    assert odd_one_out(a_plan(ONE), [NULL, number(1), NULL], 0) == 1


@pytest.mark.case("P46")
@pytest.mark.parametrize(
    ("mask", "sources", "odd"),
    [
        (0b011, 3, 2),
        (0b100, 3, 2),
        (0b001, 3, 0),
        (0b110, 3, 0),
        (0b101, 3, 1),
        (0b01, 2, None),
        (0b0011, 4, None),
        (0b0111, 4, 3),
        (0b1000, 4, 3),
    ],
)
def test_one_source_may_be_alone_in_having_or_lacking_a_group(
    mask: int, sources: int, odd: int | None
) -> None:
    assert odd_presence(mask, sources) == odd


def test_equal_values_hold_under_every_tolerance() -> None:
    assert holds(a_plan(), ExactTolerance(), [text("a"), text("a")], text("a"))
    assert not holds(a_plan(), ONE, [text("a"), text("b")], text("a"))


@pytest.mark.case("P04")
@pytest.mark.case("P14")
@pytest.mark.case("P35")
@pytest.mark.parametrize(
    ("cut", "one", "other", "same"),
    [
        (Cut(scale=2), "1.10", "1.1049", True),
        (Cut(scale=2), "-1.10", "-1.109", True),
        (Cut(scale=2), "1.10", "1.11", False),
        (Cut(scale=0), "1", "1.9", True),
        (Cut(float32=True), "0.10000000149011612", "0.1", True),
        (Cut(float32=True), "0.1", "0.2", False),
    ],
)
def test_numbers_are_cut_towards_zero(cut: Cut, one: str, other: str, *, same: bool) -> None:
    assert equal_once_cut(cut, numbers(one, other)) is same


def test_times_are_cut_to_the_earlier_moment() -> None:
    cut = Cut(second_digits=3)
    moments = [Value(Tag.INSTANT, D(each)) for each in (-1000, -1)]
    assert equal_once_cut(cut, moments)
    assert not equal_once_cut(cut, [moments[0], Value(Tag.INSTANT, D(0))])
    assert not equal_once_cut(cut, [moments[0], NULL])
    assert not equal_once_cut(cut, [NULL, NULL])
