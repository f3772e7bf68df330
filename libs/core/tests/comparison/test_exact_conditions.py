"""What is translated to other dialects, and what never is."""

import pytest

from datarecs_core.comparison.expressions.condition_tree import Column, Operand
from datarecs_core.comparison.expressions.exact_conditions import (
    Digits,
    NotExactError,
    exact_condition,
)
from datarecs_testing.exact_conditions import COLUMNS, DOUBTFUL, EXACT, OTHERS
from datarecs_testing.tables import a_table

TYPES = dict(a_table("t", f"{COLUMNS}, {OTHERS}").columns)


@pytest.mark.parametrize("condition", EXACT)
def test_comparisons_of_one_type_are_exact(condition: str) -> None:
    assert exact_condition(condition, TYPES).types


@pytest.mark.parametrize(("condition", "reason"), DOUBTFUL)
def test_what_dialects_read_otherwise_is_not_translated(condition: str, reason: str) -> None:
    with pytest.raises(NotExactError, match=reason):
        exact_condition(condition, TYPES)


def test_brackets_preserve_three_valued_logic_as_it_was_written() -> None:
    def operand(one: Operand, digits: Digits | None) -> str:
        scale = "" if digits is None else f":{digits.scale}"
        return f"{one.name if isinstance(one, Column) else '?'}{scale}"

    condition = exact_condition("NOT (n == 1 OR m != 2.5) AND t IS NULL OR b", TYPES)
    assert condition.sql(operand) == (
        "((NOT ((NOT (NOT ((n:0 = ?:0) OR (m:2 <> ?:2)))) OR (NOT (t IS NULL)))) OR b)"
    )
