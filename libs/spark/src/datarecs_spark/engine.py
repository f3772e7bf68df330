"""The Engine port on Spark: one stage is one action over one plan of DataFrames.

Read, prepare, unite, group, judge, name, sink: each step is a module, this one joins them and turns
what the tasks counted into StageResults. Nothing here decides what a number means.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from datarecs_application.ports.comparing import Explanation, Progress
from datarecs_core.comparison.grouping import Outside
from datarecs_core.comparison.plan import ComparisonPlan, StagePlan
from datarecs_core.comparison.reference import compare_stage
from datarecs_core.comparison.results import StageResults
from datarecs_core.errors.run import RunDetail
from datarecs_core.jobs.vocabulary import NullKeys, Strategy
from datarecs_spark.cancelling import Cancellation
from datarecs_spark.catalogue import listed
from datarecs_spark.conditions import ConditionRefusedError, filtered
from datarecs_spark.counted import Counted, read_counted
from datarecs_spark.errors import (
    ComparisonFailedError,
    SourceFailedError,
    SparkFailure,
    translated,
)
from datarecs_spark.explaining import explained
from datarecs_spark.fingerprints import bucket, summed
from datarecs_spark.forms import INTEGER
from datarecs_spark.grouping import aggregated, null_key, tuples, united
from datarecs_spark.layout import (
    Layout,
    Role,
    check_covered,
    keys_of,
    layout_of,
    sealing_layout,
)
from datarecs_spark.narrowing import Narrowed, narrowed
from datarecs_spark.native import NotNativeError
from datarecs_spark.opening import opened_groups, opened_tuples
from datarecs_spark.prepare import prepared
from datarecs_spark.read import Delivered, delivered, roots
from datarecs_spark.results import stage_results
from datarecs_spark.sealing import read_sealed, sealed_groups, sealed_rows
from datarecs_spark.sink import SUMMARY, sunk
from datarecs_spark.storing import SinkPlan
from datarecs_spark.tally import SourceTally, passed_rows, read_rows, read_tallies
from datarecs_spark.truncating import truncated

SMALL_ROWS = 1_000_000
"""Below it a stage is cut into two partitions."""
_SCOPES, _NARROWED = "scopes", "narrowed"


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
        for stage in plan.stages[:1]:
            self._size(_expected_rows(stage))

    def compare(self, plan: StagePlan, progress: Callable[[Progress], None]) -> StageResults:
        """Run one stage.

        Raises:
            NotCoveredError: the stage asks for what this engine does not do; nothing was read.
            SourceFailedError: a source cannot be read at its pin.
            SumOverflowError: a sum needs more than 38 digits.
            DuplicateKeysError: repeated keys under `duplicates: error`.
            CancelledError: somebody cancelled.
            ComparisonFailedError: Spark failed otherwise.
        """
        check_covered(plan)
        self._cancellation.name_jobs()
        try:
            results = self._compare(plan)
        except SparkFailure as cause:
            self._cancellation.check()
            places = {root: name for scan in plan.scans for root, name in roots(scan).items()}
            raise translated(cause, plan.name, places) from cause
        self._cancellation.check()
        counts = results.counts
        progress(
            Progress(
                stage=plan.name,
                row_count=sum(counts.source_row_counts),
                mismatch_count=counts.rows_unmatched,
            )
        )
        return results

    def explain(self, plan: StagePlan) -> Explanation:
        """How the stage would be compared; reads footers of files, no row."""
        check_covered(plan)
        sources = self._delivered(plan)
        return explained(layout_of(plan, sources), self._partitions)

    def _size(self, rows: int) -> None:
        """Cut work for so many rows, of a stage or of what narrowing left of it."""
        cores, small = self._session.sparkContext.defaultParallelism, rows < SMALL_ROWS
        self._partitions = 2 if small else max(2 * cores, rows // SMALL_ROWS)
        self._session.conf.set("spark.sql.shuffle.partitions", str(self._partitions))
        self._session.conf.set("spark.sql.adaptive.enabled", "false" if small else "true")

    def _delivered(self, plan: StagePlan) -> list[Delivered]:
        """The sources' rows, or their columns where the stage compares schemas."""
        if plan.catalogue is not None:
            return listed(self._session, plan)
        return [delivered(self._session, scan) for scan in plan.scans]

    def _compare(self, plan: StagePlan) -> StageResults:
        """By the plan's strategy; narrowing that turns out impossible becomes `full`."""
        if plan.strategy.chosen is not Strategy.NARROW:
            return self._pass(plan)
        try:
            with narrowed(self._session, plan, self._directory / _NARROWED / plan.name) as found:
                return self._pass(found.plan, found)
        except NotNativeError as cause:
            reason = str(cause)
        except SparkFailure:
            self._cancellation.check()
            reason = "the kernel or its rows failed in Spark"
        rejected = ((Strategy.NARROW, reason), *plan.strategy.rejected)
        choice = replace(plan.strategy, chosen=Strategy.FULL, rejected=rejected)
        return self._pass(replace(plan, strategy=choice))

    def _pass(self, plan: StagePlan, found_closed: Narrowed | None = None) -> StageResults:
        """One pass over the rows of the plan; closed buckets add what they have."""
        self._size(_expected_rows(plan))
        sources = self._delivered(plan)
        layout = layout_of(plan, sources)
        scope = self._fresh(_SCOPES, plan.name) if plan.keep_scope else None
        sink = SinkPlan(
            layout=layout,
            key=self._key,
            directory=str(self._fresh(plan.name)),
            scope_directory=None if scope is None else str(scope),
        )
        counted, tallies = self._compared(sink, sources)
        if found_closed is not None:
            found_closed.add_closed(counted, tallies)
        _keep_only(Path(sink.directory), counted.parts)
        if scope is not None:
            _keep_only(scope, counted.scope_parts)
        if counted.stored > plan.caps.max_rows:
            counted = truncated(self._session, sink, counted)
        results = stage_results(layout, counted, tallies, sink.directory)
        if plan.seal_rows and plan.catalogue is not None:
            # Columns are no rows of Spark's; the oracle reads them from the plan.
            sealed = compare_stage(plan, (), Outside(key=self._key)).results.digests
            results = replace(results, digests=sealed)
        metrics = () if found_closed is None else found_closed.metrics
        return replace(results, metrics=(*results.metrics, *metrics), strategy=plan.strategy)

    def _compared(
        self, sink: SinkPlan, sources: Sequence[Delivered]
    ) -> tuple[Counted, list[SourceTally]]:
        """The one action of a stage."""
        layout, plan = sink.layout, sink.layout.stage
        parts = [self._prepared(layout.of_rows, each) for each in sources]
        groups = self._groups(layout, parts)
        told = sunk(groups, sink).union(passed_rows(layout.of_rows, parts))
        if plan.where is not None or plan.scope is not None:
            told = told.union(read_rows(sources))
        if plan.seal_rows and plan.catalogue is None:
            told = told.union(self._sealed(layout, sources, parts))
        answers = [(row["what"], row["body"]) for row in told.collect()]
        counted = Counted(len(layout.sources))
        for what, body in answers:
            if what == SUMMARY:
                counted.add(read_counted(body, len(layout.sources)))
        tallies = read_tallies(layout.of_rows, answers)
        for tally, source in zip(tallies, sources, strict=True):
            if plan.where is None and plan.scope is None:
                tally.extracted = tally.passed
            _check_pinned(source, tally)
        counted.sealed = read_sealed(answers)
        return counted, tallies

    def _groups(self, layout: Layout, parts: Sequence[DataFrame]) -> DataFrame:
        """Groups of prepared rows, the wholly equal ones as numbers."""
        rows = united(parts)
        if layout.stage.null_keys is NullKeys.EXCLUDE:
            rows = rows.filter(f"NOT {null_key(layout.of_rows.keys)}")
        if layout.hashed is not None:
            return opened_groups(layout, summed(layout.hashed, rows, self._key))
        if layout.pairs_rows:
            return opened_tuples(layout, tuples(layout, rows, self._partitions), self._partitions)
        return opened_groups(layout, aggregated(layout, rows))

    def _sealed(
        self, layout: Layout, sources: Sequence[Delivered], parts: Sequence[DataFrame]
    ) -> DataFrame:
        """Fingerprints of rows, or of groups where functions make them; only `proof: rows` asks."""
        stage = layout.stage
        hashed = layout.hashed
        if hashed is None and not stage.collapses:
            hashed = sealing_layout(stage, sources)
            parts = [self._prepared(hashed, each) for each in sources]
        rows = united(parts)
        if stage.null_keys is NullKeys.EXCLUDE:
            rows = rows.filter(f"NOT {null_key((hashed or layout).keys)}")
        if hashed is not None:
            return sealed_rows(hashed, rows, self._key)
        return sealed_groups(layout, aggregated(layout, rows), self._key)

    def _prepared(self, layout: Layout, source: Delivered) -> DataFrame:
        """The prepared rows of one source that pass `where` and scope."""
        plan = layout.stage
        for condition in (plan.where, plan.scope.where if plan.scope else None):
            if condition is not None:
                source = _passing(plan, source, condition)
        if plan.scope is None:
            return prepared(source, layout.fields)
        role = Role.HASHED if plan.scope.buckets else Role.KEY
        scope_keys = keys_of(plan.scope.dimensions, [source] * len(plan.scans), "z", role=role)
        rows = prepared(source, (*scope_keys, *layout.fields))
        wanted = [label for label in rows.columns if not label.startswith("z")]
        columns = [column for field in scope_keys for column in field.columns]
        if plan.scope.buckets:
            rows = rows.selectExpr(*wanted, f"{bucket(scope_keys, self._key)} AS z0")
            columns = [("z0", INTEGER.sql_type)]
        return self._in_scope(plan.scope.from_stage, columns, rows).select(*wanted)

    def _in_scope(
        self, stage: str, columns: Sequence[tuple[str, str]], rows: DataFrame
    ) -> DataFrame:
        parts = sorted((self._directory / _SCOPES / stage).glob("part-*.parquet"))
        if not parts:
            return rows.filter("FALSE")
        schema = ", ".join(f"k{label[1:]} {kind}" for label, kind in columns)
        stored = self._session.read.schema(schema).parquet(*map(str, parts))
        differing = stored.toDF(*(f"d{label}" for label, _ in columns))
        same = [f"{label} <=> d{label}" for label, _ in columns]
        return rows.join(differing, F.expr(" AND ".join(same) or "TRUE"), how="left_semi")

    def _fresh(self, *names: str) -> Path:
        """An empty directory; what an earlier attempt left is gone."""
        directory = self._directory.joinpath(*names)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        return directory


def _expected_rows(stage: StagePlan) -> int:
    found = 0
    for scan in stage.scans:
        place = scan.extract or scan.pin
        found += sum(file.rows or 0 for file in getattr(place, "files", ()))
    return found


def _passing(plan: StagePlan, source: Delivered, condition: str) -> Delivered:
    try:
        rows = filtered(source.rows, condition)
    except ConditionRefusedError as cause:
        raise ComparisonFailedError(
            RunDetail.COMPARISON_FAILED, plan.name, f"`where` cannot be used: {cause}"
        ) from cause
    return Delivered(
        scan=source.scan,
        rows=rows,
        checked=source.checked,
        wide=source.wide,
        pinned_rows=source.pinned_rows,
    )


def _check_pinned(source: Delivered, tally: SourceTally) -> None:
    """Spark has read exactly the rows that were pinned."""
    if source.pinned_rows is not None and tally.extracted != source.pinned_rows:
        raise SourceFailedError(
            RunDetail.SNAPSHOT_LOST,
            source.source,
            f"{tally.extracted} rows were read, {source.pinned_rows} were pinned; a file changed "
            "while it was read",
        )


def _keep_only(directory: Path, names: Sequence[str]) -> None:
    """Remove what attempts left that did not count."""
    for path in directory.iterdir():
        if path.name not in names:
            path.unlink()
