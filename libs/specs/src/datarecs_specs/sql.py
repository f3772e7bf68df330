"""SQL of a job, read before anything runs it: one SELECT or one scalar expression, no writing.

A help for authors and never the boundary: that is the database role and the server's own parser.
Parameters are found here too, since only a parser tells `:name` from a cast or a text.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from datarecs_core.comparison.condition import ConditionNotCoveredError, parse_condition
from datarecs_core.errors.faults import Fault, Path, did_you_mean, usable
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import ReconciliationJob, Source
from datarecs_core.jobs.vocabulary import READ_AS_FILES, SourceKind

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

MAX_PARENTHESES = 100
_ROW_FILTERED = frozenset({SourceKind.CSV, SourceKind.JSON, SourceKind.ICEBERG})
_PARAMETER = re.compile(r"(?<!:):[a-z_][a-z0-9_]*", re.ASCII)
_SPARK, _DUCKDB = "spark", "duckdb"
_JDBC_DIALECTS: Mapping[object, str] = {"sqlserver": "tsql", "mariadb": "mysql"}
_REFLECTION = frozenset({"java_method", "reflect", "try_reflect"})
_SIDE_EFFECTS = frozenset(
    {
        "dblink",
        "dblink_exec",
        "lo_export",
        "lo_import",
        "nextval",
        "pg_advisory_lock",
        "pg_cancel_backend",
        "pg_read_file",
        "pg_reload_conf",
        "pg_terminate_backend",
        "set_config",
        "setval",
    }
)


def sql_faults(job: ReconciliationJob) -> Iterator[Fault]:
    """Everything wrong with the filters, queries and expressions of the job's usable parts."""
    dialects = {
        source.name: _DUCKDB if source.kind in READ_AS_FILES else _dialect(source)
        for _, source in usable(job.sources)
    }
    for index, source in usable(job.sources):
        yield from _source_faults(job, source, ("spec", "sources", index))
    for index, stage in usable(job.stages):
        at: Path = ("spec", "stages", index)
        if stage.where:
            yield from _expression(stage.where, _SPARK, (*at, "where"), job.parameters)
        for name, query in stage.queries.items():
            path = (*at, "queries", name)
            yield from _query(query, dialects.get(name, _SPARK), path, job.parameters)


def _source_faults(job: ReconciliationJob, source: Source, at: Path) -> Iterator[Fault]:
    dialect = _dialect(source)
    if source.filter:
        path: Path = (*at, "filter")
        found = list(_expression(source.filter, dialect, path, job.parameters))
        yield from found or _row_filter_faults(source, path)
    if source.query:
        yield from _query(source.query, dialect, (*at, "query"), job.parameters)
    for name, column in source.columns.items():
        if column.expr:
            path = (*at, "columns", name, "expr")
            yield from _expression(column.expr, dialect, path, job.parameters)


def _row_filter_faults(source: Source, at: Path) -> Iterator[Fault]:
    """Some sources are filtered row by row while they are read, by less than all of Spark SQL."""
    if source.kind not in _ROW_FILTERED or source.filter is None:
        return
    # A parameter stands where its literal will.
    written = _PARAMETER.sub("NULL", source.filter)
    try:
        parse_condition(written)
    except ConditionNotCoveredError as cause:
        yield Fault(
            code=SpecCode.FEATURE_NOT_INSTALLED,
            path=at,
            message=f"the filter of a {source.kind} source takes comparisons, IN, BETWEEN, IS NULL,"
            f" AND, OR and NOT alone: {cause}",
            hint="put the condition into each stage's `where`",
        )


def _dialect(source: Source) -> str:
    match source.kind:
        case SourceKind.POSTGRES:
            return "postgres"
        case SourceKind.JDBC:
            driver = source.options.get("driver")
            return _JDBC_DIALECTS.get(driver, str(driver or ""))
        case _:
            return _SPARK


def _expression(
    text: str, dialect: str, at: Path, declared: Mapping[str, object]
) -> Iterator[Fault]:
    from sqlglot import expressions as sql  # noqa: PLC0415  0.1 s, only for jobs with SQL

    tree = _parsed(text, dialect)
    if tree is None or isinstance(tree, sql.Alias | sql.Star):
        yield _not_one(at, "one scalar expression")
    elif forbidden := _forbidden(tree):
        yield _refused(at, forbidden)
    elif isinstance(tree, sql.Query) or tree.find(sql.Query):
        yield _refused(at, "a subquery; put it into the source's `query`")
    elif not isinstance(tree, sql.Condition):
        yield _not_one(at, "one scalar expression")
    else:
        yield from _names(tree, at, declared)


def _query(text: str, dialect: str, at: Path, declared: Mapping[str, object]) -> Iterator[Fault]:
    from sqlglot import expressions as sql  # noqa: PLC0415  0.1 s, only for jobs with SQL

    tree = _parsed(text, dialect)
    if tree is None:
        yield _not_one(at, "one SELECT")
    elif forbidden := _forbidden(tree):
        yield _refused(at, forbidden)
    elif not isinstance(tree, sql.Query):
        yield _not_one(at, "one SELECT")
    else:
        yield from _names(tree, at, declared)


def _not_one(at: Path, wanted: str) -> Fault:
    return Fault(code=SpecCode.NOT_ONE_EXPRESSION, path=at, message=f"not exactly {wanted}")


def _refused(at: Path, what: str) -> Fault:
    return Fault(code=SpecCode.FORBIDDEN_SQL, path=at, message=f"it holds {what}")


def _parsed(text: str, dialect: str) -> "Expr | None":
    """The one statement or expression of the text; None when it is none, several or too deep."""
    import sqlglot  # noqa: PLC0415  0.1 s, only for jobs with SQL
    from sqlglot.errors import SqlglotError  # noqa: PLC0415  0.1 s, only for jobs with SQL
    from sqlglot.tokenizer_core import TokenType  # noqa: PLC0415  0.1 s, only for jobs with SQL

    if _depth(text) > MAX_PARENTHESES:
        return None
    try:
        with _unheard():
            tokens = sqlglot.tokenize(text, read=dialect)
            if any(token.token_type is TokenType.SEMICOLON for token in tokens):
                return None
            trees = sqlglot.parse(text, read=dialect)
    except (SqlglotError, RecursionError, ValueError):
        return None
    return trees[0] if len(trees) == 1 else None


def _depth(text: str) -> int:
    """Parentheses open at once at most, also those inside quotes: a bound, not a parse."""
    depth = deepest = 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        deepest = max(deepest, depth)
    return deepest


@contextmanager
def _unheard() -> Iterator[None]:
    """Keep the parser from logging the text it cannot read."""
    logger = logging.getLogger("sqlglot")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before


def _forbidden(tree: "Expr") -> str | None:
    """What in the tree writes, locks, changes settings or cannot be read at all."""
    from sqlglot import expressions as sql  # noqa: PLC0415  0.1 s, only for jobs with SQL

    refused: tuple[tuple[type[Expr], str], ...] = (
        (sql.DML, "a statement that writes"),
        (sql.DDL, "a statement that writes"),
        (sql.Into, "SELECT INTO"),
        (sql.Lock, "a locking clause"),
        (sql.Drop, "DDL"),
        (sql.Alter, "DDL"),
        (sql.TruncateTable, "DDL"),
        (sql.Copy, "COPY"),
        (sql.Set, "SET"),
        (sql.Transaction, "a transaction command"),
        (sql.Commit, "a transaction command"),
        (sql.Rollback, "a transaction command"),
        (sql.Command, "a command that is no SELECT"),
    )
    # WITH, SELECT and set operations are queries, although the library also counts them as DDL
    for node in tree.walk():
        if isinstance(node, sql.Select | sql.SetOperation | sql.Subquery):
            continue
        for kind, words in refused:
            if isinstance(node, kind):
                return words
    return _reflection(tree)


def _reflection(tree: "Expr") -> str | None:
    return next(("a reflection function" for name in _functions(tree) if name in _REFLECTION), None)


def _functions(tree: "Expr") -> Iterator[str]:
    from sqlglot import expressions as sql  # noqa: PLC0415  0.1 s, only for jobs with SQL

    for node in tree.find_all(sql.Func):
        yield (node.name if isinstance(node, sql.Anonymous) else node.sql_name()).lower()


def _names(tree: "Expr", at: Path, declared: Mapping[str, object]) -> Iterator[Fault]:
    """Parameters that the job lacks, and functions with side effects (a warning)."""
    from sqlglot import expressions as sql  # noqa: PLC0415  0.1 s, only for jobs with SQL

    told: set[str] = set()
    for node in tree.find_all(sql.Placeholder, sql.Parameter):
        name = node.name if isinstance(node, sql.Placeholder) else ""
        if name in declared or name in told:
            continue
        told.add(name)
        yield Fault(
            code=SpecCode.UNDECLARED_PARAMETER,
            path=at,
            message="it uses a parameter that the job does not declare",
            hint=did_you_mean(name, declared) or "write `:name` and declare it in `parameters`",
        )
    if any(name in _SIDE_EFFECTS for name in _functions(tree)):
        yield Fault(
            code=SpecCode.FORBIDDEN_SQL,
            path=at,
            message="it calls a function with side effects; the database role must forbid it",
            warning=True,
        )
