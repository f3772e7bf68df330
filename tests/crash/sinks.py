"""Land a topic while everything is killed, and print the ledger.

`make soak` runs it. Exit code 1 when a record is lost or doubled.
"""

import argparse
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from datarecs_core.resources.resource import Kind
from datarecs_runtime.environment import process_environment
from datarecs_testing import stack
from datarecs_testing.builders import A_TENANT
from datarecs_testing.crashes.capture_storm import write_line
from datarecs_testing.crashes.serving import temporary_servers
from datarecs_testing.crashes.sink_storm import BROKER, SinkStorm, StormPlan, StormReport, shown
from datarecs_testing.sink_process import SinkHouse

if TYPE_CHECKING:
    from tests.crash.spark_count import SparkCount


def storm(
    plan: StormPlan, logs: Path | None = None, *, with_spark: bool = False
) -> tuple[StormReport, "SparkCount | None"]:
    """One storm over servers of its own; the second count is Spark's."""
    with temporary_servers() as servers, ExitStack() as closing:
        servers.database.add_tenant("a", A_TENANT)
        lake = servers.folder / "lake-server"
        lake.mkdir(mode=0o711)
        catalog = stack.start_postgres(lake, process_environment())
        if (
            servers.postgres.process is None
            or catalog.process is None
            or servers.broker.jvm is None
        ):
            raise RuntimeError("the servers were not started by this program")
        closing.callback(catalog.process.stop)
        folder = servers.folder / "sinks"
        folder.mkdir()
        house = SinkHouse(
            database=servers.database,
            broker=servers.broker,
            folder=folder,
            stack=closing,
            partitions=plan.partitions,
            catalog=catalog.fresh_database(),
        )
        uid = house.declare(Kind.SINK_TABLE, "landing", house.sink_spec(tasks=plan.tasks))
        house.want(uid, tasks=plan.tasks)
        mortal = {"database": servers.postgres.process, "catalog": catalog.process}
        if plan.with_broker:
            mortal[BROKER] = servers.broker.jvm
        try:
            report = SinkStorm(house, uid, mortal, plan, write_line).run()
            write_line(shown(report))
            return report, _counted_by_spark(house) if with_spark else None
        finally:
            if logs is not None:
                logs.mkdir(parents=True, exist_ok=True)
                for log in folder.glob("*.log"):
                    shutil.copy(log, logs)


def _counted_by_spark(house: SinkHouse) -> "SparkCount":
    from tests.crash.spark_count import spark_count  # noqa: PLC0415  the short storm needs no Spark

    table = house.table()
    if table is None:
        raise AssertionError("the table was never created")
    # As Hadoop's catalog leaves it, because Spark reads a folder without another catalog.
    current = Path(table.metadata_location.removeprefix("file://"))
    (current.parent / "v1.metadata.json").write_bytes(current.read_bytes())
    (current.parent / "version-hint.text").write_text("1", encoding="utf-8")
    return spark_count(table.location(), house.folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.crash.sinks", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--broker", action="store_true", help="kill the broker too")
    parser.add_argument("--without-spark", action="store_true", help="count by DuckDB alone")
    parser.add_argument("--logs", type=Path, help="folder to which logs are copied")
    options = parser.parse_args()
    plan = StormPlan(
        kills=options.kills,
        records=options.records,
        seed=options.seed,
        with_broker=options.broker,
    )
    report, spark = storm(plan, options.logs, with_spark=not options.without_spark)
    if spark is not None:
        sys.stdout.write(f"Spark counts {spark.rows:,} rows, {spark.distinct:,} distinct ids\n")
    is_equal = spark is None or (spark.rows, spark.distinct) == (report.rows, report.distinct)
    return 0 if report.is_clean and is_equal else 1


if __name__ == "__main__":
    raise SystemExit(main())
