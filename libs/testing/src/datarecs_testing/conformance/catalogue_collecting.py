"""Repository suite of the catalogue: collection takes what is unreachable and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.collecting import Collected, Collector
from datarecs_application.catalogue.generations import Generations
from datarecs_application.catalogue.planned_files import PlannedFiles
from datarecs_application.catalogue.snapshots import Snapshots
from datarecs_application.catalogue.statistics import Statistics
from datarecs_application.catalogue.tables import Tables
from datarecs_application.catalogue.verifying import Verification
from datarecs_core.captures.source_facts import SourceFile
from datarecs_core.catalog import layout
from datarecs_core.catalog.pointers import Applied, Op, Outcome, Upsert
from datarecs_core.catalog.records import Table
from datarecs_core.errors.catalogue import CatalogueBusyError
from datarecs_core.values import RunId
from datarecs_testing.builders import A_TENANT, an_id
from datarecs_testing.catalogue import (
    CatalogueStores,
    FaultyPointers,
    a_snapshot,
    a_table,
    constraints,
    file_stats,
    target_stats,
)
from datarecs_testing.conformance.catalogue_generations import publication

LATER = timedelta(hours=2)
"""Longer than the least age of blobs."""
FENCES = layout.blob_deletions(A_TENANT)


class Died(Exception):  # noqa: N818  an event of the test
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Aging:
    """A table, and a record of it that no pointer names any more."""

    table: Table
    old_blob: str


class CollectingConformance:
    """Subclass it and provide the fixture `catalogue`: an empty pair of stores."""

    def test_a_superseded_record_goes_and_everything_reachable_stays(
        self, catalogue: CatalogueStores
    ) -> None:
        aging = _aging(catalogue)
        account = catalogue.account()
        snapshots, statistics = Snapshots(account), Statistics(account)
        for number in (1, 2):
            snapshots.ingest(a_snapshot(aging.table, number, hours=number), is_current=True)
            statistics.put_targets([target_stats(aging.table, number)])
            statistics.put_files([file_stats(aging.table, number, "part")])
            statistics.put_constraints(constraints(aging.table, number, "id"))
        assert _collect(catalogue).deleted == 0
        catalogue.pass_time(LATER)
        assert _collect(catalogue).deleted > 0
        assert account.blobs.head(aging.old_blob) is None
        assert Tables(account).get(aging.table.id) is not None
        assert len(list(snapshots.newest_first(aging.table.id))) == 2
        assert statistics.target(aging.table.id, 1, "table") is not None
        assert statistics.file(aging.table.id, 2, "part") is not None
        assert statistics.constraints(aging.table.id, 1) is not None
        run = RunId(an_id())
        snapshots.pin(aging.table.id, run, 1, until=catalogue.now() + LATER)
        assert len(snapshots.pinned(aging.table.id, run).snapshots) == 2
        assert _collect(catalogue).deleted == 0

    def test_a_list_of_planned_files_stays_until_the_files_are_published(
        self, catalogue: CatalogueStores
    ) -> None:
        table = catalogue.table()
        account = catalogue.account()
        Snapshots(account).ingest(a_snapshot(table, 1), is_current=False)
        planned = PlannedFiles(account=account)
        planned.put(
            table.id, 1, [SourceFile(path="t/a.csv", size_bytes=4, etag="e1", format="csv")]
        )
        catalogue.pass_time(LATER)
        assert _collect(catalogue).failed_owners == ()
        (listed,) = planned.get(table.id, 1) or ()
        assert (listed.path, listed.size_bytes, listed.etag) == ("t/a.csv", 4, "e1")
        pointers = list(account.pages(layout.table_pointers(A_TENANT, table.id)))
        assert Verification(account=account).faults(pointers) == []
        Statistics(account).put_files([file_stats(table, 1, "t/a.csv")])
        Generations(account).publish(publication(table))
        catalogue.pass_time(LATER)
        _collect(catalogue)
        assert planned.get(table.id, 1) is None
        assert [key for key in _blobs(account) if "/planned-files/" in key] == []

    @pytest.mark.case("S20")
    def test_a_blob_that_no_pointer_ever_named_goes_after_its_least_age(
        self, catalogue: CatalogueStores
    ) -> None:
        table = catalogue.table()
        account = catalogue.account()
        broken = replace(account, pointers=FaultyPointers(real=account.pointers, before=_die))
        with pytest.raises(Died):
            Tables(broken).update(replace(table, description="lost"), expected_version=1)
        number = len(_blobs(account))
        assert _collect(catalogue).deleted == 0
        catalogue.pass_time(LATER)
        assert _collect(catalogue).deleted == len(_blobs_of_crash())
        assert len(_blobs(account)) == number - len(_blobs_of_crash())

    @pytest.mark.case("S47")
    def test_what_a_run_has_pinned_stays_until_its_pin_ends_and_then_goes(
        self, catalogue: CatalogueStores
    ) -> None:
        table = catalogue.table()
        account = catalogue.account()
        snapshots = Snapshots(account)
        for number in (1, 2, 3):
            snapshots.ingest(a_snapshot(table, number, hours=number), is_current=True)
        run = RunId(an_id())
        snapshots.pin(table.id, run, 2, until=catalogue.now() + timedelta(hours=10))
        before = snapshots.pinned(table.id, run)
        snapshots.remove(table.id, 1)
        Tables(account).update(replace(table, description="new"), expected_version=1)
        Tables(account).delete(table.id)
        catalogue.pass_time(LATER)
        _collect(catalogue)
        assert snapshots.pinned(table.id, run) == before
        catalogue.pass_time(timedelta(hours=10))
        _collect(catalogue)
        assert [key for key in _blobs(account) if "/tables/" in key] == []
        assert list(account.pages(layout.table_pointers(A_TENANT, table.id))) == []

    @pytest.mark.case("S43")
    @pytest.mark.case("S46")
    @pytest.mark.parametrize("moment", ["before the fences", "after the fences"])
    def test_a_record_that_is_used_again_during_a_collection_is_there_afterwards(
        self, catalogue: CatalogueStores, moment: str
    ) -> None:
        aging = _aging(catalogue)
        account = catalogue.account()
        catalogue.pass_time(LATER)
        reverted: list[str] = []

        def revert() -> None:
            reverted.append(moment)
            Tables(account).update(aging.table, expected_version=2)

        collector = catalogue.account(catalogue.collector)

        def before(ops: Sequence[Op]) -> None:
            if moment == "before the fences" and _announces(ops) and not reverted:
                revert()

        def after(outcome: Outcome) -> None:
            if moment == "after the fences" and _is_of_fences(outcome) and not reverted:
                with pytest.raises(CatalogueBusyError):
                    revert()

        faulty = FaultyPointers(real=collector.pointers, before=before, after=after)
        collected = Collector(account=replace(collector, pointers=faulty)).collect()
        assert reverted == [moment]
        assert collected.failed_owners == ()
        if moment == "before the fences":
            assert collected.rescued == 1
        else:
            Tables(account).update(aging.table, expected_version=2)
        stored = Tables(account).get(aging.table.id)
        assert stored is not None
        assert stored.record == aging.table
        assert account.blobs.head(aging.old_blob) is not None

    @pytest.mark.case("S43")
    def test_a_writer_that_is_slower_than_a_collection_stores_its_record_again(
        self, catalogue: CatalogueStores
    ) -> None:
        aging = _aging(catalogue)
        account = catalogue.account()
        catalogue.pass_time(LATER)
        passes: list[Collected] = []

        def collect_once(ops: Sequence[Op]) -> None:
            del ops
            if not passes:
                catalogue.pass_time(LATER)
                passes.append(_collect(catalogue))

        slow = replace(account, pointers=FaultyPointers(real=account.pointers, before=collect_once))
        Tables(slow).update(aging.table, expected_version=2)
        assert passes[0].deleted > 0
        stored = Tables(account).get(aging.table.id)
        assert stored is not None
        assert stored.record == aging.table

    @pytest.mark.case("S45")
    def test_a_stopped_collection_delays_writers_until_another_one_takes_over(
        self, catalogue: CatalogueStores
    ) -> None:
        aging = _aging(catalogue)
        account = catalogue.account()
        catalogue.pass_time(LATER)

        def stop(outcome: Outcome) -> None:
            if _is_of_fences(outcome):
                raise Died

        collector = catalogue.account(catalogue.collector)
        faulty = FaultyPointers(real=collector.pointers, after=stop)
        with pytest.raises(Died):
            Collector(account=replace(collector, pointers=faulty)).collect()
        with pytest.raises(CatalogueBusyError):
            Tables(account).update(aging.table, expected_version=2)
        assert _collect(catalogue).deleted == 0
        catalogue.pass_time(timedelta(minutes=2))
        assert _collect(catalogue).deleted > 0
        assert Tables(account).update(aging.table, expected_version=2).version == 3
        assert Tables(account).get(aging.table.id) is not None

    @pytest.mark.case("S44")
    def test_an_owner_that_cannot_be_read_loses_nothing_and_holds_nobody_up(
        self, catalogue: CatalogueStores
    ) -> None:
        account = catalogue.account()
        first = _aging(catalogue)
        namespace_table = replace(first.table, id=an_id(), name="other")
        second = Tables(account).create(namespace_table)
        Tables(account).update(replace(second.record, description="x"), expected_version=1)
        root = account.pointers.get(layout.current_root(A_TENANT, first.table.id))
        assert root is not None
        assert root.blob_key is not None
        account.blobs.delete(root.blob_key)
        catalogue.pass_time(LATER)
        collected = _collect(catalogue)
        assert collected.failed_owners == (layout.table_blobs(A_TENANT, first.table.id),)
        assert account.blobs.head(first.old_blob) is not None
        assert account.blobs.head(second.blob_key) is None

    def test_fences_are_forgotten_after_a_day(self, catalogue: CatalogueStores) -> None:
        _aging(catalogue)
        catalogue.pass_time(LATER)
        assert _collect(catalogue).deleted > 0
        account = catalogue.account()
        assert list(account.pages(FENCES)) != []
        catalogue.pass_time(timedelta(hours=25) + LATER)
        assert list(account.pages(FENCES)) == []

    def test_a_slow_collection_stops_deleting(self, catalogue: CatalogueStores) -> None:
        aging = _aging(catalogue)
        catalogue.pass_time(LATER)

        def stall(outcome: Outcome) -> None:
            if _is_of_fences(outcome):
                catalogue.clock.advance(timedelta(seconds=11))

        collector = catalogue.account(catalogue.collector)
        faulty = FaultyPointers(real=collector.pointers, after=stall)
        collected = Collector(account=replace(collector, pointers=faulty)).collect()
        assert collected.deleted == 0
        assert catalogue.account().blobs.head(aging.old_blob) is not None

    def test_files_of_runs_are_not_touched(self, catalogue: CatalogueStores) -> None:
        account = catalogue.account()
        key = layout.run_document(A_TENANT, RunId(an_id()))
        account.blobs.put(key, b"{}")
        catalogue.pass_time(LATER)
        assert _collect(catalogue).scanned == 0
        assert account.blobs.head(key) is not None


def _collect(catalogue: CatalogueStores) -> Collected:
    return Collector(account=catalogue.account(catalogue.collector)).collect()


def _aging(catalogue: CatalogueStores) -> Aging:
    """A table whose first record was replaced."""
    tables = Tables(catalogue.account())
    stored = tables.create(a_table(catalogue.namespace()))
    tables.update(replace(stored.record, description="new"), expected_version=1)
    return Aging(table=stored.record, old_blob=stored.blob_key)


def _blobs(account: CatalogueAccount) -> list[str]:
    return [info.key for info in account.blobs.list(layout.account_prefix(account.tenant))]


def _blobs_of_crash() -> tuple[str, str]:
    """What a change of a table stores before its batch."""
    return ("table", "root")


def _announces(ops: Sequence[Op]) -> bool:
    return any(isinstance(op, Upsert) and op.key.startswith(FENCES) for op in ops)


def _is_of_fences(outcome: Outcome) -> bool:
    return isinstance(outcome, Applied) and any(key.startswith(FENCES) for key in outcome.versions)


def _die(ops: Sequence[Op]) -> None:
    del ops
    raise Died
