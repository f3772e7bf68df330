"""The engine of a local comparison, created after its sources are read.

Spark is imported only when it is chosen. If Spark is installed, the rule of `auto` is in core
(`engine_cost`); otherwise the kernel compares in this process.
"""

import logging
import os
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from datarecs_application.ports.comparing import Engine
from datarecs_cli.local.faults import EngineEndedError
from datarecs_cli.local.folder import OutFolder
from datarecs_cli.parts import Extra, is_installed
from datarecs_core.comparison.oracle.grouping import MAX_ROWS
from datarecs_core.comparison.planning.engine_cost import (
    EngineDecision,
    EngineName,
    OracleLimits,
    RowsOf,
    choose_engine,
    too_much_memory,
)
from datarecs_core.comparison.planning.faults import OracleMemoryError
from datarecs_core.comparison.planning.plan import ComparisonPlan, StagePlan
from datarecs_core.comparison.planning.scan import FileList, Scan
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.results import Difference
from datarecs_core.errors.base import DatarecsError, ErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_memory.engine import MemoryEngine
from datarecs_reports.difference_file import stored_below
from datarecs_runtime.environment import process_environment

if TYPE_CHECKING:
    from datarecs_memory.kernel_engine import KernelEngine
    from datarecs_spark.session import SparkRuntime

QUICK_CELLS = 5_000_000
"""Limit up to which Java's quick compiler alone is faster than with the optimizing compiler."""
_QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
_MIB = 1024**2
_WITHOUT_SPARK = "Spark is not installed"
_KERNEL_SHARE = 5 / 7
"""Of a run's memory; the rest is Python's. With Java these shares are 5/14 and 2/14."""


class EngineChoice(StrEnum):
    AUTO = "auto"
    KERNEL = "kernel"
    SPARK = "spark"
    REFERENCE = "reference"


@dataclass(slots=True, kw_only=True)
class Engines:
    """Creates the engine of one run, and stores which one it was."""

    wanted: EngineChoice
    rows: Callable[[Scan], Iterable[tuple[object, ...]]]
    """Delivers the rows of a scan to the oracle."""
    out: OutFolder
    scratch: Path
    memory_bytes: int
    """Memory of the run."""
    say: Callable[[str], None]
    open_things: ExitStack
    used: EngineChoice = EngineChoice.REFERENCE
    reason: str = ""
    """The reason for this engine, for people."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of the data that rules depend on, as used by the engine."""
    spark: "SparkRuntime | None" = None
    """Set after Spark was started."""
    kernel: "KernelEngine | None" = None
    """Set after it was created."""
    _oom_kills: int = 0
    """Processes that the operating system killed for lack of memory before Spark was started."""

    def engine(self, plan: ComparisonPlan) -> Engine:
        """The engine for the plan; its sources are already read."""
        if self.wanted is not EngineChoice.AUTO:
            self.used, self.reason = self.wanted, f"--engine {self.wanted}"
        else:
            decision = decide(plan, self.memory_bytes)
            self.used, self.reason = EngineChoice(decision.engine), decision.reason
        if self.used is EngineChoice.REFERENCE:
            oracle = self._oracle(plan)
            if oracle is not None:
                return oracle
        # Files of the engine are beside the differences and are no result.
        directory = self.scratch / "differences"
        if self.used is EngineChoice.KERNEL:
            return self._in_process(directory)
        self.say(f"starting Spark on this machine ({self.reason})")
        self.spark = runtime = self._spark(plan)
        self.open_things.callback(runtime.close)
        self.versions = runtime.versions()
        made: Engine = runtime.engine(plan, key=COMPARE_KEY, directory=directory)
        return made

    def abandon(self) -> None:
        """Stop started work so that it delays nothing; safe to repeat."""
        if self.kernel is not None:
            self.kernel.stop()
        if self.spark is not None:
            self.spark.abandon()
            logging.disable()  # py4j logs every call that finds no Java

    def end_of_engine(self, cause: BaseException | None) -> DatarecsError | None:
        """The error if Java ended or memory was too small; None for other causes."""
        from datarecs_kernel.refusals import ComparisonFailedError

        if isinstance(cause, ComparisonFailedError):
            is_memory = cause.code is RunDetail.OUT_OF_MEMORY
            return self._ended(cause, cause.code) if is_memory else None
        return self._end_of_java(cause) if self.used is EngineChoice.SPARK else None

    def _end_of_java(self, cause: BaseException | None) -> DatarecsError | None:
        from datarecs_runtime.tree import oom_kills
        from datarecs_spark.errors import SparkStartError
        from datarecs_spark.java_end import JavaEndedError

        if not isinstance(cause, JavaEndedError | SparkStartError):
            return None
        is_killed = isinstance(cause, JavaEndedError) and oom_kills() > self._oom_kills
        return self._ended(cause, RunDetail.OUT_OF_MEMORY if is_killed else cause.code)

    def _ended(self, cause: DatarecsError, code: ErrorCode) -> EngineEndedError:
        has_java = self.used is EngineChoice.SPARK
        return EngineEndedError(cause, code, self.memory_bytes, has_java=has_java)

    def _in_process(self, directory: Path) -> "KernelEngine":
        from datarecs_memory.kernel_engine import KernelEngine

        self.versions = data_versions()
        self.kernel = KernelEngine(
            key=COMPARE_KEY,
            directory=directory,
            threads=_cores(),
            memory_bytes=kernel_memory(self.memory_bytes),
        )
        return self.kernel

    def _oracle(self, plan: ComparisonPlan) -> MemoryEngine | None:
        """The oracle; None if `auto` chose it and the rows need more memory than it may use."""
        is_chosen = self.wanted is EngineChoice.AUTO
        limit = oracle_memory(self.memory_bytes)
        oracle = MemoryEngine(
            self.rows,
            key=COMPARE_KEY,
            write=self._store,
            max_bytes=limit if is_chosen else self.memory_bytes,
        )
        try:
            if is_chosen:
                oracle.load(plan)
        except OracleMemoryError:
            self.used, self.reason = EngineChoice.SPARK, too_much_memory(limit)
            return None
        self.versions = data_versions()
        return oracle

    def _store(self, stage: StagePlan, rows: Sequence[Difference]) -> str:
        with self.out.storing():
            return stored_below(self.out.differences)(stage, rows)

    def _spark(self, plan: ComparisonPlan) -> "SparkRuntime":
        from datarecs_cli.stack import classes
        from datarecs_cli.stack.java import Places, find_java, packaged_home
        from datarecs_runtime.tree import oom_kills
        from datarecs_spark.session import SparkRuntime, SparkSettings

        self._oom_kills = oom_kills()
        environment = process_environment()
        java = find_java(
            environment,
            shim_home=self.scratch / "java",
            places=Places(packaged=packaged_home()),
        )
        cells = cells_of(plan)
        quick = cells is not None and cells <= QUICK_CELLS
        further = f"{_QUICK_COMPILER if quick else ''} {environment.get(classes.JAVA_OPTIONS, '')}"
        return SparkRuntime.start(
            SparkSettings(
                master="local[*]",
                driver_memory=heap_of(self.memory_bytes),
                java_home=str(java.home),
                java_options=classes.of_spark(java, further.strip()),
                scratch=self.scratch / "spark",
            ),
            warm=False,
        )


def heap_of(memory_bytes: int) -> str:
    """Java's share of a run's memory; the share of the kernel follows from it.

    The rest is for Python and Java outside the heap; ADR 0109 has the rule.
    """
    return f"{memory_bytes // 2 // _MIB}m"


def kernel_memory(memory_bytes: int) -> int:
    """The kernel's share of a run's memory if there is no Java."""
    return int(memory_bytes * _KERNEL_SHARE)


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def data_versions() -> Mapping[str, str]:
    """Versions of zone tables and Unicode data in this process."""
    return {"tzdata": version("tzdata"), "unicode": unicodedata.unidata_version}


def decide(
    plan: ComparisonPlan, memory_bytes: int, *, rows: RowsOf | None = None
) -> EngineDecision:
    """Choose the engine for `--engine auto`.

    Without Spark it is the kernel for any size, since it starts without delay.

    Args:
        plan: of any comparison.
        memory_bytes: memory of the run; the oracle may use half of it, as Java does.
        rows: number of rows of a scan, for plans before their sources are read.
    """
    if not is_installed(Extra.SPARK):
        return EngineDecision(engine=EngineName.KERNEL, reason=_WITHOUT_SPARK)
    limits = OracleLimits(rows=MAX_ROWS, memory_bytes=oracle_memory(memory_bytes))
    return choose_engine(plan, rows or rows_of, limits)


def oracle_memory(memory_bytes: int) -> int:
    """The oracle's share of a run's memory, in bytes."""
    return memory_bytes // 2


def cells_of(plan: ComparisonPlan) -> int | None:
    """Rows times columns over all reads; None if a count is unknown."""
    counts = [(rows_of(scan), len(scan.columns)) for scan in _read(plan)]
    known = [rows * columns for rows, columns in counts if rows is not None]
    return sum(known) if len(known) == len(counts) else None


def _read(plan: ComparisonPlan) -> list[Scan]:
    """Scans of rows and of queries."""
    queries = [scan for stage in plan.stages for scan in stage.queries]
    of_rows = any(not stage.queries for stage in plan.stages)
    return [*(plan.scans if of_rows else ()), *queries]


def rows_of(scan: Scan) -> int | None:
    """Rows of the source, or of the footers of the pinned files; None if unknown.

    The oracle also reads rows that a database filters out.
    """
    if scan.extract is not None:
        return scan.extract.all_rows
    if not isinstance(scan.pin, FileList):
        return None
    counted = [file.rows for file in scan.pin.files if file.rows is not None]
    return sum(counted) if len(counted) == len(scan.pin.files) else None
