"""Commits of a sink: each file once, whatever others do to the table."""

import json
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

from datarecs_application.ports.sinking import PendingFiles
from datarecs_connectors.sinking import committing
from datarecs_connectors.sinking.catalog_changes import ConflictError, OutcomeUnknownError
from datarecs_connectors.sinking.sql_catalogs import SqlTables
from datarecs_connectors.sinking.watermarks import lineage_id, property_key
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.control import FileEntry, SourcePartition
from datarecs_testing.tables import NOON

from .sink_house import LINEAGE, TARGET, House, records_of

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
)


@pytest.fixture
def table(house: House) -> Table:
    return house.lake.table("orders", SCHEMA)


def written(house: House, *ids: int) -> FileEntry:
    (file,) = house.write(records_of(*({"id": number} for number in ids)))
    return file


def ids_in(house: House) -> list[int]:
    return sorted(row["id"] for row in house.rows())


def foreign_append(house: House, *ids: int) -> None:
    """As another program appends to the table."""
    rows = pa.table(
        {"id": pa.array(ids, pa.int64())},
        schema=pa.schema([pa.field("id", pa.int64(), nullable=False)]),
    )
    house.table().append(rows)


def snapshots(house: House) -> int:
    return len(house.table().metadata.snapshots)


@pytest.mark.usefixtures("table")
class TestGuard:
    def test_a_commit_adds_its_files_in_one_snapshot_and_states_what_it_holds(
        self, house: House
    ) -> None:
        files = written(house, 1, 2), written(house, 3)
        ends = {SourcePartition("orders", 0): 3, SourcePartition("orders", 1): 7}
        commit = house.commit(house.request(*files, source_ends=ends))
        assert commit is not None
        assert (commit.records, commit.files, commit.control_offset) == (3, 2, 1)
        assert (commit.valid_through, commit.source_ends) == (NOON, ends)
        assert ids_in(house) == [1, 2, 3]
        assert house.duck("SELECT count(*), sum(id) FROM ORDERS") == [(3, 6)]
        snapshot = house.table().current_snapshot()
        assert snapshot is not None
        assert snapshot.snapshot_id == commit.snapshot_id
        assert snapshot.summary is not None
        facts = snapshot.summary.additional_properties
        assert facts["kafka.connect.offsets.datarecs.sink.s1.datarecs.sink.s1"] == '{"0": 1}'
        assert facts["kafka.connect.commit-id"] == str(commit.commit_id)
        assert facts["kafka.connect.task-id"] == "s1-0"
        assert facts["kafka.connect.valid-through-ts"] == "2026-01-31T12:00:00+00:00"
        assert facts["datarecs.sink.lineage"] == lineage_id(LINEAGE)
        assert facts["datarecs.sink.epoch"] == "1"
        assert json.loads(facts["datarecs.sink.source-ends"]) == {"orders": {"0": 3, "1": 7}}
        assert {name: facts[name] for name in ("added-records", "added-data-files")} == {
            "added-records": "3",
            "added-data-files": "2",
        }
        assert (facts["total-records"], facts["total-data-files"]) == ("3", "2")
        assert (
            facts["added-files-size"]
            == facts["total-files-size"]
            == str(sum(f.size for f in files))
        )
        stated = json.loads(house.table().properties[property_key(LINEAGE)])
        assert stated == {"offset": 1, "epoch": 1, "snapshot": commit.snapshot_id}

    def test_without_vtts_and_with_many_partitions_the_summary_leaves_both_out(
        self, house: House
    ) -> None:
        ends = {SourcePartition("t" * 60, number): 10**12 for number in range(900)}
        request = house.request(written(house, 1), source_ends=ends, valid_through=None)
        commit = house.commit(request)
        assert commit is not None
        assert (commit.valid_through, commit.source_ends) == (None, {})

    def test_the_same_request_again_adds_nothing(self, house: House) -> None:
        request = house.request(written(house, 1))
        first, second = house.commit(request), house.commit(request)
        assert first == second
        assert snapshots(house) == 1
        assert ids_in(house) == [1]

    def test_messages_below_the_tables_offset_are_skipped_and_later_ones_taken(
        self, house: House
    ) -> None:
        first = house.request(written(house, 1))
        house.commit(first)
        second = house.request(written(house, 2))
        both = replace(second, pending=(*first.pending, *second.pending))
        commit = house.commit(both)
        assert commit is not None
        assert (commit.records, commit.control_offset) == (1, 2)
        assert ids_in(house) == [1, 2]

    def test_messages_at_the_requests_offset_wait(self, house: House) -> None:
        late = PendingFiles(offset=5, data_files=(written(house, 1),))
        assert house.commit(house.request(pending=(late,), control_offset=5)) is None
        assert snapshots(house) == 0

    def test_a_location_that_comes_twice_counts_once(self, house: House) -> None:
        file = written(house, 1)
        twice = tuple(PendingFiles(offset=offset, data_files=(file,)) for offset in (0, 1))
        house.commit(house.request(pending=twice, control_offset=2))
        assert ids_in(house) == [1]

    def test_without_files_no_snapshot_is_added(self, house: House) -> None:
        assert house.commit(house.request()) is None
        assert snapshots(house) == 0

    @pytest.mark.case("I11")
    def test_a_foreign_append_between_load_and_commit_remains(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        request = house.request(written(house, 1))
        commit, calls = SqlTables.commit, []

        def raced(self: SqlTables, *arguments: object) -> None:
            calls.append(1)
            if len(calls) == 1:
                foreign_append(house, 100)
            commit(self, *arguments)  # type: ignore[arg-type]  # as they came

        monkeypatch.setattr(SqlTables, "commit", raced)
        done = house.commit(request)
        assert done is not None
        assert len(calls) == 2
        assert ids_in(house) == [1, 100]
        assert snapshots(house) == 2
        left = {path.name for path in house.lake.folder.rglob("snap-*.avro")}
        assert len(left) == 2, "the list of the refused attempt is removed"

    @pytest.mark.case("I12")
    def test_of_two_stale_coordinators_one_adds_the_files(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        request = house.request(written(house, 1))
        commit = SqlTables.commit
        raced: list[int] = []

        def second_first(self: SqlTables, *arguments: object) -> None:
            if not raced:
                raced.append(1)
                assert house.commit(replace(request, epoch=2)) is not None
            commit(self, *arguments)  # type: ignore[arg-type]  # as they came

        monkeypatch.setattr(SqlTables, "commit", second_first)
        done = house.commit(request)
        assert done is not None
        assert snapshots(house) == 1
        assert ids_in(house) == [1]

    @pytest.mark.case("I12")
    def test_plain_appends_of_stale_handles_double_the_rows(self, house: House) -> None:
        """Why the guard is needed."""
        rows = pa.table(
            {"id": pa.array([1], pa.int64())},
            schema=pa.schema([pa.field("id", pa.int64(), nullable=False)]),
        )
        first, second = house.table(), house.table()
        first.append(rows)
        second.append(rows)
        assert ids_in(house) == [1, 1]

    def test_an_older_coordinator_may_not_take_offsets_back(self, house: House) -> None:
        request = house.request(written(house, 1))
        house.commit(replace(request, epoch=7, control_offset=9))
        stale = house.request(written(house, 2), control_offset=4)
        with pytest.raises(SinkError, match="epoch 7") as refused:
            house.commit(stale)
        assert refused.value.code is SinkCode.COMMIT_FAILED
        ahead = house.request(
            pending=(PendingFiles(offset=9, data_files=(written(house, 3),)),), control_offset=10
        )
        assert house.commit(ahead) is not None
        assert ids_in(house) == [1, 3]

    def test_another_lineage_begins_anew(self, house: House) -> None:
        """Offsets of a deleted control topic of the same name hide nothing."""
        house.commit(house.request(written(house, 1)))
        request = house.request(written(house, 2))
        other = replace(LINEAGE, topic_id="topic-2")
        pending = tuple(replace(each, offset=0) for each in request.pending)
        commit = house.commit(replace(request, lineage=other, pending=pending, control_offset=1))
        assert commit is not None
        assert ids_in(house) == [1, 2]

    @pytest.mark.case("I57")
    def test_after_the_expiry_of_all_its_snapshots_the_property_holds_the_offset(
        self, house: House
    ) -> None:
        request = house.request(written(house, 1))
        house.commit(request)
        ours = house.table().current_snapshot()
        assert ours is not None
        foreign_append(house, 100)
        house.table().maintenance.expire_snapshots().by_id(ours.snapshot_id).commit()
        assert [s.snapshot_id for s in house.table().snapshots()] != [ours.snapshot_id]
        assert snapshots(house) == 1
        assert house.commit(request) is None
        assert snapshots(house) == 1
        assert ids_in(house) == [1, 100]
        house.commit(house.request(written(house, 2)))
        assert ids_in(house) == [1, 2, 100]

    @pytest.mark.case("I56")
    def test_a_rollback_stops_the_table_until_it_is_rolled_forward(self, house: House) -> None:
        house.commit(house.request(written(house, 1)))
        first = house.table().current_snapshot()
        house.commit(house.request(written(house, 2)))
        second = house.table().current_snapshot()
        assert first is not None
        assert second is not None
        rolled_to(house, first.snapshot_id)
        request = house.request(written(house, 3))
        with pytest.raises(SinkError) as refused:
            house.commit(request)
        assert refused.value.code is SinkCode.TABLE_ROLLED_BACK
        foreign_append(house, 100)
        with pytest.raises(SinkError, match="rolled back"):
            house.commit(request)
        rolled_to(house, second.snapshot_id)
        house.commit(request)
        assert ids_in(house) == [1, 2, 3]

    def test_a_dropped_and_recreated_table_is_not_written(self, house: House) -> None:
        request = house.request(written(house, 1))
        house.lake.catalog.drop_table("books.orders")
        with pytest.raises(SinkError) as lost:
            house.commit(request)
        assert lost.value.code is SinkCode.TABLE_LOST
        house.lake.table("orders", SCHEMA)
        with pytest.raises(SinkError, match="another one") as lost:
            house.commit(request)
        assert lost.value.code is SinkCode.TABLE_LOST
        assert snapshots(house) == 0

    @pytest.mark.case("I46")
    def test_files_commit_under_the_spec_that_they_were_written_with(self, house: House) -> None:
        old = written(house, 1, 2)
        with house.table().update_spec() as update:
            update.add_field("id", IdentityTransform(), "id")
        request = house.request(old, *house.write(records_of({"id": 3}, {"id": 4})))
        house.commit(request)
        by_spec = {
            task.file.file_path: task.file.spec_id for task in house.table().scan().plan_files()
        }
        assert sorted(by_spec.values()) == [0, 1, 1]
        assert by_spec[old.path] == 0
        assert ids_in(house) == [1, 2, 3, 4]
        assert house.table().scan(row_filter="id = 4").to_arrow().num_rows == 1

    def test_format_version_1_is_written(self, house: House) -> None:
        house.lake.table("first", SCHEMA, version=1)
        target = replace(TARGET, name="first")
        files = house.write(records_of({"id": 1}), target)
        house.commit(house.request(*files, target=target), target)
        house.commit(
            house.request(*house.write(records_of({"id": 2}), target), target=target), target
        )
        assert sorted(row["id"] for row in house.rows("first")) == [1, 2]


def rolled_to(house: House, snapshot_id: int) -> None:
    """As an engine rolls a table back: the branch is set, and nothing else changes."""
    table = house.table()
    update = SetSnapshotRefUpdate.model_validate(
        {"ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    )
    house.lake.catalog.commit_table(table, (), (update,))


@pytest.mark.usefixtures("table")
class TestOutcomes:
    @pytest.fixture(autouse=True)
    def _quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(committing, "_CHECK_WAIT_MS", 1)
        monkeypatch.setattr(committing, "_LONGEST_WAIT_MS", 1)

    def test_conflicts_end_after_the_retries_of_the_table(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = []

        def refused(*_: object) -> None:
            calls.append(1)
            raise ConflictError

        request = house.request(written(house, 1))
        monkeypatch.setattr(SqlTables, "commit", refused)
        with pytest.raises(SinkError, match="5 attempts") as failed:
            house.commit(request)
        assert failed.value.code is SinkCode.COMMIT_FAILED
        assert len(calls) == 5
        with house.table().transaction() as change:
            change.set_properties({"commit.retry.num-retries": "1"})
        with pytest.raises(SinkError, match="2 attempts"):
            house.commit(request)
        monkeypatch.undo()
        assert house.commit(request) is not None
        assert ids_in(house) == [1]

    @pytest.mark.parametrize("lands", [True, False])
    @pytest.mark.case("I18")
    def test_an_unknown_outcome_is_resolved_by_reading_the_table(
        self, house: House, monkeypatch: pytest.MonkeyPatch, lands: bool
    ) -> None:
        commit, calls = SqlTables.commit, []

        def unanswered(self: SqlTables, *arguments: object) -> None:
            calls.append(1)
            if lands or len(calls) > 1:
                commit(self, *arguments)  # type: ignore[arg-type]  # as they came
            if len(calls) == 1:
                raise OutcomeUnknownError

        monkeypatch.setattr(SqlTables, "commit", unanswered)
        assert house.commit(house.request(written(house, 1))) is not None
        assert len(calls) == (1 if lands else 2)
        assert snapshots(house) == 1
        assert ids_in(house) == [1]

    @pytest.mark.case("I18")
    def test_an_attempt_that_lands_late_is_not_repeated(
        self, house: House, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commit, calls = SqlTables.commit, []

        def late(self: SqlTables, *arguments: object) -> None:
            calls.append(arguments)
            if len(calls) == 1:
                raise OutcomeUnknownError
            commit(self, *calls[0])  # type: ignore[arg-type]  # lands now
            commit(self, *arguments)  # type: ignore[arg-type]  # as they came

        monkeypatch.setattr(SqlTables, "commit", late)
        assert house.commit(house.request(written(house, 1))) is not None
        assert snapshots(house) == 1
        assert ids_in(house) == [1]


@pytest.mark.case("I02")
def test_each_day_of_a_partitioned_table_has_a_file(house: House) -> None:
    schema = Schema(
        NestedField(1, "id", LongType()), NestedField(2, "at", TimestamptzType(), required=True)
    )
    spec = PartitionSpec(PartitionField(2, 1000, DayTransform(), "at_day"))
    house.lake.table("orders", schema, spec=spec)
    today, before = NOON, NOON - timedelta(days=3)
    files = house.write(
        records_of({"id": 1, "at": today.isoformat()}, {"id": 2, "at": before.isoformat()})
    )
    assert sorted(str(file.partition[0].value) for file in files) == ["20481", "20484"]
    commit = house.commit(house.request(*files))
    assert commit is not None
    assert commit.files == 2
    snapshot = house.table().current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary["changed-partition-count"] == "2"
    assert sorted(row["id"] for row in house.rows()) == [1, 2]
    day = house.table().scan(row_filter="at >= '2026-01-31T00:00:00+00:00'")
    assert len(list(day.plan_files())) == 1
    assert day.to_arrow().column("id").to_pylist() == [1]


def test_a_commit_id_is_the_coordinators(house: House, table: Table) -> None:
    assert table.metadata.format_version == 2
    wanted = UUID("018f6f7c-0000-7000-8000-0000000000ff")
    commit = house.commit(house.request(written(house, 1), commit_id=wanted))
    assert commit is not None
    assert commit.commit_id == wanted
