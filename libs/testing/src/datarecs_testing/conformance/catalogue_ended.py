"""Repository suite of the catalogue: what ended generations and captures leave is collected."""

from datetime import timedelta
from uuid import UUID

import pytest

from datarecs_application.catalogue.collecting import Collected, Collector
from datarecs_application.catalogue.generations import Generations
from datarecs_application.catalogue.snapshots import Snapshots
from datarecs_application.catalogue.statistics import Statistics
from datarecs_core.catalog import layout
from datarecs_core.catalog.records import Table
from datarecs_core.errors.catalogue import CataloguePreconditionError
from datarecs_core.values import RunId
from datarecs_testing.builders import A_TENANT, an_id
from datarecs_testing.catalogue import CatalogueStores, file_stats
from datarecs_testing.conformance.catalogue_generations import (
    FILES,
    RESCAN,
    a_base,
    publication,
    rows_of,
    write_draft,
)

LATER = timedelta(hours=2)
DAY = timedelta(hours=25)


class EndedConformance:
    """Subclass it and provide the fixture `catalogue`: an empty pair of stores."""

    @pytest.mark.case("S48")
    def test_a_superseded_generation_goes_after_a_day_and_the_active_one_stays(
        self, catalogue: CatalogueStores
    ) -> None:
        table = a_superseded_base(catalogue)
        account = catalogue.account()
        generations, statistics = Generations(account), Statistics(account)
        past = generations.published(table.id, 1, "base")
        assert past is not None
        catalogue.pass_time(LATER)
        assert collect(catalogue).generations == 0
        assert rows_of(generations, past) == {1}
        catalogue.pass_time(DAY)
        collected = collect(catalogue)
        assert collected.generations == 1
        assert collected.deleted > FILES
        assert list(statistics.files(table.id, 1)) == []
        assert generations.published(table.id, 1, "base") is None
        assert account.blobs.head(past.manifest) is None
        active = generations.active(table.id, 1)
        assert active is not None
        assert rows_of(generations, active) == {2}
        with pytest.raises(CataloguePreconditionError):
            statistics.put_files([file_stats(table, 1, "late")])
        assert collect(catalogue) == Collected(scanned=collect(catalogue).scanned)

    @pytest.mark.case("S47")
    @pytest.mark.case("S48")
    def test_a_superseded_generation_that_a_run_has_pinned_stays(
        self, catalogue: CatalogueStores
    ) -> None:
        table = a_base(catalogue)
        generations = Generations(catalogue.account())
        snapshots, run = Snapshots(catalogue.account()), RunId(an_id())
        generations.publish(publication(table))
        snapshots.pin(table.id, run, 1, until=catalogue.now() + 4 * DAY)
        statistics = Statistics(catalogue.account())
        statistics.put_files([file_stats(table, 1, f"part-{FILES}", rows=1)])
        generations.publish(publication(table, sha="b" * 64))
        write_draft(catalogue, table)
        generations.publish(publication(table, generation=RESCAN))
        catalogue.pass_time(DAY)
        assert collect(catalogue).generations == 0
        pinned = snapshots.pinned(table.id, run).statistics
        assert pinned is not None
        assert pinned.number == 1
        assert len(list(generations.files(pinned))) == FILES + 1
        assert [one.rows for one in generations.targets(pinned)] == [FILES]
        catalogue.pass_time(4 * DAY)
        assert collect(catalogue).generations == 1
        assert catalogue.account().blobs.head(pinned.manifest) is None

    @pytest.mark.case("S48")
    def test_an_abandoned_draft_goes_and_a_draft_stays(self, catalogue: CatalogueStores) -> None:
        table = a_base(catalogue)
        generations, statistics = (
            Generations(catalogue.account()),
            Statistics(catalogue.account()),
        )
        write_draft(catalogue, table)
        catalogue.pass_time(DAY)
        assert collect(catalogue).generations == 0
        assert generations.abandon(table.id, 1, RESCAN)
        catalogue.pass_time(LATER)
        assert collect(catalogue).deleted == 0
        catalogue.pass_time(DAY)
        collected = collect(catalogue)
        assert (collected.generations, collected.deleted) == (1, FILES)
        assert list(statistics.files(table.id, 1, RESCAN)) == []
        assert len(list(statistics.files(table.id, 1))) == FILES
        generations.begin_draft(table.id, 1, RESCAN)

    @pytest.mark.case("S48")
    def test_blobs_of_a_live_job_stay_and_those_of_a_removed_one_go(
        self, catalogue: CatalogueStores
    ) -> None:
        account = catalogue.account()
        live, removed = an_id(), an_id()
        keys = {job: layout.capture_plan(A_TENANT, job, "a" * 64) for job in (live, removed)}
        for key in keys.values():
            account.blobs.put(key, b"{}")
        assert collect(catalogue, live).deleted == 0
        catalogue.pass_time(LATER)
        assert collect(catalogue).scanned == 0
        collected = collect(catalogue, live)
        assert (collected.scanned, collected.deleted) == (2, 1)
        assert account.blobs.head(keys[live]) is not None
        assert account.blobs.head(keys[removed]) is None

    def test_a_report_names_what_a_collection_deletes_and_changes_nothing(
        self, catalogue: CatalogueStores
    ) -> None:
        table = a_superseded_base(catalogue)
        account = catalogue.account(catalogue.collector)
        job = an_id()
        plan = layout.capture_plan(A_TENANT, job, "a" * 64)
        account.blobs.put(plan, b"{}")
        collector = Collector(account=account, is_live_job=lambda _: False)
        assert collector.report().unreachable == ()
        catalogue.pass_time(DAY)
        blobs = _blobs(catalogue)
        report = collector.report()
        assert report == collector.report()
        assert _blobs(catalogue) == blobs
        assert report.scanned == len(blobs)
        assert plan in report.unreachable
        assert len(list(Statistics(account).files(table.id, 1))) == FILES
        collector.collect()
        assert blobs - _blobs(catalogue) == set(report.unreachable)
        assert collector.report().unreachable == ()

    @pytest.mark.case("S44")
    def test_a_report_names_what_cannot_be_read(self, catalogue: CatalogueStores) -> None:
        table = a_base(catalogue)
        account = catalogue.account()
        root = account.pointers.get(layout.current_root(A_TENANT, table.id))
        assert root is not None
        assert root.blob_key is not None
        account.blobs.delete(root.blob_key)
        catalogue.pass_time(LATER)
        report = Collector(account=account).report()
        assert report.failed_owners == (layout.table_blobs(A_TENANT, table.id),)


def a_superseded_base(catalogue: CatalogueStores) -> Table:
    """A table whose statistics were captured twice, the second time by a full rescan."""
    table = a_base(catalogue)
    generations = Generations(catalogue.account())
    generations.publish(publication(table))
    write_draft(catalogue, table)
    generations.publish(publication(table, generation=RESCAN))
    return table


def collect(catalogue: CatalogueStores, *live: UUID) -> Collected:
    """A pass; with live jobs it collects what other jobs left."""
    return Collector(
        account=catalogue.account(catalogue.collector),
        is_live_job=(lambda job: job in live) if live else None,
    ).collect()


def _blobs(catalogue: CatalogueStores) -> set[str]:
    account = catalogue.account()
    return {info.key for info in account.blobs.list(layout.account_prefix(A_TENANT))}
