"""Captures of the TPC-H tables, which the test suite has not made: what a later capture opens.

The tables are written by `tpchgen-cli`, 100 files each. They are captured as they are, again
unchanged, and again after one file got another time of change. Opened data files are
counted at the connector: for statistics, and one per new snapshot for its columns. The command ends
with 1 if more are opened.
"""

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from datarecs_core.captures.items import WorkKind, WorkState
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_memory.store import MemoryStore
from datarecs_testing.capture_house import CaptureHouse
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.figures import Figure, machine, page, replace_part
from datarecs_testing.memory_stores import memory_stores

TABLES, PARTS = 8, 100
"""Files of each table; nation and region have one."""
CHANGED = "lineitem"
"""The table of which one file changes."""
PROGRAM = "tpchgen-cli"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One capture."""

    name: str
    opened: Mapping[WorkKind, int]
    """Data files by the work for which they were opened."""
    seconds: float


def write_tables(folder: Path, scale: str) -> None:
    """All tables as Parquet; FileNotFoundError without the generator."""
    program = shutil.which(PROGRAM, path=sysconfig.get_path("scripts")) or shutil.which(PROGRAM)
    if program is None:
        raise FileNotFoundError(f"{PROGRAM} is not installed; run: make tpch")
    options = ("-s", scale, f"--parts={PARTS}", f"--output-dir={folder}")
    subprocess.run([program, "parquet", *options], check=True, capture_output=True)


def captures(house: CaptureHouse) -> list[Step]:
    """The three captures in their order."""
    steps = [_captured(house, "as they are"), _captured(house, "again, unchanged")]
    first = min((house.root / CHANGED).glob("*.parquet"))
    first.touch()
    return [*steps, _captured(house, f"one file of {CHANGED} changed")]


def _captured(house: CaptureHouse, name: str) -> Step:
    house.opened.clear()
    began = perf_counter()
    root = house.capture()
    seconds = perf_counter() - began
    if root.state is not WorkState.SUCCEEDED:
        raise RuntimeError(f"the capture ended as {root.state}: {root.message}")
    return Step(name=name, opened=Counter(house.opened), seconds=seconds)


def figures(steps: Sequence[Step], files: int) -> list[Figure]:
    """What was opened beside what may be, and the seconds."""
    allowed = {WorkKind.EXEC_FILE_GROUP: (files, 0, 1), WorkKind.PLAN_TABLE: (TABLES, 0, 1)}
    purposes = {WorkKind.EXEC_FILE_GROUP: "statistics", WorkKind.PLAN_TABLE: "columns"}
    opened = [
        Figure(
            name=f"opened for {purposes[kind]}, {step.name}",
            unit="files",
            values=(step.opened.get(kind, 0),),
            target=most,
        )
        for kind, each in allowed.items()
        for step, most in zip(steps, each, strict=True)
    ]
    return [*opened, *(Figure(name=s.name, unit="s", values=(s.seconds,)) for s in steps)]


def main() -> int:
    """Print the figures as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", default="1")
    parser.add_argument("--write", type=Path, help="a page of which the part is replaced")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        root, reports, clock = Path(name) / "tpch", Path(name) / "reports", ManualClock()
        reports.mkdir()
        write_tables(root, options.scale)
        files = len(list(root.rglob("*.parquet")))
        house = CaptureHouse(
            stores=memory_stores(MemoryStore(clock, FixedIds()), clock),
            blobs=MemoryBlobStores(clock),
            root=root,
            reports=reports,
        )
        results = figures(captures(house), files)
    about = [*machine(load), ("files", f"{files:,} of {TABLES} tables"), ("store", "memory")]
    text = page(f"Captures of the TPC-H tables at scale {options.scale}", results, about)
    sys.stdout.write(text)
    if options.write:
        replace_part(options.write, text)
    return 0 if all(one.met is not False for one in results) else 1


if __name__ == "__main__":
    raise SystemExit(main())
