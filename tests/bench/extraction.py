"""Figures of reading PostgreSQL: an extract of datarecs beside a plain `COPY` (1.00).

All read the same table of one server: the peer takes the bytes of `COPY … TO STDOUT` and drops
them, datarecs makes typed columns of them and writes Parquet, by as many readers as it takes by
itself and by one.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from shutil import rmtree
from time import perf_counter
from typing import LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from datarecs_connectors.registry import open_connector
from datarecs_core.comparison.planning.scan import Scan, ScanColumn
from datarecs_core.jobs.definition import Partition, Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import (
    Connection,
    ConnectionType,
    PostgresConfig,
    SslMode,
)
from datarecs_runtime.environment import process_environment
from datarecs_testing import stack
from datarecs_testing.figures import machine, page, replace_part
from datarecs_testing.stack import PostgresServer
from tests.bench.contest import ratio, versions
from tests.bench.runs import around

TABLE: LiteralString = """
CREATE TABLE bench AS SELECT i AS id, 'AC' || lpad((i * 7919 % 100000)::text, 8, '0') AS account,
  (i * 7907 % 100000000)::numeric(14,2) / 100 AS amount, (i * 31 % 1000)::bigint AS quantity,
  (i * 17 % 1000000)::double precision / 7 AS price, DATE '2026-01-01' + (i % 365)::int AS booked,
  TIMESTAMP '2026-01-01' + i * interval '1 second' AS moment, i % 2 = 0 AS active,
  CASE WHEN i % 10 > 0 THEN 'note ' || i END AS note
FROM generate_series(1, {rows}::bigint) i
"""
PEER, OURS, ALONE = "plain COPY", "datarecs extract", "datarecs extract, one reader"
SOURCE = Source(name="ledger", kind=SourceKind.POSTGRES, connection="c", relation="public.bench")
BY_ONE = replace(SOURCE, partition=Partition(by="none"))


class Extraction:
    """One database with the table, read in two ways."""

    def __init__(self, server: PostgresServer, *, rows: int, folder: Path) -> None:
        self.rows, self.folder = rows, folder
        address = server.fresh_database().replace("postgresql+psycopg", "postgresql")
        self.address = psycopg.conninfo.make_conninfo(address)
        with psycopg.connect(self.address, autocommit=True) as session:
            self.server = f"PostgreSQL {session.info.server_version // 10_000}"
            session.execute(sql.SQL(TABLE).format(rows=sql.Literal(rows)))
            session.execute("ANALYZE bench")
        fields = conninfo_to_dict(self.address)
        config = PostgresConfig(
            host=str(fields["host"]),
            port=int(fields["port"] or 5432),
            database=str(fields["dbname"]),
            user=str(fields["user"]),
            sslmode=SslMode.DISABLE,
        )
        self.connector = open_connector(
            SOURCE,
            Connection(type=ConnectionType.POSTGRES, config=config),
            {"password": str(fields["password"])},
            surroundings=around(folder),
        )

    def copied(self) -> None:
        with (
            psycopg.connect(self.address) as session,
            session.cursor() as cursor,
            cursor.copy("COPY bench TO STDOUT (FORMAT csv)") as copy,
        ):
            for _ in copy:
                pass

    def extracted(self, source: Source = SOURCE) -> None:
        rmtree(self.folder / "extract", ignore_errors=True)
        held = self.connector.pin(source)
        try:
            schema = self.connector.describe(source, held.pin)
            scan = Scan(
                source=SOURCE.name,
                index=0,
                kind=SOURCE.kind,
                connection=SOURCE.connection,
                relation=SOURCE.relation,
                columns=tuple(
                    ScanColumn(name=each.name, physical=each.name, type=each.type)
                    for each in schema.columns
                ),
                schema=schema,
                limits=SOURCE.limits,
                pin=held.pin,
            )
            made = self.connector.extract(scan, str(self.folder / "extract"), lambda _: None)
        finally:
            held.close()
        if made.extract is None or made.extract.rows != self.rows:
            raise RuntimeError(f"extracted {made.extract}")


def in_turn(works: dict[str, Callable[[], None]], runs: int) -> dict[str, list[float]]:
    """Seconds of every run, in turn; the first turn warms and is not counted."""
    timings: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(runs + 1):
        for name, work in works.items():
            began = perf_counter()
            work()
            if turn:
                timings[name].append(perf_counter() - began)
    return timings


def main() -> int:
    """Print the figures as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.extraction", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--goal", type=float, help="times a plain COPY")
    parser.add_argument("--write", type=Path, help="a page whose part on this work to replace")
    options = parser.parse_args()
    load_before = os.getloadavg()[0]
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="datarecs-bench-")))
        folder.chmod(0o711)
        server = stack.start_postgres(folder, process_environment())
        if server.process is not None:
            held.callback(server.process.stop)
        work = Extraction(server, rows=options.rows, folder=folder)
        seconds = in_turn(
            {
                PEER: work.copied,
                OURS: work.extracted,
                ALONE: lambda: work.extracted(BY_ONE),
            },
            options.runs,
        )
    medians = [f"{name} {statistics.median(timings):.2f} s" for name, timings in seconds.items()]
    facts = [
        *machine(load_before),
        ("versions", f"{work.server}, psycopg {version('psycopg')}, {versions()}"),
        ("turns", str(options.runs)),
        ("medians", ", ".join(medians)),
    ]
    goals = {OURS: options.goal}
    figures = [
        ratio(name, timings, seconds[PEER], goals.get(name)) for name, timings in seconds.items()
    ]
    text = page(f"Reading {options.rows:,} rows of PostgreSQL", figures, facts)
    sys.stdout.write(text)
    if options.write:
        replace_part(options.write, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
