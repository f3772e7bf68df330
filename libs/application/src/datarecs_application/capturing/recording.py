"""What is recorded of a group of files, and how the statistics of a snapshot are completed.

A group is recorded as a whole or not at all. The finaliser compares the recorded files with the
plan, computes the figures of the table once, and publishes them: readers see all of it or nothing.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock

from datarecs_application.capturing.event_fields import common_fields
from datarecs_application.capturing.planning import Applied, required
from datarecs_application.capturing.targets import Produced, TableFigures, table_targets
from datarecs_application.catalogue.account import PAGE, CatalogueAccount
from datarecs_application.catalogue.generations import Generations, Publication
from datarecs_application.catalogue.indexes import Indexes
from datarecs_application.catalogue.snapshots import Snapshots
from datarecs_application.catalogue.statistics import Statistics
from datarecs_core.captures.aggregates import ColumnMerge
from datarecs_core.captures.events import CaptureFileGroupCompleted, CaptureSnapshotFinalized
from datarecs_core.captures.items import WorkItem
from datarecs_core.captures.outcomes import GroupCaptured
from datarecs_core.captures.plan import GROUP_CELLS, SnapshotPlan, coverage_faults
from datarecs_core.captures.request import Output
from datarecs_core.captures.source_facts import CapturedFile, Completion, SourceFile
from datarecs_core.captures.targets import file_target
from datarecs_core.catalog import layout
from datarecs_core.catalog.records import (
    Completeness,
    FileStats,
    IndexArtifact,
    IndexState,
    Producer,
    Snapshot,
)
from datarecs_core.documents import from_document
from datarecs_core.errors.captures import CaptureCode, CaptureFailedError, OutcomeRefusedError
from datarecs_core.errors.storage import BlobNotFoundError
from datarecs_core.hashing import sha256_hex

MOST_PLANS = 2
"""In memory: one of 100,000 files has about 20 MB, and reading it takes seconds."""


class Plans:
    """The plans that were used last, by their blob, which never changes."""

    def __init__(self) -> None:
        self._plans: OrderedDict[str, SnapshotPlan] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str, read: Callable[[], SnapshotPlan]) -> SnapshotPlan:
        """The plan of a blob. Two threads that begin together may both read it."""
        with self._lock:
            known = self._plans.get(key)
        plan = read() if known is None else known
        with self._lock:
            self._plans[key] = plan
            self._plans.move_to_end(key)
            while len(self._plans) > MOST_PLANS:
                self._plans.popitem(last=False)
        return plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The results of one tree, inside a transaction."""

    account: CatalogueAccount
    now: datetime
    plans: Plans

    def group(self, item: WorkItem, outcome: GroupCaptured) -> Applied:
        """The statistics and indexes of the files of a group.

        Raises:
            OutcomeRefusedError: the files are not exactly the planned ones.
            CataloguePreconditionError: an index was not stored before.
            CaptureFailedError: the plan is missing.
        """
        plan = self.known_plan(item)
        number = required(item.task.group)
        files = plan.group(number)
        planned = {file.path for file in files}
        faults = coverage_faults(planned, [one.path for one in outcome.files])
        if faults:
            raise OutcomeRefusedError(item_id=item.id, faults=faults)
        captured = {one.path: one for one in outcome.files}
        records = [self._file(plan, file, captured[file.path]) for file in files]
        Statistics(self.account).put_files(records, generation=plan.generation)
        artifacts = [
            artifact
            for file in files
            if (artifact := self._artifact(plan, file, captured[file.path])) is not None
        ]
        Indexes(self.account).put(artifacts)
        event = CaptureFileGroupCompleted(
            **common_fields(item),
            table_id=str(plan.table_id),
            snapshot_id=str(plan.snapshot_id),
            group=number,
            files=len(files),
        )
        counters = {
            "files_completed": len(files),
            "stats_written": len(records),
            "indexes_written": len(artifacts),
            "bytes_read": sum(file.size_bytes for file in files),
        }
        return Applied(counters=counters, events=[event])

    def finalize(self, item: WorkItem) -> Applied:
        """Complete the statistics of a snapshot and publish them; again is success.

        Raises:
            CaptureFailedError: the recorded files are not exactly the planned ones.
        """
        plan = self.plan(item)
        generations = Generations(self.account)
        snapshot = Snapshots(self.account).get(plan.table_id, plan.snapshot_id)
        if snapshot is None:
            raise CaptureFailedError(
                CaptureCode.TABLE_MISSING,
                f"snapshot {plan.snapshot_id} was removed from the catalogue meanwhile",
            )
        written = 0
        if plan.completion is Completion.FILE_GROUPS:
            where = (plan.table_id, plan.snapshot_id, plan.generation)
            files = generations.drafted_files(*where, at_once=files_at_once(plan))
            written = self._aggregate(plan, snapshot, files)
        generation = generations.publish(
            Publication(
                table_id=plan.table_id,
                snapshot_id=plan.snapshot_id,
                generation=plan.generation,
                publication_sha=sha256_hex(plan.content()),
                finalizer_job_id=item.id,
                finalized_at=self.now,
                captured=plan.captured,
            )
        )
        Snapshots(self.account).make_current(plan.table_id, plan.snapshot_id)
        event = CaptureSnapshotFinalized(
            **common_fields(item),
            table_id=str(plan.table_id),
            snapshot_id=str(plan.snapshot_id),
            generation=generation,
        )
        return Applied(
            counters={"snapshots_finalized": 1, "stats_written": written}, events=[event]
        )

    def known_plan(self, item: WorkItem) -> SnapshotPlan:
        """The plan of a group of files, read once for the groups that follow each other.

        Raises:
            CaptureFailedError: it is missing.
        """
        return self.plans.get(required(item.task.plan_key), lambda: self.plan(item))

    def plan(self, item: WorkItem) -> SnapshotPlan:
        """The frozen plan of the snapshot, as it is stored now.

        Raises:
            CaptureFailedError: it is missing.
        """
        key = required(item.task.plan_key)
        try:
            return from_document(SnapshotPlan, json.loads(self.account.blobs.get(key)))
        except BlobNotFoundError as cause:
            message = f"the plan of snapshot {item.task.snapshot_id} is missing"
            raise CaptureFailedError(CaptureCode.COVERAGE_UNKNOWN, message) from cause

    def _aggregate(self, plan: SnapshotPlan, snapshot: Snapshot, files: Iterable[FileStats]) -> int:
        """Write the figures of the table and its columns; their number."""
        types = {column.name: column.type for column in snapshot.columns}
        recorded = _Recorded(columns=ColumnMerge(types))
        for one in files:
            recorded.add(one)
        faults = coverage_faults({file.path for file in plan.files}, recorded.paths)
        if faults:
            raise CaptureFailedError(
                CaptureCode.COVERAGE_MISMATCH,
                f"the recorded files of snapshot {plan.snapshot_id} are not the planned ones: "
                + "; ".join(faults),
            )
        produced = Produced(
            table_id=plan.table_id,
            snapshot_id=plan.snapshot_id,
            producer=Producer.ENGINE_COMPUTED,
            completeness=recorded.completeness,
            captured_at=self.now,
        )
        ids = {column.name: column.field_id for column in snapshot.columns}
        targets = table_targets(plan, produced, ids, recorded.figures())
        return Statistics(self.account).put_targets(targets, generation=plan.generation)

    def _file(self, plan: SnapshotPlan, file: SourceFile, captured: CapturedFile) -> FileStats:
        is_complete = captured.is_complete
        return FileStats(
            table_id=plan.table_id,
            snapshot_id=plan.snapshot_id,
            path=file.path,
            format=file.format,
            producer=Producer.ENGINE_COMPUTED,
            completeness=Completeness.COMPLETE if is_complete else Completeness.PARTIAL,
            captured_at=self.now,
            rows=captured.rows,
            size_bytes=file.size_bytes,
            columns=captured.columns,
            etag=file.etag,
            content=file.content,
            stored_rows=captured.stored_rows,
            partition=file.partition,
            sequence_number=file.sequence_number,
            deletes=file.deletes,
        )

    def _artifact(
        self, plan: SnapshotPlan, file: SourceFile, captured: CapturedFile
    ) -> IndexArtifact | None:
        sidecar = captured.sidecar
        if sidecar is None or Output.PARQUET_PAGE_INDEX not in plan.policy.outputs:
            return None
        where = (self.account.tenant, plan.table_id, plan.snapshot_id)
        target = file_target(file.path)
        return IndexArtifact(
            table_id=plan.table_id,
            snapshot_id=plan.snapshot_id,
            target_id=target,
            path=file.path,
            state=IndexState.READY,
            blob_key=layout.sidecar_blob(*where, target, sidecar.sha256),
            sha256=sidecar.sha256,
            size_bytes=sidecar.size_bytes,
            source_etag=file.etag,
            columns=sidecar.columns,
            rows=sidecar.rows,
        )


def files_at_once(plan: SnapshotPlan) -> int:
    """Files whose figures are merged between two statements: about a second of work."""
    return max(1, min(PAGE, GROUP_CELLS // max(1, len(plan.columns))))


@dataclass(slots=True, kw_only=True)
class _Recorded:
    """What the finaliser reads of files, one by one: no file stays in memory."""

    paths: list[str] = field(default_factory=list)
    completeness: Completeness = Completeness.COMPLETE
    rows: int = 0
    size_bytes: int = 0
    columns: ColumnMerge

    def add(self, file: FileStats) -> None:
        self.paths.append(file.path)
        self.rows += file.rows
        self.size_bytes += file.size_bytes
        self.columns.add(file)
        if file.completeness is not Completeness.COMPLETE:
            self.completeness = Completeness.PARTIAL

    def figures(self) -> TableFigures:
        return TableFigures(
            rows=self.rows,
            size_bytes=self.size_bytes,
            files=len(self.paths),
            columns=self.columns.merged(),
        )
