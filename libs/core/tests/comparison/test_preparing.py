from datetime import timedelta, timezone
from decimal import Decimal

import pytest

from datarecs_core.comparison.planning.plan import InputPlan
from datarecs_core.comparison.planning.rules import STRICT, Rules
from datarecs_core.comparison.values.canonical import NULL, Tag, Value, invalid, number, text
from datarecs_core.comparison.values.casting import Zones
from datarecs_core.comparison.values.preparing import Preparation
from datarecs_core.jobs import types
from datarecs_core.jobs.vocabulary import Trim


def prepared(plan: InputPlan, value: Value, rules: Rules = STRICT) -> Value:
    zones = Zones(known={"East": timezone(timedelta(hours=1))})
    return Preparation(source="one", plan=plan, rules=rules, zones=zones).apply(value)


@pytest.mark.case("P52")
def test_a_map_reads_what_it_lists_and_lets_the_rest_pass() -> None:
    plan = InputPlan(column="v", type=types.TEXT, mapped=True, map=(("P", " PAID"),))
    assert prepared(plan, text("P"), Rules(trim=Trim.LEFT)) == text("PAID")
    assert prepared(plan, text("X")) == text("X")
    assert prepared(plan, NULL) == NULL


@pytest.mark.case("P52")
def test_a_strict_map_names_the_value_that_it_does_not_list() -> None:
    plan = InputPlan(
        column="v", type=types.TEXT, mapped=True, map=(("P", "PAID"),), map_strict=True
    )
    assert prepared(plan, text("X")) == invalid("one", b"X")
    assert prepared(plan, NULL) == NULL
    assert prepared(plan, invalid("one", b"raw")) == invalid("one", b"raw")


def test_without_a_cast_nothing_is_cast() -> None:
    """A cast to int would refuse what int64 does not hold."""
    plan = InputPlan(column="v", type=types.INT)
    assert prepared(plan, number(2**70)) == number(2**70)


def test_what_a_map_does_not_list_is_cast_as_the_type_it_has() -> None:
    plan = InputPlan(
        column="v", type=types.INSTANT, mapped=True, map=(("x", "y"),), cast=types.DATE, zone="East"
    )
    late = Value(Tag.INSTANT, Decimal(23 * 3_600_000_000))
    assert prepared(plan, late) == Value(Tag.DATE, 1)


def test_what_a_map_does_not_list_is_cast_as_text_where_its_type_has_no_cast() -> None:
    plan = InputPlan(column="v", type=types.BOOL, mapped=True, map=(("true", "1"),), cast=types.INT)
    assert prepared(plan, Value(Tag.BOOL, content=True)) == Value(Tag.NUMBER, 1)
    assert prepared(plan, Value(Tag.BOOL, content=False)) == invalid("one", b"false")
