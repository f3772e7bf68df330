"""What a PostgreSQL server answers instead of its rows, and when its answer is not believed."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pyarrow.parquet as pq
import pytest

from datarecs_connectors.postgres_statements import statement_of
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.pushdown import NotPushedError
from datarecs_core.comparison.planning.scan import Groups, Keys, Only, Partial, Scan, ScanColumn
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.types import INT
from datarecs_core.jobs.vocabulary import Function, SourceKind
from datarecs_core.resources.connection import (
    Connection,
    ConnectionType,
    PostgresConfig,
    SslMode,
)
from datarecs_testing.exact_conditions import EXACT, ROWS, matching_ids
from datarecs_testing.stack import PostgresServer

pytestmark = pytest.mark.integration
TABLES: LiteralString = """
CREATE TABLE rows (id int, n bigint, m numeric(12,2), t text, b bool, d date, i timestamptz,
  l timestamp);
CREATE TABLE traps (id int, g int, code char(4), word varchar, amount numeric(12,2),
  wide numeric(38,0), day date, at timestamptz, seen timestamp, loose numeric);
INSERT INTO traps VALUES
  (1, 1, 'a', 'A', 1.10, 10::numeric ^ 37 * 9, '2026-01-31', '2026-01-31', '2026-01-31', 1.5),
  (2, 1, 'a ', 'a', 'NaN', 10::numeric ^ 37 * 9, 'infinity', '0044-03-15 BC', '10000-01-01', 1.50),
  (3, 2, NULL, 'a ', 2.20, 1, NULL, NULL, NULL, 'NaN');
CREATE VIEW seen AS SELECT * FROM traps;
CREATE TABLE unseen (id int);
ANALYZE traps;
"""
Extract = Callable[..., Scan]


class Server:
    """One database for all tests, which change nothing in it."""

    def __init__(self, server: PostgresServer) -> None:
        url = server.fresh_database().replace("postgresql+psycopg", "postgresql")
        fields = psycopg.conninfo.conninfo_to_dict(url)
        with psycopg.connect(url, autocommit=True) as session:
            session.execute(TABLES)
            with session.cursor() as cursor:
                cursor.executemany(
                    "INSERT INTO rows VALUES (%s, %s, %s, %s, %s, %s, %s, %s)", list(ROWS)
                )
        self.config = PostgresConfig(
            host="127.0.0.1",
            port=int(str(fields["port"])),
            database=str(fields["dbname"]),
            user=str(fields["user"]),
            sslmode=SslMode.DISABLE,
        )
        self.password = str(fields["password"])

    def source(self, relation: str) -> Source:
        return Source(name="s", kind=SourceKind.POSTGRES, connection="c", relation=relation)

    def open(self, relation: str) -> Any:  # noqa: ANN401  a connector
        surroundings = Surroundings(
            roots=(),
            policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        )
        connection = Connection(type=ConnectionType.POSTGRES, config=self.config)
        secrets = {"password": self.password}
        return open_connector(self.source(relation), connection, secrets, surroundings=surroundings)


@pytest.fixture(scope="module")
def server(postgres_server: PostgresServer) -> Server:
    return Server(postgres_server)


@pytest.fixture
def extract(server: Server, tmp_path: Path) -> Extract:
    """Extract a relation with a request; every column has a separate name."""

    def extract_relation(relation: str, **changes: object) -> Scan:
        connector, source = server.open(relation), server.source(relation)
        held = connector.pin(source)
        try:
            schema = connector.describe(source, held.pin)
            columns = tuple(
                ScanColumn(name=each.name, physical=each.name, type=each.type)
                for each in schema.columns
            )
            scan = Scan(
                source="s",
                index=0,
                kind=source.kind,
                relation=relation,
                columns=columns,
                schema=schema,
                pin=held.pin,
            )
            changed_scan = replace(scan, **changes)  # type: ignore[arg-type]  # fields of a scan
            extracted: Scan = connector.extract(changed_scan, str(tmp_path / "out"), lambda _: None)
        finally:
            held.close()
        return extracted

    return extract_relation


def stored(scan: Scan) -> list[dict[str, Any]]:
    assert scan.extract is not None
    rows = pq.read_table(scan.extract.root).to_pylist()
    return [{k: v for k, v in row.items() if not k.startswith("$invalid.")} for row in rows]


def partials(*pairs: tuple[Function, str]) -> tuple[Partial, ...]:
    return tuple(Partial(function=function, column=column) for function, column in pairs)


@pytest.mark.parametrize("condition", EXACT)
def test_the_server_selects_the_rows_that_the_oracle_selects_and_counts_the_others(
    extract: Extract, condition: str
) -> None:
    groups_read = extract("rows", only=Only(where=condition))
    assert groups_read.extract is not None
    assert sorted(row["id"] for row in stored(groups_read)) == matching_ids(condition)
    assert (groups_read.extract.all_rows, groups_read.extract.rows) == (
        len(ROWS),
        len(matching_ids(condition)),
    )


def test_a_condition_never_leaves_out_what_has_no_canonical_form(extract: Extract) -> None:
    """To the server NaN is above every number; here it is none, and the engine says so."""
    for condition in ("NOT amount > 1", "day < DATE '2026-01-01'", "seen IS NULL AND id > 9"):
        assert 2 in [row["id"] for row in stored(extract("traps", only=Only(where=condition)))]


def test_groups_come_with_their_rows_and_their_numbers(extract: Extract) -> None:
    numbers = partials((Function.SUM, "n"), (Function.COUNT, "t"), (Function.MAX, "t"))
    groups = Groups(dimensions=("b",), partials=numbers, where="id <= 7")
    groups_read = extract("rows", groups=groups)
    assert groups_read.extract is not None
    assert groups_read.extract.source_rows == len(ROWS)
    assert sorted(stored(groups_read), key=lambda row: str(row["b"])) == [
        {"b": False, "$n": 2, "$sum.n": 2**62 + 3, "$count.t": 2, "$max.t": 'it\'s \\ "x"'},
        {"b": None, "$n": 2, "$sum.n": -(2**62), "$count.t": 1, "$max.t": "a "},
        {"b": True, "$n": 3, "$sum.n": 12, "$count.t": 3, "$max.t": "é"},
    ]


def test_a_group_beside_the_condition_is_counted_and_not_brought(extract: Extract) -> None:
    groups_read = extract("rows", groups=Groups(dimensions=("n",), where="n = 10"))
    assert [(row["n"], row["$n"]) for row in stored(groups_read)] == [(10, 1)]
    assert groups_read.extract is not None
    assert (groups_read.extract.rows, groups_read.extract.source_rows) == (1, len(ROWS))


@pytest.mark.case("P29")
@pytest.mark.case("P33")
def test_text_is_grouped_by_its_bytes_and_padding_by_its_type(extract: Extract) -> None:
    """char(4) has 'a   ' twice; varchar distinguishes 'a', 'a ' and 'A' under any collation."""
    groups_read = extract("traps", groups=Groups(dimensions=("word",)))
    assert sorted(row["word"] for row in stored(groups_read)) == ["A", "a", "a "]
    groups_read = extract("traps", groups=Groups(dimensions=("code",)))
    assert sorted((str(row["code"]), row["$n"]) for row in stored(groups_read)) == [
        ("None", 1),
        ("a", 2),
    ]
    assert {row["code"] for row in stored(extract("traps"))} == {"a", None}
    sql = statement_of(
        replace(groups_read, groups=Groups(dimensions=("word",), where="word < 'b'"))
    )
    assert sql.count('COLLATE "C"') == 3


@pytest.mark.parametrize(
    "groups",
    [
        Groups(dimensions=("amount",)),
        Groups(dimensions=("day",)),
        Groups(dimensions=("g",), partials=partials((Function.SUM, "amount"))),
        Groups(dimensions=("g",), partials=partials((Function.MIN, "day"))),
        Groups(dimensions=("g",), partials=partials((Function.COUNT, "at"))),
        Groups(dimensions=("g",), partials=partials((Function.MAX, "seen"))),
        Groups(dimensions=("g",), where="amount > 0"),
    ],
    ids=str,
)
def test_groups_with_nan_infinity_or_far_years_are_not_believed(
    extract: Extract, groups: Groups
) -> None:
    """The server's MIN of a date and infinity is the date; here the group has no minimum."""
    with pytest.raises(NotPushedError, match="NaN, infinity or a year outside"):
        extract("traps", groups=groups)


def test_a_sum_beyond_38_digits_is_not_believed(extract: Extract) -> None:
    """The server would return 39 of them."""
    groups = Groups(dimensions=("g",), partials=partials((Function.SUM, "wide")))
    with pytest.raises(NotPushedError, match="no canonical form"):
        extract("traps", groups=groups)


def test_groups_of_an_expression_that_fails_on_a_row_are_not_queried_twice(
    extract: Extract,
) -> None:
    failing = ScanColumn(name="w", expression="CAST(t AS int)", type=INT)
    with pytest.raises(NotPushedError, match="refuses"):
        extract("rows", columns=(failing,), groups=Groups(dimensions=("w",)))


@pytest.mark.case("P55")
def test_rows_are_selected_by_keys_whatever_is_in_them(extract: Extract) -> None:
    quoted = 'it\'s \\ "x"'
    keys = Keys(
        columns=("t", "n"), values=((quoted, "3"), (None, None), ("x' OR '1'='1", "1"), ("A", "1"))
    )
    groups_read = extract("rows", only=Only(keys=keys))
    assert sorted(row["id"] for row in stored(groups_read)) == [5, 7]
    assert groups_read.extract is not None
    assert groups_read.extract.all_rows == len(ROWS)
    other = Keys(
        columns=("m", "d", "i", "b"), values=(("0", "2026-01-31", "2026-01-31T12:00:00Z", "true"),)
    )
    assert [row["id"] for row in stored(extract("rows", only=Only(keys=other)))] == [1]
    assert stored(extract("rows", only=Only(keys=Keys(columns=("n",), values=())))) == []
    with pytest.raises(NotPushedError):
        extract("rows", only=Only(keys=Keys(columns=("m",), values=(("NaN",),))))
    with pytest.raises(NotPushedError, match="too long"):
        extract("rows", only=Only(keys=Keys(columns=("t",), values=(("x" * (4 * 2**20 + 1),),))))


def test_statistics_say_what_is_expected_and_views_say_nothing(extract: Extract) -> None:
    known = extract("traps").schema
    assert (known.estimated_rows, known.estimated_bytes) == (3, 8192)
    assert {each.name: each.distinct for each in known.columns}["g"] in {3, 2}
    for relation in ("seen", "unseen"):
        schema = extract(relation).schema
        assert (schema.estimated_rows, schema.columns[0].distinct) == (None, None)


def test_types_that_the_server_groups_otherwise_are_not_marked(extract: Extract) -> None:
    marked = {each.name for each in extract("traps").schema.columns if each.groups_exactly}
    assert marked == {"id", "g", "code", "word", "amount", "wide", "day", "at", "seen"}
