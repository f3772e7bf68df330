"""The Engine port on Spark: Spark reads, prepares and spreads rows, the kernel compares in tasks.

Each step is a module; this one joins them and turns what the tasks counted into StageResults.
Nothing here decides what a number means.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from datarecs_application.ports.comparing import Explanation, Progress
from datarecs_core.comparison.planning.confirming import counted_looks
from datarecs_core.comparison.planning.plan import ComparisonPlan, ScopePlan, StagePlan
from datarecs_core.comparison.results.results import StageResults
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail
from datarecs_kernel.database import Resources
from datarecs_kernel.layout import (
    Field,
    Layout,
    Role,
    check_covered,
    keys_of,
    layout_of,
    sealing_layout,
)
from datarecs_kernel.partials import gives_groups
from datarecs_kernel.refusals import UnreadableByKernelError
from datarecs_kernel.results import stage_results
from datarecs_kernel.settling import SinkPlan, settle
from datarecs_kernel.stages import StageAnswer
from datarecs_spark.accepting import accepted, attempts_of, fresh
from datarecs_spark.cancelling import Cancellation
from datarecs_spark.catalogue import listed
from datarecs_spark.conditions import ConditionRefusedError, filtered
from datarecs_spark.delivered_rows import count_rows
from datarecs_spark.errors import (
    ComparisonFailedError,
    SparkFailure,
    translated,
)
from datarecs_spark.explaining import explained
from datarecs_spark.files import (
    FileWork,
    InvalidTextsError,
    can_read_files,
    compare_files,
    file_layout,
    must_check_texts,
)
from datarecs_spark.limiting import limited, refused
from datarecs_spark.looking import (
    LOOK,
    GroupKeys,
    alike,
    in_scope,
    listed_keys,
    of_last_looks,
)
from datarecs_spark.partitions import PartitionWork, compare_partitions, seal_partitions
from datarecs_spark.prepare import OVER, SOURCE, prepared, united
from datarecs_spark.progressing import RowsTold, SparkRows
from datarecs_spark.pushed import prepared_groups, rows_beside
from datarecs_spark.read import Delivered, all_rows, check_pinned, delivered, roots
from datarecs_spark.resources import cores_of_one, kernel_memory, on_one_executor
from datarecs_spark.row_counts import rows_counted
from datarecs_spark.spellings import (
    KeyRows,
    only_spelled,
    spelled_keys,
    spelled_sources,
    with_raw_keys,
)
from datarecs_spark.spilling import SpillLook
from datarecs_spark.watching import Watch

SMALL_ROWS = 1_000_000
"""Below it a stage is cut into two partitions."""
_SCOPES, _SPILLED = "scopes", "spilled"


class SparkEngine:
    """One run; it keeps the keys of differing groups that later stages ask for.

    Args:
        session: of this run alone.
        plan: the run's.
        key: the tenant's key for break ids, hashes and masks.
        directory: differences go to `<directory>/<stage>/part-*.parquet`.
        cancellation: asked before and after every action.
    """

    def __init__(
        self,
        session: SparkSession,
        *,
        plan: ComparisonPlan,
        key: bytes,
        directory: Path,
        cancellation: Cancellation,
    ) -> None:
        self._session, self._key, self._directory = session, key, directory
        self._cancellation = cancellation
        self._partitions = 0
        self._rows_told = RowsTold(expected=0, tell=_unheard)
        """Of the stage at work."""
        self._passes: dict[str, int] = {}
        """The latest pass of each stage: how many looks it had."""
        self._key_fields: dict[str, tuple[Field, ...]] = {}
        """Of each stage: what the keys of its differing groups are."""
        for stage in plan.stages[:1]:
            self._size(stage)

    def compare(self, plan: StagePlan, progress: Callable[[Progress], None]) -> StageResults:
        """Run one stage.

        Raises:
            NotCoveredError: the stage asks for what this engine does not do; nothing was read.
            SourceFailedError: a source cannot be read at its pin.
            ValueTooLargeError: a value that is grouped by or compared is above its limit.
            KeyTooLargeError: the same of a key.
            SumOverflowError: a sum needs more than 38 digits.
            DuplicateKeysError: repeated keys under `duplicates: error`.
            CancelledError: somebody cancelled.
            ComparisonFailedError: Spark failed otherwise, or took more disk than the job allows.
        """
        check_covered(plan)
        self._cancellation.name_jobs()
        self._rows_told = told = _rows_told(plan, progress)
        try:
            with Watch([self._spill(plan), told]):
                results = self._compare(plan)
        except SparkFailure as cause:
            self._cancellation.check()
            raise _meaning(cause, plan) from cause
        self._cancellation.check()
        counts = results.counts
        progress(
            Progress(
                stage=plan.name,
                row_count=max(told.rows, sum(counts.source_row_counts)),
                mismatch_count=counts.rows_unmatched,
            )
        )
        return results

    def explain(self, plan: StagePlan) -> Explanation:
        """How the stage would be compared; reads footers of files, no row."""
        check_covered(plan)
        layout = layout_of(plan, self._looks(plan)[0])
        return explained(layout, None if self._reads_files(plan) else self._partitions)

    def differing(self, stage: str, most: int) -> Sequence[Sequence[str | None]] | None:
        """Keys of the groups that differed in a stage, as canonical text, at most so many.

        None for more of them, and where one has no canonical form.
        """
        return listed_keys(self._differing(stage), self._key_fields[stage], most)

    def _size(self, stage: StagePlan) -> None:
        """Cut the work of partitions as the job says, or by the rows of the stage."""
        rows, cores = _expected_rows(stage), self._session.sparkContext.defaultParallelism
        small = rows < SMALL_ROWS
        expected = 2 if small else max(2 * cores, rows // SMALL_ROWS)
        self._partitions = stage.effort.partitions or expected
        self._session.conf.set("spark.sql.shuffle.partitions", str(self._partitions))
        self._session.conf.set("spark.sql.adaptive.enabled", "false" if small else "true")

    def _spill(self, plan: StagePlan) -> SpillLook:
        """Ends the run where intermediate data take more disk than the job allows.

        What executors of a cluster keep for themselves is not seen from here.
        """
        limit = plan.effort.spill
        told = f"intermediate data take more than {limit} bytes of disk (execution.spill)"
        failure = ComparisonFailedError(RunDetail.SPILL_EXHAUSTED, plan.name, told)
        folders = [self._directory / _SPILLED]
        if on_one_executor(self._session):
            scratch = self._session.conf.get("spark.local.dir", None)
            folders += [Path(scratch)] if scratch else []
        return SpillLook(folders, limit=limit, exceeded=lambda: self._cancellation.cancel(failure))

    def _looks(self, plan: StagePlan) -> list[list[Delivered]]:
        """The sources' rows at each look, or their columns where the stage compares schemas."""
        if plan.catalogue is not None:
            return [listed(self._session, plan)]
        scans = counted_looks(plan)
        looks = [[delivered(self._session, scan) for scan in own] for own in scans]
        by_source = [alike(own) for own in zip(*looks, strict=True)]
        return [list(own) for own in zip(*by_source, strict=True)]

    def _compare(self, plan: StagePlan) -> StageResults:
        """By the kernel over files where it can read them, else over Spark's partitions."""
        if not self._reads_files(plan):
            return self._pass(plan)
        try:
            return self._of_files(plan, check_texts=must_check_texts(plan))
        except UnreadableByKernelError:
            self._cancellation.check()
            return self._pass(plan)

    def _reads_files(self, plan: StagePlan) -> bool:
        return can_read_files(plan) and on_one_executor(self._session)

    def _of_files(self, plan: StagePlan, *, check_texts: bool) -> StageResults:
        """One task reads the files and compares them.

        Raises:
            UnreadableByKernelError: Spark has to read a source.
        """
        directory = fresh(self._directory / _SPILLED)
        resources = Resources(
            directory=str(directory),
            threads=self._session.sparkContext.defaultParallelism,
            memory_bytes=kernel_memory(self._session),
            spill_bytes=plan.effort.spill,
        )
        sink = self._sink(file_layout(plan, resources, check_texts=check_texts))
        work = FileWork(
            sink=sink,
            resources=resources,
            check_texts=check_texts,
            scope_files=self._scope_files(plan),
        )
        self._rows_told.reads(partial(rows_counted, directory))
        try:
            answer = compare_files(self._session, work)
        except InvalidTextsError:
            return self._of_files(plan, check_texts=True)
        for tally, source in zip(answer.stage.tallies, answer.sources, strict=True):
            check_pinned(source, source.extracted)
            tally.extracted = all_rows(source.scan, source.extracted)
        return self._told(sink, answer.stage)

    def _scope_files(self, plan: StagePlan) -> tuple[str, ...] | None:
        if plan.scope is None:
            return None
        return tuple(
            map(str, sorted(self._differing(plan.scope.from_stage).glob("part-*.parquet")))
        )

    def _pass(self, plan: StagePlan) -> StageResults:
        """One pass over the rows of the plan, which Spark reads."""
        self._size(plan)
        looks = self._looks(plan)
        sink = self._sink(layout_of(plan, looks[0]))
        return self._told(sink, self._compared(plan, sink, looks))

    def _sink(self, layout: Layout) -> SinkPlan:
        """Empty folders for what the tasks of a pass write."""
        plan = layout.stage
        self._passes[plan.name] = number = len(plan.looks)
        self._key_fields[plan.name] = layout.keys
        scope = self._scopes(plan.name, number) if plan.keep_scope else None
        return SinkPlan(
            layout=layout,
            key=self._key,
            directory=str(fresh(attempts_of(self._directory / plan.name))),
            scope_directory=None if scope is None else str(fresh(attempts_of(scope))),
        )

    def _told(self, sink: SinkPlan, answer: StageAnswer) -> StageResults:
        """What the tasks of a pass counted, as results; their files are taken in."""
        layout, plan, counted = sink.layout, sink.layout.stage, answer.counted
        if plan.keep_scope:
            scope = self._scopes(plan.name, len(plan.looks))
            accepted(plan.name, counted.scope_parts, scope)
        counted = settle(sink, counted)
        if counted.parts and spelled_sources(plan):
            keys = self._key_rows(plan)
            counted = with_raw_keys(self._session, sink, counted, keys)
        location = accepted(plan.name, counted.parts, self._directory / plan.name)
        results = stage_results(layout, counted, answer.tallies, str(location))
        return replace(results, strategy=plan.strategy)

    def _compared(
        self, plan: StagePlan, sink: SinkPlan, looks: Sequence[Sequence[Delivered]]
    ) -> StageAnswer:
        """Spark reads and prepares; the kernel compares, a part of the groups in each task."""
        layout = sink.layout
        if plan.has_groups:
            rows = _beside_groups(layout, looks[0])
        else:
            rows = self._prepared(plan, looks, layout.of_rows.fields)
        is_limited = plan.where is not None or plan.scope is not None
        seals_rows = plan.seal_rows and layout.pairs_rows
        readings = 1 + is_limited + seals_rows
        self._rows_told.reads(SparkRows(self._session.sparkContext, readings=readings))
        work = PartitionWork(sink=sink, resources=self._resources(plan))
        answer = compare_partitions(limited(layout.of_rows, rows), work, self._partitions)
        delivered_rows = count_rows(self._read(plan, looks)) if is_limited else None
        for index, (tally, source) in enumerate(zip(answer.tallies, looks[0], strict=True)):
            tally.extracted = tally.passed if delivered_rows is None else delivered_rows[index]
            check_pinned(source, tally.extracted)
            tally.extracted = all_rows(source.scan, tally.extracted)
        if seals_rows:
            hashed = sealing_layout(plan, looks[0])
            hashed_rows = self._prepared(plan, looks, hashed.fields).drop(OVER)
            answer.counted.sealed = seal_partitions(hashed_rows, work, hashed)
        return answer

    def _resources(self, plan: StagePlan) -> Resources:
        """Of one of the tasks that an executor runs at a time."""
        at_a_time = cores_of_one(self._session)
        return Resources(
            directory=str(fresh(self._directory / _SPILLED)),
            threads=1,
            memory_bytes=kernel_memory(self._session) // at_a_time,
            spill_bytes=max(plan.effort.spill // at_a_time, 1),
        )

    def _prepared(
        self, plan: StagePlan, looks: Sequence[Sequence[Delivered]], fields: Sequence[Field]
    ) -> DataFrame:
        """The prepared rows of all sources that pass `where` and scope, of their last looks."""
        if plan.scope is None:
            return self._latest(plan, looks, fields, where=(plan.where,))
        keys = self._group_keys(plan.scope, looks[0], "z")
        where = (plan.where, plan.scope.where)
        rows = self._latest(plan, looks, (*keys.fields, *fields), where=where)
        return in_scope(self._session, rows, keys, self._differing(plan.scope.from_stage))

    def _read(self, plan: StagePlan, looks: Sequence[Sequence[Delivered]]) -> DataFrame:
        """The sources' rows before `where` and scope, by their source alone."""
        if len(looks) > 1:
            return self._latest(plan, looks, ())
        return united([each.rows.selectExpr(f"{each.scan.index} AS {SOURCE}") for each in looks[0]])

    def _key_rows(self, plan: StagePlan) -> KeyRows:
        """Keys before and after cast and rules; only rows of sources where they may differ."""
        looks = [only_spelled(plan, look) for look in self._looks(plan)]
        fields = spelled_keys(plan, looks[0])
        if not plan.has_groups:
            return KeyRows(fields=fields, rows=self._prepared(plan, looks, fields))
        groups = [
            source
            if gives_groups(plan, source.scan.index)
            else _passing(plan, source, (plan.where,))
            for source in looks[0]
        ]
        return KeyRows(fields=fields, rows=united([prepared(each, fields) for each in groups]))

    def _latest(
        self,
        plan: StagePlan,
        looks: Sequence[Sequence[Delivered]],
        fields: Sequence[Field],
        *,
        where: Sequence[str | None] = (),
    ) -> DataFrame:
        """Prepared rows of all sources, of every group those of its last look."""
        passing = [[_passing(plan, source, where) for source in look] for look in looks]
        if len(looks) == 1:
            return united([prepared(source, tuple(fields)) for source in passing[0]])
        keys = self._group_keys(plan.groups_of_rows, looks[0], "y")
        wanted = (*keys.fields, *fields)
        parts = [
            prepared(source, wanted).selectExpr("*", f"{number} AS {LOOK}")
            for number, look in enumerate(passing)
            for source in look
        ]
        before = [self._scopes(plan.name, number) for number in range(len(plan.looks))]
        return of_last_looks(self._session, united(parts), keys, before)

    def _group_keys(
        self, groups: ScopePlan, sources: Sequence[Delivered], prefix: str
    ) -> GroupKeys:
        """Of the groups of a stage, as columns of these sources."""
        role = Role.HASHED if groups.buckets else Role.KEY
        fields = keys_of(groups.dimensions, sources, prefix, role=role)
        return GroupKeys(fields=fields, buckets=groups.buckets, key=self._key)

    def _scopes(self, stage: str, number: int) -> Path:
        """Where the pass of a stage with so many looks left the keys of what differed."""
        return self._directory / _SCOPES / stage / str(number)

    def _differing(self, stage: str) -> Path:
        """The same of the stage's latest pass."""
        return self._scopes(stage, self._passes.get(stage, 0))


def _meaning(failure: Exception, plan: StagePlan) -> DatarecsError:
    """What Spark's failure says of the plan's sources, or of the stage."""
    scans = [scan for own in (plan.scans, *plan.looks) for scan in own]
    places = {root: name for scan in scans for root, name in roots(scan).items()}
    return refused(failure, plan) or translated(failure, plan.name, places)


def _unheard(_rows: int) -> None:
    """Nothing is told before the first stage."""


def _rows_told(plan: StagePlan, progress: Callable[[Progress], None]) -> RowsTold:
    """Tells rows that were read; mismatches are none until they are final."""
    return RowsTold(
        expected=_expected_rows(plan),
        tell=lambda rows: progress(Progress(stage=plan.name, row_count=rows)),
    )


def _expected_rows(stage: StagePlan) -> int:
    found = 0
    for scan in stage.scans:
        place = scan.extract or scan.pin
        found += sum(file.rows or 0 for file in getattr(place, "files", ()))
    return found


def _beside_groups(layout: Layout, sources: Sequence[Delivered]) -> DataFrame:
    """Groups of the sources that gave them, and the prepared rows of the others."""
    plan = layout.stage
    return united(
        [
            prepared_groups(source, layout)
            if gives_groups(plan, source.scan.index)
            else rows_beside(_passing(plan, source, (plan.where,)), layout)
            for source in sources
        ]
    )


def _passing(plan: StagePlan, source: Delivered, where: Sequence[str | None]) -> Delivered:
    """The rows that every condition keeps."""
    rows = source.rows
    try:
        for condition in where:
            rows = rows if condition is None else filtered(rows, condition, source.broken)
    except ConditionRefusedError as cause:
        raise ComparisonFailedError(
            RunDetail.COMPARISON_FAILED, plan.name, f"`where` cannot be used: {cause}"
        ) from cause
    return replace(source, rows=rows)
