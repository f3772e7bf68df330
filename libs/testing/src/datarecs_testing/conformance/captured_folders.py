"""Captures of folders end to end: what the catalogue has afterwards, and what was opened for it."""

from dataclasses import replace

import pytest

from datarecs_application.capturing import queue, recording
from datarecs_application.catalogue.statistics import Statistics
from datarecs_core.captures.items import LEASE, RECLAIM_GRACE, WorkKind, WorkState, WorkToken
from datarecs_core.captures.outcomes import (
    ConnectorPlanned,
    GroupCaptured,
    Outcome,
    ViewPlanned,
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
    CapturedFile,
    SourceObjects,
    SourceView,
)
from datarecs_core.captures.targets import file_target
from datarecs_core.catalog import layout
from datarecs_core.catalog.pointers import Delete
from datarecs_core.catalog.records import Completeness
from datarecs_core.errors.captures import LeaseLostError, OutcomeRefusedError
from datarecs_testing.builders import A_TENANT
from datarecs_testing.capture_house import CaptureHouse
from datarecs_testing.conformance.captured_again import INDEXED, METADATA, ORDERS, CapturedAgain


class DiedError(Exception):
    """The process of the worker ended here."""


class CapturedFolderConformance(CapturedAgain):
    """Subclass with fixtures `stores` and `blobs`; `over` may be another control of workers."""

    def test_a_folder_is_captured_from_its_request_to_its_statistics(
        self, orders: CaptureHouse
    ) -> None:
        root = orders.capture(policy=INDEXED)
        assert root.state is WorkState.SUCCEEDED
        table = orders.table("orders")
        snapshot = orders.current(table)
        assert snapshot is not None
        targets = orders.targets(table, snapshot)
        (column,) = [one for name, one in targets.items() if name != "table"]
        assert (targets["table"].rows, targets["table"].files) == (9, 3)
        assert column.scalar is not None
        figures = column.scalar
        assert (figures.nulls, figures.min, figures.max, figures.ndv) == (3, "0", "12", "6")
        assert orders.files(table, snapshot) == [f"orders/part-{n}.parquet" for n in range(3)]
        assert {one.state for one in orders.below(root.id)} == {WorkState.SUCCEEDED}
        totals = orders.totals(root.id)
        assert (totals["tables_scanned"], totals["snapshots_finalized"]) == (2, 2)
        assert (totals["files_total"], totals["files_completed"]) == (4, 4)
        assert totals["indexes_written"] == 4

    def test_figures_are_merged_some_files_at_a_time(
        self, orders: CaptureHouse, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(recording, "GROUP_CELLS", 1)
        assert orders.capture().state is WorkState.SUCCEEDED
        table = orders.table("orders")
        snapshot = orders.current(table)
        assert snapshot is not None
        assert orders.targets(table, snapshot)["table"].rows == 9

    def test_metadata_alone_opens_no_more_than_a_footer_and_finalizes_nothing(
        self, orders: CaptureHouse
    ) -> None:
        root = orders.capture(**METADATA)
        assert root.state is WorkState.SUCCEEDED
        table = orders.table("orders")
        snapshot = orders.current(table)
        assert snapshot is not None
        assert [column.name for column in snapshot.columns] == ["id"]
        assert orders.active(table, snapshot) is None
        kinds = {one.kind for one in orders.below(root.id)}
        assert kinds == {WorkKind.PLAN_TABLE}

    @pytest.mark.case("Q44")
    def test_a_capture_without_metadata_skips_tables_that_the_catalogue_lacks(
        self, orders: CaptureHouse
    ) -> None:
        only = {"mode": CaptureMode.CAPTURE_ONLY, "scope": CaptureScope(tables=(ORDERS,))}
        root = orders.capture(**only)
        assert (root.state, orders.totals(root.id)["tables_skipped"]) == (WorkState.SUCCEEDED, 1)
        orders.capture(**METADATA)
        root = orders.capture(**only)
        assert (root.state, orders.totals(root.id)["snapshots_finalized"]) == (
            WorkState.SUCCEEDED,
            1,
        )

    def test_a_table_that_does_not_exist_fails_the_capture_with_its_name(
        self, orders: CaptureHouse
    ) -> None:
        missing = ObjectName(namespace=("default",), name="order")
        root = orders.capture(scope=CaptureScope(tables=(missing,)))
        assert orders.failure(root.id) == "TABLE_MISSING"
        assert "default.order" in root.message

    def test_the_plan_says_how_many_entries_are_left_out(self, orders: CaptureHouse) -> None:
        root = orders.start(**METADATA)
        token = orders.claim()
        assert token is not None
        assert orders.control.begin(token) is not None
        objects = SourceObjects(tables=(ORDERS,), views=(), ignored=5)
        orders.control.end(token, ConnectorPlanned(objects=objects))
        assert orders.item(root).message == "1 table, 0 views, 5 entries left out"
        assert orders.totals(root)["entries_left_out"] == 5

    @pytest.mark.case("Q56")
    def test_a_view_with_the_name_of_a_table_fails_the_capture(self, orders: CaptureHouse) -> None:
        orders.capture(**METADATA)
        table = orders.table("orders")
        view = SourceView(
            name=ORDERS, definitions=(), base_relations=(), search_path=(), columns=()
        )
        root = orders.start(**METADATA)
        for outcome in (
            ConnectorPlanned(objects=SourceObjects(tables=(), views=(ORDERS,))),
            ViewPlanned(view=view),
        ):
            token = orders.claim()
            assert token is not None
            assert orders.control.begin(token) is not None
            orders.control.end(token, outcome)
        assert orders.failure(root) == "DESTINATION_CONFLICT"
        assert "orders" in orders.item(root).message
        assert orders.table("orders") == table

    def test_a_column_that_does_not_exist_fails_and_leaves_the_published_statistics(
        self, orders: CaptureHouse
    ) -> None:
        orders.capture()
        table = orders.table("orders")
        (snapshot,) = orders.snapshots(table)
        before = orders.active(table, snapshot)
        named = CapturePolicy(
            outputs=(Output.COLUMN_STATS,),
            column_choice=ColumnChoice.EXPLICIT_ONLY,
            columns=("id", "nope"),
        )
        root = orders.capture(
            scope=CaptureScope(tables=(ORDERS,)), policy=named, is_full_rescan=True
        )
        assert orders.failure(root.id) == "COLUMN_MISSING"
        assert "nope" in root.message
        assert orders.active(table, snapshot) == before

    def test_named_columns_of_many_tables_are_captured_where_they_exist(
        self, orders: CaptureHouse
    ) -> None:
        orders.write("names.parquet", name=["a"])
        named = CapturePolicy(
            outputs=(Output.COLUMN_STATS,),
            column_choice=ColumnChoice.EXPLICIT_ONLY,
            columns=("id",),
        )
        root = orders.capture(policy=named)
        assert root.state is WorkState.SUCCEEDED
        assert orders.totals(root.id)["snapshots_finalized"] == 2
        names = orders.table("names")
        assert orders.totals(root.id)["tables_skipped"] == 1
        assert orders.snapshots(names) == []
        (skipped,) = [one for one in orders.below(root.id) if one.counters.get("tables_skipped")]
        assert skipped.message == "skipped: table names has no column id"

    @pytest.mark.parametrize("is_full_rescan", [False, True])
    def test_a_capture_whose_columns_no_table_has_fails_and_moves_no_snapshot(
        self, orders: CaptureHouse, *, is_full_rescan: bool
    ) -> None:
        orders.capture()
        orders.write("orders/part-9.parquet", id=[99])
        table = orders.table("orders")
        before = orders.current(table)
        named = CapturePolicy(
            outputs=(Output.COLUMN_STATS,),
            column_choice=ColumnChoice.EXPLICIT_ONLY,
            columns=("nosuch", "ID"),
        )
        root = orders.capture(policy=named, is_full_rescan=is_full_rescan)
        assert orders.failure(root.id) == "COLUMN_MISSING"
        assert "no table of the capture has a column nosuch, ID; name columns" in root.message
        assert (orders.current(table), orders.snapshots(table)) == (before, [before])
        assert orders.capture().state is WorkState.SUCCEEDED

    def test_a_namespace_without_anything_fails_the_capture_with_its_name(
        self, orders: CaptureHouse
    ) -> None:
        root = orders.capture(scope=CaptureScope(namespaces=(("nope",),)))
        assert orders.failure(root.id) == "TABLE_MISSING"
        assert "nope" in root.message

    def test_a_column_is_complete_beside_one_that_is_not(self, house: CaptureHouse) -> None:
        house.write("orders.parquet", id=[1, 2], tags=[["a"], ["b"]])
        house.capture()
        table = house.table("orders")
        (snapshot,) = house.snapshots(table)
        columns = {
            one.scalar.name: one.completeness
            for one in house.targets(table, snapshot).values()
            if one.scalar is not None
        }
        assert columns["id"] is Completeness.COMPLETE

    def test_a_snapshot_id_that_does_not_exist_is_an_error(self, orders: CaptureHouse) -> None:
        selection = SnapshotSelection(kind=SnapshotChoice.EXPLICIT, snapshot_ids=(5,))
        root = orders.capture(scope=CaptureScope(tables=(ORDERS,)), selection=selection)
        assert orders.failure(root.id) == "TABLE_MISSING"

    @pytest.mark.case("S33")
    def test_the_current_snapshot_moves_when_its_capture_is_finalized(
        self, orders: CaptureHouse
    ) -> None:
        orders.start(scope=CaptureScope(tables=(ORDERS,)))
        planning = (WorkKind.PLAN_CONNECTOR, WorkKind.PLAN_TABLE, WorkKind.PLAN_SNAPSHOT)
        orders.work(kinds=planning)
        table = orders.table("orders")
        assert len(orders.snapshots(table)) == 1
        assert orders.current(table) is None
        orders.work()
        assert orders.current(table) == orders.snapshots(table)[0]

    @pytest.mark.case("Q36")
    def test_an_empty_plan_is_finalized_with_no_rows(self, house: CaptureHouse) -> None:
        house.write("orders/part-0.parquet", id=[])
        root = house.capture()
        assert root.state is WorkState.SUCCEEDED
        table = house.table("orders")
        (snapshot,) = house.snapshots(table)
        assert house.targets(table, snapshot)["table"].rows == 0

    @pytest.mark.case("Q36")
    def test_a_missing_plan_is_coverage_unknown(self, orders: CaptureHouse) -> None:
        root = orders.start(scope=CaptureScope(tables=(ORDERS,)))
        orders.work(kinds=(WorkKind.PLAN_CONNECTOR, WorkKind.PLAN_TABLE, WorkKind.PLAN_SNAPSHOT))
        orders.blobs.of(A_TENANT).delete_prefix(f"accounts/{A_TENANT}/capture/")
        orders.work()
        assert orders.failure(root) == "COVERAGE_UNKNOWN"

    @pytest.mark.case("Q37")
    @pytest.mark.parametrize(
        "fault", ["missing: orders/part-1.parquet", "not planned: orders/other.parquet"]
    )
    def test_a_lost_or_added_record_of_a_file_publishes_nothing(
        self, orders: CaptureHouse, fault: str
    ) -> None:
        root = orders.start(scope=CaptureScope(tables=(ORDERS,)))
        orders.work(kinds=tuple(set(WorkKind) - {WorkKind.FINALIZE_SNAPSHOT_CAPTURE}))
        table = orders.table("orders")
        (snapshot,) = orders.snapshots(table)
        (plan,) = [one for one in orders.below(root) if one.kind is WorkKind.PLAN_SNAPSHOT]
        prefix = layout.files_of(A_TENANT, table.id, snapshot.snapshot_id, str(plan.id))
        recorded = {
            one.path: one
            for one in Statistics(orders.account).files(
                table.id, snapshot.snapshot_id, str(plan.id)
            )
        }
        if fault.startswith("missing"):
            key = f"{prefix}{layout.segment('orders/part-1.parquet')}"
            with orders.stores.capture.unit.begin(A_TENANT) as tx:
                tx.pointers.batch([Delete(key=key, expected=1)])
        else:
            added = replace(recorded["orders/part-1.parquet"], path="orders/other.parquet")
            Statistics(orders.account).put_files([added], generation=str(plan.id))
        orders.work()
        assert orders.failure(root) == "COVERAGE_MISMATCH"
        assert orders.item(root).message.endswith("are not the planned ones: " + fault)
        assert orders.active(table, snapshot) is None
        assert orders.current(table) is None

    @pytest.mark.case("Q38")
    @pytest.mark.parametrize("fault", ["missing", "doubled", "foreign"])
    def test_a_report_that_does_not_fit_its_group_changes_nothing(
        self, orders: CaptureHouse, fault: str
    ) -> None:
        orders.start(scope=CaptureScope(tables=(ORDERS,)))
        orders.work(kinds=(WorkKind.PLAN_CONNECTOR, WorkKind.PLAN_TABLE, WorkKind.PLAN_SNAPSHOT))
        token = orders.claim()
        assert token is not None
        assignment = orders.control.begin(token)
        assert assignment is not None
        whole = orders.outcome_of(assignment)
        assert isinstance(whole, GroupCaptured)
        first, *rest = whole.files
        files = {
            "missing": tuple(rest),
            "doubled": (first, first, *rest),
            "foreign": (_renamed(first), *rest),
        }[fault]
        with pytest.raises(OutcomeRefusedError):
            orders.control.end(token, GroupCaptured(files=files))
        assert orders.item(token.item_id).state is WorkState.RUNNING
        orders.end(assignment, whole)
        orders.work()
        table = orders.table("orders")
        assert orders.current(table) is not None

    @pytest.mark.case("Q38")
    def test_the_same_report_three_times_has_one_effect(self, orders: CaptureHouse) -> None:
        def thrice(token: WorkToken, outcome: Outcome) -> None:
            orders.control.end(token, outcome)
            orders.control.end(token, outcome)

        orders.before_end = thrice
        root = orders.capture(policy=INDEXED)
        assert root.state is WorkState.SUCCEEDED
        assert orders.totals(root.id)["files_completed"] == 4
        started = [one for one in orders.unit.events if type(one).__name__.endswith("Finalized")]
        assert len(started) == 2

    @pytest.mark.case("Q15")
    @pytest.mark.case("Q39")
    def test_a_worker_that_lost_its_lease_records_nothing(self, orders: CaptureHouse) -> None:
        root = orders.start(scope=CaptureScope(tables=(ORDERS,)))
        orders.work(kinds=(WorkKind.PLAN_CONNECTOR, WorkKind.PLAN_TABLE, WorkKind.PLAN_SNAPSHOT))
        token = orders.claim()
        assert token is not None
        stalled = orders.control.begin(token)
        assert stalled is not None
        outcome = orders.outcome_of(stalled)
        with orders.stores.api.unit.begin(A_TENANT) as tx:
            queue.release(tx, token.item_id)
        orders.stores.pass_time(LEASE + RECLAIM_GRACE)
        assert orders.reclaim() == 1
        orders.stores.pass_time(LEASE + RECLAIM_GRACE)
        orders.work()
        with pytest.raises(LeaseLostError):
            orders.control.end(token, outcome)
        assert orders.item(root).state is WorkState.SUCCEEDED
        assert orders.totals(root)["files_completed"] == 3

    @pytest.mark.case("Q40")
    def test_a_finalizer_that_died_after_its_effect_publishes_once(
        self, orders: CaptureHouse
    ) -> None:
        def die_after(token: WorkToken, outcome: Outcome) -> None:
            orders.control.end(token, outcome)
            raise DiedError

        root = orders.start(scope=CaptureScope(tables=(ORDERS,)))
        orders.work(kinds=tuple(set(WorkKind) - {WorkKind.FINALIZE_SNAPSHOT_CAPTURE}))
        orders.before_end = die_after
        with pytest.raises(DiedError):
            orders.work()
        assert orders.item(root).state is WorkState.SUCCEEDED
        table = orders.table("orders")
        (snapshot,) = orders.snapshots(table)
        active = orders.active(table, snapshot)
        assert active is not None
        assert active.number == 1

    @pytest.mark.case("Q41")
    def test_a_cancelled_full_rescan_leaves_the_published_statistics(
        self, orders: CaptureHouse
    ) -> None:
        orders.capture()
        table = orders.table("orders")
        (snapshot,) = orders.snapshots(table)
        before = orders.active(table, snapshot)
        assert before is not None
        orders.write("orders/part-0.parquet", id=[700, 701])
        served = []

        def read_status(token: WorkToken, outcome: Outcome) -> None:
            del token, outcome
            served.append((orders.active(table, snapshot), orders.current(table)))

        orders.before_end = read_status
        root = orders.start(is_full_rescan=True)
        orders.work(kinds=tuple(set(WorkKind) - {WorkKind.FINALIZE_SNAPSHOT_CAPTURE}))
        with orders.stores.api.unit.begin(A_TENANT) as tx:
            queue.cancel(tx, root, by="u-2", reason=None)
        orders.follow()
        orders.work()
        assert orders.item(root).state is WorkState.CANCELLED
        assert len(served) > 1
        assert served == [(before, snapshot)] * len(served)
        assert orders.targets(table, snapshot)["table"].rows == 9

    @pytest.mark.case("Q42")
    def test_a_full_rescan_replaces_the_statistics_and_the_status_never_falls(
        self, orders: CaptureHouse
    ) -> None:
        orders.capture()
        table = orders.table("orders")
        (snapshot,) = orders.snapshots(table)
        numbers = []

        def read_status(token: WorkToken, outcome: Outcome) -> None:
            del token, outcome
            active = orders.active(table, snapshot)
            numbers.append(0 if active is None else active.number)

        orders.before_end = read_status
        root = orders.capture(is_full_rescan=True)
        assert root.state is WorkState.SUCCEEDED
        active = orders.active(table, snapshot)
        assert active is not None
        assert active.number == 2
        assert numbers == sorted(numbers)
        assert min(numbers) >= 1

    @pytest.mark.case("Q53")
    def test_the_events_of_a_tree_say_what_happened(self, orders: CaptureHouse) -> None:
        root = orders.capture(scope=CaptureScope(tables=(ORDERS,)))
        events = [one for one in orders.unit.events if one.root_job_id == root.id]
        names = [type(one).__name__ for one in events]
        assert names.count("CaptureJobStarted") == names.count("CaptureJobSucceeded") == 5
        assert names.count("CaptureSnapshotPlanned") == 1
        assert names.count("CaptureFileGroupCompleted") == 1
        assert names.count("CaptureSnapshotFinalized") == 1
        assert names[-1] == "CaptureJobSucceeded"
        assert events[-1].job_id == root.id

    def test_a_connection_that_was_declared_again_writes_into_its_catalog(
        self, orders: CaptureHouse
    ) -> None:
        orders.capture()
        table = orders.table("orders")
        with orders.stores.api.unit.begin(A_TENANT, feed=1) as tx:
            resource = tx.resources.get_by_uid(orders.connection_uid)
            assert resource is not None
            tx.resources.remove(resource, expected_rv=resource.rv)
        orders.connection_uid = orders.declare()
        root = orders.capture()
        assert root.state is WorkState.SUCCEEDED
        assert orders.table("orders").id == table.id

    @pytest.mark.case("Q56")
    @pytest.mark.parametrize("mode", [CaptureMode.METADATA_ONLY, CaptureMode.CAPTURE_ONLY])
    def test_a_connection_of_another_namespace_does_not_take_the_catalog(
        self, orders: CaptureHouse, mode: CaptureMode
    ) -> None:
        orders.capture()
        table = orders.table("orders")
        orders.connection_uid = orders.declare(namespace="other")
        capture = {"mode": mode, "scope": CaptureScope(tables=(ORDERS,))}
        root = orders.capture(**(METADATA | capture if mode is METADATA["mode"] else capture))
        assert orders.failure(root.id) == "DESTINATION_CONFLICT"
        assert orders.table("orders") == table

    def test_a_deleted_connection_ends_the_capture(self, orders: CaptureHouse) -> None:
        root = orders.start()
        with orders.stores.api.unit.begin(A_TENANT, feed=1) as tx:
            resource = tx.resources.get_by_uid(orders.connection_uid)
            assert resource is not None
            tx.resources.remove(resource, expected_rv=resource.rv)
        orders.work()
        assert orders.failure(root) == "CONNECTOR_MISSING"

    def test_the_index_of_a_file_can_be_read_back(self, orders: CaptureHouse) -> None:
        orders.capture(policy=INDEXED)
        table = orders.table("orders")
        (snapshot,) = orders.snapshots(table)
        target = file_target("orders/part-0.parquet")
        index = orders.index(table, snapshot, target)
        assert index.columns == ("id",)
        assert index.rows == 1


def _renamed(file: CapturedFile) -> CapturedFile:
    return replace(file, path="orders/other.parquet")
