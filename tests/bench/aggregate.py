"""Figures of aggregates by two dimensions: datarecs beside DuckDB's group by (1.00).

Both read the same generated Parquet files, sum two measures and count the rows of every group, and
write the groups that differ. Their counts must agree.
"""

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import duckdb

from datarecs_core.comparison.planning.plan import PRESENCE
from datarecs_core.jobs.definition import Dimension, Measure, Stage
from datarecs_core.jobs.vocabulary import Function, StageType, Strategy
from datarecs_testing.figures import page, replace_part
from tests.bench.compare import (
    Case,
    Contest,
    Counts,
    Datarecs,
    about,
    generate,
    measured,
    ratios,
    started,
    written,
)

DIMENSIONS = ("account", "currency")
SUMMED = ("amount", "quantity")
ROWS = "n"
PEER = "duckdb group by"


def aggregate_stage() -> Stage:
    sums = (Measure(name=name, column=name, function=Function.SUM) for name in SUMMED)
    return Stage(
        name="groups",
        type=StageType.AGGREGATE,
        dimensions=tuple(Dimension(name=name) for name in DIMENSIONS),
        measures=(*sums, Measure(name=ROWS, function=Function.COUNT)),
    )


def duckdb_groups(case: Case) -> Counts:
    """What people write by hand: a group by a side, a join of the groups, the long form."""
    names, measures = ", ".join(DIMENSIONS), (*SUMMED, ROWS)
    sums = ", ".join(f"sum({name}) AS {name}" for name in SUMMED)
    sides = [
        f"(SELECT {names}, {sums}, count(*) AS {ROWS} FROM '{file}' GROUP BY {names})"  # noqa: S608 - constants of this page
        for file in case.files
    ]
    on = " AND ".join(f"a.{name} IS NOT DISTINCT FROM b.{name}" for name in DIMENSIONS)
    keys = ", ".join(f"coalesce(a.{name}, b.{name}) AS {name}" for name in DIMENSIONS)
    one, two = f"a.{ROWS} IS NOT NULL", f"b.{ROWS} IS NOT NULL"
    pieces = [
        f"SELECT {keys}, '{name}' AS measure, a.{name}::VARCHAR AS one, b.{name}::VARCHAR AS two"  # noqa: S608 - constants of this page
        f" FROM joined WHERE {one} AND {two} AND a.{name} IS DISTINCT FROM b.{name}"
        for name in measures
    ]
    pieces.append(
        f"SELECT {keys}, '{PRESENCE}', ({one})::VARCHAR, ({two})::VARCHAR FROM joined"  # noqa: S608 - constants of this page
        f" WHERE NOT ({one} AND {two})"
    )
    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(
            f"CREATE TEMP TABLE joined AS SELECT a, b FROM {sides[0]} a"  # noqa: S608 - constants of this page
            f" FULL JOIN {sides[1]} b ON {on}"
        )
        connection.execute(f"CREATE TEMP TABLE told AS {' UNION ALL '.join(pieces)}")
        return written(connection, case.fresh())


def main() -> int:
    """Print the figures as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.aggregate", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each source")
    parser.add_argument("--differ", type=float, default=0.0003, help="share of rows that differ")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--strategy", type=Strategy, default=Strategy.NARROW, help="of datarecs")
    parser.add_argument("--goal", type=float, help="times DuckDB's group by")
    parser.add_argument("--write", type=Path, help="a page whose part on this work to replace")
    asked = parser.parse_args()
    load_before = os.getloadavg()[0]
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="datarecs-bench-")))
        case = generate(folder, rows=asked.rows, share=asked.differ, sources=2)
        runtime = started(folder)
        held.callback(runtime.close)
        ours = f"datarecs {asked.strategy}"
        contest = Contest(
            contestants={
                PEER: lambda: duckdb_groups(case),
                ours: Datarecs(runtime, case, asked.strategy, aggregate_stage()),
            },
            files=case.files,
        )
        seconds = measured(contest, asked.runs)
    title = f"Aggregate of 2 sources of {asked.rows:,} rows by {' and '.join(DIMENSIONS)}"
    columns = len(DIMENSIONS) + len(SUMMED)
    text = page(
        title, ratios(seconds, {ours: asked.goal}), about(seconds, load_before, columns=columns)
    )
    sys.stdout.write(text)
    if asked.write:
        replace_part(asked.write, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
