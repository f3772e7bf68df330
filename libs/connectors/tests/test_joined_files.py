"""Sources whose query joins many files: rows, pins, limits and what is refused."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_application.ports.comparing import Connector, Read
from datarecs_connectors.errors import (
    CorruptSourceError,
    NoFilesError,
    PathRefusedError,
    QueryFailedError,
    SnapshotLostError,
    SourceLimitError,
)
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.logical import logical_source
from datarecs_core.comparison.planning.scan import FileList, Scan
from datarecs_core.comparison.proof.pin_json import pin_document
from datarecs_core.jobs.definition import Limits, Source, SourceTable
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import Connection, ConnectionType, FilesConfig

TRADES = "id,account,amount,ccy\n1,a,10.50,EUR\n2,b,20.00,USD\n3,x,1.00,EUR\n"
ACCOUNTS = "# export\naccount;desk\na;rates\nb;credit\n"
JOINED = """
SELECT t.id, t.amount * r.rate AS eur, coalesce(a.desk, 'unknown') AS desk
FROM trades t LEFT JOIN accounts a USING (account) JOIN rates r ON r.ccy = t.ccy
"""
TABLES = {
    "accounts": SourceTable(path="accounts.csv", options={"skip": {"prefixes": ("#",)}}),
    "rates": SourceTable(kind=SourceKind.PARQUET, path="rates/*.parquet"),
}
SOURCE = Source(
    name="trades",
    kind=SourceKind.CSV,
    connection="c",
    path="trades.csv",
    tables=TABLES,
    query=JOINED,
)
Opened = Callable[..., Connector]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "rates").mkdir(parents=True)
    (tmp_path / "outside.csv").write_text("account,desk\na,secret\n")
    (folder / "trades.csv").write_text(TRADES)
    (folder / "accounts.csv").write_text(ACCOUNTS)
    rates = pa.array([Decimal("1.0"), Decimal("0.5")], pa.decimal128(8, 4))
    pq.write_table(pa.table({"ccy": ["EUR", "USD"], "rate": rates}), folder / "rates/1.parquet")
    return folder


@pytest.fixture
def opened(data: Path, surroundings: Surroundings) -> Opened:
    connection = Connection(type=ConnectionType.FILES, config=FilesConfig(root=data.name))

    def connect(source: Source = SOURCE) -> Connector:
        return open_connector(source, connection, {}, surroundings=surroundings)

    return connect


def scan_of(connector: Connector, source: Source = SOURCE) -> Scan:
    pin = connector.pin(source).pin
    described = logical_source(source, 0, connector.describe(source, pin))
    return described.scan(pin, frozenset(described.columns))


def rows_of(connector: Connector, source: Source = SOURCE) -> list[tuple[object, ...]]:
    return sorted(connector.rows(scan_of(connector, source)), key=str)


def ignored(_read: Read) -> None:
    """Ignore progress."""


def test_a_query_joins_files_of_different_formats(opened: Opened, tmp_path: Path) -> None:
    connector = opened()
    scan = scan_of(connector)
    assert [column.name for column in scan.columns] == ["desk", "eur", "id"]
    expected = [
        ("credit", Decimal("10.000000"), 2),
        ("rates", Decimal("10.500000"), 1),
        ("unknown", Decimal("1.000000"), 3),
    ]
    assert sorted(connector.rows(scan)) == expected
    extract = connector.extract(scan, str(tmp_path / "out"), ignored)
    assert extract.extract is not None
    rows = pq.read_table(tmp_path / "out").to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == expected


def test_another_connector_reads_the_same_rows_of_a_scan(opened: Opened) -> None:
    scan = scan_of(opened())
    assert len(list(opened().rows(scan))) == 3


def test_a_query_needs_no_further_table(opened: Opened) -> None:
    alone = replace(SOURCE, tables={}, query="SELECT ccy, sum(amount) s FROM trades GROUP BY ccy")
    assert rows_of(opened(alone), alone) == [
        ("EUR", Decimal("11.50")),
        ("USD", Decimal("20.00")),
    ]


def test_a_pin_has_the_files_of_every_table(opened: Opened) -> None:
    held = opened().pin(SOURCE)
    pin = held.check()
    assert isinstance(pin, FileList)
    assert [(file.path, file.table) for file in pin.files] == [
        ("accounts.csv", "accounts"),
        ("rates/1.parquet", "rates"),
        ("trades.csv", None),
    ]
    assert all(file.sha256 for file in pin.files)
    document = pin_document(pin)
    assert document["count"] == 3
    held.close()


def test_a_file_may_be_a_table_twice(opened: Opened) -> None:
    twice = replace(
        SOURCE,
        tables={"others": SourceTable(path="trades.csv")},
        query="SELECT t.id a, o.id b FROM trades t JOIN others o ON o.ccy = t.ccy AND o.id > t.id",
    )
    assert rows_of(opened(twice), twice) == [(1, 3)]


@pytest.mark.parametrize("name", ["accounts.csv", "rates/1.parquet", "trades.csv"])
def test_a_change_of_any_file_is_seen(opened: Opened, data: Path, name: str) -> None:
    held = opened().pin(SOURCE)
    held.check()
    with (data / name).open("ab") as file:
        file.write(b"\n")
    with pytest.raises(SnapshotLostError, match=name):
        held.check()


def test_tables_without_files_and_outside_of_the_folder_are_refused(opened: Opened) -> None:
    for path, error in (("none.csv", NoFilesError), ("../outside.csv", PathRefusedError)):
        source = replace(SOURCE, tables={**TABLES, "accounts": SourceTable(path=path)})
        with pytest.raises(error):
            opened(source).pin(source)


def test_a_broken_file_of_a_table_is_named(opened: Opened, data: Path) -> None:
    (data / "accounts.csv").write_text("account;desk\na;rates;more\n")
    connector = opened()
    with pytest.raises(CorruptSourceError, match=r"accounts\.csv line 2"):
        scan_of(connector)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT * FROM trades, prices", "the table prices"),
        ("SELECT * FROM read_csv('../outside.csv')", "function read_csv"),
        ("SELECT * FROM '../outside.csv'", "the tables 'trades', 'accounts', 'rates'"),
        ("SELECT getenv('HOME') h FROM trades", "getenv"),
        ("SELECT 1 a; SELECT 2", "exactly one SELECT"),
        ("SELECT nothing FROM accounts", "nothing"),
    ],
)
def test_a_query_reads_nothing_but_its_tables(opened: Opened, query: str, words: str) -> None:
    source = replace(SOURCE, query=query)
    with pytest.raises(QueryFailedError, match=words):
        scan_of(opened(source), source)


def test_the_limits_count_the_rows_of_all_tables(opened: Opened) -> None:
    source = replace(SOURCE, limits=Limits(max_rows=6, statement_timeout=timedelta(minutes=1)))
    scan = scan_of(opened(source), source)
    with pytest.raises(SourceLimitError, match="reads more than its limits"):
        list(opened(source).rows(scan))
    enough = replace(source, limits=Limits(max_rows=7))
    assert len(rows_of(opened(enough), enough)) == 3


def test_computed_columns_are_over_the_result_of_the_query(opened: Opened) -> None:
    connector = opened()
    pin = connector.pin(SOURCE).pin
    schema = connector.describe(SOURCE, pin)
    assert [column.name for column in schema.columns] == ["id", "eur", "desk"]
    assert any("accounts" in line for line in schema.read_as)
    assert {step.name for step in connector.probe(SOURCE)} >= {"files", "files of table accounts"}
