"""Real tables that were rolled back or created again, and files that go into another one."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.transforms import BucketTransform, DayTransform, Transform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, TimestamptzType

from datarecs_application.ports.sinking import CommitRequest, TableAcceptance, TableStanding
from datarecs_core.errors.sink import SinkCode, SinkError
from datarecs_core.sink.control import SourcePartition

from .sink_house import LINEAGE, TARGET, House, records_of

ID = NestedField(1, "id", LongType(), required=True)
NAME = NestedField(2, "name", StringType())
AT = NestedField(3, "at", TimestamptzType())
SCHEMA = Schema(ID, NAME, AT)
P0 = SourcePartition("orders", 0)


def request(house: House, *ids: int) -> CommitRequest:
    at = datetime(2026, 1, 31, tzinfo=UTC).isoformat()
    files = house.write(records_of(*({"id": one, "name": "n", "at": at} for one in ids)))
    return house.request(*files, source_ends={P0: max(ids) + 1})


def ids_in(house: House) -> list[int]:
    return sorted(row["id"] for row in house.rows())


def rolled_to(house: House, snapshot_id: int) -> None:
    """As an engine rolls a table back."""
    update = SetSnapshotRefUpdate.model_validate(
        {"ref-name": "main", "type": "branch", "snapshot-id": snapshot_id}
    )
    house.lake.catalog.commit_table(house.table(), (), (update,))


def standing(house: House) -> TableStanding:
    stated = house.tables().standing(TARGET, LINEAGE)
    assert stated is not None
    return stated


def acceptance(stated: TableStanding, offset: int, epoch: int = 2) -> TableAcceptance:
    return TableAcceptance(
        uuid=stated.uuid, head=stated.head, lineage=LINEAGE, offset=offset, epoch=epoch
    )


class TestRolledBack:
    @pytest.fixture
    def requests(self, house: House) -> tuple[CommitRequest, CommitRequest]:
        """Rolled back to the first of two commits."""
        house.lake.table("orders", SCHEMA)
        first, second = request(house, 1), request(house, 2)
        done = house.commit(first)
        assert done is not None
        house.commit(second)
        rolled_to(house, done.snapshot_id)
        return first, second

    def test_a_table_states_what_is_left(
        self, house: House, requests: tuple[CommitRequest, CommitRequest]
    ) -> None:
        assert requests[1].control_offset == 2
        stated = standing(house)
        assert stated.is_rolled_back
        assert (stated.offset, stated.remaining, stated.ends) == (2, 1, {P0: 2})
        assert house.tables().standing(replace(TARGET, name="none"), LINEAGE) is None

    @pytest.mark.case("I56")
    @pytest.mark.parametrize(("offset", "expected"), [(2, [1, 3]), (1, [1, 2, 3])])
    def test_an_accepted_table_goes_on_at_the_offset(
        self,
        house: House,
        requests: tuple[CommitRequest, CommitRequest],
        offset: int,
        expected: list[int],
    ) -> None:
        house.tables().accept(TARGET, acceptance(standing(house), offset))
        assert not standing(house).is_rolled_back
        later = request(house, 3)
        every = (*requests[0].pending, *requests[1].pending, *later.pending)
        house.commit(replace(later, pending=every, epoch=2))
        assert ids_in(house) == expected
        house.commit(replace(request(house, 4), epoch=2))
        assert ids_in(house) == [*expected, 4]

    def test_a_coordinator_from_before_commits_nothing_more(
        self, house: House, requests: tuple[CommitRequest, CommitRequest]
    ) -> None:
        """It reads from beyond the offset, so the table would never get what is between."""
        assert requests
        house.tables().accept(TARGET, acceptance(standing(house), 1))
        old = request(house, 3)
        with pytest.raises(SinkError, match="newer coordinator") as refused:
            house.commit(old)
        assert refused.value.code is SinkCode.COMMIT_FAILED
        house.commit(replace(request(house, 4), epoch=2))
        with pytest.raises(SinkError, match="newer coordinator"):
            house.commit(replace(old, control_offset=house.offset + 9))
        assert ids_in(house) == [1, 4]

    def test_a_head_that_has_changed_is_not_accepted(
        self, house: House, requests: tuple[CommitRequest, CommitRequest]
    ) -> None:
        assert requests
        stale = replace(acceptance(standing(house), 1), head=4711)
        with pytest.raises(SinkError, match="the sink tries again") as refused:
            house.tables().accept(TARGET, stale)
        assert refused.value.retryable
        assert standing(house).is_rolled_back

    def test_a_missing_file_is_named(
        self, house: House, requests: tuple[CommitRequest, CommitRequest]
    ) -> None:
        files = [entry for one in requests for part in one.pending for entry in part.data_files]
        assert house.tables().missing_file(TARGET, files) is None
        Path(files[1].path.removeprefix("file://")).unlink()
        assert house.tables().missing_file(TARGET, files) == files[1].path


DAYS = PartitionSpec(PartitionField(3, 1000, DayTransform(), "at_day"))


def bucketed(count: int) -> PartitionSpec:
    transform: Transform[int, int] = BucketTransform(count)
    return PartitionSpec(PartitionField(1, 1000, transform, "id_bucket"))


def moved(house: House, schema: Schema, spec: PartitionSpec, *, before: PartitionSpec) -> list[int]:
    """Files of a table that was created again; the ids of the new one after the commit."""
    house.lake.table("orders", SCHEMA, spec=before)
    files = request(house, *range(1, 30))
    house.lake.catalog.drop_table("books.orders")
    house.lake.table("orders", schema, spec=spec)
    pending = tuple(replace(one, is_moved=True) for one in files.pending)
    house.commit(replace(files, table=house.reference(), pending=pending))
    return ids_in(house)


@pytest.mark.parametrize("spec", [PartitionSpec(), DAYS, bucketed(4)])
def test_files_that_fit_go_into_the_new_table(house: House, spec: PartitionSpec) -> None:
    wider = Schema(ID, NAME, AT, NestedField(4, "note", StringType()))
    assert moved(house, wider, spec, before=spec) == list(range(1, 30))


@pytest.mark.parametrize(
    ("schema", "spec", "reason"),
    [
        (
            Schema(NestedField(1, "id", IntegerType(), required=True), NAME, AT),
            DAYS,
            "column id is int",
        ),
        (
            Schema(ID, NestedField(2, "title", StringType()), AT),
            DAYS,
            "no column name with the id 2",
        ),
        (Schema(ID, AT), DAYS, "no column name with the id 2"),
        (Schema(ID, NestedField(2, "name", StringType(), required=True), AT), DAYS, "is required"),
        (
            Schema(ID, NAME, AT, NestedField(4, "note", StringType(), required=True)),
            DAYS,
            "column note is required, and was not there",
        ),
        (SCHEMA, PartitionSpec(), "has other values for the same rows"),
        (SCHEMA, bucketed(4), "has other values for the same rows"),
    ],
)
def test_files_that_do_not_fit_are_refused_with_the_reason(
    house: House, schema: Schema, spec: PartitionSpec, reason: str
) -> None:
    with pytest.raises(SinkError, match=reason) as refused:
        moved(house, schema, spec, before=DAYS)
    assert refused.value.code is SinkCode.TABLE_LOST
    assert "use `accept-table` with leave_out" in str(refused.value)
    assert ids_in(house) == []


def test_another_number_of_buckets_is_refused(house: House) -> None:
    """The names and types of both partitions are equal."""
    with pytest.raises(SinkError, match="has other values for the same rows"):
        moved(house, SCHEMA, bucketed(5), before=bucketed(4))


def test_files_that_are_gone_are_refused(house: House) -> None:
    house.lake.table("orders", SCHEMA)
    files = request(house, 1)
    (entry,) = files.pending[0].data_files
    Path(entry.path.removeprefix("file://")).unlink()
    pending = tuple(replace(one, is_moved=True) for one in files.pending)
    with pytest.raises(SinkError, match="they are gone"):
        house.commit(replace(files, pending=pending))
