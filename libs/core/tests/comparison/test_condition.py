from datetime import date
from decimal import Decimal

import pytest

from datarecs_core.comparison.expressions.condition import ConditionNotCoveredError, parse_condition
from datarecs_core.comparison.values.translating import Invalid, canonical
from datarecs_core.jobs import types

ROW = {
    "n": canonical(5, types.INT, "one"),
    "amount": canonical(Decimal("1.50"), types.NUMERIC, "one"),
    "word": canonical("it's", types.TEXT, "one"),
    "day": canonical(date(2026, 1, 31), types.DATE, "one"),
    "flag": canonical(True, types.BOOL, "one"),  # noqa: FBT003 - a value of the row
    "none": canonical(None, types.TEXT, "one"),
    "bad": canonical(Invalid(b"\xff"), types.TEXT, "one"),
    "odd `name": canonical(1, types.INT, "one"),
}


@pytest.mark.parametrize(
    ("sql", "truth"),
    [
        ("n = 5", True),
        ("n == 5 and n <> 6", True),
        ("n != 5", False),
        ("n > -1 AND n >= 5 AND n < 6 AND n <= 5", True),
        ("amount = 1.5", True),
        ("word = 'it''s'", True),
        (r"word = 'it\'", False),
        ('"odd `name" = 1', True),
        ("day = DATE '2026-01-31'", True),
        ("day < date '2026-01-31'", False),
        ("flag", True),
        ("NOT flag", False),
        ("flag = TRUE AND NOT (flag = FALSE)", True),
        ("none IS NULL", True),
        ("n IS NOT NULL", True),
        ("none = 'x'", None),
        ("none = 'x' OR n = 5", True),
        ("none = 'x' AND n = 6", False),
        ("NOT none = 'x'", None),
        ("none = NULL", None),
        ("n IN (1, 5)", True),
        ("n NOT IN (1, 5)", False),
        ("n IN (1, NULL)", None),
        ("n BETWEEN 5 AND 6 AND n NOT BETWEEN 6 AND 7", True),
        ("bad = 'x'", None),
        ("bad IS NULL", None),
        ("bad IS NOT NULL", None),
        ("`odd ``name` = 1", True),
        ("n = 1 OR n = 5 AND amount = 1.5", True),
    ],
)
def test_a_condition_is_three_valued(sql: str, *, truth: bool | None) -> None:
    assert parse_condition(sql).holds(ROW) is truth


@pytest.mark.parametrize(
    ("sql", "is_selected"),
    [
        ("bad = 'x'", True),
        ("NOT (bad = 'x')", True),
        ("bad IS NULL", True),
        ("bad = 'x' AND n = 5", True),
        ("bad = 'x' AND n = 6", False),
        ("bad = 'x' OR n = 6", True),
        ("NOT (bad = 'x' OR n = 5)", False),
        ("none = 'x'", False),
        ("none = 'x' OR n = 6", False),
        ("n = 5", True),
    ],
)
def test_a_row_stays_where_an_invalid_value_makes_the_condition_unknown(
    sql: str, *, is_selected: bool
) -> None:
    assert parse_condition(sql).admits(ROW) is is_selected


def test_the_columns_of_a_condition_are_known() -> None:
    parsed = parse_condition("status <> 'VOID' AND (`a b` IN (1) OR c IS NULL)")
    assert parsed.columns == {"status", "a b", "c"}


@pytest.mark.parametrize(
    "sql",
    [
        "upper(word) = 'X'",
        "n + 1 = 6",
        "word LIKE 'i%'",
        "n =",
        "(n = 1",
        "n NOT = 1",
        "n = 1 n",
        "n = -word",
        "n = AND",
        "day = DATE 'tomorrow'",
        "n ; 1",
    ],
)
def test_more_than_this_part_of_sql_is_refused(sql: str) -> None:
    with pytest.raises(ConditionNotCoveredError):
        parse_condition(sql)


@pytest.mark.parametrize("sql", ["n = 'x'", "n"])
def test_values_of_two_types_are_not_compared(sql: str) -> None:
    with pytest.raises(ConditionNotCoveredError):
        parse_condition(sql).holds(ROW)


def test_null_alone_is_no_truth() -> None:
    assert parse_condition("none").holds(ROW) is None
