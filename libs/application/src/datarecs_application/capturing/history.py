"""The snapshots of a table as its source lists them: which are captured, and which one it has now.

Separate from `planning`, which decides what follows for the tree: here the catalogue follows the
source. A source that was rolled back lists an earlier snapshot as its newest one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.generations import Generations
from datarecs_application.catalogue.snapshots import Snapshots
from datarecs_application.catalogue.statistics import Statistics
from datarecs_core.captures.request import CaptureRequest, SnapshotChoice, SnapshotSelection
from datarecs_core.captures.selecting import selected, snapshot_id_of
from datarecs_core.captures.source_facts import Completion, SourceSnapshot, SourceTable
from datarecs_core.catalog.records import Constraint, Snapshot, SnapshotConstraints, Table
from datarecs_core.errors.captures import CaptureCode, CaptureFailedError

MOST_MISSING = 10
"""Ids in the message about missing snapshots."""
_PRESENT = SnapshotSelection(kind=SnapshotChoice.CURRENT)
Listed = SourceSnapshot | Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The snapshots of the tables of one account, inside a transaction."""

    account: CatalogueAccount
    now: datetime

    def follow(
        self, request: CaptureRequest, table: Table, source: SourceTable
    ) -> Sequence[tuple[int, Listed]]:
        """Record what the source lists; the selected snapshots, the newest first.

        Without metadata only snapshots that the catalogue has are selected.

        Raises:
            CaptureFailedError: a snapshot that the request names does not exist.
        """
        candidates = self._candidates(request, table, source)
        chosen = _chosen(request, source, candidates)
        if request.writes_metadata:
            for number, one in reversed(chosen):  # so that each one has its parent
                if isinstance(one, SourceSnapshot):
                    constraints = source.constraints if number == chosen[0][0] else ()
                    self.ingest(table, one, constraints)
        self._record_present(table, source, candidates)
        if not request.captures:
            for number, _ in reversed(chosen):
                Snapshots(self.account).make_current(table.id, number)
        return chosen

    def ingest(
        self, table: Table, one: SourceSnapshot, constraints: tuple[Constraint, ...]
    ) -> None:
        """Add a snapshot with its constraints; it becomes current when its capture has ended."""
        parent = one.parent_native_id
        record = Snapshot(
            table_id=table.id,
            snapshot_id=snapshot_id_of(one.native_id),
            native_id=one.native_id,
            committed_at=one.committed_at,
            ingested_at=self.now,
            parent_id=None if parent is None else snapshot_id_of(parent),
            sequence_number=one.sequence_number,
            schema_id=one.schema_id,
            columns=one.columns,
            partition_spec=one.partition_spec,
            manifest_list=one.manifest_list,
            metadata_location=one.metadata_location,
            summary=one.summary,
        )
        Snapshots(self.account).ingest(record, is_current=False)
        if constraints:
            Statistics(self.account).put_constraints(
                SnapshotConstraints(
                    table_id=table.id, snapshot_id=record.snapshot_id, constraints=constraints
                )
            )

    def _candidates(
        self, request: CaptureRequest, table: Table, source: SourceTable
    ) -> Mapping[int, Listed]:
        """The snapshots that the source has, by their ids in the catalogue."""
        at_source = {one.native_id for one in source.snapshots} | set(source.known_snapshots)
        candidates: dict[int, Listed] = {
            one.snapshot_id: one
            for one in Snapshots(self.account).newest_first(table.id)
            if one.native_id in at_source
        }
        if request.writes_metadata:
            candidates |= {snapshot_id_of(one.native_id): one for one in source.snapshots}
        return candidates

    def _record_present(
        self, table: Table, source: SourceTable, candidates: Mapping[int, Listed]
    ) -> None:
        """Move the current snapshot with a source that was rolled back to a captured one.

        Only one plan of a table runs at a time, so the last one has the newest list. A database
        has no history, and its snapshots come from two kinds of work.
        """
        present, _ = selected(list(candidates.items()), _PRESENT)
        if not present or source.completion is not Completion.FILE_GROUPS:
            return
        ((number, one),) = present
        snapshots = Snapshots(self.account)
        order = (one.committed_at, one.sequence_number or 0, number)
        snapshots.record_present(table.id, order, at=self.now)
        if Generations(self.account).active(table.id, number) is not None:
            snapshots.make_current(table.id, number)


def _chosen(
    request: CaptureRequest, source: SourceTable, candidates: Mapping[int, Listed]
) -> Sequence[tuple[int, Listed]]:
    if request.selection is None:
        return []
    chosen, missing = selected(list(candidates.items()), request.selection)
    if missing:
        listed = ", ".join(map(str, missing[:MOST_MISSING]))
        name = ".".join((*source.name.namespace, source.name.name))
        raise CaptureFailedError(CaptureCode.TABLE_MISSING, f"{name} has no snapshot {listed}")
    return chosen
