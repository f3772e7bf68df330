"""Conditions of sources and stages in the kernel's SQL, over the columns of files.

Only what means the same everywhere is translated (`exact_conditions`): numbers meet as decimals
that hold both, moments as microseconds, texts by their bytes. Anything else keeps the stage whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal

from datarecs_core.comparison.expressions.condition_tree import Column, Operand
from datarecs_core.comparison.expressions.exact_conditions import (
    Digits,
    ExactCondition,
    NotExactError,
    exact_condition,
)
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.comparison.values.canonical import Tag, Value
from datarecs_core.documents import decimal_text
from datarecs_core.jobs.types import CanonicalType, TypeKind
from datarecs_spark.kernel_work import KernelCondition, quoted, sql_text
from datarecs_spark.native_errors import NotNativeError

EPOCH = date(1970, 1, 1)
_DAY = timedelta(days=1)
MOMENTS = frozenset({TypeKind.INSTANT, TypeKind.LOCAL_TIMESTAMP})


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What rows of a source must be for a stage to look at them."""

    filter: KernelCondition | None = None
    where: KernelCondition | None = None
    types: Mapping[str, CanonicalType] = field(default_factory=dict)
    """Of the physical columns that they name."""

    @classmethod
    def of(cls, stage: StagePlan, scan: Scan) -> "Conditions":
        """Raises NotNativeError where another dialect might read one otherwise."""
        own = {each.name: each.type for each in scan.schema.columns}
        named = {each.name: each.name if scan.extract else each.physical for each in scan.columns}
        kinds = {each.name: each.type for each in scan.columns if named[each.name] is not None}
        before = None if scan.extract is not None else _read(scan.filter, own, scan)
        behind = _read(stage.where, kinds, scan)
        is_raw = scan.extract is None
        types = {} if before is None else dict(before.types)
        if behind is not None:
            types |= {str(named[name]): kind for name, kind in behind.types.items()}
        return cls(
            filter=None if before is None else kernel_condition(before, {}, reads_texts=is_raw),
            where=None if behind is None else kernel_condition(behind, named, reads_texts=is_raw),
            types=types,
        )


def _read(
    condition: str | None, types: Mapping[str, CanonicalType], scan: Scan
) -> ExactCondition | None:
    try:
        return None if condition is None else exact_condition(condition, types)
    except NotExactError as cause:
        raise NotNativeError(f"a condition over {scan.source} is Spark's SQL: {cause}") from cause


def kernel_condition(
    exact: ExactCondition, named: Mapping[str, str | None], *, reads_texts: bool = False
) -> KernelCondition:
    """In both languages, over physical columns by their logical names.

    Args:
        exact: the condition.
        named: physical names by logical ones, where they differ.
        reads_texts: nobody has checked the texts; one that is INVALID must end the kernel's work.
    """
    names = {each: named.get(each) or each for each in exact.types}
    kinds = {each.kind for each in exact.types.values()}
    reads_texts = reads_texts and TypeKind.TEXT in kinds

    def operand(given: Operand, digits: Digits | None) -> str:
        if not isinstance(given, Column):
            return _constant(given.value, digits)
        column = quoted(names[given.name])
        if digits is not None:
            return _as_decimal(column, digits)
        if reads_texts and exact.types[given.name].kind is TypeKind.TEXT:
            return f"CASE WHEN strlen({column}) >= 0 THEN {column} || '' END"
        return f"epoch_us({column})" if exact.types[given.name].kind in MOMENTS else column

    sql = exact.sql(operand)
    if reads_texts:
        # DuckDB leaves row groups out by comparisons alone, not by CASE.
        sql = f"CASE WHEN {sql} THEN TRUE ELSE FALSE END"
    return KernelCondition(sql=sql, exact=exact, names=names, reads_texts=reads_texts)


def _as_decimal(sql: str, digits: Digits) -> str:
    return f"CAST({sql} AS DECIMAL({max(digits.whole + digits.scale, 1)},{digits.scale}))"


def _constant(value: Value, digits: Digits | None) -> str:
    match value.tag, value.content:
        case Tag.NUMBER, Decimal() as number if digits is not None:
            return _as_decimal(sql_text(decimal_text(number)), digits)
        case Tag.TEXT, str() as text if "\0" not in text:
            return sql_text(text)
        case Tag.BOOL, bool() as truth:
            return "TRUE" if truth else "FALSE"
        case Tag.DATE, Decimal() as days:
            return f"DATE {sql_text((EPOCH + int(days) * _DAY).isoformat())}"
        case Tag.INSTANT | Tag.LOCAL, Decimal() as micros:
            return f"{int(micros)}::BIGINT"
        case _:
            raise NotNativeError("a literal has no form in the kernel")
