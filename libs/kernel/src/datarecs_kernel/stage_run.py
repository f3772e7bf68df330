"""Run the stages of one run with the kernel; shared by all engines.

An engine only decides where tasks run (`Tasks`). The files that they read and write, the second
reading if a text is not UTF-8, the conversion of counts to results, and the keys for later stages
are the same in one process, on Spark and on a cluster, and so are numbers and proofs.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol

from datarecs_core.comparison.expressions.condition import named_columns
from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.results import StageResults
from datarecs_core.jobs.types import TypeKind
from datarecs_kernel.accepting import accepted, attempts_of, fresh
from datarecs_kernel.database import Resources, connected
from datarecs_kernel.layout import Field, Layout, layout_of
from datarecs_kernel.pinned_rows import all_rows, check_pinned
from datarecs_kernel.progressing import RowProgress
from datarecs_kernel.readings import Reading, Rechecks, Shares, columns_of, read_sources
from datarecs_kernel.results import stage_results
from datarecs_kernel.row_counts import rows_counted
from datarecs_kernel.scopes import group_files, list_keys
from datarecs_kernel.settling import SinkPlan, settle
from datarecs_kernel.spellings import spelled_sources, write_raw_keys
from datarecs_kernel.stage_tasks import Act, Work, spelling
from datarecs_kernel.stages import StageAnswer
from datarecs_kernel.task_failures import InvalidTextsError

_SCOPES, _SPILLED = "scopes", "spilled"


class Tasks(Protocol):
    """Where the tasks of a stage run; raises InvalidTextsError if texts must be checked."""

    def resources(self, plan: StagePlan, directory: str) -> Resources:
        """Resources of each task; the directory exists, is empty and is shared by all tasks."""

    def shares(self, plan: StagePlan, rechecks: Rechecks) -> tuple[Shares | None, ...]:
        """The share of each task; None: one task reads all."""

    def compare(self, work: Work) -> tuple[StageAnswer, list[int] | None]:
        """The counts of the tasks, and rows before conditions if there are conditions."""

    def run(self, work: Work, act: Act) -> list[str]:
        """Run the act in one task per share; return the answers, in any order."""

    def check_stop(self) -> None:
        """Raises if the run was stopped."""


class StageRun:
    """One run; it stores the keys of groups that differ for later stages.

    Args:
        key: the tenant's key for break ids, hashes and masks.
        directory: differences go to `<directory>/<stage>/part-*.parquet`.
        tasks: decides where they run.
    """

    def __init__(self, *, key: bytes, directory: Path, tasks: Tasks) -> None:
        self._key, self._directory, self._tasks = key, directory, tasks
        self.spilled = directory / _SPILLED
        """Folder for data of the current stage that exceeds memory."""
        self._passes: dict[str, int] = {}
        """The number of rechecks in the latest pass of each stage."""
        self._key_fields: dict[str, tuple[Field, ...]] = {}
        """The layout of the keys of groups that differ, per stage."""

    def compare(self, plan: StagePlan, row_progress: RowProgress) -> StageResults:
        """Run one stage.

        Raises:
            DatarecsError: a source cannot be read at its pin, a value or key is above its limit, a
                sum has more than 38 digits, or keys repeat under `duplicates: error`.
        """
        try:
            return self._pass(plan, row_progress, check_texts=_must_check_texts(plan))
        except InvalidTextsError:
            self._tasks.check_stop()
            return self._pass(plan, row_progress, check_texts=True)

    def layout(self, plan: StagePlan) -> Layout:
        """The layout of the stage; reads footers of files, no row."""
        reading = self._reading(plan, check_texts=False)
        return layout_of(plan, columns_of(_read_footers(reading, self._resources(plan))))

    def differing(self, stage: str, most: int) -> Sequence[Sequence[str | None]] | None:
        """Keys of the groups that differed in a stage, as canonical text, up to a limit.

        None above the limit, and if a key has no canonical form.
        """
        return list_keys(self._differing(stage), self._key_fields[stage], most)

    def _pass(
        self, plan: StagePlan, row_progress: RowProgress, *, check_texts: bool
    ) -> StageResults:
        """One pass over the rows of the plan.

        Raises:
            InvalidTextsError: the pass must be repeated with `check_texts`.
        """
        resources, reading = self._resources(plan), self._reading(plan, check_texts=check_texts)
        row_progress.reads(partial(rows_counted, Path(resources.directory)))
        rechecks = _read_footers(reading, resources)
        columns = columns_of(rechecks)
        work = Work(
            sink=self._sink(layout_of(plan, columns)),
            reading=reading,
            columns=columns,
            resources=resources,
            shares=self._tasks.shares(plan, rechecks),
        )
        answer, counts = self._tasks.compare(work)
        _check_rows(answer, counts, rechecks)
        return self._store(work, answer)

    def _reading(self, plan: StagePlan, *, check_texts: bool) -> Reading:
        scope = None if plan.scope is None else self._differing(plan.scope.from_stage)
        before = (self._scopes(plan.name, number) for number in range(len(plan.rechecks)))
        return Reading(
            plan=plan,
            key=self._key,
            check_texts=check_texts,
            scope_files=() if scope is None else group_files(scope),
            recheck_files=tuple(map(group_files, before)),
        )

    def _resources(self, plan: StagePlan) -> Resources:
        return self._tasks.resources(plan, str(fresh(self.spilled)))

    def _sink(self, layout: Layout) -> SinkPlan:
        """Empty folders for the files of the tasks of a pass."""
        plan = layout.stage
        self._passes[plan.name] = number = len(plan.rechecks)
        self._key_fields[plan.name] = layout.keys
        scope = self._scopes(plan.name, number) if plan.stores_scope else None
        return SinkPlan(
            layout=layout,
            key=self._key,
            directory=str(fresh(attempts_of(self._directory / plan.name))),
            scope_directory=None if scope is None else str(fresh(attempts_of(scope))),
        )

    def _store(self, work: Work, answer: StageAnswer) -> StageResults:
        """The counts of a pass as results; its files are accepted."""
        sink, plan, counted = work.sink, work.layout.stage, answer.counted
        if plan.stores_scope:
            scope = self._scopes(plan.name, len(plan.rechecks))
            accepted(plan.name, counted.scope_parts, scope)
        counted = settle(sink, counted)
        if counted.parts and spelled_sources(plan):
            files = self._tasks.run(work, spelling(work, counted.parts))
            with connected(work.resources) as connection:
                counted = write_raw_keys(connection, sink, counted, files, "spelled")
        location = accepted(plan.name, counted.parts, self._directory / plan.name)
        results = stage_results(work.layout, counted, answer.tallies, str(location))
        return replace(results, strategy=plan.strategy)

    def _scopes(self, stage: str, number: int) -> Path:
        """The folder with the keys that differed after a number of rechecks of a stage."""
        return self._directory / _SCOPES / stage / str(number)

    def _differing(self, stage: str) -> Path:
        """The same folder for the stage's latest pass."""
        return self._scopes(stage, self._passes.get(stage, 0))


def expected_rows(stage: StagePlan) -> int:
    """Rows of all sources by the footers of their files; unknown numbers count as 0."""
    rows = 0
    for scan in stage.scans:
        place = scan.extract or scan.pin
        rows += sum(file.rows or 0 for file in getattr(place, "files", ()))
    return rows


def _read_footers(reading: Reading, resources: Resources) -> Rechecks:
    """The sources at each recheck; reads footers of files."""
    with connected(resources) as connection:
        return read_sources(connection, reading)


def _check_rows(answer: StageAnswer, counts: Sequence[int] | None, rechecks: Rechecks) -> None:
    """Check that every source returned the pinned number of rows, and store these numbers.

    Raises:
        SourceFailedError: a source has another number of rows.
    """
    is_first = len(rechecks) == 1
    for index, (tally, source) in enumerate(zip(answer.tallies, rechecks[0], strict=True)):
        rows = tally.passed if counts is None else counts[index]
        check_pinned(source.scan, source.pinned_rows if is_first else None, rows)
        tally.extracted = all_rows(source.scan, rows)


def _must_check_texts(plan: StagePlan) -> bool:
    """Whether a condition names a text column of a source's files.

    A text that is not UTF-8 makes the condition unknown and keeps its row; DuckDB would skip it
    if statistics of the file exclude that any text meets the condition.
    """
    stage_wide = [plan.where, plan.scope.where if plan.scope is not None else None]
    for scan in (scan for scans in (plan.scans, *plan.rechecks) for scan in scans):
        if scan.extract is not None:
            continue
        texts = {each.name for each in scan.columns if each.type.kind is TypeKind.TEXT}
        delivered_texts = {
            each.name for each in scan.schema.columns if each.type.kind is TypeKind.TEXT
        }
        named = [(each, texts) for each in stage_wide]
        named.append((scan.filter, delivered_texts))
        if any(where is not None and known & set(named_columns(where)) for where, known in named):
            return True
    return False
