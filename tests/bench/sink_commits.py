"""How long a cycle commits to many tables of a catalog that answers after a while."""

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from uuid import UUID

from datarecs_application.ports.messaging import LogRecord
from datarecs_application.ports.sinking import SinkRecord
from datarecs_application.sinking.committing import COMMITS_AT_ONCE, Cut, commit_tables
from datarecs_connectors.iceberg.catalogs import Catalog, CurrentTable, TableName
from datarecs_connectors.locations import Places
from datarecs_connectors.sinking.catalog_changes import NewTable, TableChange, WritableCatalog
from datarecs_connectors.sinking.tables import IcebergSinkTables
from datarecs_core.resources.connection import IcebergConfig
from datarecs_core.sink.admission import Part
from datarecs_core.sink.checkpoint import Lineage
from datarecs_core.sink.control import DataWritten, TableReference
from datarecs_core.sink.definition import SinkTable, SinkTarget
from datarecs_testing.lake import NAMESPACE, Lake, a_lake

CYCLES = 5
_LINEAGE = Lineage(cluster_id="cluster", topic_id="topic", group="datarecs.sink.bench")
_COMMIT = UUID(int=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowCatalog:
    """Each call waits before it is made."""

    catalog: WritableCatalog
    call_s: float

    def find(self, name: TableName) -> CurrentTable | None:
        self._wait()
        return self.catalog.find(name)

    def commit(self, name: TableName, current: CurrentTable, change: TableChange) -> None:
        self._wait()
        self.catalog.commit(name, current, change)

    def create(self, name: TableName, table: NewTable) -> None:
        self.catalog.create(name, table)

    def _wait(self) -> None:
        time.sleep(self.call_s)  # noqa: TID251  the time of a network


@dataclass(frozen=True, kw_only=True)
class SlowTables(IcebergSinkTables):
    call_s: float

    def _tables(self, target: SinkTarget) -> WritableCatalog:
        return SlowCatalog(catalog=super()._tables(target), call_s=self.call_s)


def measure(*, tables: int, call_s: float, at_once: int) -> float:
    """Seconds of a commit of one file to each table; the median of the cycles."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        lake = a_lake(Path(folder) / "lake", stack)
        targets = tuple(
            SinkTarget(catalog="lake", namespace=(NAMESPACE,), name=f"t{number}")
            for number in range(tables)
        )
        opened = _opened(lake, targets, call_s)
        seconds = []
        for cycle in range(CYCLES):
            pending = _written(replace(opened, call_s=0), targets, cycle)
            begun = time.perf_counter()
            result = commit_tables(
                _cut(pending, cycle), opened, targets, committed=lambda _: None, at_once=at_once
            )
            seconds.append(time.perf_counter() - begun)
            if result.failures or len(result.commits) != tables:
                raise RuntimeError(f"a commit failed: {result.failures}")
        return median(seconds)


def _opened(lake: Lake, targets: tuple[SinkTarget, ...], call_s: float) -> SlowTables:
    around, config = lake.surroundings, lake.connection.config
    if not isinstance(config, IcebergConfig):
        raise TypeError("a lake has a connection of type iceberg")
    places = Places(source="lake", roots=around.roots, now=around.now)
    catalog = Catalog(source="lake", config=config, secrets={}, places=places, policy=around.policy)
    return SlowTables(
        sink=SinkTable(connection="k", topics=("t",), tables=targets, auto_create=True),
        catalogs={"lake": catalog},
        task="bench-0",
        now=around.now,
        stop=around.stop,
        call_s=call_s,
    )


def _written(
    tables: IcebergSinkTables, targets: tuple[SinkTarget, ...], cycle: int
) -> Mapping[TableReference, tuple[Part, ...]]:
    record = LogRecord(
        topic="t", partition=0, offset=cycle, timestamp_ms=0, key=b"k", value=b"", headers=()
    )
    pending = {}
    for target in targets:
        writer = tables.writer(target)
        writer.add([SinkRecord(record=record, value={"id": cycle})])
        table, files = writer.reference(), writer.finish()
        message = DataWritten(commit_id=_COMMIT, table=table, data_files=files)
        pending[table] = (Part(offset=cycle, message=message),)
    return pending


def _cut(pending: Mapping[TableReference, tuple[Part, ...]], cycle: int) -> Cut:
    return Cut(
        commit_id=_COMMIT,
        control_offset=cycle + 1,
        valid_through=None,
        source_ends={},
        lineage=_LINEAGE,
        epoch=1,
        pending=pending,
    )


def main() -> int:
    """Print one JSON result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, nargs="+", default=[1, 4, 8, 20])
    parser.add_argument("--call-ms", type=int, default=100)
    parser.add_argument("--at-once", type=int, nargs="+", default=[1, COMMITS_AT_ONCE])
    options = parser.parse_args()
    load_before = os.getloadavg()[0]
    results = [
        {
            "tables": tables,
            "at_once": at_once,
            "seconds": round(
                measure(tables=tables, call_s=options.call_ms / 1000, at_once=at_once), 2
            ),
        }
        for tables in options.tables
        for at_once in options.at_once
    ]
    report = {
        "call_ms": options.call_ms,
        "cores": os.cpu_count(),
        "load_before_and_after": [round(load_before, 1), round(os.getloadavg()[0], 1)],
        "results": results,
    }
    sys.stdout.write(json.dumps(report, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
