"""Parameters written into expressions and queries as typed literals, by one writer.

COPY and DuckDB's readers take no bind values, so a value becomes text only here: quotes
are doubled, NUL is refused, and a `:name` inside a literal, a quoted name, a comment or a `::` cast
is not changed. A backslash is a plain character, in job expressions and in both dialects of
queries.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal

from datarecs_core.jobs.definition import OptionValue, ReconciliationJob, Source
from datarecs_core.jobs.parameters import Value, typed_parameters
from datarecs_core.values import instant_text

_TOKEN = re.compile(
    r"""\b[eE]'(?:[^'\\]|''|\\.)*' # a literal of PostgreSQL with escapes
      | '(?:[^']|'')*'            # a literal
      | "(?:[^"]|"")*"            # a quoted name
      | `(?:[^`]|``)*`            # a quoted name of expressions
      | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$   # a dollar-quoted literal
      | --[^\n]*  | /\*.*?\*/     # comments
      | ::                        # a cast
      | :(?P<name>[A-Za-z_]\w*)   # a parameter
    """,
    re.VERBOSE | re.DOTALL,
)


def literal(value: Value) -> str:
    """As expressions, PostgreSQL and DuckDB read it, typed by its form."""
    match value:
        case str():
            return "'" + _storable(value).replace("'", "''") + "'"
        case datetime():
            return f"TIMESTAMPTZ '{instant_text(value)}'"
        case _:
            return _plain(value)


def _plain(value: Value) -> str:
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return _spaced(str(value))
        case Decimal():
            return _spaced(format(value, "f"))
        case date():
            return f"DATE '{value.isoformat()}'"
        case _:
            raise TypeError(f"{type(value).__name__} has no literal")


def _spaced(number: str) -> str:
    """A minus after another one would start a comment."""
    return f" {number}" if number.startswith("-") else number


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("a parameter holds NUL, which no literal can")
    return text


def written_in(sql: str, values: Mapping[str, Value | tuple[Value, ...]]) -> str:
    """The text with every known `:name` replaced; lists become comma-separated literals.

    Args:
        sql: of an expression or a query.
        values: typed parameters.
    """

    def one(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None or name not in values:
            return match[0]
        value = values[name]
        return ", ".join(map(literal, value)) if isinstance(value, tuple) else literal(value)

    return _TOKEN.sub(one, sql)


def parameters_written_in(
    job: ReconciliationJob, stored: Mapping[str, OptionValue]
) -> ReconciliationJob:
    """The job with its parameters' values in place, as planner and engines take it.

    Raises:
        ValueError: a stored value is not of its declared type, which a run cannot have.
    """
    values = typed_parameters(job.parameters, stored)
    if not values:
        return job
    return replace(
        job,
        sources=tuple(_source(source, values) for source in job.sources),
        stages=tuple(
            replace(
                stage,
                where=_maybe(stage.where, values),
                queries={name: written_in(query, values) for name, query in stage.queries.items()},
            )
            for stage in job.stages
        ),
    )


def _source(source: Source, values: Mapping[str, Value | tuple[Value, ...]]) -> Source:
    columns = {
        name: replace(mapping, expr=_maybe(mapping.expr, values))
        for name, mapping in source.columns.items()
    }
    return replace(
        source,
        filter=_maybe(source.filter, values),
        query=_maybe(source.query, values),
        columns=columns,
    )


def _maybe(sql: str | None, values: Mapping[str, Value | tuple[Value, ...]]) -> str | None:
    return None if sql is None else written_in(sql, values)
