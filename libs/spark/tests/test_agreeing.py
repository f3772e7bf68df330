"""Whole units against decimals: what tasks answer with integers is what core's rules say."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from datarecs_core.comparison.canonical import encode, invalid
from datarecs_core.comparison.grouping import Cell
from datarecs_core.comparison.judging import judge_measure
from datarecs_core.comparison.plan import Cut, InputPlan, MeasurePlan
from datarecs_core.comparison.tolerance import (
    AbsoluteTolerance,
    DurationTolerance,
    ExactTolerance,
    PercentageTolerance,
    Tolerance,
)
from datarecs_core.jobs.types import CanonicalType, TypeKind
from datarecs_core.jobs.vocabulary import Bound, Combine, CompareTo, Function, ToleranceBase
from datarecs_spark.agreeing import Agreeing, Plain
from datarecs_spark.decoding import cell
from datarecs_spark.forms import INTEGER, TEXT, Form, FormKind, decimal
from datarecs_spark.keyless import deltas_of
from datarecs_spark.sort_keys import size_key_of

MONEY = decimal(12, 2)
FORMS = {
    INTEGER: CanonicalType(kind=TypeKind.INT),
    MONEY: CanonicalType(kind=TypeKind.DECIMAL, precision=12, scale=2),
    Form(kind=FormKind.DATE): CanonicalType(kind=TypeKind.DATE),
    Form(kind=FormKind.INSTANT): CanonicalType(kind=TypeKind.INSTANT),
    TEXT: CanonicalType(kind=TypeKind.TEXT),
}
NULL: Plain = (None, None)
INVALID: Plain = (None, encode(invalid("ledger", b"\xff"))[5:])
LIMITS = st.sampled_from(["0", "0.01", "1", "1.5", "50", "99.99", "100"]).map(Decimal)


def values_of(form: Form) -> st.SearchStrategy[Plain]:
    """So few that gaps often lie on the edge of a tolerance."""
    near = st.sampled_from([-100, -1, 0, 1, 2, 99, 100, 101, 150, 200])
    if form == TEXT:
        plain: st.SearchStrategy[object] = st.sampled_from(["", "a", "b"])
    elif form == MONEY:
        plain = near.map(lambda unit: Decimal(unit).scaleb(-2))
    elif form.kind is FormKind.INSTANT:
        plain = near.map(lambda unit: unit * 10_000)
    else:
        plain = near
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


@st.composite
def questions(draw: st.DrawFn) -> tuple[MeasurePlan, Form, Sequence[Plain], int]:
    form = draw(st.sampled_from(list(FORMS)))
    values = draw(st.lists(values_of(form), min_size=2, max_size=4))
    tolerances = draw(st.lists(tolerances_of(form), min_size=1, max_size=3))
    measure = MeasurePlan(
        name="amount",
        index=0,
        function=Function.VALUE,
        inputs=(InputPlan(column="amount", type=FORMS[form]),) * len(values),
        tolerances=tuple(tolerances),
        combine=draw(st.sampled_from(Combine)),
        bound=draw(st.sampled_from(Bound)),
        compare_to=draw(st.sampled_from(CompareTo)),
        cut=draw(cuts_of(form)),
    )
    return measure, form, values, draw(st.integers(0, len(values) - 1))


@pytest.mark.case("P60")
@settings(max_examples=1_000)
@given(questions())
def test_whole_units_and_decimals_agree_on_everything(
    question: tuple[MeasurePlan, Form, Sequence[Plain], int],
) -> None:
    measure, form, values, reference = question
    assume(any(value != values[0] for value in values))
    decimals = [cell(form, *value) for value in values]
    told = judge_measure(measure, [[Cell(one, one) for one in decimals]], reference)
    agreeing = Agreeing(measure, form, sources=len(values), reference=reference)
    found = agreeing.found(values)
    outside = [] if found.within else [found]
    assert (found.within, found.own_within) == (told.within, told.own_within)
    size = None if told.largest_delta is None else size_key_of(told.largest_delta)
    assert deltas_of(found.place.units, reference, form.scale).size_key == size
    assert agreeing.class_of(outside) == told.difference_class
    assert (agreeing.odd_one_out(found) if outside else None) == told.odd_one_out
