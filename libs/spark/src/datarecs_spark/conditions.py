"""Conditions of sources and stages in Spark's SQL, written from their tree and from nothing else.

Spark judges comparisons alone: whatever says more was computed by the source. The text of a job
never reaches it, so there is nothing that it could make Spark read or call.
"""

from collections.abc import Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import assert_never

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame

from datarecs_core.comparison.expressions.condition import ConditionNotCoveredError, parse_condition
from datarecs_core.comparison.expressions.condition_tree import (
    AnyOf,
    Bare,
    Column,
    Compared,
    Condition,
    IsNull,
    Negated,
    Operand,
)
from datarecs_core.comparison.values.canonical import Tag, Value
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


def filtered(
    rows: DataFrame, condition: str, broken: Mapping[str, str] = MappingProxyType({})
) -> DataFrame:
    """The rows for which a condition is TRUE, or unknown because of an INVALID value.

    Args:
        rows: with the columns that the condition names.
        condition: of a source or stage.
        broken: by column, the text that is TRUE where its value is INVALID and FALSE elsewhere.

    Raises:
        ConditionRefusedError: it says more than compare, or names no columns of the rows.
    """
    try:
        return rows.filter(condition_sql(condition, broken))
    except (AnalysisException, ParseException) as cause:
        raise ConditionRefusedError(f"Spark does not take it ({condition_of(cause)})") from cause


def condition_sql(condition: str, broken: Mapping[str, str] = MappingProxyType({})) -> str:
    """Its text for Spark; raises ConditionRefusedError where it says more than compare."""
    try:
        parsed = parse_condition(condition)
    except ConditionNotCoveredError as cause:
        raise ConditionRefusedError(str(cause)) from cause
    text = _holds(parsed.holds, broken)
    unknown = [broken[each] for each in sorted(parsed.columns & broken.keys())]
    return f"coalesce({text}, {' OR '.join(unknown)})" if unknown else text


def _holds(condition: Condition, broken: Mapping[str, str]) -> str:
    match condition:
        case AnyOf(parts):
            return f"({' OR '.join(_holds(part, broken) for part in parts)})"
        case Negated(inner):
            return f"(NOT {_holds(inner, broken)})"
        case IsNull(operand):
            return f"({_unless(broken, f'{_operand(operand)} IS NULL', operand)})"
        case Bare(operand):
            return f"({_unless(broken, _operand(operand), operand)})"
        case Compared(sign, one, other):
            compared = f"{_operand(one)} {sign} {_operand(other)}"
            return f"({_unless(broken, compared, one, other)})"
        case _:
            assert_never(condition)


def _unless(broken: Mapping[str, str], text: str, *operands: Operand) -> str:
    """The text, unknown where one of the operands is INVALID."""
    names = [each.name for each in operands if isinstance(each, Column)]
    flags = [broken[each] for each in names if each in broken]
    return f"CASE WHEN {' OR '.join(flags)} THEN NULL ELSE {text} END" if flags else text


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
