"""Conditions of sources and stages in Spark's SQL, written from their tree and from nothing else.

Spark judges comparisons alone: whatever says more was computed by the source. The text of a job
never reaches it, so there is nothing that it could make Spark read or call.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import assert_never

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from datarecs_core.comparison.canonical import Tag, Value
from datarecs_core.comparison.condition import ConditionNotCoveredError, parse_condition
from datarecs_core.comparison.condition_tree import (
    AnyOf,
    Bare,
    Column,
    Compared,
    Condition,
    IsNull,
    Negated,
    Operand,
)
from datarecs_core.documents import decimal_text
from datarecs_spark.canonical import name, text_literal
from datarecs_spark.errors import condition_of

_LITERALS: Mapping[Tag, str] = {
    Tag.NUMBER: "{}BD",
    Tag.DATE: "date_from_unix_date({})",
    Tag.INSTANT: "timestamp_micros({})",
    Tag.LOCAL: "CAST(timestamp_micros({}) AS TIMESTAMP_NTZ)",
}
"""By the tag of a number: itself, days since 1970 or microseconds since then."""


class ConditionRefusedError(ValueError):
    """Why a condition cannot be taken; its text is not repeated."""


def filtered(rows: DataFrame, condition: str) -> DataFrame:
    """The rows for which a condition is TRUE.

    Raises:
        ConditionRefusedError: it says more than compare, or names no columns of the rows.
    """
    try:
        return rows.filter(condition_sql(condition))
    except (AnalysisException, ParseException) as cause:
        raise ConditionRefusedError(f"Spark does not take it ({condition_of(cause)})") from cause


def condition_sql(condition: str) -> str:
    """Its text for Spark; raises ConditionRefusedError where it says more than compare."""
    try:
        return _holds(parse_condition(condition).holds)
    except ConditionNotCoveredError as cause:
        raise ConditionRefusedError(str(cause)) from cause


def _holds(condition: Condition) -> str:
    match condition:
        case AnyOf(parts):
            return f"({' OR '.join(map(_holds, parts))})"
        case Negated(inner):
            return f"(NOT {_holds(inner)})"
        case IsNull(operand):
            return f"({_operand(operand)} IS NULL)"
        case Bare(operand):
            return _operand(operand)
        case Compared(sign, one, other):
            return f"({_operand(one)} {sign} {_operand(other)})"
        case _:
            assert_never(condition)


def _operand(operand: Operand) -> str:
    return name(operand.name) if isinstance(operand, Column) else _literal(operand.value)


def _literal(value: Value) -> str:
    match value.tag, value.content:
        case Tag.TEXT, str() as content:
            return text_literal(content)
        case Tag.BOOL, bool() as content:
            return "TRUE" if content else "FALSE"
        case tag, Decimal() as content:
            return _LITERALS[tag].format(decimal_text(content))
    return "NULL"
