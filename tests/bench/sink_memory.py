"""Memory of one task of a sink: many partitions, each record into every one of many tables.

The process of the task is measured while records wait for their first commit, when most of them
are in memory.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

import psutil  # type: ignore[import-untyped]  # publishes no types
from pyarrow import parquet
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from datarecs_cli.stack.failures import PlatformError
from datarecs_core.resources.resource import Kind
from datarecs_testing.lake import NAMESPACE, path_at
from datarecs_testing.measured_servers import servers
from datarecs_testing.service_process import ServiceProcess, running_service
from datarecs_testing.sink_process import MODULE, SinkHouse

MIB = 1_048_576
LIMIT_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """The defaults are those of the acceptance case I59."""

    partitions: int = 200
    tables: int = 10
    memory_mib: int = 256
    records: int = 100_000
    record_bytes: int = 1_000
    interval_s: int = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFigures:
    resident_mib: int
    """Most of the task's process."""
    unshared_mib: int
    """Most of it that no other process shares."""
    files: int
    """Data files of all tables."""
    row_groups: int
    """Of all files: each is a buffer that was written."""
    seconds: float


def measure(house: SinkHouse, plan: MemoryPlan) -> MemoryFigures:
    """Land every record in every table, and measure the task meanwhile."""
    uid = house.declare(Kind.SINK_TABLE, "many", _spec(house, plan))
    house.send_values(_records(plan))
    house.want(uid)
    resident = unshared = 0
    begun = time.monotonic()
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        while not _is_complete(house, plan):
            if time.monotonic() - begun > LIMIT_S:
                raise TimeoutError(service.text())
            memory = _memory_of_task(service)
            resident, unshared = max(resident, memory[0]), max(unshared, memory[1])
            time.sleep(0.1)  # noqa: TID251  another process has no signal here
        seconds = time.monotonic() - begun
        service.stop()
    groups = [
        parquet.read_metadata(path_at(task.file.file_path)).num_row_groups
        for table in _tables(house, plan)
        if table is not None
        for task in table.scan().plan_files()
    ]
    return MemoryFigures(
        resident_mib=resident // MIB,
        unshared_mib=unshared // MIB,
        files=len(groups),
        row_groups=sum(groups),
        seconds=round(seconds, 1),
    )


def _spec(house: SinkHouse, plan: MemoryPlan) -> Mapping[str, object]:
    names = [f"t{number}" for number in range(plan.tables)]
    spec = house.sink_spec(
        tables=[{"catalog": "lake", "namespace": NAMESPACE, "name": name} for name in names],
        files={"memory": f"{plan.memory_mib}MiB"},
        commit={"interval": f"PT{plan.interval_s}S"},
    )
    return {name: value for name, value in spec.items() if name != "table"}


def _records(plan: MemoryPlan) -> Iterator[bytes]:
    for number in range(plan.records):
        text = f"{number * 2_654_435_761 % 2**64:016x}" * (plan.record_bytes // 16)
        yield json.dumps({"id": number, "text": text}).encode()


def _tables(house: SinkHouse, plan: MemoryPlan) -> Iterator[Table | None]:
    for number in range(plan.tables):
        try:
            yield house.lake.catalog.load_table(f"{NAMESPACE}.t{number}")
        except NoSuchTableError:
            yield None


def _is_complete(house: SinkHouse, plan: MemoryPlan) -> bool:
    return all(_rows(table) == plan.records for table in _tables(house, plan))


def _rows(table: Table | None) -> int:
    snapshot = None if table is None else table.current_snapshot()
    if snapshot is None or snapshot.summary is None:
        return 0
    return int(snapshot.summary["total-records"] or 0)


def _memory_of_task(service: ServiceProcess) -> tuple[int, int]:
    """Bytes resident, and those that no other process shares, of the largest task."""
    figures = [(0, 0)]
    below = psutil.Process(service.process.pid).children(recursive=True)
    templates = {one.ppid() for one in below} & {one.pid for one in below}
    for process in below:
        try:
            if process.ppid() in templates:
                memory = process.memory_full_info()
                figures.append((memory.rss, memory.uss))
        except psutil.NoSuchProcess:
            continue
    return max(figures)


def main() -> int:
    """Print one JSON result."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in MemoryPlan.__dataclass_fields__:
        default = getattr(MemoryPlan(), name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    plan = MemoryPlan(**vars(parser.parse_args()))
    try:
        with servers(kafka=True) as running, ExitStack() as stack:
            if running.broker is None:
                raise RuntimeError("no broker was started")
            house = SinkHouse(
                database=running.database(),
                broker=running.broker,
                folder=running.folder,
                stack=stack,
                partitions=plan.partitions,
            )
            figures = measure(house, plan)
    except (PlatformError, TimeoutError) as failure:
        sys.stderr.write(f"{failure}\n")
        return 1
    about = {name: getattr(plan, name) for name in MemoryPlan.__dataclass_fields__}
    result = {name: getattr(figures, name) for name in MemoryFigures.__dataclass_fields__}
    sys.stdout.write(json.dumps({**about, "cores": os.cpu_count(), **result}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
