"""Many readers of one PostgreSQL relation bring what one brings: every row of the pin, once."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import sql

from datarecs_application.ports.comparing import Read
from datarecs_connectors.errors import (
    ColumnMissingError,
    ConnectionFailedError,
    QueryFailedError,
    SnapshotLostError,
    SourceLimitError,
)
from datarecs_connectors.extracted import extracted_rows
from datarecs_connectors.postgres_sessions import ending
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.logical import logical_source
from datarecs_core.comparison.planning.scan import Keys, Only, Ranges, Scan
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import (
    DEFAULT_LIMITS,
    Limits,
    Partition,
    Source,
)
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import (
    Connection,
    ConnectionType,
    PostgresConfig,
    SslMode,
)
from datarecs_testing.stack import PostgresServer

pytestmark = pytest.mark.integration
ROWS = 800
TABLE: LiteralString = """
CREATE TABLE {} AS SELECT i AS id, i % 7 AS few, nullif('w' || i % 40, 'w3') AS word,
  repeat('x', 500) AS pad, i % 2 = 0 AS even, DATE '2026-01-01' + i AS day
FROM generate_series(1, 800) i
"""
GATE = "TRIM(pad) <> ''"
"""A filter that waits while the lock is held, by a function that shadows the server's."""
LATE = "CASE WHEN id = 790 THEN CAST(word AS int) ELSE 1 END = 1"
"""A filter that fails on one row."""
SHADOW: LiteralString = """
CREATE FUNCTION public.btrim(text, text) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT CASE WHEN pg_advisory_xact_lock_shared(7)::text = '' THEN pg_catalog.btrim($1, $2) END
$$;
CREATE FUNCTION public.ltrim(text, text) RETURNS text LANGUAGE sql VOLATILE AS $$
  SELECT CASE WHEN current_query() LIKE 'COPY%' THEN $1 ELSE '' END
$$
"""
BLOCKED: LiteralString = """
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
SESSIONS: LiteralString = """
SELECT count(*) FROM pg_stat_activity
WHERE application_name = 'datarecs' AND datname = current_database()
"""
KILL: LiteralString = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = 'datarecs' AND datname = current_database() AND wait_event = 'advisory'
LIMIT 1
"""
Sample = Callable[[Read], None]


class Database:
    """One database, in which each test has a separate table."""

    def __init__(self, server: PostgresServer) -> None:
        self.address = server.fresh_database().replace("postgresql+psycopg", "postgresql")
        fields = psycopg.conninfo.conninfo_to_dict(self.address)
        config = PostgresConfig(
            host="127.0.0.1",
            port=int(str(fields["port"])),
            database=str(fields["dbname"]),
            user=str(fields["user"]),
            sslmode=SslMode.DISABLE,
        )
        surroundings = Surroundings(
            roots=(),
            policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
        )
        self.connector: Any = open_connector(
            Source(name="s", kind=SourceKind.POSTGRES),
            Connection(type=ConnectionType.POSTGRES, config=config),
            {"password": str(fields["password"])},
            surroundings=surroundings,
        )
        self.admin = psycopg.connect(self.address, autocommit=True)
        self.run(SHADOW)
        self.admin.execute(
            sql.SQL("ALTER DATABASE {} SET search_path = public, pg_catalog").format(
                sql.Identifier(config.database)
            )
        )

    def run(self, statement: LiteralString, table: str = "") -> None:
        names = [sql.Identifier(name) for name in (table, f"{table} before")]
        self.admin.execute(sql.SQL(statement).format(*names))

    def count(self, statement: LiteralString) -> int:
        row = self.admin.execute(statement).fetchone()
        assert row is not None
        return int(row[0])

    def wait(self, statement: LiteralString, wanted: int) -> None:
        for _ in range(400):
            if self.count(statement) == wanted:
                return
            self.admin.execute("SELECT pg_sleep(0.01)")
        raise AssertionError(f"{self.count(statement)} instead of {wanted}: {statement}")


@pytest.fixture(scope="module")
def database(postgres_server: PostgresServer) -> Iterator[Database]:
    made = Database(postgres_server)
    yield made
    made.admin.close()


_NUMBERS = count()


@pytest.fixture
def table(database: Database) -> str:
    name = f"many {next(_NUMBERS)}"
    database.run(TABLE, name)
    return name


def a_source(table: str, by: str = "auto", readers: int | None = None, **fields: Any) -> Source:  # noqa: ANN401  of a source
    return Source(
        name="s",
        kind=SourceKind.POSTGRES,
        connection="c",
        relation=f"public.{table}",
        partition=Partition(by=by, count=readers),
        **fields,
    )


@contextmanager
def pinned(database: Database, source: Source) -> Iterator[Scan]:
    """A scan of all columns, at a pin that is held meanwhile."""
    held = database.connector.pin(source)
    try:
        schema = database.connector.describe(source, held.pin)
        logical = logical_source(source, 0, schema)
        yield logical.scan(held.pin, frozenset(logical.columns))
    finally:
        held.close()


def ranges(scan: Scan) -> Ranges:
    assert scan.schema.ranges is not None
    return scan.schema.ranges


def brought(database: Database, scan: Scan, folder: Path, sample: Sample = lambda _: None) -> Scan:
    extracted: Scan = database.connector.extract(scan, str(folder), sample)
    return extracted


def rows(scan: Scan) -> list[tuple[object, ...]]:
    """Of the extract's files together."""
    assert scan.extract is not None
    result = sorted(extracted_rows(scan, scan.extract), key=repr)
    assert len(result) == scan.extract.rows == sum(file.rows or 0 for file in scan.extract.files)
    return result


def files(scan: Scan) -> int:
    assert scan.extract is not None
    stored = {path.name for path in Path(scan.extract.root).iterdir()}
    assert stored == {file.path for file in scan.extract.files}
    return len(stored)


@pytest.mark.case("F12")
@pytest.mark.case("P45")
@pytest.mark.case("P60")
def test_any_number_of_readers_brings_the_rows_of_the_pin(
    database: Database, table: str, tmp_path: Path
) -> None:
    """Rows that move, go and come meanwhile change nothing, and rows without a value are read."""
    cuts = [("none", None), ("auto", 2), ("auto", 7), ("auto", 64), ("id", 7), ("word", 5)]
    sources = [a_source(table, by, readers) for by, readers in [*cuts, ("few", 64)]]
    row_sets, made = [], []
    with pinned(database, sources[0]) as alone:
        described = [database.connector.describe(each, alone.pin) for each in sources]
        database.run("UPDATE {} SET pad = pad || 'y', id = -id WHERE id % 3 = 0", table)
        database.run("DELETE FROM {} WHERE id % 5 = 0", table)
        database.run("INSERT INTO {} SELECT * FROM generate_series(1001, 1100)", table)
        for number, schema in enumerate(described):
            scan = replace(alone, schema=schema)
            scan = brought(database, scan, tmp_path / str(number))
            row_sets.append(rows(scan))
            made.append(files(scan))
    assert len(row_sets[0]) == ROWS
    assert all(each == row_sets[0] for each in row_sets[1:])
    assert made[0] == 1
    assert all(each > 1 for each in made[1:])
    assert made[-1] == 7  # as many as the column has values


def test_filters_expressions_and_conditions_hold_within_ranges(
    database: Database, table: str, tmp_path: Path
) -> None:
    source = a_source(table, readers=5, filter="few = 3 OR few = 4")
    with pinned(database, source) as scan:
        only = replace(scan, only=Only(where="few = 3"))
        scan_result = brought(database, only, tmp_path / "x")
        keyed = replace(only, only=Only(keys=Keys(columns=("id",), values=(("3",), ("4",)))))
        keyed_scan = brought(database, keyed, tmp_path / "keys")
    assert files(scan_result) == 5
    wanted = [i for i in range(1, ROWS + 1) if i % 7 in {3, 4}]
    at = [column.name for column in scan.columns].index("id")
    assert {row[at] for row in rows(scan_result)} == {i for i in wanted if i % 7 == 3}
    assert scan_result.extract is not None
    assert scan_result.extract.source_rows == len(wanted)
    assert (files(keyed_scan), len(rows(keyed_scan))) == (1, 2)  # one reader queries keys


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ("DELETE FROM {}", 0),
        ("DELETE FROM {} WHERE id <> 5", 1),
        ("DELETE FROM {} WHERE id <> 800", 1),
    ],
)
def test_ranges_without_rows_leave_no_file(
    database: Database, table: str, tmp_path: Path, change: LiteralString, left: int
) -> None:
    database.run(change, table)
    with pinned(database, a_source(table, readers=4)) as scan:
        scan_result = brought(database, scan, tmp_path / "x")
    assert (len(rows(scan_result)), files(scan_result)) == (left, 1)


@pytest.mark.parametrize("row_count", [0, 3])
def test_an_empty_table_and_one_of_one_block_have_one_reader(
    database: Database, tmp_path: Path, table: str, row_count: int
) -> None:
    database.admin.execute(
        sql.SQL("CREATE TABLE {} AS SELECT * FROM {} WHERE id <= {}").format(
            sql.Identifier(f"{table} small"), sql.Identifier(table), row_count
        )
    )
    with pinned(database, a_source(f"{table} small", readers=8)) as scan:
        assert ranges(scan) == Ranges(reason="its rows are in one block")
        assert len(rows(brought(database, scan, tmp_path / "x"))) == row_count
    with pinned(database, a_source(table)) as scan:
        assert "less than 32 MiB" in ranges(scan).reason


def test_no_more_sessions_are_open_than_the_source_may_have(
    database: Database, table: str, tmp_path: Path
) -> None:
    """One holds the snapshot; ranges beyond the others wait for one of them to end."""
    seen: list[int] = []
    source = a_source(table, readers=8, filter=GATE, limits=Limits(max_connections=4))
    with (
        psycopg.connect(database.address, autocommit=True) as watching,
        pinned(database, source) as scan,
        ThreadPoolExecutor(1) as pool,
    ):

        def sample(_read: Read) -> None:
            row = watching.execute(SESSIONS).fetchone()
            seen.append(int(row[0]) if row else 0)

        assert (ranges(scan).count, ranges(scan).at_once) == (8, 3)
        database.run("SELECT pg_advisory_lock(7)")
        reading = pool.submit(brought, database, scan, tmp_path / "x", sample)
        database.wait(BLOCKED, 3)
        assert database.count(SESSIONS) == 4
        database.run("SELECT pg_advisory_unlock(7)")
        assert len(rows(reading.result())) == ROWS
    assert len(seen) >= 8
    assert max(seen) <= 4


def test_a_reader_that_is_killed_ends_the_others_at_once(
    database: Database, table: str, tmp_path: Path
) -> None:
    """They would wait for the lock, which is held until all have ended."""
    with (
        pinned(database, a_source(table, readers=3, filter=GATE)) as scan,
        ThreadPoolExecutor(1) as pool,
    ):
        database.run("SELECT pg_advisory_lock(7)")
        try:
            reading = pool.submit(brought, database, scan, tmp_path / "x")
            database.wait(BLOCKED, 3)
            database.run(KILL)
            with pytest.raises(ConnectionFailedError, match="lost while reading"):
                reading.result(timeout=4)
        finally:
            database.run("SELECT pg_advisory_unlock(7)")
        database.wait(SESSIONS, 1)  # the one that holds the snapshot
    assert list((tmp_path / "x").iterdir()) == []


def test_one_range_that_fails_fails_the_source(
    database: Database, table: str, tmp_path: Path
) -> None:
    with pinned(database, a_source(table, readers=4, filter=LATE)) as scan:
        with pytest.raises(QueryFailedError, match="fails for a row"):
            brought(database, scan, tmp_path / "x")
        database.wait(SESSIONS, 1)
    assert list((tmp_path / "x").iterdir()) == []


@pytest.mark.case("P65")
def test_limits_hold_over_all_readers_together(
    database: Database, table: str, tmp_path: Path
) -> None:
    with pinned(database, a_source(table, readers=4)) as scan:
        fits = replace(scan, limits=replace(DEFAULT_LIMITS, max_rows=ROWS))
        scan_result = brought(database, fits, tmp_path / "fits")
        assert scan_result.extract is not None
        size = scan_result.extract.decoded_bytes
        for limits in (Limits(max_rows=ROWS - 1), Limits(max_bytes=size - 1)):
            with pytest.raises(SourceLimitError):
                brought(database, replace(scan, limits=limits), tmp_path / "x")
        database.wait(SESSIONS, 1)


@pytest.mark.parametrize("readers", [1, 4])
@pytest.mark.parametrize(
    "change",
    [
        "TRUNCATE {}",
        "VACUUM FULL {}",
        "ALTER TABLE {0} RENAME TO {1}; CREATE TABLE {0} (LIKE {1})",
    ],
)
def test_a_table_that_was_emptied_or_moved_since_the_pin_is_no_snapshot(
    database: Database, table: str, tmp_path: Path, change: LiteralString, readers: int
) -> None:
    """Its rows would be missing, or in other ranges than before."""
    with pinned(database, a_source(table, readers=readers)) as scan:
        for statement in change.split("; "):
            database.run(statement, table)
        with pytest.raises(SnapshotLostError, match="recreated"):
            brought(database, scan, tmp_path / "x")


def test_readers_whose_snapshot_ended_read_nothing(
    database: Database, table: str, tmp_path: Path
) -> None:
    with pinned(database, a_source(table, readers=4)) as scan:
        pass
    with pytest.raises(SnapshotLostError, match="snapshot no longer exists"):
        brought(database, scan, tmp_path / "x")


def test_a_range_that_loses_rows_is_detected_by_counting_again(
    database: Database, table: str, tmp_path: Path
) -> None:
    """Detected by a filter that admits only rows of COPY, by a shadowed function."""
    odd = "LTRIM(pad) <> ''"
    with pinned(database, a_source(table, "id", 3, filter=odd)) as scan:
        with pytest.raises(SnapshotLostError, match="800 rows, but 0 were counted"):
            brought(database, scan, tmp_path / "x")
        unasked = replace(scan, options=(("verify_count", False),))
        assert len(rows(brought(database, unasked, tmp_path / "y"))) == ROWS


def test_what_is_no_plain_table_is_read_by_one_or_by_values(
    database: Database, table: str, tmp_path: Path
) -> None:
    database.run("CREATE VIEW seen AS SELECT * FROM {}", table)
    database.run("CREATE TABLE parent (id int, part int) PARTITION BY LIST (part)")
    for part in (1, 2, 3):
        database.admin.execute(
            sql.SQL("CREATE TABLE {} PARTITION OF parent FOR VALUES IN ({})").format(
                sql.Identifier(f"child {part}"), part
            )
        )
    database.run("INSERT INTO parent SELECT i, 1 + i % 3 FROM generate_series(1, 300) i")
    database.run("CREATE TABLE elder (id int); CREATE TABLE heir () INHERITS (elder)")
    database.run("CREATE MATERIALIZED VIEW stored AS SELECT * FROM {}", table)
    for relation, words in (("seen", "a view"), ("parent", "partitioned"), ("elder", "inherit")):
        with pinned(database, a_source(relation, readers=4)) as scan:
            assert (ranges(scan).count, words in ranges(scan).reason) == (1, True)
    query = replace(a_source("seen", readers=4), relation=None, query="SELECT 1 AS one")
    with pinned(database, query) as scan:
        assert "a query" in ranges(scan).reason
    with pinned(database, a_source("stored", readers=4)) as scan:
        assert files(brought(database, scan, tmp_path / "stored")) == 4
    with pinned(database, a_source("parent", "id", 4)) as scan:
        scan_result = brought(database, scan, tmp_path / "parent")
    assert (files(scan_result), len(rows(scan_result))) == (4, 300)
    missing = a_source("parent", "other")
    refused = pytest.raises(ColumnMissingError, match="no column 'other'; it has id, part")
    with refused, pinned(database, missing):
        pass


def test_a_batch_has_as_many_rows_as_the_source_says(
    database: Database, table: str, tmp_path: Path
) -> None:
    row_counts = [0]
    with pinned(database, a_source(table, "none", options={"fetch_size": 100})) as scan:
        brought(database, scan, tmp_path / "x", lambda read: row_counts.append(read.rows))
    assert row_counts == [*range(0, ROWS + 1, 100), ROWS]


def test_a_session_that_is_over_is_gone_from_the_server(database: Database) -> None:
    """A count of sessions at the start of the next one does not include it."""
    with ExitStack() as closing:
        for _ in range(10):
            session = psycopg.connect(database.address, application_name="datarecs")
            closing.enter_context(ending(session))
        assert database.count(SESSIONS) == 10
    assert database.count(SESSIONS) == 0
