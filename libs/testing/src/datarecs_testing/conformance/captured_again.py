"""Captures of a folder that was captured before: what they open, record and leave alone."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from datarecs_application.capturing import queue, reusing
from datarecs_application.capturing.control import LocalControl
from datarecs_application.catalogue.generations import Generations
from datarecs_application.catalogue.planned_files import PlannedFiles
from datarecs_application.catalogue.snapshots import Snapshots
from datarecs_application.catalogue.statistics import Statistics
from datarecs_application.ports.capturing import CaptureControl
from datarecs_application.ports.outside import BlobStores
from datarecs_core.captures.items import WorkKind, WorkState
from datarecs_core.captures.outcomes import (
    Finalize,
    SnapshotCaptured,
    SnapshotPlanned,
    TablePlanned,
)
from datarecs_core.captures.request import (
    CaptureMode,
    CapturePolicy,
    CaptureScope,
    ColumnChoice,
    ObjectName,
    Output,
    SnapshotChoice,
    SnapshotSelection,
)
from datarecs_core.captures.source_facts import (
    CapturedTable,
    Completion,
    SourceSnapshot,
    SourceTable,
)
from datarecs_core.catalog.records import Snapshot, TableColumn
from datarecs_testing.builders import A_TENANT
from datarecs_testing.capture_house import CaptureHouse
from datarecs_testing.catalogue import constraints
from datarecs_testing.conformance.stores import Stores
from datarecs_testing.threads import at_once

ORDERS = ObjectName(namespace=("default",), name="orders")
ONLY = CaptureScope(tables=(ORDERS,))
EVERY = SnapshotSelection(kind=SnapshotChoice.ALL)
METADATA = {"mode": CaptureMode.METADATA_ONLY, "policy": CapturePolicy()}
INDEXED = CapturePolicy(
    outputs=(
        Output.TABLE_STATS,
        Output.COLUMN_STATS,
        Output.FILE_STATS,
        Output.PARQUET_PAGE_INDEX,
    )
)


class CapturedAgain:
    """The house of the suites of captured folders, and what a later capture does."""

    @pytest.fixture
    def over(self) -> Callable[[LocalControl], CaptureControl]:
        return lambda local: local

    @pytest.fixture
    def house(
        self,
        stores: Stores,
        blobs: BlobStores,
        tmp_path: Path,
        over: Callable[[LocalControl], CaptureControl],
    ) -> CaptureHouse:
        root, reports = tmp_path / "data" / "exports", tmp_path / "reports"
        root.mkdir(parents=True)
        reports.mkdir()
        return CaptureHouse(stores=stores, blobs=blobs, root=root, reports=reports, over=over)

    @pytest.fixture
    def orders(self, house: CaptureHouse) -> CaptureHouse:
        """A table of three files, and one of a single file."""
        for number in range(3):
            house.write(f"orders/part-{number}.parquet", id=[number, number + 10, None])
        house.write("customers.parquet", id=[1, 2], name=["a", "b"])
        return house

    def test_a_second_capture_of_the_same_folder_opens_no_file(self, orders: CaptureHouse) -> None:
        orders.capture()
        orders.opened.clear()
        again = orders.capture()
        assert again.state is WorkState.SUCCEEDED
        assert orders.opened == []
        assert "snapshots_planned" not in orders.totals(again.id)

    def test_after_the_change_of_one_file_only_this_one_is_captured(
        self, orders: CaptureHouse, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(reusing, "REUSED_AT_ONCE", 7)
        for number in range(3, 100):
            orders.write(f"orders/part-{number}.parquet", id=[number])
        orders.capture(policy=INDEXED)
        orders.write("orders/part-7.parquet", id=[700, 701])
        table = orders.table("orders")
        orders.opened.clear()
        again = orders.capture(policy=INDEXED)
        assert orders.opened.count(WorkKind.EXEC_FILE_GROUP) == 1
        totals = orders.totals(again.id)
        assert (totals["files_total"], totals["files_reused"]) == (100, 99)
        assert totals["files_completed"] == 1
        snapshot = orders.current(table)
        assert snapshot is not None
        assert orders.targets(table, snapshot)["table"].rows == 9 + 96 + 2
        assert len(orders.snapshots(table)) == 2

    @pytest.mark.parametrize("is_full_rescan", [False, True])
    def test_a_folder_with_the_files_of_before_has_their_figures(
        self, orders: CaptureHouse, *, is_full_rescan: bool
    ) -> None:
        """A file is added and removed again."""
        orders.capture()
        orders.write("orders/part-9.parquet", id=[7, 8, 9, 10])
        orders.capture()
        (orders.root / "orders/part-9.parquet").unlink()
        for number in range(2):
            root = orders.capture(is_full_rescan=is_full_rescan)
            assert root.state is WorkState.SUCCEEDED
            table = orders.table("orders")
            snapshot = orders.current(table)
            assert snapshot is not None
            assert orders.targets(table, snapshot)["table"].rows == 9
            assert len(orders.snapshots(table)) == 3
            active = orders.active(table, snapshot)
            assert active is not None
            assert active.number == (number + 1 if is_full_rescan else 1)

    @pytest.mark.case("Q44")
    def test_more_outputs_of_a_known_snapshot_are_captured(self, orders: CaptureHouse) -> None:
        orders.capture(policy=CapturePolicy(outputs=(Output.TABLE_STATS,)))
        table = orders.table("orders")
        (snapshot,) = orders.snapshots(table)
        assert list(orders.targets(table, snapshot)) == ["table"]
        orders.capture(policy=INDEXED)
        active = orders.active(table, snapshot)
        assert active is not None
        assert active.number == 2
        assert len(orders.targets(table, snapshot)) == 2

    def test_a_snapshot_that_is_known_from_metadata_is_captured(self, orders: CaptureHouse) -> None:
        orders.capture(**METADATA)
        root = orders.capture()
        assert orders.totals(root.id)["snapshots_finalized"] == 2

    def test_a_capture_after_a_cancelled_one_captures_what_that_one_left(
        self, orders: CaptureHouse
    ) -> None:
        root = orders.start()
        orders.work(kinds=(WorkKind.PLAN_CONNECTOR, WorkKind.PLAN_TABLE, WorkKind.PLAN_SNAPSHOT))
        with orders.stores.api.unit.begin(A_TENANT) as tx:
            queue.cancel(tx, root, by="u-2", reason=None)
        orders.follow()
        table = orders.table("orders")
        (snapshot,) = orders.snapshots(table)
        where = (table.id, snapshot.snapshot_id)
        listed = PlannedFiles(account=orders.account).get(*where)
        assert listed is not None
        assert [one.path for one in listed] == [f"orders/part-{n}.parquet" for n in range(3)]
        assert orders.totals(orders.capture().id)["snapshots_finalized"] == 2
        assert PlannedFiles(account=orders.account).get(*where) is None
        active = orders.active(table, snapshot)
        assert active is not None
        files = Generations(orders.account).files(active)
        assert {(one.path, one.size_bytes, one.etag) for one in files} == {
            (one.path, one.size_bytes, one.etag) for one in listed
        }

    def test_a_later_change_of_the_columns_leaves_captured_snapshots_alone(
        self, orders: CaptureHouse
    ) -> None:
        orders.capture(scope=ONLY)
        (old,) = orders.snapshots(orders.table("orders"))
        orders.start(scope=ONLY, selection=EVERY)
        orders.work(kinds=(WorkKind.PLAN_CONNECTOR,))
        token = orders.claim(kinds=(WorkKind.PLAN_TABLE,))
        assert token is not None
        assert orders.control.begin(token) is not None
        orders.control.end(token, TablePlanned(table=_with_history(old)))
        planned = [one.task.native_id for one in orders.below(token.item_id)]
        assert planned == ["99"]

    def test_a_table_that_was_rolled_back_has_the_snapshot_of_its_source(
        self, orders: CaptureHouse
    ) -> None:
        orders.capture(scope=ONLY)
        table = orders.table("orders")
        (old,) = orders.snapshots(table)
        _plan(orders, _with_history(old), **METADATA)
        (new, _) = orders.snapshots(table)
        assert orders.current(table) == new
        _plan(orders, _rolled_back(old))
        assert orders.current(table) == old
        assert _as_of_later(orders) == old
        _plan(orders, _with_history(old), **METADATA)
        assert (orders.current(table), _as_of_later(orders)) == (new, new)

    def test_a_capture_that_ends_after_a_rollback_does_not_move_the_current_snapshot(
        self, orders: CaptureHouse
    ) -> None:
        orders.capture(scope=ONLY)
        table = orders.table("orders")
        (old,) = orders.snapshots(table)
        _plan(orders, _with_history(old), selection=EVERY)
        token = orders.claim(kinds=(WorkKind.PLAN_SNAPSHOT,))
        assert token is not None
        assert orders.control.begin(token) is not None
        orders.control.end(token, SnapshotPlanned(files=()))
        late = orders.claim(kinds=(WorkKind.FINALIZE_SNAPSHOT_CAPTURE,))
        assert late is not None
        assert orders.control.begin(late) is not None
        _plan(orders, _rolled_back(old))
        orders.control.end(late, Finalize())
        (new, _) = orders.snapshots(table)
        assert orders.active(table, new) is not None
        assert orders.current(table) == old

    def test_of_two_last_tables_without_the_columns_one_fails_the_capture(
        self, orders: CaptureHouse
    ) -> None:
        named = CapturePolicy(
            outputs=(Output.COLUMN_STATS,),
            column_choice=ColumnChoice.EXPLICIT_ONLY,
            columns=("nosuch",),
        )
        root = orders.start(policy=named)
        orders.work(kinds=(WorkKind.PLAN_CONNECTOR,))
        ends = []
        while (token := orders.claim()) is not None:
            assignment = orders.control.begin(token)
            assert assignment is not None
            ends.append(partial(orders.end, assignment, orders.outcome_of(assignment)))
        at_once(ends)
        assert orders.failure(root) == "COLUMN_MISSING"
        states = sorted(one.state.value for one in orders.below(root))
        assert states == ["FAILED", "SUCCEEDED"]

    def test_a_table_that_its_source_captures_has_its_constraints(
        self, orders: CaptureHouse
    ) -> None:
        orders.capture(scope=ONLY)
        (old,) = orders.snapshots(orders.table("orders"))
        source = replace(_with_history(old), completion=Completion.DIRECT_STATS)
        _plan(orders, source, is_full_rescan=True)
        token = orders.claim(kinds=(WorkKind.PLAN_SNAPSHOT,))
        assert token is not None
        assert orders.control.begin(token) is not None
        (snapshot,) = source.snapshots
        table = orders.table("orders")
        declared = constraints(table, 99, "id").constraints
        captured = CapturedTable(
            snapshot=snapshot, rows=3, columns=(), constraints=declared, is_complete=True
        )
        orders.control.end(token, SnapshotCaptured(table=captured))
        assert Statistics(orders.account).constraints(table.id, 99) == constraints(table, 99, "id")
        assert orders.current(table) == old
        orders.work()
        (new, _) = orders.snapshots(table)
        assert (new.snapshot_id, orders.current(table)) == (99, new)


def _plan(orders: CaptureHouse, source: SourceTable, **changes: object) -> None:
    """A capture up to the plan of the table, whose source reports what is given."""
    orders.start(scope=ONLY, **changes)
    orders.work(kinds=(WorkKind.PLAN_CONNECTOR,))
    token = orders.claim(kinds=(WorkKind.PLAN_TABLE,))
    assert token is not None
    assert orders.control.begin(token) is not None
    orders.control.end(token, TablePlanned(table=source))


def _as_of_later(orders: CaptureHouse) -> Snapshot | None:
    at = orders.account.clock.now() + timedelta(hours=1)
    return Snapshots(orders.account).as_of(orders.table("orders").id, at)


def _rolled_back(old: Snapshot) -> SourceTable:
    return replace(_with_history(old), snapshots=(), columns=(), known_snapshots=(old.native_id,))


def _with_history(old: Snapshot) -> SourceTable:
    """The table with one more column in its newest snapshot."""
    added = TableColumn(field_id=2, name="added", type="int", nullable=True)
    newest = SourceSnapshot(
        native_id="99",
        committed_at=old.committed_at + timedelta(milliseconds=1),
        sequence_number=9,
        columns=(*old.columns, added),
        summary={},
    )
    return SourceTable(
        name=ORDERS,
        uri="lake/orders",
        format="iceberg",
        completion=Completion.FILE_GROUPS,
        columns=newest.columns,
        column_ids="FIELD_ID",
        partition_keys=(),
        constraints=(),
        snapshots=(newest,),
        known_snapshots=(old.native_id,),
        properties={},
    )
