"""Check that the rights in the database are exactly those of `rls`; list every deviation.

A separate module because a test checks every migration with it and `doctor --security` checks a
database in service (spec security 5 and 17).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from sqlalchemy import NullPool, TextClause, create_engine

from datarecs_postgres.function_rights import FUNCTIONS
from datarecs_postgres.policies import TENANT_RULE, Policy, TableAccess
from datarecs_postgres.rls import TABLES
from datarecs_postgres.statements import statement
from datarecs_postgres.urls import engine_url

UNIQUE_BY_ITSELF = frozenset({"run_run_id_key", "api_key_key_id_key", "tenant_name_key"})
"""Unique indexes of tenants' tables without the tenant on purpose: ids that are looked up before
a tenant is known, and the names of tenants."""
ALEMBIC = "alembic_version"

_SHOWN = {
    TENANT_RULE: (
        "(tenant_id = (NULLIF(current_setting('app.tenant_id'::text, true), ''::text))::uuid)"
    )
}

FetchRows = Callable[[TextClause], Iterable[Any]]


class _Right(NamedTuple):
    table: str
    role: str
    privilege: str
    column: str

    def __str__(self) -> str:
        where = f"{self.table}.{self.column}" if self.column else self.table
        return f"{self.privilege} on {where} for {self.role}"


class _Rule(NamedTuple):
    table: str
    name: str
    role: str
    command: str
    restrictive: bool
    using: str | None
    check: str | None

    def __str__(self) -> str:
        return f"policy {self.name} on {self.table}"


def schema_faults(url: str) -> list[str]:
    """All differences of the rights from `rls`, one line each; empty if there are none.

    Args:
        url: any login; only system catalogues are read.
    """
    engine = create_engine(engine_url(url), poolclass=NullPool)
    try:
        with engine.connect() as connection:

            def fetch_rows(query: TextClause) -> Iterable[Any]:
                return connection.execute(query).all()

            return [
                *_table_faults(fetch_rows),
                *_policy_faults(fetch_rows),
                *_grant_faults(fetch_rows),
                *_index_faults(fetch_rows),
                *_function_faults(fetch_rows),
            ]
    finally:
        engine.dispose()


def _table_faults(fetch_rows: FetchRows) -> Iterator[str]:
    expected = {access.table: access for access in TABLES}
    actual = {row.name: row for row in fetch_rows(_query("tables")) if row.name != ALEMBIC}
    for name in sorted(expected.keys() - actual.keys()):
        yield f"table {name} is missing"
    for name, row in sorted(actual.items()):
        if name not in expected:
            yield f"table {name} is not in rls.py"
        if name not in expected or expected[name].tenant:
            if not row.enabled:
                yield f"table {name} has no row-level security"
            if not row.forced:
                yield f"table {name} does not force row-level security"


def _policy_faults(fetch_rows: FetchRows) -> Iterator[str]:
    expected = {_rule(access, policy) for access in TABLES for policy in access.policies}
    actual = {
        _Rule(
            *(row.tablename, row.policyname, row.role, row.cmd),
            *(row.restrictive, row.qual, row.with_check),
        )
        for row in fetch_rows(_query("policies"))
    }
    yield from _differences(expected, actual)


def _grant_faults(fetch_rows: FetchRows) -> Iterator[str]:
    expected = {
        _Right(access.table, grant.role, grant.privilege, column)
        for access in TABLES
        for grant in access.grants
        for column in grant.columns or ("",)
    }
    actual = {
        _Right(row.relname, row.role, row.privilege_type, row.column)
        for row in fetch_rows(_query("grants"))
    }
    yield from _differences(expected, actual)


def _index_faults(fetch_rows: FetchRows) -> Iterator[str]:
    for row in fetch_rows(_query("unique_indexes")):
        name = row.index_name.rpartition(".")[2]
        if name not in UNIQUE_BY_ITSELF:
            yield f"unique index {name} of {row.table_name} does not include the tenant"


def _function_faults(fetch_rows: FetchRows) -> Iterator[str]:
    expected = {access.name: access for access in FUNCTIONS}
    actual = {row.name: row for row in fetch_rows(_query("functions"))}
    for name in sorted(expected.keys() - actual.keys()):
        yield f"function {name} is missing"
    for name, row in sorted(actual.items()):
        access = expected.get(name)
        if "PUBLIC" in row.callers:
            yield f"function {name} is open to PUBLIC"
        if row.definer and not row.pinned:
            yield f"definer function {name} does not pin its search_path"
        if access is None:
            yield f"function {name} is not in rls.py"
        elif row.definer != access.definer:
            yield f"function {name} runs with other rights than in rls.py"
        elif set(row.callers) != set(access.roles):
            yield f"function {name} is granted to {', '.join(sorted(row.callers))}"


def _differences(expected: Iterable[object], actual: Iterable[object]) -> Iterator[str]:
    wanted, present = set(expected), set(actual)
    yield from sorted(f"{one} is missing or differs" for one in wanted - present)
    yield from sorted(f"{one} differs from rls.py" for one in present - wanted)


def _rule(access: TableAccess, policy: Policy) -> _Rule:
    return _Rule(
        *(access.table, policy.name, policy.role, policy.command),
        policy.restrictive,
        _shown(policy.using),
        _shown(policy.check),
    )


def _shown(expression: str | None) -> str | None:
    """The expression in the form of pg_policies."""
    if expression is None or expression == "true":
        return expression
    return _SHOWN.get(expression, f"({expression})")


def _query(name: str) -> TextClause:
    return statement("schema_check", name)
