"""Figures of aggregates by two dimensions: datarecs beside DuckDB's group by (1.00).

Both read the same generated Parquet files, sum two measures and count the rows of every group, and
write the groups that differ. Their counts must agree.
"""

import argparse
import os
import sys
import tempfile
from functools import partial
from pathlib import Path

from datarecs_core.comparison.planning.plan import PRESENCE
from datarecs_core.jobs.definition import Dimension, Measure, Stage
from datarecs_core.jobs.vocabulary import Function, StageType
from datarecs_testing.figures import page, replace_part
from tests.bench.compare import (
    OURS,
    Limits,
    limited_duckdb,
    read_parquet,
    start_datarecs,
    store_differences,
)
from tests.bench.contest import Contest, Contestant, at_once, facts_of, figures_of, measure
from tests.bench.data import Case, Counts, Data, generate

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


def duckdb_groups(case: Case, limits: Limits) -> Counts:
    """What people write by hand: a group by a side, a join of the groups, the long form."""
    names, measures = ", ".join(DIMENSIONS), (*SUMMED, ROWS)
    sums = ", ".join(f"sum({name}) AS {name}" for name in SUMMED)
    sides = [
        f"(SELECT {names}, {sums}, count(*) AS {ROWS} FROM {read_parquet(paths)} GROUP BY {names})"  # noqa: S608 - constants of this page
        for paths in case.files
    ]
    on = " AND ".join(f"a.{name} IS NOT DISTINCT FROM b.{name}" for name in DIMENSIONS)
    keys = ", ".join(f"coalesce(a.{name}, b.{name}) AS {name}" for name in DIMENSIONS)
    one, two = f"a.{ROWS} IS NOT NULL", f"b.{ROWS} IS NOT NULL"
    pieces = [
        f"SELECT {keys}, '{name}' AS measure, a.{name}::VARCHAR AS v0, b.{name}::VARCHAR AS v1"  # noqa: S608 - constants of this page
        f" FROM joined WHERE {one} AND {two} AND a.{name} IS DISTINCT FROM b.{name}"
        for name in measures
    ]
    pieces.append(
        f"SELECT {keys}, '{PRESENCE}', ({one})::VARCHAR, ({two})::VARCHAR FROM joined"  # noqa: S608 - constants of this page
        f" WHERE NOT ({one} AND {two})"
    )
    with limited_duckdb(case, limits) as connection:
        connection.execute(
            f"CREATE TEMP TABLE joined AS SELECT a, b FROM {sides[0]} a"  # noqa: S608 - constants of this page
            f" FULL JOIN {sides[1]} b ON {on}"
        )
        connection.execute(f"CREATE TEMP TABLE differences AS {' UNION ALL '.join(pieces)}")
        return store_differences(connection, case, limits)


def main() -> int:
    """Print the figures as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.aggregate", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of each source")
    parser.add_argument("--differ", type=float, default=0.0003, help="share of rows that differ")
    parser.add_argument("--runs", type=int, default=5, help="measured turns")
    parser.add_argument("--goal", type=float, help="times DuckDB's group by")
    parser.add_argument("--write", type=Path, help="a page whose part on this work to replace")
    options = parser.parse_args()
    load_before = os.getloadavg()[0]
    limits = Limits()
    with tempfile.TemporaryDirectory(prefix="datarecs-bench-") as name:
        case = generate(Path(name), Data(rows=options.rows, share=options.differ))
        groups = partial(at_once, partial(duckdb_groups, case, limits))
        start = partial(start_datarecs, case, aggregate_stage(), limits)
        contest = Contest(
            contestants=(
                Contestant(name=PEER, prepare=groups),
                Contestant(name=OURS, prepare=start),
            ),
            case=case,
        )
        results = measure(contest, options.runs)
    title = f"Aggregate of 2 sources of {options.rows:,} rows by {' and '.join(DIMENSIONS)}"
    facts = facts_of(results, load_before, [("columns", str(len(DIMENSIONS) + len(SUMMED)))])
    text = page(title, figures_of(results, {OURS: options.goal}, {}), facts)
    sys.stdout.write(text)
    if options.write:
        replace_part(options.write, text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
