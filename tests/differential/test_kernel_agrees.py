"""The kernel, in one task or in many, against the oracle: kept and closed rows make the whole.

Without Spark, so that many cases are cheap: the oracle judges the kept rows alone and all rows, and
what separates both answers must be exactly what the kernel says of closed buckets. Where the
kernel's task judges the kept rows itself, the whole results must be the oracle's.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import product
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.results import MeasureResult, StageResults
from datarecs_kernel.layout import Layout, PlainColumns, layout_of
from datarecs_kernel.results import stage_results
from datarecs_kernel.stored import read_differences
from datarecs_kernel.storing import SinkPlan
from datarecs_runtime.environment import process_environment
from datarecs_spark import kernel_frames
from datarecs_spark.kept_rows import is_plain, judged
from datarecs_spark.kernel import narrow
from datarecs_spark.kernel_work import KernelAnswer, KernelTask, kept_file, weights_for
from datarecs_spark.narrowing import Narrowed
from datarecs_spark.native import native_sources
from datarecs_testing.comparisons import Compared, compare
from datarecs_testing.finished_runs import MemoryBench
from datarecs_testing.narrowing import a_narrowed_case, narrowed, numbers
from datarecs_testing.spreading import in_many_tasks
from datarecs_testing.stored_tables import stored_scan
from datarecs_testing.strategies import ComparisonCase
from datarecs_testing.tables import Table, plan_of

SHAPES = int(process_environment().get("DATARECS_TEST_SHAPES", "20"))
SETS = 30


def by_sql(task: KernelTask) -> KernelAnswer:
    """The kernel without frames."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kernel_frames, "frames_fit", lambda _: False)
        return narrow(task)


def by_sums(task: KernelTask) -> KernelAnswer:
    """The kernel without pairs."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kernel_frames, "paired", lambda *_: None)
        return narrow(task)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    ("kernel", "seed"),
    [
        *product([narrow], range(SHAPES)),
        *product([by_sql, by_sums, in_many_tasks], range(SHAPES // 4)),
    ],
)
def test_kept_rows_and_closed_buckets_make_the_whole(
    tmp_path: Path, kernel: Callable[[KernelTask], KernelAnswer], seed: int, *, strict: bool
) -> None:
    case = a_narrowed_case(seed, strict=strict, sets=SETS)
    task, stage = a_task(tmp_path, case)
    answer = kernel(task)
    wide = answer.given_up is not None
    if wide:
        # Totals of more than 38 digits are left to Spark.
        assert "OutOfRange" in str(answer.given_up)
        answer = kernel(replace(task, totals=()))
    whole = compare(MemoryBench(), case.job, case.tables)
    rest = compare(MemoryBench(), case.job, kept_tables(task, case.tables))
    assert rest.stored == whole.stored
    assert counts_of(rest, answer) == counts_of(whole, None)
    assert measures_of(rest.results("stage")) == measures_of(whole.results("stage"))
    if not wide:
        assert totals_of(answer) == told_totals(stage, whole.results("stage"))
    layout = layout_of(stage, [PlainColumns() for _ in stage.scans])
    assert is_plain(layout) or not strict
    if is_plain(layout) and not wide:
        found = judged_results(task, layout, answer)
        assert numbers(found) == numbers(whole.results("stage"))
        stored = read_differences(Path(task.directory))
        assert tuple(sorted(stored, key=lambda row: row.break_id)) == whole.stored["stage"]


def judged_results(task: KernelTask, layout: Layout, answer: KernelAnswer) -> StageResults:
    """Results of the stage by the kernel's task alone."""
    sink = SinkPlan(layout=layout, key=COMPARE_KEY, directory=task.directory, scope_directory=None)
    found = judged(task, sink, "0")
    assert found is not None
    measures = tuple(layout.stage.measures[at].index for at in task.totals)
    whole = Narrowed(
        plan=layout.stage, answer=answer, all_rows=answer.filtered, measures=measures, judged=found
    )
    whole.add_closed(found.counted, found.tallies)
    return stage_results(layout, found.counted, found.tallies, task.directory)


def a_task(folder: Path, case: ComparisonCase) -> tuple[KernelTask, StagePlan]:
    plan = plan_of(narrowed(case.job), case.tables)
    scans = [
        stored_scan(scan, case.tables[scan.index], folder / scan.source) for scan in plan.scans
    ]
    (stage,) = plan.with_scans(tuple(scans)).stages
    (folder / "kept").mkdir()
    task = KernelTask(
        sources=native_sources(stage, salt="5a17"),
        totals=tuple(at for at, measure in enumerate(stage.measures) if measure.has_total),
        salts=(11, 22, 33),
        weights=weights_for(len(scans), [2**61 - 1, 2**31 - 1, 2**19 - 1, 2**17 - 1, 2**13 - 1]),
        bucket_bits=9,
        directory=str(folder / "kept"),
        threads=1,
        memory_bytes=2**28,
    )
    return task, stage


def kept_tables(task: KernelTask, tables: Sequence[Table]) -> list[Table]:
    found = []
    for index, table in enumerate(tables):
        rows = pq.read_table(Path(task.directory) / kept_file(index)).to_pylist()
        names = [name for name, _ in table.columns]
        found.append(replace(table, rows=tuple(tuple(row[name] for name in names) for row in rows)))
    return found


def counts_of(compared: Compared, closed: KernelAnswer | None) -> dict[str, object]:
    """Numbers of a run; those of closed buckets are added where they are missing."""
    counts = compared.counts("stage")
    groups = closed.closed_groups if closed else 0
    repeated = closed.closed_repeated if closed else 0
    everywhere = (1 << len(counts.source_row_counts)) - 1
    presence = dict(counts.presence)
    presence[everywhere] = presence.get(everywhere, 0) + groups
    return {
        "rows": closed.rows if closed else counts.source_row_counts,
        "null keys": closed.null_keys if closed else counts.null_keys_by_source,
        "groups": tuple(each + groups for each in counts.groups_by_source),
        "matched": counts.matched_groups + groups,
        "rows matched": counts.rows_matched + groups,
        "rows unmatched": counts.rows_unmatched,
        "unmatched": counts.unmatched_by_source,
        "missing": counts.missing_by_source,
        "presence": presence,
        "repeated": tuple(each + repeated for each in counts.duplicate_keys_by_source),
        "invalid": counts.invalid_values_by_source,
        "odd": counts.odd_one_out,
    }


def measures_of(results: StageResults) -> list[MeasureResult]:
    """Without what grows by equal groups and by rows."""
    return [
        replace(
            each,
            within=each.within_not_equal,
            equal=0,
            tolerances=tuple(
                replace(tolerance, own_within=tolerance.own_within - each.equal)
                for tolerance in each.tolerances
            ),
            total_by_source=(),
            gap_by_source=(),
            max_abs_delta=each.max_abs_delta or None,
        )
        for each in results.all_measures
    ]


def totals_of(answer: KernelAnswer) -> list[tuple[Decimal, ...]]:
    """Per measure."""
    return [
        tuple(Decimal(0 if total is None else total) for total in each)
        for each in zip(*answer.totals, strict=True)
    ]


def told_totals(stage: StagePlan, results: StageResults) -> list[tuple[Decimal | None, ...]]:
    return [
        found.total_by_source
        for measure, found in zip(stage.measures, results.measures, strict=True)
        if measure.has_total
    ]
