"""Parameters written into filters, queries and conditions as typed literals, one writer a dialect.

COPY and Spark's readers take no bind values, so a value becomes text here and nowhere else: quotes
are doubled or escaped, NUL is refused, and a `:name` inside a literal, a quoted name, a comment or
a `::` cast is left alone.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal

from datarecs_core.jobs.definition import ColumnMapping, OptionValue, ReconciliationJob, Source
from datarecs_core.jobs.parameters import Value, typed_parameters
from datarecs_core.jobs.vocabulary import READ_AS_FILES, SourceKind
from datarecs_core.values import instant_text

_TOKEN = re.compile(
    r"""\b[eE]'(?:[^'\\]|''|\\.)*' # a literal of PostgreSQL with escapes
      | '(?:[^']|'')*'            # a literal
      | "(?:[^"]|"")*"            # a quoted name
      | `(?:[^`]|``)*`            # a quoted name of Spark
      | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$   # a dollar-quoted literal
      | --[^\n]*  | /\*.*?\*/     # comments
      | ::                        # a cast
      | :(?P<name>[A-Za-z_]\w*)   # a parameter
    """,
    re.VERBOSE | re.DOTALL,
)
_SPARK_TOKEN = re.compile(
    _TOKEN.pattern.replace(r"'(?:[^']|'')*'", r"'(?:[^'\\]|''|\\.)*'", 1), re.VERBOSE | re.DOTALL
)
Writer = Callable[[Value], str]


def postgres_literal(value: Value) -> str:
    """As PostgreSQL reads it under `standard_conforming_strings`, typed by its form."""
    match value:
        case str():
            return "'" + _storable(value).replace("'", "''") + "'"
        case datetime():
            return f"TIMESTAMPTZ '{instant_text(value)}'"
        case _:
            return _plain(value)


def spark_literal(value: Value) -> str:
    r"""As Spark SQL reads it: `\` escapes inside a literal, so both it and quotes are escaped."""
    match value:
        case str():
            return "'" + _storable(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
        case datetime():
            return f"TIMESTAMP '{instant_text(value)}'"
        case _:
            return _plain(value)


def _plain(value: Value) -> str:
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case Decimal():
            return format(value, "f")
        case date():
            return f"DATE '{value.isoformat()}'"
        case _:
            raise TypeError(f"{type(value).__name__} has no literal")


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("a parameter holds NUL, which no literal can")
    return text


def written_in(
    sql: str,
    values: Mapping[str, Value | tuple[Value, ...]],
    *,
    kind: SourceKind | None,
    is_query: bool = False,
) -> str:
    """The text with every known `:name` replaced; lists become comma-separated literals.

    Args:
        sql: of a filter, query, expression or condition.
        values: typed parameters.
        kind: whose dialect it is; None and everything but postgres means Spark SQL.
        is_query: of a stage; files answer it in DuckDB's dialect, which has PostgreSQL's literals.
    """
    is_standard = kind is SourceKind.POSTGRES or (is_query and kind in READ_AS_FILES)
    writer: Writer = postgres_literal if is_standard else spark_literal

    def one(found: re.Match[str]) -> str:
        name = found["name"]
        if name is None or name not in values:
            return found[0]
        value = values[name]
        return ", ".join(map(writer, value)) if isinstance(value, tuple) else writer(value)

    return (_TOKEN if is_standard else _SPARK_TOKEN).sub(one, sql)


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
    kinds = {source.name: source.kind for source in job.sources}
    return replace(
        job,
        sources=tuple(_source(source, values) for source in job.sources),
        stages=tuple(
            replace(
                stage,
                where=_maybe(stage.where, values, None),
                queries={
                    name: written_in(query, values, kind=kinds.get(name), is_query=True)
                    for name, query in stage.queries.items()
                },
            )
            for stage in job.stages
        ),
    )


def _source(source: Source, values: Mapping[str, Value | tuple[Value, ...]]) -> Source:
    kind = source.kind
    return replace(
        source,
        filter=_maybe(source.filter, values, kind),
        query=_maybe(source.query, values, kind),
        columns={name: _mapping(mapping, values, kind) for name, mapping in source.columns.items()},
    )


def _mapping(
    mapping: ColumnMapping, values: Mapping[str, Value | tuple[Value, ...]], kind: SourceKind
) -> ColumnMapping:
    return replace(mapping, expr=_maybe(mapping.expr, values, kind))


def _maybe(
    sql: str | None, values: Mapping[str, Value | tuple[Value, ...]], kind: SourceKind | None
) -> str | None:
    return None if sql is None else written_in(sql, values, kind=kind)
