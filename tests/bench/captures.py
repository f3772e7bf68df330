"""Figures of captures beside the nearest tool in the same run.

`statistics`: a capture of a table of 10 M rows and 12 columns, beside DuckDB's SUMMARIZE and
Spark's ANALYZE TABLE … FOR ALL COLUMNS.
`catalogue`: reads, increments and records of files on a durable database; no tool is beside it.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import duckdb

from datarecs_application.ports.capturing import FileRequest
from datarecs_connectors.capturing.opening import open_capture_source
from datarecs_connectors.registry import Surroundings
from datarecs_core.captures.request import CapturePolicy, ColumnChoice, ObjectName, Output
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.resources.connection import Connection, ConnectionType, FilesConfig
from tests.bench.captures_catalogue import catalogue
from tests.bench.data import PLAIN
from tests.bench.spark_analyze import spark_table

ROWS, ROUNDS, THREADS = 10_000_000, 3, 2
FILES = 10_000
SPARK = "spark"
"""The folder of Spark's own files."""
TABLE = ObjectName(namespace=("default",), name="rows")
POLICY = CapturePolicy(
    outputs=(Output.TABLE_STATS, Output.COLUMN_STATS, Output.FILE_STATS),
    column_choice=ColumnChoice.ALL,
)
Report = Mapping[str, object]


def statistics(rows: int) -> Report:
    """Seconds of each round: a capture, and the others on the same file, in turn."""
    load = os.getloadavg()[0]
    with TemporaryDirectory() as folder, spark_table(Path(folder) / SPARK) as analyze:
        path = Path(folder) / f"{TABLE.name}.parquet"
        _write(path, rows)
        contestants: dict[str, Callable[[], None]] = {
            "capture": lambda: _capture(Path(folder), rows),
            "summarize": lambda: _summarize(path),
            "analyze": lambda: analyze(path, tuple(PLAIN)),
        }
        seconds: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(ROUNDS):
            for name, work in contestants.items():
                seconds[name].append(_timed(work))
        return {
            "load_before_and_after": [round(load, 1), round(os.getloadavg()[0], 1)],
            "rows": rows,
            "columns": len(PLAIN),
            "megabytes": round(path.stat().st_size / 10**6),
            "seconds": {name: [round(one, 2) for one in times] for name, times in seconds.items()},
        }


def _write(path: Path, rows: int) -> None:
    columns = ", ".join(f"{expression} AS {name}" for name, expression in PLAIN.items())
    numbers = f"SELECT range AS place, range AS v FROM range({rows})"  # noqa: S608 - a number
    duckdb.sql(f"COPY (SELECT {columns} FROM ({numbers})) TO '{path}' (FORMAT parquet)")  # noqa: S608 - written here


def _capture(folder: Path, rows: int) -> None:
    policy = Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL)
    around = Surroundings(roots=(folder,), policy=policy, now=lambda: datetime.now(UTC))  # noqa: TID251 - a clock of a script
    connection = Connection(type=ConnectionType.FILES, config=FilesConfig(root="."))
    source = open_capture_source("bench", connection, {}, around)
    table = source.table(TABLE, known=())
    native_id = table.snapshots[0].native_id
    request = FileRequest(policy=POLICY, columns=table.columns, directory=str(folder))
    files = source.files(TABLE, native_id)
    (captured,) = source.capture_files(TABLE, native_id, files, request)
    source.close()
    if captured.rows != rows or not captured.is_complete:
        raise RuntimeError("the capture is not complete")


def _summarize(path: Path) -> None:
    with duckdb.connect(config={"threads": THREADS}) as database:
        database.sql(f"SUMMARIZE FROM '{path}'").fetchall()


def _timed(work: Callable[[], None]) -> float:
    began = monotonic()
    work()
    return monotonic() - began


PARTS: Mapping[str, Callable[[int], Report]] = {"statistics": statistics, "catalogue": catalogue}
DEFAULTS = {"statistics": ROWS, "catalogue": FILES}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=sorted(PARTS))
    parser.add_argument("--rows", type=int, help="of the table, or records of files")
    options = parser.parse_args()
    report = {
        "part": options.part,
        "cores": os.cpu_count(),
        "duckdb": duckdb.__version__,
        "pyspark": version("pyspark"),
        **PARTS[options.part](options.rows or DEFAULTS[options.part]),
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
