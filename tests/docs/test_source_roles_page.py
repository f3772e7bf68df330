"""The SQL of the page about source roles, executed as written, makes a role that only reads."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import tuple_row

from datarecs_connectors.postgres_privileges import excess_privileges
from datarecs_testing.stack import PostgresServer

pytestmark = pytest.mark.integration
PAGE = Path(__file__).resolve().parents[2] / "docs/howto/source-roles.md"
ROLE, PASSWORD = "datarecs_reader", "choose-a-random-one"
TABLES = """
CREATE SCHEMA sales;
CREATE TABLE sales.orders (id int, amount numeric, state text, customer text);
CREATE TABLE sales.payments (id int, amount numeric, currency text, card text);
INSERT INTO sales.orders VALUES (1, 10, 'open', 'ana'), (2, 20, 'closed', 'ben');
"""


def statements() -> dict[str, str]:
    """SQL blocks by their heading, joined."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    sections = zip(parts[::2], parts[1::2], strict=True)
    return {
        head: "\n".join(re.findall(r"^```sql\n(.*?)^```$", body, re.MULTILINE | re.DOTALL))
        for head, body in sections
    }


class Source:
    """A database with two tables of somebody else."""

    def __init__(self, server: PostgresServer) -> None:
        self.admin = server.fresh_database().replace("postgresql+psycopg", "postgresql")
        self.name = str(psycopg.conninfo.conninfo_to_dict(self.admin)["dbname"])

    def run(self, script: str) -> None:
        with psycopg.connect(self.admin, autocommit=True) as session:
            session.execute(script.replace("DATABASE ledger", f"DATABASE {self.name}").encode())

    def connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        fields = psycopg.conninfo.conninfo_to_dict(self.admin)
        fields |= {"user": ROLE, "password": PASSWORD}
        return psycopg.connect(**fields, row_factory=tuple_row)  # type: ignore[arg-type]  # one type for all fields


@pytest.fixture
def source(postgres_server: PostgresServer) -> Iterator[Source]:
    made = Source(postgres_server)
    made.run(TABLES)
    yield made
    made.run(statements()["Remove it"])


@pytest.mark.case("X37")
def test_the_role_reads_the_granted_tables_and_profile_server_accepts_it(source: Source) -> None:
    source.run(statements()["Create the role"])
    with source.connect() as session:
        assert excess_privileges(session) == ()
        assert session.execute("SELECT count(*) FROM sales.orders").fetchone() == (2,)
        assert session.execute("SHOW default_transaction_read_only").fetchone() == ("on",)
    for change in ("INSERT INTO sales.orders VALUES (3)", "CREATE TABLE public.x (id int)"):
        with source.connect() as session, pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            session.execute(change.encode())
    with source.connect() as session:
        session.execute("SET default_transaction_read_only = off")
        session.commit()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("INSERT INTO sales.orders VALUES (3)")


def test_later_tables_are_readable_by_the_default_privileges(source: Source) -> None:
    source.run(statements()["Create the role"])
    source.run("CREATE TABLE sales.later (id int)")
    with source.connect() as session:
        assert session.execute("SELECT count(*) FROM sales.later").fetchone() == (0,)
        assert excess_privileges(session) == ()


def test_columns_and_views_limit_what_is_read(source: Source) -> None:
    source.run(statements()["Create the role"])
    source.run(statements()["Only some columns or rows"])
    with source.connect() as session:
        assert excess_privileges(session) == ()
        assert session.execute("SELECT * FROM sales.open_orders").fetchall() == [(1, 10)]
        assert session.execute("SELECT id, amount, currency FROM sales.payments").fetchall() == []
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session.execute("SELECT card FROM sales.payments")
