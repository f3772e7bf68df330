"""Whole units against decimals: what tasks answer with integers is what core's rules say."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datarecs_core.comparison.oracle.grouping import Cell
from datarecs_core.comparison.oracle.judging import judge_measure
from datarecs_core.comparison.planning.plan import Cut, InputPlan, MeasurePlan
from datarecs_core.comparison.planning.rules import Rules
from datarecs_core.comparison.planning.tolerance import (
    AbsoluteTolerance,
    DurationTolerance,
    ExactTolerance,
    PercentageTolerance,
    Tolerance,
)
from datarecs_core.comparison.results.results import DifferenceClass
from datarecs_core.comparison.values.canonical import encode, invalid
from datarecs_core.jobs.types import CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import (
    Bound,
    Combine,
    CompareTo,
    Function,
    NanRule,
    ToleranceBase,
)
from datarecs_kernel.agreeing import Agreement, Judgements, has_invalid, has_nulls, is_nan
from datarecs_kernel.columns import Values
from datarecs_kernel.decoding import cell, native
from datarecs_kernel.differing import NOBODY
from datarecs_kernel.forms import DOUBLE, INTEGER, NUMBER, TEXT, Form, FormKind, decimal
from datarecs_kernel.sort_keys import size_key_of

Plain = tuple[object, bytes | None]
"""A value as Arrow holds it, NULL as None, and the payload of an INVALID one."""
MONEY, WIDE = decimal(12, 2), decimal(38, 2)
FORMS = {
    INTEGER: CanonicalType(kind=TypeKind.INT),
    MONEY: CanonicalType(kind=TypeKind.DECIMAL, precision=12, scale=2),
    WIDE: CanonicalType(kind=TypeKind.DECIMAL, precision=38, scale=2),
    Form(kind=FormKind.DATE): CanonicalType(kind=TypeKind.DATE),
    Form(kind=FormKind.INSTANT): CanonicalType(kind=TypeKind.INSTANT),
    TEXT: CanonicalType(kind=TypeKind.TEXT),
}
NULL: Plain = (None, None)
INVALID: Plain = (None, encode(invalid("ledger", b"\xff"))[5:])
LIMITS = st.sampled_from(["0", "0.01", "1", "1.5", "50", "99.99", "100"]).map(Decimal)
SOURCES = range(2, 5)
MEASURE = MeasurePlan(
    name="amount",
    index=0,
    function=Function.VALUE,
    inputs=(InputPlan(column="amount", type=FORMS[MONEY]),),
    tolerances=(ExactTolerance(),),
)


def values_of(form: Form) -> st.SearchStrategy[Plain]:
    """So few that gaps often lie on the edge of a tolerance, and some beyond 64 bits."""
    near = [-100, -1, 0, 1, 2, 99, 100, 101, 150, 200]
    plain: st.SearchStrategy[object] = st.sampled_from(near)
    if form == TEXT:
        plain = st.sampled_from(["", "a", "b"])
    elif form == INTEGER:
        plain = st.sampled_from([*near, 2**63 - 1, -(2**63)])
    elif form == MONEY:
        plain = st.sampled_from([Decimal(f"{unit}E-2") for unit in near])
    elif form == WIDE:
        far = [10**38 - 1, 1 - 10**38, 10**19, 10**19 + 1]
        plain = st.sampled_from([Decimal(f"{unit}E-2") for unit in (*near, *far)])
    elif form.kind is FormKind.INSTANT:
        plain = st.sampled_from([unit * 10_000 for unit in near])
    holes: list[Plain] = [NULL, INVALID]
    return st.integers(0, 9).flatmap(
        lambda one: st.sampled_from(holes) if one > 8 else plain.map(lambda each: (each, None))
    )


def tolerances_of(form: Form) -> st.SearchStrategy[Tolerance]:
    kinds: list[st.SearchStrategy[Any]] = [st.just(ExactTolerance())]
    if form.is_exact:
        kinds += [
            st.builds(AbsoluteTolerance, limit=LIMITS),
            st.builds(PercentageTolerance, limit=LIMITS, base=st.sampled_from(ToleranceBase)),
        ]
    if form.is_moment:
        limits = st.sampled_from([0, 1, 10_000, 1_500_000, 86_400_000_000]).map(Decimal)
        kinds.append(st.builds(DurationTolerance, microseconds=limits))
    return st.one_of(kinds)


def cuts_of(form: Form) -> st.SearchStrategy[Cut | None]:
    if form.is_exact:
        return st.sampled_from([None, Cut(scale=0), Cut(scale=1)])
    if form.kind is FormKind.INSTANT:
        return st.sampled_from([None, Cut(second_digits=0), Cut(second_digits=3)])
    return st.none()


def judge_columns(measure: MeasurePlan, form: Form, *columns: pa.Array) -> Judgements:
    """Columns of a form, one per source, against the first source."""
    agreement = Agreement(measure, form, sources=len(columns), reference=0)
    return agreement.judge([Values(each) for each in columns])


def money(*texts: str | None) -> pa.Array:
    return pa.array([each and Decimal(each) for each in texts], native(MONEY))


@st.composite
def questions(draw: st.DrawFn) -> tuple[MeasurePlan, Form, list[list[Plain]], int]:
    """A measure with its form, places at which some values differ, and the reference."""
    form = draw(st.sampled_from(list(FORMS)))
    sources = draw(st.sampled_from(SOURCES))
    place = st.lists(values_of(form), min_size=sources, max_size=sources)
    unequal = place.filter(lambda each: any(one != each[0] for one in each))
    measure = replace(
        MEASURE,
        inputs=(InputPlan(column="amount", type=FORMS[form]),) * sources,
        tolerances=tuple(draw(st.lists(tolerances_of(form), min_size=1, max_size=3))),
        combine=draw(st.sampled_from(Combine)),
        bound=draw(st.sampled_from(Bound)),
        compare_to=draw(st.sampled_from(CompareTo)),
        cut=draw(cuts_of(form)),
    )
    places = draw(st.lists(unequal, min_size=1, max_size=5))
    return measure, form, places, draw(st.integers(0, sources - 1))


@pytest.mark.case("P60")
@settings(max_examples=1_000)
@given(questions())
def test_whole_units_and_decimals_agree_on_everything(
    question: tuple[MeasurePlan, Form, list[list[Plain]], int],
) -> None:
    measure, form, places, reference = question
    values = [
        Values(
            pa.array([plain for plain, _ in pairs], native(form)),
            pa.array([payload for _, payload in pairs], pa.binary()),
        )
        for pairs in zip(*places, strict=True)
    ]
    agreement = Agreement(measure, form, sources=len(values), reference=reference)
    assert agreement.differs(values).all()
    judged, invalid, nulls = agreement.judge(values), has_invalid(values), has_nulls(values)
    largest = []
    for at, place in enumerate(places):
        decimals = [cell(form, *value) for value in place]
        oracle = judge_measure(measure, [[Cell(one, one) for one in decimals]], reference)
        tolerance_within = tuple(bool(each[at]) for each in judged.tolerance_within)
        assert (judged.within[at], tolerance_within) == (oracle.within, oracle.alone_within)
        assert judged.has_size[at] == (oracle.largest_delta is not None)
        if oracle.largest_delta is not None:
            largest.append(size_key_of(oracle.largest_delta))
            assert judged.sizes[at] == float(oracle.largest_delta)
        if not oracle.within:
            kinds = (
                (invalid, DifferenceClass.INVALID),
                (nulls, DifferenceClass.NULL_MISMATCH),
                (judged.is_cut, DifferenceClass.PRECISION),
            )
            first = [kind for flags, kind in kinds if flags[at]]
            assert [*first, DifferenceClass.OUTSIDE][0] == oracle.difference_class
            assert judged.odd[at] == (NOBODY if oracle.odd_one_out is None else oracle.odd_one_out)
    assert judged.largest == max(largest, default=None)


@pytest.mark.case("P11")
@pytest.mark.parametrize(
    ("form", "kind", "plain"),
    [
        (Form(kind=FormKind.DOUBLE), pa.float64(), [float("nan"), 0.5, None]),
        (Form(kind=FormKind.NUMBER), pa.string(), ["NaN", "0.5", None]),
    ],
)
def test_nan_is_marked_in_each_form_that_can_have_it(
    form: Form, kind: pa.DataType, plain: list[object]
) -> None:
    flags = is_nan(form, pa.array(plain, kind))
    assert (flags.tolist(), flags.dtype.kind) == ([True, False, False], "b")


def test_whole_numbers_are_never_nan() -> None:
    flags = is_nan(INTEGER, pa.array([1, None], pa.int64()))
    assert (flags.tolist(), flags.dtype.kind) == ([False, False], "b")


@pytest.mark.case("P11")
@pytest.mark.parametrize(
    ("form", "one", "other"),
    [
        (DOUBLE, [float("nan"), float("nan"), 0.5], [float("nan"), 0.5, 0.5]),
        (NUMBER, ["NaN", "NaN", "0.5"], ["NaN", "0.5", "0.5"]),
    ],
)
@pytest.mark.parametrize(
    ("rule", "differs"),
    [(NanRule.EQUAL, [False, True, False]), (NanRule.UNEQUAL, [True, True, False])],
)
def test_two_nan_are_equal_unless_the_rules_say_otherwise(
    form: Form, one: list[object], other: list[object], rule: NanRule, differs: list[bool]
) -> None:
    measure = replace(MEASURE, rules=Rules(nan=rule))
    agreement = Agreement(measure, form, sources=2, reference=0)
    assert agreement.differs([Values(pa.array(one)), Values(pa.array(other))]).tolist() == differs


@pytest.mark.parametrize(
    "tolerance",
    [
        AbsoluteTolerance(limit=Decimal("0.5")),
        PercentageTolerance(limit=Decimal("0.5"), base=ToleranceBase.REFERENCE),
    ],
)
@pytest.mark.parametrize(
    ("bound", "within"),
    [(Bound.INCLUSIVE, [True, True, False]), (Bound.EXCLUSIVE, [True, False, False])],
)
def test_a_gap_of_exactly_the_limit_is_within_an_inclusive_bound_only(
    tolerance: Tolerance, bound: Bound, within: list[bool]
) -> None:
    expected, actual = money("100", "100", "100"), money("100.49", "99.50", "100.51")
    measure = replace(MEASURE, tolerances=(tolerance,), bound=bound)
    assert judge_columns(measure, MONEY, expected, actual).within.tolist() == within


@pytest.mark.parametrize("compare_to", CompareTo)
def test_no_tolerance_covers_a_null_beside_a_value(compare_to: CompareTo) -> None:
    columns = [money(None, None, "5"), money(None, "5", "5"), money("5", "5", None)]
    tolerances = (AbsoluteTolerance(limit=Decimal(100)),)
    measure = replace(MEASURE, tolerances=tolerances, compare_to=compare_to)
    result = judge_columns(measure, MONEY, *columns)
    assert not result.within.any()
    assert not np.any(result.tolerance_within)


@pytest.mark.parametrize("digits", [0, 3])
def test_times_of_one_second_are_equal_once_fractions_are_cut(digits: int) -> None:
    form = Form(kind=FormKind.INSTANT, precision=19 + digits if digits else 0, scale=digits)
    micros = [400_000, 900_000, -1, -1], [900_000, 1_000_000, -999_999, 0]
    columns = [pa.array(each, pa.int64()).cast(native(form)) for each in micros]
    result = judge_columns(replace(MEASURE, cut=Cut(second_digits=0)), form, *columns)
    assert result.is_cut.tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    ("scale", "is_cut"), [(0, [True, True, False]), (1, [True, False, False]), (2, [False] * 3)]
)
def test_numbers_are_equal_once_digits_after_the_declared_scale_are_cut(
    scale: int, is_cut: list[bool]
) -> None:
    one, other = money("0.10", "0.19", "0.99"), money("0.19", "0.20", "1.00")
    measure = replace(MEASURE, cut=Cut(scale=scale))
    assert judge_columns(measure, MONEY, one, other).is_cut.tolist() == is_cut


def test_short_and_long_doubles_are_judged_each_at_its_place() -> None:
    one, other = pa.array([0.1 + 0.2, 0.1, 1e300]), pa.array([0.3, 0.2, 2e300])
    measure = replace(MEASURE, tolerances=(AbsoluteTolerance(limit=Decimal("0.05")),))
    result = judge_columns(measure, DOUBLE, one, other)
    assert result.within.tolist() == [True, False, False]
    assert result.sizes.tolist() == [4e-17, 0.1, 1e300]
    assert result.largest == size_key_of(Decimal("1E300"))


def test_numbers_beside_nan_have_no_delta() -> None:
    result = judge_columns(MEASURE, NUMBER, pa.array(["NaN", "NaN"]), pa.array(["0.5", "7"]))
    assert (result.has_size.tolist(), result.largest) == ([False, False], None)
