"""Conditions with another meaning in DuckDB's SQL than in core, as functions in Python.

For example floats compared with decimals by their written digits, times finer than microseconds
with
literals, texts of numbers with numbers: core evaluates every combination of values once.
"""

from collections.abc import Mapping
from itertools import count

import duckdb
import pyarrow as pa
from duckdb.func import ARROW, SPECIAL

from datarecs_core.comparison.expressions.condition import (
    ConditionNotCoveredError,
    ParsedCondition,
    parse_condition,
)
from datarecs_core.comparison.expressions.exact_conditions import NotExactError
from datarecs_core.comparison.values.canonical import Tag, Value, invalid
from datarecs_core.comparison.values.json_form import json_value
from datarecs_core.errors.run import RunDetail
from datarecs_kernel.base_columns import BaseColumn, duckdb_type
from datarecs_kernel.condition_sql import TypedBase, condition_sql
from datarecs_kernel.database import Connection
from datarecs_kernel.decoding import cell
from datarecs_kernel.forms import FormKind
from datarecs_kernel.refusals import SourceFailedError

_MOST_KNOWN = 100_000
"""Limit of cached combinations of values; above it the cache is emptied."""
_numbers = count()


def condition_of(
    connection: Connection, condition: str, columns: Mapping[str, TypedBase], source: str
) -> str:
    """A condition in SQL if it has the meaning of core there, else as a call of a function.

    Raises:
        SourceFailedError: it is more than comparisons, or names a column that is not read.
    """
    try:
        return condition_sql(condition, columns)
    except NotExactError:
        return _call(connection, condition, columns, source)


def _call(
    connection: Connection, condition: str, columns: Mapping[str, TypedBase], source: str
) -> str:
    try:
        parsed = parse_condition(condition)
    except ConditionNotCoveredError as cause:
        raise _refused(source, str(cause)) from cause
    missing = sorted(parsed.columns - columns.keys())
    if missing:
        raise _refused(source, f"no column {missing[0]!r} is read")
    bases = {name: columns[name].base for name in sorted(parsed.columns)}
    if not bases:
        return "TRUE" if parsed.admits({}) else "FALSE"
    name = f"passes_{next(_numbers)}"
    kinds = [duckdb_type(base.form.sql_type) for base in bases.values()]
    members = ", ".join(f"v{at} {kind}, x{at} BLOB" for at, kind in enumerate(kinds))
    connection.create_function(
        name,
        _Judging(parsed, bases, source).passes,
        [duckdb.sqltype(f"STRUCT({members})")],
        duckdb.sqltype("BOOLEAN"),
        type=ARROW,
        null_handling=SPECIAL,
        side_effects=True,
    )
    pairs = enumerate(bases.values())
    operands = ", ".join(f"v{at} := {base.value}, x{at} := {base.payload}" for at, base in pairs)
    return f"{name}(struct_pack({operands}))"


def _refused(source: str, reason: str) -> SourceFailedError:
    message = f"a condition over its rows cannot be used: {reason}"
    return SourceFailedError(RunDetail.QUERY_ERROR, source, message)


class _Judging:
    """A condition over Arrow columns; several threads may call it at the same time."""

    def __init__(
        self, parsed: ParsedCondition, bases: Mapping[str, BaseColumn], source: str
    ) -> None:
        self._parsed, self._bases, self._source = parsed, bases, source
        self._known: dict[tuple[object, ...], bool] = {}

    def passes(self, rows: pa.ChunkedArray) -> pa.Array:
        """Whether each row passes; a row alternates values and payloads of INVALID values."""
        known, answers = self._known, list[bool]()
        columns = [column.to_pylist() for column in rows.combine_chunks().flatten()]
        for values in zip(*columns, strict=True):
            answer = known.get(values)
            if answer is None:
                if len(known) >= _MOST_KNOWN:
                    known.clear()
                answer = known[values] = self._matches(values)
            answers.append(answer)
        return pa.array(answers, pa.bool_())

    def _matches(self, values: tuple[object, ...]) -> bool:
        pairs = zip(self._bases.items(), values[::2], values[1::2], strict=True)
        return self._parsed.admits(
            {name: self._value(base, plain, payload) for (name, base), plain, payload in pairs}
        )

    def _value(self, base: BaseColumn, plain: object, payload: object) -> Value:
        if base.form.kind is FormKind.JSON and plain is not None and payload is None:
            written = json_value(str(plain))
            if written is None:
                return invalid(self._source, str(plain).encode())
            return Value(Tag.JSON, written)
        return cell(base.form, plain, payload if isinstance(payload, bytes) else None)
