"""Which files of a new snapshot keep the figures of an earlier capture, so that none is opened.

Separate from `planning`: the known files are read and recorded some at a time, because their
figures together are far larger than the list of their names.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from uuid import UUID

from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.generations import Generations
from datarecs_application.catalogue.indexes import Indexes
from datarecs_application.catalogue.snapshots import Snapshots
from datarecs_application.catalogue.statistics import Statistics
from datarecs_application.catalogue.tables import Tables
from datarecs_core.captures.plan import SnapshotPlan
from datarecs_core.captures.request import Output
from datarecs_core.captures.reuse import CapturedColumns, ReusableFigures, reusable_figures
from datarecs_core.captures.targets import file_target
from datarecs_core.catalog.records import FileStats, IndexArtifact
from datarecs_core.jobs.vocabulary import SourceKind

REUSED_AT_ONCE = 128
"""Files; each has up to 16 KiB for each of its columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """The figures that hold on, inside a transaction."""

    account: CatalogueAccount

    def known_files(self, table_id: UUID, snapshot_id: int) -> Iterator[FileStats]:
        """Statistics of files of this snapshot, or else of the newest captured one."""
        generations = Generations(self.account)
        for number in (snapshot_id, generations.latest(table_id)):
            active = None if number is None else generations.active(table_id, number)
            if active is not None:
                yield from generations.files(active)
                return

    def record(self, plan: SnapshotPlan, known: Iterable[FileStats]) -> frozenset[str]:
        """Write the figures that still hold into the generation of the plan.

        Args:
            plan: with all files and the captured columns; its draft has begun.
            known: statistics of one earlier capture, in any order; each file once.

        Returns:
            The paths of their files.
        """
        remaining = iter(known)
        first = next(remaining, None)
        figures = None if first is None else self._figures(plan, first.snapshot_id)
        if first is None or figures is None:
            return frozenset()
        files = {file.path: file for file in plan.files}
        paths: set[str] = set()
        remaining = chain([first], remaining)
        while part := list(islice(remaining, REUSED_AT_ONCE)):
            reused = [
                present
                for one in part
                if one.path in files and (present := figures.of(files[one.path], one)) is not None
            ]
            indexed, artifacts = self._indexed(plan, reused)
            copies = [replace(one, snapshot_id=plan.snapshot_id) for one in indexed]
            Statistics(self.account).put_files(copies, generation=plan.generation)
            Indexes(self.account).put(artifacts)
            paths.update(one.path for one in indexed)
        return frozenset(paths)

    def _figures(self, plan: SnapshotPlan, snapshot_id: int) -> ReusableFigures | None:
        """What holds of the figures of a captured snapshot; None: nothing."""
        earlier = self._captured_columns(plan.table_id, snapshot_id)
        snapshot = Snapshots(self.account).get(plan.table_id, plan.snapshot_id)
        table = Tables(self.account).get(plan.table_id)
        if earlier is None or snapshot is None or table is None:
            return None
        upstream, outputs = table.record.upstream, plan.policy.outputs
        figures = reusable_figures(
            earlier,
            CapturedColumns(columns=snapshot.columns, captured=plan.captured),
            plan.columns,
            has_ids=upstream is not None and upstream.format == SourceKind.ICEBERG,
        )
        if figures is None or (Output.PARQUET_PAGE_INDEX in outputs and not figures.has_indexes):
            return None
        return figures if Output.COLUMN_STATS in outputs else replace(figures, names={})

    def _captured_columns(self, table_id: UUID, snapshot_id: int) -> CapturedColumns | None:
        generations = Generations(self.account)
        snapshot = Snapshots(self.account).get(table_id, snapshot_id)
        active = generations.active(table_id, snapshot_id)
        if snapshot is None or active is None:
            return None
        captured = generations.manifest(active).captured
        return CapturedColumns(columns=snapshot.columns, captured=captured)

    def _indexed(
        self, plan: SnapshotPlan, reused: Sequence[FileStats]
    ) -> tuple[tuple[FileStats, ...], tuple[IndexArtifact, ...]]:
        """Of reused files those whose index exists as well, if one is requested."""
        if Output.PARQUET_PAGE_INDEX not in plan.policy.outputs:
            return tuple(reused), ()
        indexes = Indexes(self.account)
        stored = [
            indexes.get(plan.table_id, one.snapshot_id, file_target(one.path)) for one in reused
        ]
        usable = {one.path: self._copied(plan, one) for one in stored if one is not None}
        files = tuple(one for one in reused if one.path in usable)
        return files, tuple(usable.values())

    def _copied(self, plan: SnapshotPlan, known: IndexArtifact) -> IndexArtifact:
        """The index of a known file, for another snapshot; each has its own blob."""
        if known.blob_key is None or known.snapshot_id == plan.snapshot_id:
            return replace(known, snapshot_id=plan.snapshot_id)
        indexes = Indexes(self.account)
        where = (plan.table_id, plan.snapshot_id, known.target_id)
        blob_key = indexes.put_content(*where, indexes.content(known))
        return replace(known, snapshot_id=plan.snapshot_id, blob_key=blob_key)
