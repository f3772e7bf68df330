"""Expressions over a real PostgreSQL answer as the allow-list's table says, as files do."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg import sql

from datarecs_connectors.errors import QueryFailedError
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.logical import logical_source
from datarecs_core.comparison.values.canonical import Value
from datarecs_core.comparison.values.translating import canonical
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import ColumnMapping, Source
from datarecs_core.jobs.types import TypeKind
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import (
    Connection,
    ConnectionType,
    PostgresConfig,
    SslMode,
)
from datarecs_testing.expressions import ANSWERS, COLUMNS, FAILING, Answer
from datarecs_testing.stack import PostgresServer

pytestmark = pytest.mark.integration
_NATIVE = {
    TypeKind.INT: "bigint",
    TypeKind.FLOAT64: "double precision",
    TypeKind.FLOAT32: "real",
    TypeKind.TEXT: "varchar",
    TypeKind.DATE: "date",
    TypeKind.INSTANT: "timestamptz",
    TypeKind.LOCAL_TIMESTAMP: "timestamp",
    TypeKind.BOOL: "boolean",
    TypeKind.UUID: "uuid",
}
SOURCE = Source(name="one", kind=SourceKind.POSTGRES, connection="c", relation="public.typed")


@pytest.fixture(scope="module")
def connector(postgres_server: PostgresServer) -> Any:  # noqa: ANN401  a port
    address = postgres_server.fresh_database().replace("postgresql+psycopg", "postgresql")
    fields = psycopg.conninfo.conninfo_to_dict(address)
    native = [
        f"{name} "
        + (
            f"numeric({kind.precision},{kind.scale})"
            if kind.scale is not None
            else _NATIVE[kind.kind]
        )
        for name, kind, _ in COLUMNS
    ]
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute(f"CREATE TABLE typed (at int, big numeric, {', '.join(native)})".encode())
        places = sql.SQL(", ").join([sql.Placeholder()] * len(COLUMNS))
        insert = sql.SQL("INSERT INTO typed VALUES ({}, 1.5, {})").format(sql.Placeholder(), places)
        for at in range(5):
            admin.execute(insert, [at, *(values[at] for _, _, values in COLUMNS)])
    config = PostgresConfig(
        host="127.0.0.1",
        port=int(str(fields["port"])),
        database=str(fields["dbname"]),
        user=str(fields["user"]),
        sslmode=SslMode.DISABLE,
    )
    return open_connector(
        SOURCE,
        Connection(type=ConnectionType.POSTGRES, config=config),
        {"password": str(fields["password"])},
        surroundings=Surroundings(
            roots=(),
            policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        ),
    )


def answered(connector: Any, expression: str, **fields: Any) -> tuple[str, list[Value]]:  # noqa: ANN401  a port; fields of a source
    """Type and values, in the order of the rows."""
    source = replace(SOURCE, columns={"v": ColumnMapping(expr=expression)}, **fields)
    held = connector.pin(source)
    try:
        logical = logical_source(source, 0, connector.describe(source, held.pin))
        scan = logical.scan(held.pin, frozenset({"at", "v"}))
        column = scan.column("v")
        rows = sorted(connector.rows(scan))
        return str(column.type), [canonical(row[1], column.type, "one") for row in rows]
    finally:
        held.close()


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda each: each.expression)
def test_postgresql_answers_as_the_table_says(connector: Any, answer: Answer) -> None:  # noqa: ANN401  a port
    kind, values = answered(connector, answer.expression)
    assert kind == str(answer.type)
    assert values == [canonical(each, answer.type, "one") for each in answer.values]


@pytest.mark.parametrize("expression", FAILING)
def test_an_expression_without_a_value_on_some_row_ends_the_read(
    connector: Any,  # noqa: ANN401  a port
    expression: str,
) -> None:
    with pytest.raises(QueryFailedError, match="fails for a row"):
        answered(connector, expression)


def test_a_filter_selects_the_rows_for_which_it_is_true(connector: Any) -> None:  # noqa: ANN401  a port
    _, values = answered(connector, "n", filter="LENGTH(s) > 3 AND a * 2 > 1")
    assert [each.content for each in values] == [7, 2**63 - 1]


def test_numbers_without_declared_digits_are_added_as_they_are(connector: Any) -> None:  # noqa: ANN401  a port
    kind, values = answered(connector, "big * 2 - ROUND(big)", filter="at = 0 AND big > 1")
    assert (kind, [each.content for each in values]) == ("decimal", [1])
