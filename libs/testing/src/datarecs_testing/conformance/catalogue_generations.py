"""Repository suite of the catalogue: generations of statistics become visible at once."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from datarecs_application.catalogue.generations import PUBLISH_WITHIN, Generations, Publication
from datarecs_application.catalogue.snapshots import Snapshots
from datarecs_application.catalogue.statistics import Statistics
from datarecs_core.catalog import layout
from datarecs_core.catalog.generations import ActiveGeneration
from datarecs_core.catalog.pointers import Delete, Op, Outcome
from datarecs_core.catalog.publication import Captured
from datarecs_core.catalog.records import Table
from datarecs_core.errors.catalogue import (
    CatalogueBusyError,
    CatalogueInconsistentError,
    CataloguePreconditionError,
)
from datarecs_core.values import RunId
from datarecs_testing.builders import A_TENANT, an_id
from datarecs_testing.catalogue import (
    DAWN,
    CatalogueStores,
    FaultyPointers,
    a_snapshot,
    file_stats,
    target_stats,
)
from datarecs_testing.threads import at_once

JOB = UUID("019b0000-0000-7000-8000-0000000000aa")
RESCAN = "full-rescan-1"
FILES = 8


class Died(Exception):  # noqa: N818  an event of the test
    pass


class GenerationsConformance:
    """Subclass it and provide the fixture `catalogue`: an empty pair of stores."""

    def test_a_snapshot_is_finalised_by_its_publication(self, catalogue: CatalogueStores) -> None:
        table = a_base(catalogue)
        generations = Generations(catalogue.account())
        assert generations.active(table.id, 1) is None
        assert generations.publish(publication(table)) == 1
        active = generations.active(table.id, 1)
        assert active is not None
        assert (active.generation, active.number) == ("base", 1)
        assert (active.finalizer_job_id, active.finalized_at) == (JOB, DAWN)
        assert rows_of(generations, active) == {1}
        assert [one.target_id for one in generations.targets(active)] == ["table"]
        assert generations.target(active, "column-0") is None

    def test_the_same_publication_is_one_and_another_one_raises_the_number(
        self, catalogue: CatalogueStores
    ) -> None:
        table = a_base(catalogue)
        generations = Generations(catalogue.account())
        assert [generations.publish(publication(table)) for _ in range(3)] == [1, 1, 1]
        statistics = Statistics(catalogue.account())
        statistics.put_targets([target_stats(table, 1, target_id="column-1")])
        before = generations.active(table.id, 1)
        assert before is not None
        assert generations.publish(publication(table, sha="b" * 64)) == 2
        after = generations.active(table.id, 1)
        assert after is not None
        assert len(list(generations.targets(before))) == 1
        assert len(list(generations.targets(after))) == 2

    @pytest.mark.case("S36")
    def test_readers_see_all_of_the_old_or_all_of_the_new_generation(
        self, catalogue: CatalogueStores
    ) -> None:
        table = a_base(catalogue)
        generations = Generations(catalogue.account())
        generations.publish(publication(table))
        seen: list[frozenset[int]] = []
        published: list[int] = []

        def read() -> None:
            while not published or len(seen) < 4:
                active = generations.active(table.id, 1)
                assert active is not None
                seen.append(rows_of(generations, active))

        def rescan() -> None:
            write_draft(catalogue, table)
            published.append(generations.publish(publication(table, generation=RESCAN)))

        at_once([rescan, read, read])
        assert published == [2]
        assert set(seen) <= {frozenset({1}), frozenset({2})}
        active = generations.active(table.id, 1)
        assert active is not None
        assert rows_of(generations, active) == {2}

    @pytest.mark.case("S36")
    def test_a_pinned_reader_stays_in_its_generation(self, catalogue: CatalogueStores) -> None:
        table = a_base(catalogue)
        generations = Generations(catalogue.account())
        generations.publish(publication(table))
        snapshots, run = Snapshots(catalogue.account()), RunId(an_id())
        snapshots.pin(table.id, run, 1, until=catalogue.now() + timedelta(hours=1))
        write_draft(catalogue, table)
        assert generations.publish(publication(table, generation=RESCAN)) == 2
        pinned = snapshots.pinned(table.id, run).statistics
        assert pinned is not None
        assert rows_of(generations, pinned) == {1}
        assert generations.published(table.id, 1, "base") == pinned

    @pytest.mark.case("S37")
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("step", [1, 2], ids=["freeze", "publish"])
    def test_an_interrupted_publication_is_resumed_to_the_same_result(
        self, catalogue: CatalogueStores, step: int, *, after: bool
    ) -> None:
        table = a_base(catalogue)
        account = catalogue.account()
        Generations(account).publish(publication(table))
        write_draft(catalogue, table)
        new = publication(table, generation=RESCAN)
        steps: list[int] = []

        def die(change: Sequence[Op] | Outcome) -> None:
            del change
            steps.append(len(steps) + 1)
            if steps[-1] == step:
                raise Died

        faulty = FaultyPointers(real=account.pointers, **{"after" if after else "before": die})
        with pytest.raises(Died):
            Generations(replace(account, pointers=faulty)).publish(new)
        generations = Generations(account)
        assert [generations.publish(new) for _ in range(2)] == [2, 2]
        active = generations.active(table.id, 1)
        assert active is not None
        assert active.generation == RESCAN
        assert rows_of(generations, active) == {2}

    def test_a_publication_waits_for_another_one_unless_that_was_interrupted(
        self, catalogue: CatalogueStores
    ) -> None:
        table = a_base(catalogue)
        generations = Generations(catalogue.account())
        freeze(catalogue, publication(table))
        other = publication(table, sha="b" * 64)
        with pytest.raises(CatalogueBusyError):
            generations.publish(other)
        assert generations.active(table.id, 1) is None
        catalogue.pass_time(PUBLISH_WITHIN + timedelta(seconds=1))
        assert generations.publish(other) == 1

    @pytest.mark.case("S38")
    def test_a_missing_manifest_or_record_is_corruption(self, catalogue: CatalogueStores) -> None:
        table = a_base(catalogue)
        account = catalogue.account()
        generations = Generations(account)
        generations.publish(publication(table))
        write_draft(catalogue, table)
        generations.publish(publication(table, generation=RESCAN))
        active = generations.active(table.id, 1)
        assert active is not None
        key = f"{layout.files_of(A_TENANT, table.id, 1, RESCAN)}part-3"
        account.pointers.batch([Delete(key=key, expected=1)])
        with pytest.raises(CatalogueInconsistentError):
            list(generations.files(active))
        account.blobs.delete(active.manifest)
        for read in (generations.targets, generations.files):
            with pytest.raises(CatalogueInconsistentError):
                list(read(active))

    @pytest.mark.case("S38")
    def test_a_draft_is_not_abandoned_during_its_publication(
        self, catalogue: CatalogueStores
    ) -> None:
        table = a_base(catalogue)
        generations = Generations(catalogue.account())
        write_draft(catalogue, table)
        freeze(catalogue, publication(table, generation=RESCAN))
        with pytest.raises(CataloguePreconditionError):
            generations.abandon(table.id, 1, RESCAN)
        with pytest.raises(CataloguePreconditionError):
            write_draft(catalogue, table)
        assert generations.publish(publication(table, generation=RESCAN)) == 1
        with pytest.raises(CataloguePreconditionError):
            generations.abandon(table.id, 1, RESCAN)

    def test_an_abandoned_draft_is_never_published(self, catalogue: CatalogueStores) -> None:
        table = a_base(catalogue)
        generations = Generations(catalogue.account())
        assert not generations.abandon(table.id, 1, RESCAN)
        write_draft(catalogue, table)
        write_draft(catalogue, table)
        assert generations.abandon(table.id, 1, RESCAN)
        assert not generations.abandon(table.id, 1, RESCAN)
        with pytest.raises(CataloguePreconditionError):
            generations.publish(publication(table, generation=RESCAN))
        with pytest.raises(CataloguePreconditionError):
            write_draft(catalogue, table)
        assert generations.active(table.id, 1) is None

    def test_records_go_only_into_generations_that_accept_them(
        self, catalogue: CatalogueStores
    ) -> None:
        table = a_base(catalogue)
        generations = Generations(catalogue.account())
        statistics = Statistics(catalogue.account())
        with pytest.raises(CataloguePreconditionError):
            statistics.put_files([file_stats(table, 1, "part-0")], "unknown")
        with pytest.raises(CataloguePreconditionError):
            generations.begin_draft(table.id, 1, "base")
        with pytest.raises(CataloguePreconditionError):
            generations.begin_draft(an_id(), 1, RESCAN)
        write_draft(catalogue, table)
        generations.publish(publication(table, generation=RESCAN))
        with pytest.raises(CataloguePreconditionError):
            statistics.put_files([file_stats(table, 1, "late")])
        assert statistics.put_files([file_stats(table, 1, "late")], RESCAN) == 1
        with pytest.raises(CataloguePreconditionError):
            generations.publish(publication(table))

    def test_a_publication_needs_its_snapshot(self, catalogue: CatalogueStores) -> None:
        table = a_base(catalogue)
        generations = Generations(catalogue.account())
        with pytest.raises(CataloguePreconditionError):
            generations.publish(replace(publication(table), snapshot_id=2))
        with pytest.raises(CataloguePreconditionError):
            generations.publish(publication(table, generation="unknown"))

    def test_an_older_snapshot_is_not_the_newest_with_statistics(
        self, catalogue: CatalogueStores
    ) -> None:
        table = a_base(catalogue)
        snapshots = Snapshots(catalogue.account())
        generations = Generations(catalogue.account())
        assert generations.latest(table.id) is None
        snapshots.ingest(a_snapshot(table, 2, hours=2), is_current=False)
        for number in (2, 1):
            generations.publish(replace(publication(table), snapshot_id=number))
        assert generations.latest(table.id) == 2
        assert generations.latest(table.id, "table") == 1
        snapshots.remove(table.id, 2)
        assert generations.latest(table.id) is None
        assert generations.active(table.id, 2) is None
        assert generations.latest(table.id, "table") == 1

    def test_a_publication_commits_with_its_transaction(self, catalogue: CatalogueStores) -> None:
        table = a_base(catalogue)
        generations = Generations(catalogue.account())

        def publish_and(*, fails: bool) -> int:
            with catalogue.worker.begin(A_TENANT) as tx:
                account = catalogue.account(pointers=tx.pointers)
                Generations(account).begin_draft(table.id, 1, RESCAN)
                Statistics(account).put_files([file_stats(table, 1, "part-0")], RESCAN)
                number = Generations(account).publish(publication(table, generation=RESCAN))
                if fails:
                    raise Died
                return number

        with pytest.raises(Died):
            publish_and(fails=True)
        assert generations.active(table.id, 1) is None
        assert publish_and(fails=False) == 1
        active = generations.active(table.id, 1)
        assert active is not None
        assert len(list(generations.files(active))) == 1


def a_base(catalogue: CatalogueStores) -> Table:
    """A table with a snapshot and statistics of the generation `base`; not published."""
    table = catalogue.table()
    account = catalogue.account()
    Snapshots(account).ingest(a_snapshot(table, 1, hours=1), is_current=True)
    statistics = Statistics(account)
    statistics.put_files([file_stats(table, 1, f"part-{n}", rows=1) for n in range(FILES)])
    statistics.put_targets([target_stats(table, 1, rows=FILES)])
    return table


def write_draft(catalogue: CatalogueStores, table: Table) -> None:
    """A full rescan of the same files with other figures."""
    account = catalogue.account()
    Generations(account).begin_draft(table.id, 1, RESCAN)
    for number in range(FILES):
        record = file_stats(table, 1, f"part-{number}", rows=2)
        Statistics(account).put_files([record], RESCAN)


def publication(table: Table, *, generation: str = "base", sha: str = "a" * 64) -> Publication:
    return Publication(
        table_id=table.id,
        snapshot_id=1,
        generation=generation,
        publication_sha=sha,
        finalizer_job_id=JOB,
        finalized_at=DAWN,
        captured=Captured(outputs=("TABLE_STATS",), columns_sha256=""),
    )


def freeze(catalogue: CatalogueStores, new: Publication) -> None:
    """A publication that dies after its first step."""

    def die(outcome: Outcome) -> None:
        del outcome
        raise Died

    account = catalogue.account()
    faulty = FaultyPointers(real=account.pointers, after=die)
    with pytest.raises(Died):
        Generations(replace(account, pointers=faulty)).publish(new)


def rows_of(generations: Generations, active: ActiveGeneration) -> frozenset[int]:
    """The different numbers of rows of all files."""
    files = list(generations.files(active))
    assert len(files) == FILES
    return frozenset(one.rows for one in files)
