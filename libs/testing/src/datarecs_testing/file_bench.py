"""Benches that store tables as files for an engine.

Every second table is an extract and the others are pinned Parquet files, so both readers run every
case, except for types that only one of them supports.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from datarecs_application.ports.comparing import Engine
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.results import Difference, StageResults
from datarecs_kernel.stored import read_differences
from datarecs_memory.kernel_engine import KernelEngine
from datarecs_testing.stored_tables import stored_scan
from datarecs_testing.tables import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBench:
    """Port RecheckBench over the kernel in this process.

    Args:
        folder: of a test.
    """

    folder: Path
    runs: Iterator[int] = field(default_factory=count)

    def prepare(
        self, plan: ComparisonPlan, tables: Sequence[Table]
    ) -> tuple[Engine, ComparisonPlan]:
        """Files of the tables below the folder, and the plan over them."""
        run = self.folder / f"run-{next(self.runs)}"
        scans = tuple(
            stored_scan(scan, tables[scan.index], run / f"source-{scan.index}")
            for scan in plan.scans
        )
        ready = plan.with_scans(scans)
        return self.engine(ready, run / "differences"), ready

    def again(self, plan: ComparisonPlan, tables: Sequence[Table]) -> tuple[Scan, ...]:
        """Files of the tables in another folder."""
        target = self.folder / f"look-{next(self.runs)}"
        return tuple(
            stored_scan(replace(scan, extract=None), tables[scan.index], target / str(scan.index))
            for scan in plan.scans
        )

    def engine(self, plan: ComparisonPlan, directory: Path) -> Engine:  # noqa: ARG002  subclasses use it
        return KernelEngine(
            key=COMPARE_KEY, directory=directory, threads=2, memory_bytes=512 * 2**20
        )

    def differences(self, engine: Engine, results: StageResults) -> Sequence[Difference]:
        """The differences in the stage's files."""
        del engine
        return list(read_differences(Path(results.differences.location or "")))
