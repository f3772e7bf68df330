"""Stores the demo's rows: a table in a separate database, a Parquet file and a CSV file.

The database is loaded with the server's `psql`; the platform then gets only a role that may read
this one table.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from urllib.parse import unquote, urlsplit

from datarecs_cli.demo.entries import Entry
from datarecs_cli.stack import postgres
from datarecs_cli.stack.credentials import LocalSecrets
from datarecs_cli.stack.failures import DemoFailedError
from datarecs_cli.stack.layout import Layout
from datarecs_cli.stack.psql import Login
from datarecs_cli.stack.state import load

DATABASE = "demo"
ROLE = "demo_reader"
COLUMNS = tuple(field.name for field in fields(Entry))


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPlace:
    """The address of the loaded ledger; the password is elsewhere."""

    host: str
    port: int
    database: str = DATABASE
    user: str = ROLE
    relation: str = "demo.ledger"


def admin_login(layout: Layout, environment: Mapping[str, str]) -> Login:
    """The login to the server of the local platform, or of DATARECS_DATABASE__URL.

    Raises:
        DemoFailedError: neither exists, or there is no `psql`.
    """
    database_url = environment.get("DATARECS_DATABASE__URL")
    state = load(layout.state_file)
    if database_url is None and "postgres" in state.parts:
        return Login(
            psql=Path(state.postgres["binaries"]) / "psql",
            host="127.0.0.1",
            port=state.ports["postgres"],
            user=postgres.SUPERUSER,
            password=LocalSecrets(layout.secrets).password("postgres-stack"),
        )
    programs = postgres.servers(environment, packaged=postgres.packaged_binaries())
    if database_url is None or not programs:
        raise DemoFailedError(
            step="loading the ledger", reason="no database server or no `psql` was found"
        )
    parts = urlsplit(database_url)
    return Login(
        psql=programs[0].bin / "psql",
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 5432,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
    )


def load_ledger(login: Login, rows: Sequence[Entry], password: str) -> LedgerPlace:
    """Create the table again and grant the reader's role only reading it. Safe to repeat.

    Args:
        login: an administrator of the server.
        rows: the whole content.
        password: the password of the reader's role; letters, digits, - and _.

    Raises:
        DemoFailedError: the server refused.
    """
    made = login.ensure_database(DATABASE)
    answer = made if made.refused else login.carry_out(_script(rows, password), database=DATABASE)
    if answer.refused:
        raise DemoFailedError(step="loading the ledger", reason=answer.text[-400:])
    return LedgerPlace(host=login.host, port=login.port)


def _script(rows: Sequence[Entry], password: str) -> str:
    if not password.replace("-", "").replace("_", "").isalnum():
        raise ValueError("the password has characters that need quotes")
    lines = ["\t".join(_texts(row)) for row in rows]
    return "\n".join(
        (
            "begin;",
            "create schema if not exists demo;",
            "drop table if exists demo.ledger;",
            "create table demo.ledger (entry_id bigint primary key, account integer not null,",
            "  booked_on date not null, amount numeric(18, 2) not null, currency text not null);",
            f"copy demo.ledger ({', '.join(COLUMNS)}) from stdin;",
            *lines,
            "\\.",
            "do $$ begin",
            f"  if not exists (select from pg_roles where rolname = '{ROLE}') then",
            f"    create role {ROLE};",
            "  end if;",
            "end $$;",
            f"alter role {ROLE} with login nosuperuser nocreatedb nocreaterole noreplication",
            f"  nobypassrls connection limit 20 password '{password}';",
            f"revoke all on database {DATABASE} from public;",
            f"grant connect on database {DATABASE} to {ROLE};",
            "revoke create on schema public from public;",
            f"grant usage on schema demo to {ROLE};",
            f"grant select on demo.ledger to {ROLE};",
            "commit;",
            "analyze demo.ledger;",
            "",
        )
    )


def _texts(row: Entry) -> list[str]:
    return [str(value) for value in astuple(row)]


def write_exports(path: Path, rows: Iterable[Entry]) -> None:
    """Write the Parquet file and replace it atomically, so that no reader sees half of it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            pa.field("entry_id", pa.int64(), nullable=False),
            pa.field("account", pa.int32(), nullable=False),
            pa.field("booked_on", pa.date32(), nullable=False),
            pa.field("amount", pa.decimal128(18, 2), nullable=False),
            pa.field("currency", pa.string(), nullable=False),
        ]
    )
    content = [dict(zip(COLUMNS, astuple(row), strict=True)) for row in rows]
    draft = path.with_name(f".{path.name}.draft")
    pq.write_table(pa.Table.from_pylist(content, schema=schema), draft)
    draft.replace(path)


def write_csv(path: Path, rows: Iterable[Entry]) -> None:
    """Write the same rows for `datarecs compare`, which needs no database."""
    with path.open("w", newline="", encoding="utf-8") as target:
        writer = csv.writer(target)
        writer.writerow(COLUMNS)
        writer.writerows(_texts(row) for row in rows)
