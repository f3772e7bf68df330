"""What the plans of workers become: objects of the catalogue, and the next items of the tree.

A worker reports what the source says; here is decided which of it is new, what is captured, and in
which groups. Everything happens in the transaction that ends the item.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from datarecs_application.capturing.destinations import Destinations
from datarecs_application.capturing.event_fields import common_fields
from datarecs_application.capturing.history import History
from datarecs_application.capturing.reusing import Reuse
from datarecs_application.capturing.targets import Produced, TableFigures, table_targets
from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.generations import Generations
from datarecs_application.catalogue.planned_files import PlannedFiles
from datarecs_application.catalogue.snapshots import Snapshots
from datarecs_application.catalogue.statistics import Statistics
from datarecs_application.catalogue.tables import Tables
from datarecs_application.ports.capturing import WorkItems
from datarecs_core.captures.events import CaptureEvent, CaptureSnapshotPlanned
from datarecs_core.captures.items import (
    MAX_CHILDREN,
    CaptureJobId,
    NewWork,
    WorkItem,
    WorkKind,
)
from datarecs_core.captures.outcomes import (
    ConnectorPlanned,
    SnapshotCaptured,
    SnapshotPlanned,
    TablePlanned,
    ViewPlanned,
)
from datarecs_core.captures.plan import (
    SnapshotPlan,
    captured_by,
    chosen_columns,
    group_files,
)
from datarecs_core.captures.request import (
    CapturePolicy,
    CaptureRequest,
    ObjectName,
    SnapshotChoice,
)
from datarecs_core.captures.rules import PER_COLUMN
from datarecs_core.captures.selecting import snapshot_id_of
from datarecs_core.captures.source_facts import (
    Completion,
    SourceObjects,
    SourceTable,
)
from datarecs_core.catalog import layout
from datarecs_core.catalog.records import (
    Completeness,
    Producer,
    Snapshot,
    Table,
    TableColumn,
)
from datarecs_core.errors.captures import CaptureCode, CaptureFailedError, OutcomeRefusedError
from datarecs_core.hashing import sha256_hex

T = TypeVar("T")
MOST_MISSING = 10
"""Names in the message about missing objects."""
LIVE_AT_ONCE = 100
"""Parts that are read to see whether a table is not done."""


@dataclass(slots=True, kw_only=True)
class Applied:
    """What the outcome of an item has led to, besides the catalogue."""

    children: Sequence[NewWork] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    events: Sequence[CaptureEvent] = ()
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """The plans of one tree, inside a transaction."""

    account: CatalogueAccount
    destinations: Destinations
    siblings: "Siblings"
    now: datetime

    def connector(self, item: WorkItem, outcome: ConnectorPlanned) -> Applied:
        """A child for each table and view in the scope."""
        request, objects = item.task.request, outcome.objects
        view = request.scope.view
        wanted = request.scope.tables if view is None else (view,)
        present = set(objects.tables if view is None else objects.views)
        missing = [name for name in wanted if name not in present]
        if not request.writes_metadata:
            return self._known_tables(item, objects.tables, len(missing))
        if missing:
            raise CaptureFailedError(CaptureCode.TABLE_MISSING, _missing_text(missing))
        _require_namespaces(request, (*objects.tables, *objects.views))
        self.destinations.catalog()
        children = [
            *(_child(item, WorkKind.PLAN_TABLE, name) for name in objects.tables),
            *(_child(item, WorkKind.PLAN_VIEW, name) for name in objects.views),
        ]
        counters = {"entries_left_out": objects.ignored} if objects.ignored else {}
        return Applied(children=children, counters=counters, message=_objects_text(objects))

    def view(self, item: WorkItem, outcome: ViewPlanned) -> Applied:
        _require_object(item, outcome.view.name)
        changed = self.destinations.view(outcome.view)
        return Applied(counters={"views_scanned": 1, "views_changed": int(changed)})

    def table(self, item: WorkItem, outcome: TablePlanned) -> Applied:
        """The table, its selected snapshots, and a child for each that is to be captured."""
        source, request = outcome.table, item.task.request
        _require_object(item, source.name)
        stored = self.destinations.existing_table(source.name)
        if stored is None and not request.writes_metadata:
            return Applied(
                counters={"tables_skipped": 1}, message="the catalogue has no such table"
            )
        if stored is None or (request.writes_metadata and not _is_known(source)):
            table, changed = self.destinations.table(source)
            counters = {"tables_scanned": 1, "tables_changed": int(changed)}
        else:
            table, counters = stored.record, {"tables_scanned": 1}
        if request.captures and not _has_columns(request, table):
            return self._without_columns(item, table, counters)
        if request.captures and source.completion is Completion.DIRECT_STATS:
            _refuse_history(request)
            return Applied(children=[_direct(item, table)], counters=counters)
        chosen = History(account=self.account, now=self.now).follow(request, table, source)
        children = [
            _snapshot_child(item, table, number, one.native_id)
            for number, one in chosen
            if request.captures and self._is_to_be_captured(request, table.id, number, one.columns)
        ]
        message = f"{_counted(len(chosen), 'snapshot')}, {len(children)} to be captured"
        return Applied(children=children, counters=counters, message=message)

    def snapshot(self, item: WorkItem, outcome: SnapshotPlanned) -> Applied:
        """Freeze the plan; a child for each group of files, and the finaliser."""
        table, snapshot_id = self._table(item), required(item.task.snapshot_id)
        where = (table.id, snapshot_id)
        request, files = item.task.request, outcome.files
        snapshot = Snapshots(self.account).get(*where)
        columns = captured_columns(request.policy, () if snapshot is None else snapshot.columns)
        reuse = Reuse(account=self.account)
        known = () if request.is_full_rescan else reuse.known_files(*where)
        plan = SnapshotPlan(
            table_id=table.id,
            snapshot_id=snapshot_id,
            native_id=required(item.task.native_id),
            object=required(item.task.object),
            generation=str(item.id),
            completion=Completion.FILE_GROUPS,
            policy=request.policy,
            columns=columns,
            files=tuple(sorted(files, key=lambda one: one.path)),
            reused=(),
            groups=(),
        )
        Generations(self.account).begin_draft(*where, plan.generation)
        if self._needs_list(table, snapshot):
            PlannedFiles(account=self.account).put(*where, plan.files)
        paths = reuse.record(plan, known)
        rest = [file for file in files if file.path not in paths]
        groups = group_files(rest, columns=len(columns))
        return self._planned(item, replace(plan, reused=tuple(sorted(paths)), groups=groups))

    def _needs_list(self, table: Table, snapshot: Snapshot | None) -> bool:
        """Whether a run that names a time has no other list of files; Iceberg knows its past."""
        if snapshot is None or table.upstream is None or table.upstream.format == "iceberg":
            return False
        return Generations(self.account).active(table.id, snapshot.snapshot_id) is None

    def captured_table(self, item: WorkItem, outcome: SnapshotCaptured) -> Applied:
        """The statistics of a source that captured its table itself, and the finaliser."""
        table, facts = self._table(item), outcome.table
        snapshot_id = snapshot_id_of(facts.snapshot.native_id)
        history = History(account=self.account, now=self.now)
        history.ingest(table, facts.snapshot, facts.constraints)
        plan = SnapshotPlan(
            table_id=table.id,
            snapshot_id=snapshot_id,
            native_id=facts.snapshot.native_id,
            object=required(item.task.object),
            generation=str(item.id),
            completion=Completion.DIRECT_STATS,
            policy=item.task.request.policy,
            columns=tuple(column.name for column in facts.columns),
            files=(),
            reused=(),
            groups=(),
        )
        Generations(self.account).begin_draft(table.id, snapshot_id, plan.generation)
        completeness = Completeness.COMPLETE if facts.is_complete else Completeness.PARTIAL
        produced = Produced(
            table_id=table.id,
            snapshot_id=snapshot_id,
            producer=Producer.SOURCE_NATIVE,
            completeness=completeness,
            captured_at=self.now,
        )
        targets = table_targets(
            plan,
            produced,
            {column.name: column.field_id for column in facts.snapshot.columns},
            TableFigures(rows=facts.rows, size_bytes=facts.size_bytes, columns=facts.columns),
        )
        Statistics(self.account).put_targets(targets, generation=plan.generation)
        return self._planned(item, plan)

    def _known_tables(self, item: WorkItem, tables: Sequence[ObjectName], missing: int) -> Applied:
        """Without a change of metadata: the tables that the catalogue has."""
        known = [name for name in tables if self.destinations.existing_table(name) is not None]
        skipped = len(tables) - len(known) + missing
        return Applied(
            children=[_child(item, WorkKind.PLAN_TABLE, name) for name in known],
            counters={"tables_skipped": skipped},
            message=f"{_counted(len(known), 'table')}, {skipped} not in the catalogue",
        )

    def _without_columns(
        self, item: WorkItem, table: Table, counters: Mapping[str, int]
    ) -> Applied:
        """A table that is left as it is: its snapshots too, since nothing of them is captured.

        Raises:
            CaptureFailedError: it is the last table of the capture, and no other one was captured.
        """
        names = ", ".join(item.task.request.policy.columns[:MOST_MISSING])
        if self.siblings.are_all_skipped(item):
            raise CaptureFailedError(
                CaptureCode.COLUMN_MISSING,
                f"no table of the capture has a column {names}; name columns as the catalogue "
                "shows them, in the same case, or choose the first ones or all",
            )
        return Applied(
            counters={**counters, "tables_skipped": 1},
            message=f"skipped: table {table.name} has no column {names}",
        )

    def _is_to_be_captured(
        self,
        request: CaptureRequest,
        table_id: UUID,
        snapshot_id: int,
        columns: Sequence[TableColumn],
    ) -> bool:
        """Whether an output of the request is missing; with a full rescan always.

        The columns are those of the snapshot: a later change of the table makes no difference.
        """
        if request.is_full_rescan:
            return True
        active = Generations(self.account).active(table_id, snapshot_id)
        if active is None:
            return True
        captured = Generations(self.account).manifest(active).captured
        wanted = captured_by(request.policy, captured_columns(request.policy, columns))
        return not captured.covers(wanted)

    def _planned(self, item: WorkItem, plan: SnapshotPlan) -> Applied:
        """Store the plan; the children that it leads to."""
        content = plan.content()
        key = layout.capture_plan(self.account.tenant, item.id, sha256_hex(content))
        self.account.blobs.put(key, content)
        task = replace(
            item.task, snapshot_id=plan.snapshot_id, native_id=plan.native_id, plan_key=key
        )
        groups = [
            NewWork(kind=WorkKind.EXEC_FILE_GROUP, task=replace(task, group=number))
            for number in range(len(plan.groups))
        ]
        finaliser = NewWork(
            kind=WorkKind.FINALIZE_SNAPSHOT_CAPTURE, task=task, is_barrier=bool(groups)
        )
        event = CaptureSnapshotPlanned(
            **common_fields(item),
            table_id=str(plan.table_id),
            snapshot_id=str(plan.snapshot_id),
            file_groups=len(plan.groups),
            files=len(plan.files),
            files_reused=len(plan.reused),
        )
        counters = {
            "snapshots_planned": 1,
            "file_groups_total": len(plan.groups),
            "files_total": len(plan.files),
            "files_reused": len(plan.reused),
        }
        return Applied(
            children=[*groups, finaliser],
            counters=counters,
            events=[event],
            message=f"{_counted(len(plan.files), 'file')}, {len(plan.reused)} known",
        )

    def _table(self, item: WorkItem) -> Table:
        table_id = required(item.task.table_id)
        stored = Tables(self.account).get(table_id)
        if stored is None:
            raise CaptureFailedError(
                CaptureCode.TABLE_MISSING, f"table {table_id} of the catalogue does not exist"
            )
        return stored.record


@dataclass(frozen=True, slots=True, kw_only=True)
class Siblings:
    """The other parts of the same parent, inside a transaction."""

    work: WorkItems

    def are_all_skipped(self, item: WorkItem) -> bool:
        """Whether every other table of the capture has ended and was skipped.

        The parent is locked, so that of two last tables one sees the end of the other.
        """
        parent = required(item.parent_id)
        self.work.for_update(parent)
        if self._has_live_table(item, parent) or self.work.first_failed_child(parent) is not None:
            return False
        totals = self.work.counters_below(item.root_id)
        return totals.get("tables_scanned", 0) == totals.get("tables_skipped", 0)

    def _has_live_table(self, item: WorkItem, parent: CaptureJobId) -> bool:
        # A few are enough to see one, as long as there are many.
        for limit in (LIVE_AT_ONCE, MAX_CHILDREN):
            live = self.work.live_children(parent, limit=limit)
            if any(one.kind is item.kind and one.id != item.id for one in live):
                return True
            if len(live) < limit:
                break
        return False


def _child(item: WorkItem, kind: WorkKind, name: ObjectName) -> NewWork:
    return NewWork(kind=kind, task=replace(item.task, object=name))


def _snapshot_child(item: WorkItem, table: Table, snapshot_id: int, native_id: str) -> NewWork:
    task = replace(item.task, table_id=table.id, snapshot_id=snapshot_id, native_id=native_id)
    return NewWork(kind=WorkKind.PLAN_SNAPSHOT, task=task)


def _direct(item: WorkItem, table: Table) -> NewWork:
    """The source takes the snapshot while it captures."""
    return NewWork(kind=WorkKind.PLAN_SNAPSHOT, task=replace(item.task, table_id=table.id))


def _is_known(source: SourceTable) -> bool:
    """Whether the source read nothing of the table, because the catalogue has its snapshots."""
    return bool(source.known_snapshots) and not source.snapshots and not source.columns


def _refuse_history(request: CaptureRequest) -> None:
    """Raises CaptureFailedError for a selection by id: the source has no earlier states."""
    if request.selection is not None and request.selection.kind is SnapshotChoice.EXPLICIT:
        raise CaptureFailedError(
            CaptureCode.TABLE_MISSING,
            "the source has no snapshots but its present state; select CURRENT",
        )


def _require_object(item: WorkItem, name: ObjectName) -> None:
    """Raises OutcomeRefusedError for a report about another object."""
    if item.task.object != name:
        raise OutcomeRefusedError(
            item_id=item.id, faults=[f"it is about {_text(name)}, which was not planned"]
        )


def required(value: T | None) -> T:
    """A field that every item of its kind has."""
    if value is None:
        raise ValueError("a work item lacks a field of its kind")
    return value


def captured_columns(policy: CapturePolicy, columns: Sequence[TableColumn]) -> tuple[str, ...]:
    """Names of the columns that outputs are about; none if no output is about columns."""
    if not PER_COLUMN.intersection(policy.outputs):
        return ()
    return tuple(column.name for column in chosen_columns(policy, columns))


def _require_namespaces(request: CaptureRequest, objects: Sequence[ObjectName]) -> None:
    """Raises CaptureFailedError for a namespace in the scope without anything to capture."""
    present = {name.namespace for name in objects}
    empty = [".".join(one) for one in request.scope.namespaces if one not in present]
    if empty:
        listed = ", ".join(empty[:MOST_MISSING])
        raise CaptureFailedError(
            CaptureCode.TABLE_MISSING,
            f"the source shows no table and no view in the namespace {listed}",
        )


def _has_columns(request: CaptureRequest, table: Table) -> bool:
    """Whether the table has one of the columns that the request names.

    Of a capture without names of tables one list of columns serves many tables.

    Raises:
        CaptureFailedError: the request names the table, and a column that it does not have.
    """
    names = {column.name for column in table.columns}
    missing = [name for name in request.policy.columns if name not in names]
    if missing and request.scope.tables:
        listed = ", ".join(missing[:MOST_MISSING])
        raise CaptureFailedError(
            CaptureCode.COLUMN_MISSING, f"table {table.name} has no column {listed}"
        )
    return not missing or len(missing) < len(request.policy.columns)


def _missing_text(names: Sequence[ObjectName]) -> str:
    listed = ", ".join(map(_text, names[:MOST_MISSING]))
    more = f" and {len(names) - MOST_MISSING} more" if len(names) > MOST_MISSING else ""
    return f"the source has no {listed}{more}"


def _text(name: ObjectName) -> str:
    return ".".join((*name.namespace, name.name))


def _objects_text(objects: SourceObjects) -> str:
    text = f"{_counted(len(objects.tables), 'table')}, {_counted(len(objects.views), 'view')}"
    if not objects.ignored:
        return text
    return f"{text}, {objects.ignored} {'entry' if objects.ignored == 1 else 'entries'} left out"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
