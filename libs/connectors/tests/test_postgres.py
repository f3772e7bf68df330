"""PostgreSQL: one snapshot for every read, the server's types, clear words when it refuses."""

import socket
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from threading import Thread
from typing import Any, LiteralString
from uuid import UUID

import psycopg
import pyarrow.parquet as pq
import pytest
from psycopg import sql

from datarecs_application.comparison import Means, Question, answer
from datarecs_application.ports.comparing import Progress
from datarecs_application.ports.outside import Wake
from datarecs_connectors import postgres, postgres_sessions
from datarecs_connectors.errors import (
    ConnectionFailedError,
    PermissionDeniedError,
    QueryFailedError,
    SnapshotLostError,
    StatementTimeoutError,
)
from datarecs_connectors.extracted import extracted_rows, rows_of
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.logical import logical_source, mapping_faults
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.scan import ExportedSnapshot, Scan, ScanColumn
from datarecs_core.comparison.results.results import StageResults, Verdict
from datarecs_core.comparison.values.canonical import encode, number
from datarecs_core.comparison.values.translating import canonical
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import (
    ColumnMapping,
    Confirm,
    Dimension,
    Execution,
    Limits,
    Measure,
    Partition,
    ReconciliationJob,
    Snapshot,
    Source,
    Stage,
)
from datarecs_core.jobs.vocabulary import Function, SourceKind, StageType, Strategy
from datarecs_core.resources.connection import (
    Connection,
    ConnectionType,
    PostgresConfig,
    SslMode,
)
from datarecs_memory.engine import MemoryEngine
from datarecs_testing.clock import ManualClock
from datarecs_testing.silent_reporter import SilentReporter
from datarecs_testing.stack import PostgresServer

pytestmark = pytest.mark.integration
TABLE: LiteralString = """
CREATE TABLE t (id bigint, money numeric(12,2), bare numeric, ratio double precision, name text,
  day date, at timestamptz, local_at timestamp, flag boolean, raw bytea, uid uuid);
INSERT INTO t VALUES
 (9007199254740993, 1.10, 1.500, 0.1, 'a, "b"\n', '2026-01-31', '2026-01-31 12:00:00.123456+02',
  '2026-01-31 12:00:00', true, '\\x00ff', '6F9619FF-8B86-D011-B42D-00C04FC964FF'),
 (2, NULL, NULL, NULL, '', NULL, NULL, NULL, NULL, NULL, NULL);
"""


class Server:
    """A database with one table and a login that may only read it."""

    def __init__(self, server: PostgresServer, surroundings: Surroundings) -> None:
        self.admin = psycopg.conninfo.make_conninfo(
            server.fresh_database().replace("postgresql+psycopg", "postgresql")
        )
        self.surroundings = surroundings
        fields = psycopg.conninfo.conninfo_to_dict(self.admin)
        self.run(TABLE)
        self.user = f"reader_{fields['dbname']}"
        with psycopg.connect(self.admin, autocommit=True) as session:
            user = sql.Identifier(self.user)
            session.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'secret'").format(user))
            session.execute(sql.SQL("GRANT SELECT ON t TO {}").format(user))
        self.config = PostgresConfig(
            host="127.0.0.1",
            port=int(fields["port"] or 5432),
            database=str(fields["dbname"]),
            user=self.user,
            sslmode=SslMode.DISABLE,
        )

    def run(self, statement: LiteralString) -> None:
        with psycopg.connect(self.admin, autocommit=True) as session:
            session.execute(statement)

    def sessions(self) -> int:
        """That readers have open at this moment."""
        query: LiteralString = (
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'datarecs'"
            " AND datname = current_database()"
        )
        with psycopg.connect(self.admin, autocommit=True) as session:
            row = session.execute(query).fetchone()
        return int(row[0]) if row else 0

    def allow(self, *, sessions: int) -> None:
        """So many of the login at the same time."""
        with psycopg.connect(self.admin, autocommit=True) as session:
            user = sql.Identifier(self.user)
            limit = sql.SQL("ALTER ROLE {} CONNECTION LIMIT {}")
            session.execute(limit.format(user, sql.Literal(sessions)))

    def open(self, *, password: str = "secret", **config: object) -> Any:  # noqa: ANN401, S107  a connector; a test's password
        connection = Connection(
            type=ConnectionType.POSTGRES,
            config=replace(self.config, **config),  # type: ignore[arg-type]  # fields of the config
        )
        return open_connector(
            SOURCE, connection, {"password": password}, surroundings=self.surroundings
        )


SOURCE = Source(name="ledger", kind=SourceKind.POSTGRES, connection="c", relation="public.t")


@pytest.fixture
def server(postgres_server: PostgresServer) -> Server:
    surroundings = Surroundings(
        roots=(),
        policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
        now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
    )
    return Server(postgres_server, surroundings)


def scan_of(connector: Any, source: Source, pin: Any) -> Scan:  # noqa: ANN401  a connector, a pin
    schema = connector.describe(source, pin)
    return Scan(
        source=source.name,
        index=0,
        kind=source.kind,
        connection=source.connection,
        relation=source.relation,
        query=source.query,
        columns=tuple(
            ScanColumn(name=column.name, physical=column.name, type=column.type)
            for column in schema.columns
        ),
        schema=schema,
        filter=source.filter,
        limits=source.limits,
        pin=pin,
    )


def canonical_rows(scan: Scan, rows: Iterable[tuple[object, ...]]) -> list[list[bytes]]:
    """What the oracle makes of them."""
    kinds = [column.type for column in scan.columns]
    return [
        [encode(canonical(value, kind, "s")) for value, kind in zip(row, kinds, strict=True)]
        for row in rows
    ]


@pytest.mark.case("P14")
def test_values_that_were_brought_are_those_that_rows_have(server: Server, tmp_path: Path) -> None:
    """A float of 32 bits is widened; what has no canonical form is INVALID with the same bytes."""
    query = """SELECT 0.1::real f, 'NaN'::numeric(9,2) n, repeat('9', 60)::numeric w,
        'infinity'::date d, '{"b": 1.0, "a": []}'::jsonb j, 'NaN'::numeric b, -0.0::float8 z"""
    source = replace(SOURCE, relation=None, query=query)
    connector = server.open()
    held = connector.pin(source)
    scan = scan_of(connector, source, held.pin)
    brought = connector.extract(scan, str(tmp_path / "x"), lambda _: None)
    assert brought.extract is not None
    (row,) = canonical_rows(brought, extracted_rows(brought, brought.extract))
    assert [row] == canonical_rows(scan, connector.rows(scan))
    assert row[0] == encode(number(Decimal("0.10000000149011612")))
    held.close()


def test_types_and_values_arrive_as_the_server_holds_them(server: Server, tmp_path: Path) -> None:
    connector = server.open()
    held = connector.pin(SOURCE)
    scan = scan_of(connector, SOURCE, held.pin)
    assert {column.name: str(column.type) for column in scan.schema.columns} == {
        "id": "int",
        "money": "decimal(12,2)",
        "bare": "decimal",
        "ratio": "float64",
        "name": "text",
        "day": "date",
        "at": "instant",
        "local_at": "local_timestamp",
        "flag": "bool",
        "raw": "binary",
        "uid": "uuid",
    }
    first, second = connector.rows(scan)
    moment = datetime(2026, 1, 31, 10, 0, 0, 123456, tzinfo=UTC)
    assert first[:3] == (Decimal(9007199254740993), Decimal("1.10"), Decimal("1.500"))
    assert first[4] == 'a, "b"\n'
    assert first[5:10] == (
        date(2026, 1, 31),
        moment,
        datetime(2026, 1, 31, 12),  # noqa: DTZ001  a local timestamp
        True,
        b"\x00\xff",
    )
    assert second == (Decimal(2), None, None, None, "", None, None, None, None, None, None)
    extracted = connector.extract(scan, str(tmp_path / "x"), lambda _: None)
    assert extracted.extract is not None
    assert extracted.extract.rows == 2
    row = pq.read_table(tmp_path / "x").to_pylist()[0]
    assert (row["id"], row["money"], row["ratio"], row["at"]) == (
        9007199254740993,
        Decimal("1.10"),
        0.1,
        moment,
    )
    assert UUID(row["uid"]) == UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff")
    assert canonical_rows(extracted, extracted_rows(extracted, extracted.extract)) == (
        canonical_rows(scan, connector.rows(scan))
    )
    held.check()
    held.close()


@pytest.mark.case("P45")
def test_columns_that_cannot_be_compared_are_reported_and_not_read(
    server: Server, tmp_path: Path
) -> None:
    server.run("ALTER TABLE t ADD tags int[] DEFAULT '{1,2}', ADD span interval")
    source, connector = replace(SOURCE, partition=Partition(by="tags")), server.open()
    held = connector.pin(source)
    schema = connector.describe(source, held.pin)
    assert schema.undelivered == (("tags", "int4[]"), ("span", "interval"))
    logical = logical_source(source, 0, schema)
    scan = logical.scan(held.pin, frozenset(logical.columns))
    assert connector.extract(scan, str(tmp_path), lambda _: None).extract.rows == 2
    mapped = replace(SOURCE, columns={"tags": ColumnMapping(expr="COALESCE(tags, tags)")})
    (fault,) = mapping_faults(logical_source(mapped, 0, schema))
    assert "'tags' of source ledger has the type int4[]" in fault.message
    held.close()


def test_rows_that_come_after_the_pin_are_not_read(server: Server) -> None:
    connector = server.open()
    held = connector.pin(SOURCE)
    server.run("INSERT INTO t (id) VALUES (3); DELETE FROM t WHERE id = 2")
    assert len(list(connector.rows(scan_of(connector, SOURCE, held.pin)))) == 2
    held.close()


@pytest.mark.case("P45")
@pytest.mark.case("P57")
def test_what_was_in_flight_between_two_tables_has_arrived_at_the_second_cut(
    server: Server, tmp_path: Path
) -> None:
    """Rows that were inserted into one table alone, and deleted from one alone, vanish."""
    server.run("CREATE TABLE copy AS SELECT id, money FROM t; GRANT SELECT ON copy TO PUBLIC")
    server.run("INSERT INTO t (id, money) VALUES (3, 3), (4, 4); DELETE FROM t WHERE id = 2")
    opened: dict[str, Any] = {}
    reporter = _RecheckReporter()

    def connect(source: Source) -> Any:  # noqa: ANN401  a connector
        return opened.setdefault(source.name, server.open())

    def arrive() -> None:
        server.run("INSERT INTO copy VALUES (3, 3), (4, 5); DELETE FROM copy WHERE id = 2")
        server.run("UPDATE copy SET money = 0 WHERE id = 9007199254740993")

    stage = Stage(
        name="rows",
        type=StageType.ROW,
        dimensions=(Dimension(name="id"),),
        measures=(Measure(name="money"),),
        confirm=Confirm(after=timedelta(minutes=1), attempts=1),
    )
    sources = (SOURCE, replace(SOURCE, name="copy", relation="public.copy"))
    result = answer(
        Question(
            job=ReconciliationJob(name="job", sources=sources, stages=(stage,)),
            job_uid=UUID(int=1),
            spec_hash="sha256:" + 64 * "0",
        ),
        Means(
            connect=connect,
            engine=lambda _: _Keyed(lambda scan: rows_of(opened[scan.source], scan)),
            clock=_Arriving(arrive),
            extracts=str(tmp_path / "extract"),
        ),
        reporter,
    )
    assert reporter.again == [(0, 2), (1, 2)]  # rows of the three keys, and no other
    (outcome,) = result.outcome.stages
    assert outcome.results is not None
    confirmed, counts = outcome.results.confirmed, outcome.results.counts
    assert confirmed is not None
    assert (
        confirmed.in_flight_resolved == 2
    )  # keys 2 and 3; 4 still differs, and the update was not read
    assert (confirmed.first.rows_unmatched, confirmed.first.source_row_counts) == (3, (3, 2))
    assert (counts.rows_unmatched, counts.source_row_counts) == (1, (3, 3))
    first, second = (result.pins["ledger"], confirmed.rechecks[0].pins[0])
    assert isinstance(first, ExportedSnapshot)
    assert isinstance(second, ExportedSnapshot)
    assert first.snapshot != second.snapshot


LEDGERS = (SOURCE, replace(SOURCE, name="other"))
IDS = Stage(
    name="rows",
    type=StageType.ROW,
    dimensions=(Dimension(name="id"),),
    measures=(Measure(name="money"),),
)
SUMS = Stage(
    name="sums",
    type=StageType.AGGREGATE,
    measures=(Measure(name="money", function=Function.SUM),),
)


@pytest.mark.parametrize(
    ("stages", "held"),
    [
        ((IDS,), [0]),
        ((IDS, replace(IDS, name="again")), [0, 0]),
        ((SUMS, IDS), [2, 0]),
        ((IDS, SUMS), [2, 2]),
        ((replace(IDS, name="first"), SUMS, replace(IDS, name="last")), [2, 2, 0]),
    ],
)
def test_a_snapshot_is_let_go_once_nothing_is_read_in_it_any_more(
    server: Server, tmp_path: Path, stages: tuple[Stage, ...], held: list[int]
) -> None:
    """Groups are queried when their stage begins, and their rows may be queried again."""
    opened: dict[str, Any] = {}
    seen: list[int] = []

    class Watching(MemoryEngine):
        def compare(self, plan: StagePlan, progress: Callable[[Progress], None]) -> StageResults:
            seen.append(server.sessions())
            return super().compare(plan, progress)

    result = answer(
        Question(
            job=ReconciliationJob(
                name="job",
                sources=LEDGERS,
                stages=stages,
                execution=Execution(strategy=Strategy.PUSHDOWN),
            ),
            job_uid=UUID(int=1),
            spec_hash="sha256:" + 64 * "0",
        ),
        Means(
            connect=lambda source: opened.setdefault(source.name, server.open()),
            engine=lambda _: Watching(lambda scan: rows_of(opened[scan.source], scan)),
            clock=ManualClock(),
            extracts=str(tmp_path / "extract"),
        ),
        SilentReporter(),
    )
    assert result.outcome.verdict is Verdict.MATCHED
    assert seen == held
    assert server.sessions() == 0


@pytest.mark.parametrize("later", [(), (SUMS,)])
def test_a_recheck_uses_only_the_connections_of_its_source(
    server: Server, tmp_path: Path, later: tuple[Stage, ...]
) -> None:
    """Also if the first cut is still held, because a later stage queries groups in it."""
    ledger = replace(
        SOURCE, partition=Partition(by="id", count=3), limits=Limits(max_connections=3)
    )
    (tmp_path / "other.csv").write_text("id,money\n1,1.10\n")
    server.run("INSERT INTO t (id, money) SELECT n, n FROM generate_series(10, 90) n")
    server.allow(sessions=3)
    opened: dict[str, Any] = {}

    def connect(source: Source) -> Any:  # noqa: ANN401  a connector
        around = replace(server.surroundings, roots=(tmp_path,), any_path=True)
        made = (
            server.open()
            if source is ledger
            else open_connector(source, None, {}, surroundings=around)
        )
        return opened.setdefault(source.name, made)

    other = Source(name="other", kind=SourceKind.CSV, path="other.csv")
    stage = replace(IDS, confirm=Confirm(after=timedelta(minutes=1), attempts=2))
    result = answer(
        Question(
            job=ReconciliationJob(
                name="job",
                sources=(ledger, other),
                stages=(stage, *later),
                execution=Execution(strategy=Strategy.PUSHDOWN),
            ),
            job_uid=UUID(int=1),
            spec_hash="sha256:" + 64 * "0",
        ),
        Means(
            connect=connect,
            engine=lambda _: MemoryEngine(lambda scan: rows_of(opened[scan.source], scan)),
            clock=ManualClock(by_itself=True),
            extracts=str(tmp_path / "extract"),
        ),
        SilentReporter(),
    )
    results = result.outcome.stages[0].results
    assert results is not None
    assert results.confirmed is not None
    assert len(results.confirmed.rechecks) == 2


class _RecheckReporter(SilentReporter):
    """Port ProgressReporter that records how many rows were read again, by source."""

    def __init__(self) -> None:
        self.again: list[tuple[int, int]] = []

    def extraction_completed(self, index: int, rows: int, stage: str | None = None) -> None:
        if stage is not None:
            self.again.append((index, rows))


class _Keyed(MemoryEngine):
    """The oracle, with the keys of groups that differ, like an engine that queries them."""

    def differing(self, stage: str, most: int) -> Any:  # noqa: ANN401, ARG002  the port's
        return sorted({each.key for each in self.differences(stage)})


class _Arriving(ManualClock):
    """Port Clock; changes in flight arrive during a wait."""

    def __init__(self, arrive: Callable[[], None]) -> None:
        super().__init__(by_itself=True)
        self.arrive = arrive

    def wait(self, duration: timedelta, *, until: Wake | None = None) -> bool:
        self.arrive()
        return super().wait(duration, until=until)


def test_a_pin_whose_session_was_cut_is_lost(server: Server) -> None:
    connector = server.open()
    held = connector.pin(SOURCE)
    server.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'datarecs' AND datname = current_database()"
    )
    with pytest.raises(SnapshotLostError):
        held.check()
    with pytest.raises(SnapshotLostError, match="snapshot no longer exists"):
        connector.describe(SOURCE, held.pin)
    held.close()


@pytest.mark.case("P65")
def test_a_snapshot_that_is_held_too_long_is_lost(server: Server) -> None:
    short = replace(SOURCE, snapshot=Snapshot(max_hold=timedelta(milliseconds=100)))
    connector = server.open()
    held = connector.pin(short)
    server.run("SELECT pg_sleep(0.3)")
    with pytest.raises(SnapshotLostError, match="max_hold"):
        held.check()
    with pytest.raises(SnapshotLostError):
        connector.describe(short, held.pin)
    held.close()


def test_a_column_that_is_dropped_after_the_pin_leaves_no_rows(
    server: Server, tmp_path: Path
) -> None:
    """Definitions of tables are not part of a snapshot."""
    connector = server.open()
    held = connector.pin(SOURCE)
    scan = scan_of(connector, SOURCE, held.pin)
    server.run("ALTER TABLE t DROP COLUMN money")
    with pytest.raises(QueryFailedError, match="money"):
        connector.extract(scan, str(tmp_path / "extract"), lambda _: None)
    held.close()


def test_a_filter_and_a_query_are_read_at_the_server(server: Server) -> None:
    connector = server.open()
    query = replace(
        SOURCE, relation=None, query="SELECT id, money FROM t -- all", filter="money > 1"
    )
    held = connector.pin(query)
    assert list(connector.rows(scan_of(connector, query, held.pin))) == [
        (Decimal(9007199254740993), Decimal("1.10"))
    ]
    held.close()


@pytest.mark.case("X36")
@pytest.mark.parametrize("text", ["select 1; drop table t", "select 1) q; drop table t --"])
def test_a_second_statement_is_refused_by_the_server(server: Server, text: str) -> None:
    connector = server.open()
    source = replace(SOURCE, relation=None, query=text)
    held = connector.pin(source)
    with pytest.raises(QueryFailedError):
        connector.describe(source, held.pin)
    held.close()
    server.run("SELECT count(*) FROM t")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"password": "wrong"}, "refused the login of user"),
        ({"database": "nowhere"}, "has no database 'nowhere'"),
        ({"port": 1025}, "cannot be reached"),
        ({"port": 22}, "port 22 is not allowed for a source"),
        ({"host": "no-such-host.invalid"}, "has no address"),
    ],
)
def test_a_connection_that_fails_says_what_and_where_and_no_secret(
    server: Server, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConnectionFailedError, match=words) as failed:
        server.open(**change).pin(SOURCE)
    assert "wrong" not in str(failed.value)


def test_a_login_without_a_session_left_is_reported_as_such(server: Server) -> None:
    server.allow(sessions=1)
    connector = server.open()
    held = connector.pin(SOURCE)
    with pytest.raises(ConnectionFailedError, match="no free connection for user"):
        connector.describe(SOURCE, held.pin)
    held.close()


@pytest.mark.case("X50")
def test_an_address_the_policy_denies_is_not_dialled(server: Server) -> None:
    server.surroundings = replace(
        server.surroundings, policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.SERVER)
    )
    with pytest.raises(ConnectionFailedError, match="class loopback"):
        server.open().pin(SOURCE)


def test_a_missing_table_and_a_missing_grant_are_distinguished(server: Server) -> None:
    connector = server.open()
    held = connector.pin(SOURCE)
    with pytest.raises(QueryFailedError, match="does not exist"):
        connector.describe(replace(SOURCE, relation="public.nothing"), held.pin)
    server.run("CREATE TABLE closed (id int)")
    held.close()
    held = connector.pin(SOURCE)
    with pytest.raises(PermissionDeniedError, match="grant SELECT"):
        connector.describe(replace(SOURCE, relation="public.closed"), held.pin)
    held.close()


def test_a_policy_that_would_hide_rows_is_refused_and_hides_none(server: Server) -> None:
    server.run(
        "CREATE TABLE policed (id int); INSERT INTO policed VALUES (1), (2), (3);"
        " ALTER TABLE policed ENABLE ROW LEVEL SECURITY;"
        " CREATE POLICY part ON policed USING (id < 3); GRANT SELECT ON policed TO PUBLIC"
    )
    connector = server.open()
    held = connector.pin(SOURCE)
    with pytest.raises(PermissionDeniedError, match="a policy would hide rows"):
        connector.describe(replace(SOURCE, relation="public.policed"), held.pin)
    held.close()


@pytest.mark.case("X39")
def test_a_read_that_takes_too_long_is_ended(server: Server) -> None:
    connector = server.open()
    slow = replace(
        SOURCE,
        relation=None,
        query="SELECT id, pg_sleep(60) IS NULL AS slept FROM t",
        limits=Limits(statement_timeout=timedelta(seconds=1)),
    )
    held = connector.pin(slow)
    scan = scan_of(connector, slow, held.pin)
    with pytest.raises(StatementTimeoutError, match="statement_timeout"):
        list(connector.rows(scan))
    held.close()


class _Line:
    """A line to the server that dies without a word: after so many bytes, or at some words."""

    def __init__(self, port: int, *, most_bytes: int = 2**40, words: bytes = b"never") -> None:
        self._far, self._left, self._words = port, most_bytes, words
        self._door = socket.create_server(("127.0.0.1", 0))
        self.port = self._door.getsockname()[1]
        Thread(target=self._take, daemon=True).start()

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._door.accept()
                far = socket.create_connection(("127.0.0.1", self._far))
                for one, other in ((near, far), (far, near)):
                    Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError), one:
            while data := one.recv(65_536):
                self._left -= self._left if self._words in data else len(data)
                if self._left > 0:
                    other.sendall(data)
            other.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._door.close()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> Source:
    """A source with statements that end after a second, also if the server ignores the limit."""
    monkeypatch.setattr(postgres_sessions, "_OBEYS_WITHIN_S", 0)
    monkeypatch.setattr(postgres_sessions, "_GONE_WITHIN_S", 0.2)
    return replace(SOURCE, limits=Limits(statement_timeout=timedelta(seconds=1)))


@pytest.mark.case("X39")
def test_a_read_ends_in_time_when_nothing_comes_from_the_server_any_more(
    server: Server, soon: Source
) -> None:
    server.run("INSERT INTO t (name) SELECT repeat('x', 900) FROM generate_series(1, 9999)")
    with closing(_Line(server.config.port, most_bytes=1_000_000)) as line:
        connector = server.open(port=line.port)
        held = connector.pin(soon)
        scan = scan_of(connector, soon, held.pin)
        with pytest.raises(StatementTimeoutError, match="statement_timeout"):
            list(connector.rows(scan))
        held.close()


@pytest.mark.parametrize("words", [b"client_connection_check_interval", b"pg_export_snapshot"])
def test_a_pin_ends_in_time_when_nothing_comes_from_the_server_any_more(
    server: Server, soon: Source, words: bytes
) -> None:
    with (
        closing(_Line(server.config.port, words=words)) as line,
        pytest.raises(StatementTimeoutError, match="statement_timeout"),
    ):
        server.open(port=line.port).pin(soon)


@pytest.mark.parametrize("words", [b"SET TRANSACTION SNAPSHOT", b"LIMIT 0", b"pg_stats"])
def test_a_description_ends_in_time_when_nothing_comes_from_the_server_any_more(
    server: Server, soon: Source, words: bytes
) -> None:
    held = server.open().pin(soon)
    with (
        closing(_Line(server.config.port, words=words)) as line,
        pytest.raises(StatementTimeoutError, match="statement_timeout"),
    ):
        server.open(port=line.port).describe(soon, held.pin)
    held.close()


def test_a_pin_is_lost_in_time_when_nothing_comes_from_the_server_any_more(
    server: Server, soon: Source
) -> None:
    with closing(_Line(server.config.port, words=b"Q\0\0\0\rSELECT 1")) as line:
        held = server.open(port=line.port).pin(soon)
        with pytest.raises(SnapshotLostError, match="has ended"):
            held.check()
        held.close()


@pytest.mark.usefixtures("soon")
def test_a_check_of_the_server_ends_in_time_when_nothing_comes_from_it_any_more(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "CONNECT_TIMEOUT_S", 2)
    with (
        closing(_Line(server.config.port, words=b"AS seven")) as line,
        pytest.raises(StatementTimeoutError, match="statement_timeout"),
    ):
        server.open(port=line.port).fetch_rows("SELECT 7 AS seven", {})


def test_the_probe_stops_at_the_step_that_fails(server: Server) -> None:
    good = server.open().probe(SOURCE)
    assert [(step.name, step.ok) for step in good] == [
        ("address", True),
        ("login", True),
        ("privileges", True),
        ("relation", True),
    ]
    bad = server.open(password="wrong").probe(SOURCE)
    assert [(step.name, step.ok) for step in bad] == [("address", True), ("login", False)]
