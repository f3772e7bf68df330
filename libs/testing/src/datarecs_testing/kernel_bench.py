"""The kernel as a separate engine: rows that core prepares, without Spark."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow.parquet as pq

from datarecs_application.ports.comparing import Engine, Explanation, Progress
from datarecs_core.comparison.oracle.grouping import Outside, Rows
from datarecs_core.comparison.planning.confirming import counted_rechecks, rows_that_count
from datarecs_core.comparison.planning.plan import ComparisonPlan, StagePlan
from datarecs_core.comparison.planning.scan import Pin, Scan
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.results import BucketSum, Difference, StageResults
from datarecs_core.comparison.values.canonical import encode_tuple
from datarecs_kernel.database import Connection, Resources, connected
from datarecs_kernel.decoding import cell
from datarecs_kernel.fingerprints import seal
from datarecs_kernel.layout import Layout, check_covered
from datarecs_kernel.results import stage_results
from datarecs_kernel.settling import SinkPlan
from datarecs_kernel.stages import Attempt, StageAnswer, compare_stage
from datarecs_kernel.stored import read_differences
from datarecs_testing.relations import hashed_layout, relations_of, rows_layout
from datarecs_testing.tables import Table

_MEMORY = 2**28
Read = Callable[[Scan], Rows]


class KernelEngine:
    """Port Engine over relations of plain rows; `$raw` spellings of keys are left out.

    Args:
        read: plain rows of a scan.
        directory: for differences, scopes and what spills.
    """

    def __init__(self, read: Read, directory: Path) -> None:
        self._read, self._directory = read, directory
        self._numbers = count()
        self._differing: dict[str, list[frozenset[bytes]]] = {}

    def compare(self, plan: StagePlan, progress: Callable[[Progress], None]) -> StageResults:
        check_covered(plan)
        outside = Outside(
            key=COMPARE_KEY,
            zones={name: ZoneInfo(name) for name in plan.zones},
            scopes={name: passes[-1] for name, passes in self._differing.items()},
        )
        rows = self._rows(plan, outside)
        sink = self._sink(rows_layout(plan, rows))
        answer = self._answer(sink, rows, outside)
        for scan, tally in zip(plan.scans, answer.tallies, strict=True):
            tally.extracted = len(rows[scan.index]) if rows else tally.passed
        before = self._differing.get(plan.name, [])[: len(plan.rechecks)]
        self._differing[plan.name] = [*before, _keys(sink, answer.counted.scope_parts)]
        results = stage_results(sink.layout, answer.counted, answer.tallies, sink.directory)
        if plan.seal_rows:
            results = replace(results, digests=self._sealed(plan, sink, rows, outside))
        progress(
            Progress(
                stage=plan.name,
                row_count=sum(results.counts.source_row_counts),
                mismatch_count=results.counts.rows_unmatched,
            )
        )
        return replace(results, strategy=plan.strategy)

    def differing(self, stage: str, most: int) -> None:
        """None: all rows are in memory."""

    def explain(self, plan: StagePlan) -> Explanation:
        return Explanation(stage=plan.name, text="kernel")

    def differences(self, results: StageResults) -> Sequence[Difference]:
        """The stored differences of a stage that has run."""
        return tuple(read_differences(Path(str(results.differences.location))))

    def _rows(self, plan: StagePlan, outside: Outside) -> list[Rows]:
        if plan.catalogue is not None:
            return []
        if not plan.rechecks:
            return [self._read(scan) for scan in plan.scans]
        rechecks = [[list(self._read(scan)) for scan in scans] for scans in counted_rechecks(plan)]
        before = self._differing[plan.name][: len(plan.rechecks)]
        return [*rows_that_count(plan, rechecks, before, outside)]

    def _sink(self, layout: Layout) -> SinkPlan:
        place = self._directory / f"{next(self._numbers)}"
        for name in ("parts", "scope", "spill"):
            (place / name).mkdir(parents=True)
        return SinkPlan(
            layout=layout,
            key=COMPARE_KEY,
            directory=str(place / "parts"),
            scope_directory=str(place / "scope"),
        )

    def _answer(self, sink: SinkPlan, rows: Sequence[Rows], outside: Outside) -> StageAnswer:
        with self._connected(sink) as connection:
            relations = relations_of(connection, sink.layout, rows, outside)
            return compare_stage(connection, sink, relations, Attempt(name="test"))

    def _sealed(
        self, plan: StagePlan, sink: SinkPlan, rows: Sequence[Rows], outside: Outside
    ) -> tuple[BucketSum, ...]:
        layout = hashed_layout(plan, rows)
        with self._connected(sink) as connection:
            relations = relations_of(connection, layout, rows, outside)
            return seal(connection, sink, layout, relations)

    @contextmanager
    def _connected(self, sink: SinkPlan) -> Iterator[Connection]:
        spill = Path(sink.directory).parent / "spill"
        resources = Resources(
            directory=str(spill), threads=1, memory_bytes=_MEMORY, spill_bytes=_MEMORY
        )
        with connected(resources) as connection:
            yield connection


def _keys(sink: SinkPlan, parts: Sequence[str]) -> frozenset[bytes]:
    """Encoded keys of the groups that differed."""
    keys = set()
    for part in parts:
        for row in pq.read_table(Path(str(sink.scope_directory)) / part).to_pylist():
            values = [
                cell(each.form, row[each.name], row.get(each.payload)) for each in sink.layout.keys
            ]
            keys.add(encode_tuple(values))
    return frozenset(keys)


class KernelBench:
    """RecheckBench over the kernel.

    Args:
        directory: of a test.
    """

    def __init__(self, directory: Path) -> None:
        self._directory, self._numbers = directory, count()
        self._later: dict[Pin, Table] = {}

    def prepare(
        self, plan: ComparisonPlan, tables: Sequence[Table]
    ) -> tuple[Engine, ComparisonPlan]:
        def read(scan: Scan) -> Rows:
            return self._later.get(scan.pin, tables[scan.index]).delivered(scan)

        return KernelEngine(read, self._directory / str(next(self._numbers))), plan

    def again(self, plan: ComparisonPlan, tables: Sequence[Table]) -> tuple[Scan, ...]:
        root = f"look-{len(self._later)}:"
        pins = [replace(table.pin, root=root) for table in tables]
        self._later |= dict(zip(pins, tables, strict=True))
        return tuple(replace(scan, pin=pin) for scan, pin in zip(plan.scans, pins, strict=True))

    def differences(self, engine: Engine, results: StageResults) -> Sequence[Difference]:
        if not isinstance(engine, KernelEngine):
            raise TypeError("of another bench")
        return engine.differences(results)
