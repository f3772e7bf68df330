"""A stop ends a read within two seconds, and the source's query is gone from its server."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any, LiteralString

import psycopg
import pytest

from datarecs_application.stopping import StoppedError, Stopping
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.comparison.planning.scan import Scan, ScanColumn
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import ColumnMapping, Partition, Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import (
    Connection,
    ConnectionType,
    FilesConfig,
    PostgresConfig,
    SslMode,
)
from datarecs_testing.stack import PostgresServer

WITHIN_S = 2.0
LOOPBACK = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
WORKING: LiteralString = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'datarecs'"
    " AND datname = current_database() AND state <> 'idle' AND query ~ 'COPY'"
)


@dataclass(kw_only=True)
class Bench:
    admin: str
    stop: Stopping = field(default_factory=Stopping)
    open_things: ExitStack = field(default_factory=ExitStack)

    def execute(self, statement: LiteralString) -> None:
        with psycopg.connect(self.admin, autocommit=True) as session:
            session.execute(statement)

    def working(self) -> int:
        """Reads that the server works on at this moment."""
        with psycopg.connect(self.admin, autocommit=True) as session:
            row = session.execute(WORKING).fetchone()
        return int(row[0]) if row else 0

    def opened(self, source: Source) -> tuple[Any, Scan]:
        parameters = psycopg.conninfo.conninfo_to_dict(self.admin)
        config = PostgresConfig(
            host="127.0.0.1",
            port=int(str(parameters["port"])),
            database=str(parameters["dbname"]),
            user=str(parameters["user"]),
            sslmode=SslMode.DISABLE,
        )
        around = Surroundings(
            roots=(), policy=LOOPBACK, now=lambda: datetime(2026, 1, 1, tzinfo=UTC), stop=self.stop
        )
        connection = Connection(type=ConnectionType.POSTGRES, config=config)
        secrets = {"password": str(parameters["password"])}
        connector: Any = open_connector(source, connection, secrets, surroundings=around)
        held = connector.pin(source)
        self.open_things.callback(held.close)
        return connector, scan_of(connector, source, held.pin)

    def ended_by_a_stop(self, read: Callable[[], object], *, readers: int = 1) -> float:
        """Seconds from the stop to the end of the read, which is at work by then."""
        tick = Event()
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read)
            while self.working() < readers:
                assert not reading.done(), reading.exception()
                tick.wait(0.05)
            began = time.monotonic()
            self.stop.set()
            with pytest.raises(StoppedError):
                reading.result(timeout=60)
            return time.monotonic() - began


def scan_of(connector: Any, source: Source, pin: Any) -> Scan:  # noqa: ANN401  a connector, a pin
    schema = connector.describe(source, pin)
    columns = [
        ScanColumn(name=each.name, physical=each.name, type=each.type) for each in schema.columns
    ]
    written = [
        ScanColumn(name=each.name, expression=source.columns[each.name].expr, type=each.type)
        for each in schema.expressions
    ]
    return Scan(
        source=source.name,
        index=0,
        kind=source.kind,
        connection=source.connection,
        relation=source.relation,
        query=source.query,
        columns=(*columns, *written),
        schema=schema,
        limits=source.limits,
        pin=pin,
        options=tuple(source.options.items()),
    )


@pytest.fixture
def bench(postgres_server: PostgresServer) -> Iterator[Bench]:
    admin = postgres_server.fresh_database().replace("postgresql+psycopg", "postgresql")
    made = Bench(admin=admin)
    with made.open_things:
        yield made


SLOW = Source(
    name="slow",
    kind=SourceKind.POSTGRES,
    connection="c",
    query="SELECT 1 AS one FROM pg_sleep(3600)",
)
POURING = replace(
    SLOW, query="SELECT g AS one, repeat('x', 1000) AS t FROM generate_series(1, 2000000000) g"
)


@pytest.mark.integration
@pytest.mark.parametrize("source", [SLOW, POURING], ids=["waiting", "pouring"])
def test_a_stop_ends_a_read_of_postgresql_and_its_query(
    bench: Bench, tmp_path: Path, source: Source
) -> None:
    connector, scan = bench.opened(source)
    took = bench.ended_by_a_stop(lambda: connector.extract(scan, str(tmp_path), lambda _: None))
    assert took < WITHIN_S
    assert bench.working() == 0


@pytest.mark.integration
def test_a_stop_ends_all_readers_of_one_source(bench: Bench, tmp_path: Path) -> None:
    bench.execute(
        "CREATE TABLE long AS SELECT g AS id, repeat('x', 500) AS t"
        " FROM generate_series(1, 200000) g"
    )
    bench.execute("ANALYZE long")
    source = replace(
        SLOW,
        query=None,
        relation="public.long",
        columns={"wait": ColumnMapping(expr="pg_sleep(3600 + id * 0)::text")},
        partition=Partition(count=2),
    )
    connector, scan = bench.opened(source)
    took = bench.ended_by_a_stop(
        lambda: connector.extract(scan, str(tmp_path), lambda _: None), readers=2
    )
    assert took < WITHIN_S
    assert bench.working() == 0


@pytest.mark.integration
def test_after_a_stop_no_session_is_opened(bench: Bench, tmp_path: Path) -> None:
    connector, scan = bench.opened(SLOW)
    bench.stop.set()
    with pytest.raises(StoppedError):
        connector.extract(scan, str(tmp_path), lambda _: None)


@pytest.mark.parametrize("after_s", [0.0, 0.5], ids=["before it runs", "while it runs"])
def test_a_stop_ends_a_query_over_files(tmp_path: Path, after_s: float) -> None:
    """The query would run for hours; DuckDB executes it in the calling thread."""
    rows = "".join(f"{number}\n" for number in range(2000))
    (tmp_path / "one.csv").write_text("id\n" + rows)
    stop, loaded = Stopping(), Event()
    around = Surroundings(
        roots=(tmp_path,), policy=LOOPBACK, now=lambda: datetime(2026, 1, 1, tzinfo=UTC), stop=stop
    )
    query = "SELECT count(*) AS n FROM one a, one b, one c, one d WHERE a.id + b.id < c.id * d.id"
    source = Source(name="one", kind=SourceKind.CSV, connection="c", path="one.csv", query=query)
    files = Connection(type=ConnectionType.FILES, config=FilesConfig(root=str(tmp_path)))
    connector = open_connector(source, files, {}, surroundings=around)
    held = connector.pin(source)
    scan = scan_of(connector, source, held.pin)

    def read() -> None:
        loaded.set()
        connector.extract(scan, str(tmp_path / "extract"), lambda _: None)

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        assert loaded.wait(10)
        Event().wait(after_s)
        began = time.monotonic()
        stop.set()
        with pytest.raises(StoppedError):
            reading.result(timeout=60)
    held.close()
    assert time.monotonic() - began < WITHIN_S
