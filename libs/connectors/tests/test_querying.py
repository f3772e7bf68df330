"""Queries over files: one SELECT over the pinned rows, and nothing else within its reach."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from threading import Timer
from time import monotonic

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_application.ports.comparing import Read
from datarecs_application.stopping import StoppedError
from datarecs_connectors import walled_query
from datarecs_connectors.errors import (
    QueryFailedError,
    QuerySpillError,
    SourceError,
    SourceUnsupportedError,
    StatementTimeoutError,
)
from datarecs_connectors.query_tree import first_other_relation, tree_of
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.logical import logical_source, query_source
from datarecs_core.jobs.definition import Limits, Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import Connection, ConnectionType, FilesConfig

Answer = Callable[..., list[dict[str, object]]]
TABLE = pa.table(
    {
        "owner": ["ana", "ana", "bo", None],
        "amount": pa.array(["1.10", "2.20", "5.00", "9.99"]).cast(pa.decimal128(12, 2)),
        "id": [1, 2, 3, 2**62],
        "large": pa.array([1, 2, 3, 2**64 - 1], pa.uint64()),
        "seen": pa.array([0, 1, 2, 3], pa.timestamp("ns")),
    }
)
TOTALS = "SELECT owner AS k, sum(amount) AS t FROM lake GROUP BY owner -- totals"
SECRET = "not for job authors"


@pytest.fixture
def answer(tmp_path: Path, surroundings: Surroundings) -> Iterator[Answer]:
    """What a query returns, in one order, through an extract and through plain rows alike."""
    (tmp_path / "data").mkdir()
    (tmp_path / "secret.csv").write_text(SECRET)
    connection = Connection(type=ConnectionType.FILES, config=FilesConfig(root="data"))

    def run_query(
        query: str,
        kind: SourceKind = SourceKind.PARQUET,
        table: pa.Table = TABLE,
        surroundings: Surroundings = surroundings,
        **fields: object,
    ) -> list[dict[str, object]]:
        written(tmp_path / "data", kind, table)
        source = Source(name="lake", kind=kind, path="*", connection="c", **fields)  # type: ignore[arg-type]  # fields of Source
        connector = open_connector(source, connection, {}, surroundings=surroundings)
        query_of_table, pin = query_source(source, query), connector.pin(source).pin
        described = logical_source(query_of_table, 0, connector.describe(query_of_table, pin))
        scan = described.scan(pin, frozenset(described.columns))
        brought = connector.extract(scan, str(tmp_path / "out"), ignored)
        assert brought.extract is not None
        assert [path.name for path in (tmp_path / "out").iterdir()] == ["part-00000.parquet"]
        rows: list[dict[str, object]] = pq.read_table(tmp_path / "out").to_pylist()
        assert len(rows) == brought.extract.rows
        # A verification of a run opens its sources again.
        opened = open_connector(source, connection, {}, surroundings=surroundings)
        assert len(list(opened.rows(scan))) == len(rows)
        return sorted(rows, key=str)

    yield run_query
    assert (tmp_path / "secret.csv").read_text() == SECRET


def ignored(_read: Read) -> None:
    """Ignore progress."""


def written(folder: Path, kind: SourceKind, table: pa.Table) -> None:
    """Two files."""
    for number, part in enumerate((table.slice(0, 2), table.slice(2))):
        path = folder / f"{number}.{kind}"
        if kind is SourceKind.PARQUET:
            pq.write_table(part, path)
            continue
        rows = [{name: row[name] for name in ("owner", "amount")} for row in part.to_pylist()]
        if kind is SourceKind.CSV:
            lines = ["owner,amount", *(f"{row['owner'] or ''},{row['amount']}" for row in rows)]
        else:
            lines = [json.dumps({**row, "amount": float(str(row["amount"]))}) for row in rows]
        path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("kind", [SourceKind.PARQUET, SourceKind.CSV, SourceKind.JSON])
def test_every_format_is_queried_in_the_same_words(answer: Answer, kind: SourceKind) -> None:
    totals = {row["k"]: Decimal(str(row["t"])) for row in answer(TOTALS, kind)}
    assert totals == {"ana": Decimal("3.3"), "bo": Decimal(5), None: Decimal("9.99")}


def test_the_query_sees_the_rows_behind_the_filter_of_the_source(answer: Answer) -> None:
    rows = answer("select count(*) n from lake", filter="amount > 2 AND owner IS NOT NULL")
    assert rows == [{"n": 2}]


def test_the_query_sees_the_rows_behind_a_filter_that_is_computed(answer: Answer) -> None:
    rows = answer("select count(*) n from lake", filter="UPPER(owner) = 'ANA' AND amount * 2 > 3")
    assert rows == [{"n": 1}]


def test_answers_preserve_every_digit(answer: Answer) -> None:
    query = "select sum(id) i, max(large) l, sum(amount * large) p, max(seen) a from lake"
    (row,) = answer(query)
    assert (row["i"], row["l"]) == (2**62 + 6, 2**64 - 1)
    assert row["p"] == Decimal("1.1") + Decimal("4.4") + 15 + Decimal("9.99") * (2**64 - 1)
    assert getattr(row["a"], "nanosecond", None) == 3


@pytest.mark.case("X36")
@pytest.mark.parametrize(
    "query",
    [
        "select 1 k; drop table lake",
        "select 1 k) q; drop table lake --",
        "drop table lake",
        "insert into lake select * from lake",
        "copy (select 1) to 'stolen.csv'",
        "set memory_limit = '1GB'",
        "attach 'other.db'",
        "pragma version",
        "select $1 k",
        "select * from '{secret}'",
        "select * from read_csv('{secret}')",
        "select * from read_text('{secret}')",
        "select * from glob('{secret}')",
        "select * from read_parquet('https://example.com/x.parquet')",
        "select * from table_of_this_process",
        "select * from query('drop table lake')",
        "select getenv('HOME') k",
        "select current_setting('temp_directory') k",
        "select * from duckdb_settings()",
        "select * from duckdb_temporary_files()",
        "select * from pragma_user_agent()",
        "select * from pragma_database_list",
        "select * from information_schema.tables",
        "with t as (select * from duckdb_logs) select * from t",
        "select (select count(*) from sqlite_master) k from lake",
        "select write_log('x') k from lake",
        "with duckdb_logs as (select 1) select * from duckdb_logs",
        "select * from checkpoint()",
        "select id k from query_table('lake')",
        "show tables",
        "describe lake",
    ],
)
def test_nothing_but_the_source_is_in_reach(answer: Answer, tmp_path: Path, query: str) -> None:
    table_of_this_process = pa.table({"k": [1]})
    assert table_of_this_process.num_rows
    with pytest.raises(QueryFailedError) as caught:
        answer(query.format(secret=tmp_path / "secret.csv"))
    assert SECRET not in str(caught.value)
    assert not list(tmp_path.rglob("stolen*"))


def test_no_with_part_can_have_the_name_of_a_relation_of_the_engine() -> None:
    """The prefixes cover every view that DuckDB brings, so that a new release cannot add a door."""
    with duckdb.connect() as database:
        views = database.execute(
            "SELECT view_name FROM duckdb_views() WHERE internal"
            " AND schema_name NOT IN ('information_schema', 'pg_catalog')"
        ).fetchall()
        assert len(views) > 5
        for (name,) in views:
            tree = tree_of(f"with {name} as (select 1) select * from {name}", database)  # noqa: S608  the engine's names
            assert tree is not None
            assert first_other_relation(tree, ["lake"]), name


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) k from LAKE",
        "with t as (select * from lake), u as (select * from t) select count(*) k from u",
        "select k from lake, range(2) r(k)",
        "select count(*) k from (select unnest([1, 2]) from lake)",
    ],
)
def test_a_query_reads_its_table_its_parts_and_rows_of_arguments(
    answer: Answer, query: str
) -> None:
    assert answer(query)


def test_a_query_that_returns_an_odd_type_says_so(answer: Answer) -> None:
    with pytest.raises(SourceUnsupportedError, match=r"its query"):
        answer("select union_value(num := 2) k from lake")


ENDLESS = (
    "WITH RECURSIVE t AS (SELECT range AS n, sha256(range::text) AS w FROM lake, range(25000)"
    " UNION ALL SELECT n + 1, sha256(w) FROM t) SELECT w, n FROM t ORDER BY w"
)


def test_an_endless_query_ends_at_once_when_its_run_is_stopped(
    answer: Answer, surroundings: Surroundings
) -> None:
    timer = Timer(1.0, surroundings.stop.set)
    timer.start()
    began = monotonic()
    with pytest.raises(StoppedError):
        answer(ENDLESS)
    assert monotonic() - began < 10


def test_an_endless_query_ends_with_the_deadline_of_its_source(answer: Answer) -> None:
    with pytest.raises(StatementTimeoutError):
        answer(ENDLESS, limits=Limits(statement_timeout=timedelta(seconds=1)))


def test_an_endless_query_ends_when_it_needs_more_disk_than_its_run_may_use(
    answer: Answer, surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        walled_query, "SETTINGS", {**walled_query.SETTINGS, "memory_limit": "64MiB"}
    )
    limited = replace(surroundings, spill_bytes=64 * 2**20)
    with pytest.raises(QuerySpillError, match="more than 67108864 bytes") as refused:
        answer(ENDLESS, surroundings=limited, limits=Limits(statement_timeout=timedelta(minutes=2)))
    assert "DATARECS_WORKER__MAX_SPILL_MB" in str(refused.value)


def test_a_query_ends_with_the_deadline_of_its_source(answer: Answer) -> None:
    endless = "select count(*) n from range(1000000000000) a where a.range % 7 = hash(a.range) % 7"
    with pytest.raises(StatementTimeoutError):
        answer(endless, limits=Limits(statement_timeout=timedelta(milliseconds=300)))


@pytest.mark.usefixtures("full_disk")
def test_a_disk_too_full_for_a_query_is_not_reported_as_a_fault_of_the_query(
    answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tight = {**walled_query.SETTINGS, "memory_limit": "64MiB"}
    monkeypatch.setattr(walled_query, "SETTINGS", tight)
    with pytest.raises(OSError, match="No space left on device"):
        answer("SELECT sha256(id::text || n) t FROM lake, generate_series(500000) s(n) ORDER BY t")


def test_errors_repeat_no_value_of_a_row(answer: Answer) -> None:
    with pytest.raises(QueryFailedError, match="failed for a row") as caught:
        answer("select owner::int k from lake")
    assert "ana" not in str(caught.value)
    with pytest.raises(QueryFailedError, match='column "amout" not found'):
        answer("select amout k from lake")


def test_what_cannot_be_compared_and_what_sql_cannot_hold_is_refused(answer: Answer) -> None:
    with pytest.raises(SourceUnsupportedError, match="'k' of its query has the type list"):
        answer("select list(owner) k from lake")
    broken = TABLE.set_column(
        0, "owner", pa.array([b"a", b"\xff", b"c", b"d"], pa.binary()).view(pa.string())
    )
    with pytest.raises(QueryFailedError, match="'owner' holds values without a canonical form"):
        answer(TOTALS, table=broken)
    assert answer("select count(id) n from lake", table=broken) == [{"n": 4}]


def test_a_query_makes_plain_columns_of_nested_ones(answer: Answer) -> None:
    nested = pa.table(
        {
            "tags": [["a", "b"], [], None, ["c"]],
            "each": pa.array([[("x", 1)], [], None, [("x", 7)]], pa.map_(pa.string(), pa.int16())),
            "item": pa.array(
                [{"n": 1}, {"n": 2}, None, {"n": 2**63}], pa.struct([("n", pa.uint64())])
            ),
        }
    )
    query = "select len(tags) n, each['x'] x from lake"
    assert answer(query, table=nested) == [
        {"n": 0, "x": None},
        {"n": 1, "x": 7},
        {"n": 2, "x": 1},
        {"n": None, "x": None},
    ]
    with pytest.raises(QueryFailedError, match="nested integers of more than 64 bits"):
        answer("select item.n k from lake", table=nested)


@pytest.mark.parametrize(
    ("query", "read"),
    [
        (TOTALS, {"owner", "amount"}),
        ("select count(*) n from lake", {"owner"}),
        ("select a.id k from lake a join (select ID from lake) b using (id)", {"id"}),
        ("select * exclude (seen) from lake where id < 3", set(TABLE.column_names)),
        ("select count(distinct x) n from lake x", set(TABLE.column_names)),
        ("select id k from lake, range(2) r", set(TABLE.column_names)),
    ],
)
def test_a_query_reads_the_columns_that_it_names_and_no_others(
    answer: Answer, monkeypatch: pytest.MonkeyPatch, query: str, read: set[str]
) -> None:
    seen: set[str] = set()
    batches = pq.ParquetFile.iter_batches

    def watched(file: pq.ParquetFile, **options: list[str]) -> Iterator[pa.RecordBatch]:
        seen.update(options["columns"])
        yield from batches(file, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", watched)
    assert answer(query)
    assert seen == read


def test_a_read_at_another_pin_describes_the_files_again(
    tmp_path: Path, surroundings: Surroundings
) -> None:
    connection = Connection(type=ConnectionType.FILES, config=FilesConfig(root="."))
    source = Source(name="lake", kind=SourceKind.CSV, path="a.csv", connection="c")
    connector = open_connector(source, connection, {}, surroundings=surroundings)
    for values, kind in (("1\n", "int"), ("x\n", "text")):
        (tmp_path / "a.csv").write_text("v\n" + values)
        query_of_table = query_source(source, "select v from lake")
        described = connector.describe(query_of_table, connector.pin(source).check())
        assert [str(column.type) for column in described.columns] == [kind]


def test_every_failure_is_one_of_the_source(answer: Answer) -> None:
    with pytest.raises(SourceError, match="source lake"):
        answer("select 1/0 k from nowhere")


def test_limits_of_rows_count_what_the_query_reads(answer: Answer) -> None:
    limits = Limits(max_rows=4)
    assert answer("select count(*) n from lake", limits=limits) == [{"n": 4}]
    with pytest.raises(SourceError, match="reads more than its limits allow"):
        answer("select count(*) n from lake", limits=replace(limits, max_rows=3))
