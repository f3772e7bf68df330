"""Figures of an Iceberg table with delete files against a Parquet export.

The table holds rows that position deletes and an equality delete take away; DuckDB joins plain
Parquet files with the rows that are left (1.00). The run is whole: pinned, extracted, compared.
"""

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table

from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import Connection
from datarecs_testing.figures import page, replace_part
from datarecs_testing.lake import (
    NAMESPACE,
    Lake,
    a_lake,
    data_files,
    delete_equal,
    delete_positions,
    path_of,
)
from tests.bench.compare import JOINED, OURS, Limits, conditions, duckdb_join, start_spark
from tests.bench.contest import (
    Compare,
    Contest,
    Contestant,
    at_once,
    facts_of,
    figures_of,
    measure,
)
from tests.bench.data import Case, Data, generate
from tests.bench.runs import WholeRun, around, parquet_source

CHUNK = 1_000_000
"""Rows of a data file."""
KEY = "id"
EVERY, EQUAL = 100, 10_000
"""One row of so many is deleted by its position, and at most so many by their keys."""


def table_of(lake: Lake, path: Path) -> Table:
    """The rows of a Parquet file in data files of a table, of which some rows are deleted."""
    file = pq.ParquetFile(path)
    made = lake.catalog.create_table(
        f"{NAMESPACE}.entries", file.schema_arrow, properties={"format-version": "2"}
    )
    for batch in file.iter_batches(CHUNK):
        made.append(pa.Table.from_batches([batch]))
    for each in data_files(made):
        dead = range(0, each.record_count, EVERY)
        delete_positions(made, {each.file_path: list(dead)}, like=each)
    keys = pq.ParquetFile(path_of(data_files(made)[0])).read(columns=[KEY])
    delete_equal(made, keys.slice(0, min(EQUAL, keys.num_rows // 10)))
    return made


def living(table: Table, whole: Path, out: Path) -> None:
    """A Parquet file without the rows that the table's delete files name."""
    dead = []
    for each in data_files(table):
        keys = pq.ParquetFile(path_of(each)).read(columns=[KEY])
        dead.append(keys.take(pa.array(range(0, keys.num_rows, EVERY))))
    first = pq.ParquetFile(path_of(data_files(table)[0])).read(columns=[KEY])
    dead.append(first.slice(0, min(EQUAL, first.num_rows // 10)))
    gone = pa.concat_tables(dead)  # noqa: F841 - DuckDB finds it by its name
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT * FROM '{whole}' w ANTI JOIN gone g ON w.{KEY} = g.{KEY})"  # noqa: S608 - constants of this page
            f" TO '{out}' (FORMAT parquet)"
        )


def main() -> int:
    """Print the figures as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.lake", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each source")
    parser.add_argument("--differ", type=float, default=0.0003, help="share of rows that differ")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--goal", type=float, help="times DuckDB's join of plain files")
    parser.add_argument("--write", type=Path, help="a page whose part on this work to replace")
    options = parser.parse_args()
    load_before = os.getloadavg()[0]
    data, limits = Data(rows=options.rows, share=options.differ, is_plain=True), Limits()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="datarecs-bench-")))
        lake = a_lake(folder / "lake", stack)
        case = generate(lake.folder, data)
        ((export,), (rows,)) = case.files
        living(table_of(lake, rows), rows, folder / "living.parquet")
        plain = replace(case, files=((export,), (folder / "living.parquet",)))
        join = partial(at_once, partial(duckdb_join, plain, limits))
        run = partial(start_run, case, lake.folder, lake.connection)
        contest = Contest(
            contestants=(
                Contestant(name=JOINED, prepare=join),
                Contestant(name=OURS, prepare=run),
            ),
            case=case,
            files=plain.all_files,
        )
        results = measure(contest, options.runs)
    title = f"Iceberg table of {options.rows:,} rows with delete files, against a Parquet export"
    facts = facts_of(results, load_before, conditions(data, limits))
    text = page(title, figures_of(results, {OURS: options.goal}, {}), facts)
    sys.stdout.write(text)
    if options.write:
        replace_part(options.write, text)
    return 0


def start_run(case: Case, folder: Path, connection: Connection, stack: ExitStack) -> Compare:
    runtime = start_spark(case.out.parent / "session")
    stack.callback(runtime.close)
    return WholeRun(
        runtime=runtime,
        case=case,
        sources=sources_of(case, folder),
        surroundings=around(folder),
        connections={"lake": connection},
    )


def sources_of(case: Case, folder: Path) -> tuple[Source, ...]:
    table = Source(
        name="table", kind=SourceKind.ICEBERG, connection="lake", relation=f"{NAMESPACE}.entries"
    )
    return (parquet_source("export", case.files[0][0], folder), table)


if __name__ == "__main__":
    raise SystemExit(main())
