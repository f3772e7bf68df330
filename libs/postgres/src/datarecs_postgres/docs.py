"""Write `docs/database.md`: tables, columns, rights of roles, and functions across tenants.

Printed from the data that tests compare with the schema and its rights, so the page always agrees
with the database. `python -m datarecs_postgres.docs [FILE]`.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import Column, Table
from sqlalchemy.dialects import postgresql

from datarecs_postgres.function_rights import FUNCTIONS
from datarecs_postgres.policies import FunctionAccess, TableAccess
from datarecs_postgres.rls import TABLES
from datarecs_postgres.roles import LOGINS, MIGRATE, OWNER, READ, RELAY, SERVICE_OF
from datarecs_postgres.tables import METADATA, SCHEMA

_HEAD = f"""# Database

The tables of the platform in PostgreSQL, the meaning of each column, and the rights of each role.
Printed by `make docs` from the table definitions and the rights that tests compare with the real
database; never written by hand.

Everything is in the schema `{SCHEMA}`. Every tenant's table has row-level security, also for its
owner: a role sees only the rows of the tenant that its transaction has set.

## Roles

| role | logs in | is |
|---|---|---|
"""
_WHAT = {
    OWNER: "owner of schema and functions",
    MIGRATE: "migrations and `datarecs admin`",
    RELAY: "the relay inside run-controller: outbox rows of all tenants",
    READ: "support: reads one tenant, 30 s a statement",
}


def page() -> str:
    """The whole page as Markdown."""
    return "".join(_lines())


def _lines() -> Iterator[str]:
    yield _HEAD
    for role in (OWNER, *LOGINS):
        what = _WHAT.get(role) or f"service {SERVICE_OF[role]}"
        yield f"| `{role}` | {'no' if role == OWNER else 'yes'} | {what} |\n"
    yield from _functions()
    yield "\n## Tables\n"
    access = {one.table: one for one in TABLES}
    for table in sorted(METADATA.tables.values(), key=lambda one: one.name):
        yield from _table(table, access[table.name])


def _functions() -> Iterator[str]:
    yield (
        "\n## Functions across tenants\n\n"
        "Functions that run with the owner's rights and return ids and numbers.\n\n"
        "| function | granted to |\n|---|---|\n"
    )
    for function in FUNCTIONS:
        if function.definer:
            yield f"| `{function.name}({function.arguments})` | {_granted(function)} |\n"


def _granted(function: FunctionAccess) -> str:
    return ", ".join(f"`{role}`" for role in function.roles)


def _table(table: Table, access: TableAccess) -> Iterator[str]:
    whose = "Rows belong to tenants." if access.tenant else "Belongs to no tenant."
    yield f"\n### {table.name}\n\n{table.info['doc']} {whose}\n\n"
    yield "| column | type | null | default | meaning |\n|---|---|---|---|---|\n"
    key = {column.name for column in table.primary_key}
    for column in table.columns:
        name = f"**{column.name}**" if column.name in key else column.name
        null = "yes" if column.nullable else ""
        kind = _cell(column.type.compile(postgresql.dialect()).lower())  # type: ignore[no-untyped-call]  # SQLAlchemy's dialects carry no types
        yield f"| {name} | {kind} | {null} | {_default(column)} | {_cell(column.doc or '')} |\n"
    yield "\n| may | role | columns |\n|---|---|---|\n"
    for grant in access.grants:
        columns = ", ".join(grant.columns) or "all"
        yield f"| {grant.privilege} | `{grant.role}` | {columns} |\n"
    for policy in access.extra_policies:
        if policy.restrictive:
            yield f"\n`{policy.role}` only: `{policy.check}`\n"


def _default(column: Column[object]) -> str:
    default = column.server_default
    return "" if default is None else f"`{getattr(default, 'arg', 'identity')}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Print the page, or write it to the named file."""
    if arguments:
        Path(arguments[0]).write_text(page(), encoding="utf-8")
    else:
        sys.stdout.write(page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
