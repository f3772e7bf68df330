"""Repository suite of the catalogue: snapshots, statistics, constraints and repeated requests."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from uuid import UUID

import pytest

from datarecs_application.catalogue.repeating import MAX_RESULT_BYTES, Request, carry_out_once
from datarecs_application.catalogue.snapshots import Snapshots
from datarecs_application.catalogue.statistics import Statistics
from datarecs_application.catalogue.tables import ENTRIES, Tables
from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.state import Transaction, UnitOfWork
from datarecs_core.catalog import layout
from datarecs_core.catalog.pointers import Bump, Op
from datarecs_core.catalog.records import ConstraintKind, Snapshot
from datarecs_core.errors.catalogue import (
    CatalogueInconsistentError,
    CatalogueNotFoundError,
    CataloguePreconditionError,
    ContentConflictError,
)
from datarecs_core.values import RunId, TenantId
from datarecs_testing.builders import A_TENANT, an_id
from datarecs_testing.catalogue import (
    DAWN,
    CatalogueStores,
    FaultyPointers,
    a_snapshot,
    a_table,
    constraints,
    file_stats,
    target_stats,
)
from datarecs_testing.threads import at_once

COUNTER = f"/accounts/{A_TENANT}/catalogs/counter"
BEHIND = timedelta(hours=14)
IDEMPOTENCY = f"/accounts/{A_TENANT}/idempotency/"
REQUEST = Request(operation="capture", key="k1", sha256="a" * 64)


class SnapshotsConformance:
    """Subclass it and provide the fixture `catalogue`: an empty pair of stores."""

    @pytest.mark.case("S33")
    def test_snapshots_are_listed_by_commit_whatever_their_order_of_arrival(
        self, catalogue: CatalogueStores
    ) -> None:
        table = catalogue.table()
        snapshots = Snapshots(catalogue.account())
        arriving = [
            a_snapshot(table, 5, hours=3),
            a_snapshot(table, 2**63 - 1, hours=1),
            a_snapshot(table, 0, hours=2),
        ]
        for snapshot in arriving:
            assert snapshots.ingest(snapshot, is_current=True)
        newest_first = [arriving[0], arriving[2], arriving[1]]
        assert list(snapshots.newest_first(table.id)) == newest_first
        assert snapshots.current(table.id) == arriving[0]

    @pytest.mark.case("S33")
    @pytest.mark.parametrize(
        ("minutes", "expected"),
        [(59, None), (60, 1), (119, 1), (120, 2), (179, 2), (180, 3), (999, 3)],
    )
    def test_as_of_is_the_newest_commit_that_is_not_later(
        self, catalogue: CatalogueStores, minutes: int, expected: int | None
    ) -> None:
        table = catalogue.table()
        snapshots = Snapshots(catalogue.account())
        for number in (3, 1, 2):
            snapshots.ingest(a_snapshot(table, number, hours=number), is_current=True)
        newest = snapshots.as_of(table.id, DAWN + timedelta(minutes=minutes))
        assert (newest.snapshot_id if newest else None) == expected

    @pytest.mark.case("S33")
    def test_as_of_counts_microseconds(self, catalogue: CatalogueStores) -> None:
        table = catalogue.table()
        snapshots = Snapshots(catalogue.account())
        moment = DAWN + timedelta(hours=1, microseconds=500)
        early = a_snapshot(table, 1, hours=0.5)
        snapshots.ingest(early, is_current=True)
        late = replace(a_snapshot(table, 2), committed_at=moment)
        snapshots.ingest(late, is_current=True)
        assert snapshots.as_of(table.id, moment - timedelta(microseconds=1)) == early
        assert snapshots.as_of(table.id, moment) == late

    @pytest.mark.case("S33")
    def test_commits_before_1970_are_listed_and_read_like_others(
        self, catalogue: CatalogueStores
    ) -> None:
        table = catalogue.table()
        snapshots = Snapshots(catalogue.account())
        years = (1, 1900, 1969, 1970, 2026)
        at = {year: datetime(year, 1, 1, tzinfo=UTC) for year in years}
        numbers = {1: 5, 1900: 2, 1969: 4, 1970: 1, 2026: 3}
        for year in (1969, 2026, 1, 1970, 1900):
            snapshot = replace(a_snapshot(table, numbers[year]), committed_at=at[year])
            assert snapshots.ingest(snapshot, is_current=True)
        listed = [one.committed_at.year for one in snapshots.newest_first(table.id)]
        assert listed == sorted(years, reverse=True)
        for year in years:
            newest = snapshots.as_of(table.id, at[year] + timedelta(days=1))
            assert newest is not None
            assert newest.committed_at == at[year]
        assert snapshots.as_of(table.id, datetime.min.replace(tzinfo=timezone(BEHIND))) is None
        assert snapshots.remove(table.id, numbers[1])

    @pytest.mark.case("S33")
    def test_a_snapshot_that_is_captured_becomes_current_at_its_end(
        self, catalogue: CatalogueStores
    ) -> None:
        table = catalogue.table()
        snapshots = Snapshots(catalogue.account())
        first, second = a_snapshot(table, 1, hours=1), a_snapshot(table, 2, hours=2)
        assert snapshots.current(table.id) is None
        snapshots.ingest(first, is_current=False)
        snapshots.ingest(second, is_current=False)
        assert snapshots.current(table.id) is None
        assert snapshots.make_current(table.id, 2)
        assert not snapshots.make_current(table.id, 1)
        assert not snapshots.make_current(table.id, 2)
        assert snapshots.current(table.id) == second
        with pytest.raises(CatalogueNotFoundError):
            snapshots.make_current(table.id, 3)

    @pytest.mark.case("S33")
    def test_a_snapshot_that_was_rolled_back_is_not_current_until_the_source_has_it_again(
        self, catalogue: CatalogueStores
    ) -> None:
        table = catalogue.table()
        snapshots = Snapshots(catalogue.account())
        first, second, third, later = (
            a_snapshot(table, number, hours=number) for number in (1, 2, 3, 8)
        )
        for one in (first, second, third):
            snapshots.ingest(one, is_current=True)
        for hours, present in ((4, first), (5, first), (6, second), (7, first)):
            at = DAWN + timedelta(hours=hours)
            snapshots.record_present(table.id, present.entry("").order, at=at)
        assert snapshots.make_current(table.id, 1)
        assert not snapshots.make_current(table.id, 3)
        assert snapshots.current(table.id) == first
        snapshots.ingest(later, is_current=True)
        assert snapshots.current(table.id) == later
        snapshots.record_present(table.id, later.entry("").order, at=DAWN + timedelta(hours=9))
        expected = {1: first, 2: second, 3: third, 4: first, 5: first, 6: second, 7: first}
        for hours in range(1, 10):
            at = DAWN + timedelta(hours=hours)
            assert snapshots.as_of(table.id, at) == expected.get(hours, later)
        assert snapshots.remove(table.id, 8)
        assert snapshots.current(table.id) == first

    def test_a_rollback_that_is_recorded_meanwhile_is_not_missed(
        self, catalogue: CatalogueStores
    ) -> None:
        table = catalogue.table()
        account = catalogue.account()
        snapshots = Snapshots(account)
        first, second = a_snapshot(table, 1, hours=1), a_snapshot(table, 2, hours=2)
        snapshots.ingest(first, is_current=True)
        snapshots.ingest(second, is_current=False)

        def roll_back(ops: Sequence[Op]) -> None:
            del ops
            snapshots.record_present(table.id, first.entry("").order, at=catalogue.now())

        slow = FaultyPointers(real=account.pointers, before=roll_back)
        assert not Snapshots(replace(account, pointers=slow)).make_current(table.id, 2)
        assert snapshots.current(table.id) == first

    @pytest.mark.case("S34")
    def test_a_snapshot_is_ingested_once_and_its_id_belongs_to_one_native_id(
        self, catalogue: CatalogueStores
    ) -> None:
        table = catalogue.table()
        snapshots = Snapshots(catalogue.account())
        snapshot = a_snapshot(table, 1)
        assert snapshots.ingest(snapshot, is_current=True)
        later = replace(snapshot, ingested_at=snapshot.ingested_at + timedelta(hours=1))
        assert not snapshots.ingest(later, is_current=True)
        with pytest.raises(ContentConflictError):
            snapshots.ingest(replace(snapshot, native_id="another"), is_current=True)
        assert list(snapshots.newest_first(table.id)) == [snapshot]

    def test_a_snapshot_needs_its_table(self, catalogue: CatalogueStores) -> None:
        table = replace(catalogue.table(), id=an_id())
        with pytest.raises(CataloguePreconditionError):
            Snapshots(catalogue.account()).ingest(a_snapshot(table, 1), is_current=True)

    def test_snapshots_and_changes_of_one_table_at_once_all_take_effect(
        self, catalogue: CatalogueStores
    ) -> None:
        table = catalogue.table()
        snapshots, tables = Snapshots(catalogue.account()), Tables(catalogue.account())

        def ingest(writer: int) -> None:
            for number in range(5):
                one = writer * 5 + number
                snapshots.ingest(a_snapshot(table, one, hours=one), is_current=True)

        def change() -> None:
            for version in range(1, 6):
                tables.update(replace(table, description=str(version)), expected_version=version)

        at_once([partial(ingest, 0), partial(ingest, 1), change])
        run = RunId(an_id())
        snapshots.pin(table.id, run, 9, until=catalogue.now() + timedelta(days=1))
        pinned = snapshots.pinned(table.id, run)
        assert [one.snapshot_id for one in pinned.snapshots] == list(range(9, -1, -1))
        assert (pinned.table.description, pinned.current_snapshot_id) == ("5", 9)

    @pytest.mark.case("S35")
    def test_a_pinned_table_is_read_unchanged(self, catalogue: CatalogueStores) -> None:
        table = catalogue.table()
        snapshots, tables = Snapshots(catalogue.account()), Tables(catalogue.account())
        for number in range(3):
            snapshots.ingest(a_snapshot(table, number, hours=number), is_current=True)
        run = RunId(an_id())
        snapshots.pin(table.id, run, 2, until=catalogue.now() + timedelta(days=1))
        before = snapshots.pinned(table.id, run)
        for number in range(3, 28):
            snapshots.ingest(a_snapshot(table, number, hours=number), is_current=True)
            tables.update(replace(table, description=str(number)), expected_version=number - 2)
        assert snapshots.remove(table.id, 0)
        assert snapshots.pinned(table.id, run) == before
        assert before.table == table
        assert [one.snapshot_id for one in before.snapshots] == [2, 1, 0]
        with pytest.raises(CatalogueNotFoundError):
            snapshots.pinned(table.id, RunId(an_id()))
        with pytest.raises(CataloguePreconditionError):
            snapshots.pin(table.id, RunId(an_id()), 99, until=catalogue.now())

    def test_a_long_history_has_pages_and_loses_no_snapshot(
        self, catalogue: CatalogueStores
    ) -> None:
        table = catalogue.table()
        snapshots = Snapshots(catalogue.account())
        number_of_snapshots = ENTRIES + 3
        for number in range(number_of_snapshots):
            snapshots.ingest(a_snapshot(table, number, hours=number), is_current=True)
        assert snapshots.remove(table.id, 1)
        run = RunId(an_id())
        snapshots.pin(table.id, run, 0, until=catalogue.now() + timedelta(days=1))
        numbers = [one.snapshot_id for one in snapshots.pinned(table.id, run).snapshots]
        assert numbers == [*range(number_of_snapshots - 1, 1, -1), 0]

    def test_a_missing_page_of_a_root_is_reported(self, catalogue: CatalogueStores) -> None:
        table = catalogue.table()
        account = catalogue.account()
        snapshots = Snapshots(account)
        snapshots.ingest(a_snapshot(table, 1), is_current=True)
        run = RunId(an_id())
        snapshots.pin(table.id, run, 1, until=catalogue.now() + timedelta(days=1))
        account.blobs.delete_prefix(f"{layout.table_blobs(A_TENANT, table.id)}root/manifest/")
        with pytest.raises(CatalogueInconsistentError):
            snapshots.pinned(table.id, run)

    @pytest.mark.case("S47")
    def test_a_pinned_snapshot_is_not_removed_until_its_pin_ends(
        self, catalogue: CatalogueStores
    ) -> None:
        table = catalogue.table()
        snapshots = Snapshots(catalogue.account())
        for number in (1, 2):
            snapshots.ingest(a_snapshot(table, number, hours=number), is_current=True)
        first, second = RunId(an_id()), RunId(an_id())
        until = catalogue.now() + timedelta(hours=1)
        for run in (first, second):
            snapshots.pin(table.id, run, 2, until=until)
            snapshots.pin(table.id, run, 2, until=until)
        with pytest.raises(CataloguePreconditionError):
            snapshots.remove(table.id, 2)
        snapshots.unpin(table.id, first)
        snapshots.unpin(table.id, first)
        with pytest.raises(CataloguePreconditionError):
            snapshots.remove(table.id, 2)
        catalogue.pass_time(timedelta(hours=2))
        assert snapshots.remove(table.id, 2)
        assert not snapshots.remove(table.id, 2)
        assert _ids(snapshots, table.id) == [1]
        current = snapshots.current(table.id)
        assert current is not None
        assert current.snapshot_id == 1
        assert snapshots.remove(table.id, 1)
        assert snapshots.current(table.id) is None

    @pytest.mark.case("S47")
    def test_a_pin_that_comes_after_the_pins_were_read_stops_the_removal(
        self, catalogue: CatalogueStores
    ) -> None:
        table = catalogue.table()
        account = catalogue.account()
        snapshots, run = Snapshots(account), RunId(an_id())
        for number in (1, 2):
            snapshots.ingest(a_snapshot(table, number, hours=number), is_current=True)
        until = catalogue.now() + timedelta(hours=1)

        def pin_first(ops: Sequence[Op]) -> None:
            del ops
            snapshots.pin(table.id, run, 1, until=until)

        slow = FaultyPointers(real=account.pointers, before=pin_first)
        with pytest.raises(CataloguePreconditionError):
            Snapshots(replace(account, pointers=slow)).remove(table.id, 1)
        assert _ids(snapshots, table.id) == [2, 1]
        assert len(snapshots.pinned(table.id, run).snapshots) == 2

    def test_a_removed_snapshot_takes_its_statistics_and_constraints(
        self, catalogue: CatalogueStores
    ) -> None:
        table = catalogue.table()
        snapshots, statistics = (
            Snapshots(catalogue.account()),
            Statistics(catalogue.account()),
        )
        for number in (1, 2):
            snapshots.ingest(a_snapshot(table, number, hours=number), is_current=True)
            statistics.put_targets([target_stats(table, number)])
            statistics.put_constraints(constraints(table, number, "id"))
        snapshots.remove(table.id, 1)
        assert statistics.target(table.id, 1, "table") is None
        assert statistics.constraints(table.id, 1) is None
        assert statistics.target(table.id, 2, "table") is not None
        assert statistics.constraints(table.id, 2) is not None
        statistics.put_targets([target_stats(table, 3)])
        assert not snapshots.remove(table.id, 3)
        assert statistics.target(table.id, 3, "table") is not None


class StatisticsConformance:
    """Subclass it and provide the fixture `catalogue`: an empty pair of stores."""

    @pytest.mark.case("S31")
    def test_statistics_come_before_their_snapshot_and_constraints_do_not(
        self, catalogue: CatalogueStores
    ) -> None:
        table = catalogue.table()
        statistics = Statistics(catalogue.account())
        record = target_stats(table, 1)
        assert statistics.put_targets([record]) == 1
        assert statistics.target(table.id, 1, "table") == record
        with pytest.raises(CataloguePreconditionError):
            statistics.put_constraints(constraints(table, 1, "id"))
        assert statistics.constraints(table.id, 1) is None

    @pytest.mark.case("S32")
    def test_constraints_are_reached_from_both_sides(self, catalogue: CatalogueStores) -> None:
        table = catalogue.table()
        account = catalogue.account()
        Snapshots(account).ingest(a_snapshot(table, 1), is_current=True)
        statistics = Statistics(account)
        keys = [
            layout.constraints_by_snapshot(A_TENANT, table.id, 1),
            layout.constraints_of_stats(A_TENANT, table.id, 1),
        ]
        one, two = constraints(table, 1, "id"), constraints(table, 1, "id", "name")
        for record in (one, one, two):
            statistics.put_constraints(record)
            pointers = account.pointers.get_many(keys)
            assert len({each.blob_key for each in pointers.values()}) == 1
            assert statistics.constraints(table.id, 1) == record
        (first, _) = two.constraints
        assert (first.type, first.columns) == (ConstraintKind.NOT_NULL, ("id",))
        assert {each.version for each in account.pointers.get_many(keys).values()} == {2}

    def test_statistics_are_written_once_and_may_be_sent_again(
        self, catalogue: CatalogueStores
    ) -> None:
        table = catalogue.table()
        statistics = Statistics(catalogue.account())
        records = [file_stats(table, 1, f"part-{number}") for number in range(3)]
        assert statistics.put_files(records[:2]) == 2
        assert statistics.put_files(records) == 1
        with pytest.raises(ContentConflictError):
            statistics.put_files([replace(records[0], rows=18)])
        assert statistics.file(table.id, 1, "part-0") == records[0]

    def test_statistics_of_no_table_are_refused(self, catalogue: CatalogueStores) -> None:
        table = replace(catalogue.table(), id=an_id())
        with pytest.raises(CataloguePreconditionError):
            Statistics(catalogue.account()).put_targets([target_stats(table, 1)])

    @pytest.mark.case("S12")
    def test_a_long_path_is_a_hash_in_the_key_and_whole_in_the_record(
        self, catalogue: CatalogueStores
    ) -> None:
        table = catalogue.table()
        statistics = Statistics(catalogue.account())
        path = f"{'d/' * 450}part.parquet"
        statistics.put_files([file_stats(table, 1, path)])
        stored = statistics.file(table.id, 1, path)
        assert stored is not None
        assert stored.path == path

    def test_many_statistics_are_stored_in_batches(self, catalogue: CatalogueStores) -> None:
        table = catalogue.table()
        statistics = Statistics(catalogue.account())
        records = [target_stats(table, 1, target_id=f"column-{n:019d}") for n in range(501)]
        assert statistics.put_targets(records) == 501
        assert statistics.target(table.id, 1, records[500].target_id) == records[500]


class RepeatedRequestsConformance:
    """Subclass it and provide the fixture `catalogue`: an empty pair of stores."""

    @pytest.mark.case("S29")
    def test_a_repeated_request_has_one_effect_and_the_same_result(
        self, catalogue: CatalogueStores
    ) -> None:
        results = [carry_out_once(catalogue.worker, A_TENANT, REQUEST, _effect) for _ in range(3)]
        assert results == [b"1", b"1", b"1"]
        with pytest.raises(ContentConflictError):
            carry_out_once(catalogue.worker, A_TENANT, replace(REQUEST, sha256="b" * 64), _effect)
        other = replace(REQUEST, operation="release")
        assert carry_out_once(catalogue.worker, A_TENANT, other, _effect) == b"2"

    def test_without_a_key_each_request_has_its_effect(self, catalogue: CatalogueStores) -> None:
        plain = replace(REQUEST, key="")
        results = [carry_out_once(catalogue.worker, A_TENANT, plain, _effect) for _ in range(2)]
        assert results == [b"1", b"2"]

    @pytest.mark.case("S30")
    @pytest.mark.parametrize("error", [KeyError(), StoreBusyError(cause="a deadlock")])
    def test_a_failed_effect_leaves_its_key_unused(
        self, catalogue: CatalogueStores, error: Exception
    ) -> None:
        def fail(tx: Transaction) -> bytes:
            _effect(tx)
            raise error

        with pytest.raises(type(error)):
            carry_out_once(catalogue.worker, A_TENANT, REQUEST, fail)
        with pytest.raises(ValueError, match="longer than"):
            carry_out_once(
                catalogue.worker, A_TENANT, REQUEST, lambda _: b"x" * (MAX_RESULT_BYTES + 1)
            )
        assert list(catalogue.account().pages(IDEMPOTENCY)) == []
        assert carry_out_once(catalogue.worker, A_TENANT, REQUEST, _effect) == b"1"

    @pytest.mark.case("S51")
    def test_a_request_with_a_lost_answer_is_sent_again(self, catalogue: CatalogueStores) -> None:
        lost = LostAnswers(catalogue.worker)
        with pytest.raises(StoreUnavailableError):
            carry_out_once(lost, A_TENANT, REQUEST, _effect)
        assert carry_out_once(catalogue.worker, A_TENANT, REQUEST, _effect) == b"1"

    @pytest.mark.case("S51")
    def test_a_change_with_a_lost_answer_is_sent_again(self, catalogue: CatalogueStores) -> None:
        table, account = a_table(catalogue.namespace()), catalogue.account()
        lost = catalogue.account(LostAnswers(catalogue.worker))
        with pytest.raises(StoreUnavailableError):
            Tables(lost).create(table)
        assert Tables(account).create(table).version == 1
        changed = replace(table, description="new")
        with pytest.raises(StoreUnavailableError):
            Tables(lost).update(changed, expected_version=1)
        assert Tables(account).update(changed, expected_version=2).version == 2

    def test_a_key_is_forgotten_after_a_day(self, catalogue: CatalogueStores) -> None:
        carry_out_once(catalogue.worker, A_TENANT, REQUEST, _effect)
        catalogue.pass_time(timedelta(hours=25))
        assert carry_out_once(catalogue.worker, A_TENANT, REQUEST, _effect) == b"2"


@dataclass(frozen=True, slots=True)
class LostAnswers:
    """Port UnitOfWork: what it has committed it reports as failed; reads are answered."""

    inner: UnitOfWork

    @contextmanager
    def begin(
        self, tenant: TenantId, *, feed: int = 0, read_only: bool = False
    ) -> Iterator[Transaction]:
        with self.inner.begin(tenant, feed=feed, read_only=read_only) as tx:
            yield tx
        if not read_only:
            raise StoreUnavailableError(cause="the answer of COMMIT was lost")


def _effect(tx: Transaction) -> bytes:
    """Count the calls."""
    tx.pointers.batch([Bump(key=COUNTER)])
    pointer = tx.pointers.get(COUNTER)
    assert pointer is not None
    return str(pointer.version).encode()


def _ids(snapshots: Snapshots, table_id: UUID) -> Sequence[int]:
    listed: list[Snapshot] = list(snapshots.newest_first(table_id))
    return [one.snapshot_id for one in listed]
