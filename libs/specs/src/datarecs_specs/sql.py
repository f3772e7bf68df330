"""SQL of a job, checked before it runs: expressions and queries.

Filters, columns and conditions use the language of `docs/expressions.md`: anything that is not on
its list is refused with its position. A query is one SELECT that does not write; that check
helps authors and is not the security boundary, which is the database role and the parser of the
server. Parameters are found here too, since only a parser separates `:name` from a cast or a text.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from datarecs_core.comparison.expressions.syntax import parse_expression
from datarecs_core.comparison.expressions.tree import ExpressionError, Parameter, nodes_of
from datarecs_core.comparison.planning.logical import syntax_fault
from datarecs_core.errors.faults import Fault, Path, did_you_mean, usable, visible
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import ReconciliationJob, Source
from datarecs_core.jobs.vocabulary import SourceKind

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

MAX_PARENTHESES = 100
_DUCKDB = "duckdb"
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


def sql_faults(job: ReconciliationJob, broken: Collection[str] = ()) -> Iterator[Fault]:
    """All faults of the filters, queries and expressions in the job's valid parts.

    Args:
        job: as far as it could be read.
        broken: parameters that the job declares with a fault, which has its own message.
    """
    declared = {*job.parameters, *broken}
    dialects = {source.name: _dialect(source) for _, source in usable(job.sources)}
    for index, source in usable(job.sources):
        yield from _source_faults(source, declared, ("spec", "sources", index))
    for index, stage in usable(job.stages):
        at: Path = ("spec", "stages", index)
        if stage.where:
            yield from _expression(stage.where, (*at, "where"), declared)
        for name, query in stage.queries.items():
            path = (*at, "queries", name)
            yield from _query(query, dialects.get(name, _DUCKDB), path, declared)


def _source_faults(source: Source, declared: Collection[str], at: Path) -> Iterator[Fault]:
    if source.filter:
        yield from _expression(source.filter, (*at, "filter"), declared)
    if source.query:
        yield from _query(source.query, _dialect(source), (*at, "query"), declared)
    for name, column in source.columns.items():
        if column.expr:
            yield from _expression(column.expr, (*at, "columns", name, "expr"), declared)


def _dialect(source: Source) -> str:
    match source.kind:
        case SourceKind.POSTGRES:
            return "postgres"
        case SourceKind.JDBC:
            driver = source.options.get("driver")
            return _JDBC_DIALECTS.get(driver, str(driver or ""))
        case _:
            return _DUCKDB


def _expression(text: str, at: Path, declared: Collection[str]) -> Iterator[Fault]:
    try:
        tree = parse_expression(text)
    except ExpressionError as cause:
        yield syntax_fault(cause, at)
        return
    names = [each.name for each in nodes_of(tree) if isinstance(each, Parameter)]
    yield from _undeclared(names, at, declared)


def _query(text: str, dialect: str, at: Path, declared: Collection[str]) -> Iterator[Fault]:
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


def _names(tree: "Expr", at: Path, declared: Collection[str]) -> Iterator[Fault]:
    """Parameters that the job does not declare, and functions with side effects (a warning)."""
    from sqlglot import expressions as sql  # noqa: PLC0415  0.1 s, only for jobs with SQL

    placed = tree.find_all(sql.Placeholder, sql.Parameter)
    names = [node.name if isinstance(node, sql.Placeholder) else "" for node in placed]
    yield from _undeclared(names, at, declared)
    if any(name in _SIDE_EFFECTS for name in _functions(tree)):
        yield Fault(
            code=SpecCode.FORBIDDEN_SQL,
            path=at,
            message="it calls a function with side effects; the database role must forbid it",
            warning=True,
        )


def _undeclared(names: Sequence[str], at: Path, declared: Collection[str]) -> Iterator[Fault]:
    for name in dict.fromkeys(names):
        if name not in declared:
            yield Fault(
                code=SpecCode.UNDECLARED_PARAMETER,
                path=at,
                message=f"it uses {_shown(name)}, which the job does not declare",
                hint=did_you_mean(name, declared) or "write `:name` and declare it in `parameters`",
            )


def _shown(name: str) -> str:
    return f"the parameter `:{visible(name)}`" if name else "a parameter without a name"
