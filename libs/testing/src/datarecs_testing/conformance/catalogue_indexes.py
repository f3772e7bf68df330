"""Repository suite of the catalogue: indexes of data files and their Parquet files."""

from dataclasses import replace
from datetime import timedelta

import pytest

from datarecs_application.catalogue.collecting import Collector
from datarecs_application.catalogue.indexes import Indexes
from datarecs_application.catalogue.snapshots import Snapshots
from datarecs_core.catalog import layout
from datarecs_core.catalog.records import IndexArtifact, IndexState, Table
from datarecs_core.errors.catalogue import CatalogueInconsistentError, CataloguePreconditionError
from datarecs_core.errors.storage import BlobCorruptError
from datarecs_core.hashing import sha256_hex
from datarecs_testing.builders import A_TENANT, an_id
from datarecs_testing.catalogue import CatalogueStores, a_snapshot

CONTENT = b"PAR1 an index PAR1"
SHA = sha256_hex(CONTENT)
LATER = timedelta(hours=2)


class IndexesConformance:
    """Subclass it and provide the fixture `catalogue`: an empty pair of stores."""

    def test_an_index_is_read_as_it_was_stored(self, catalogue: CatalogueStores) -> None:
        table = catalogue.table()
        indexes = Indexes(catalogue.account())
        assert indexes.put_content(table.id, 1, "file-0", CONTENT) == _sidecar(table)
        records = [an_index(table), a_failed_index(table)]
        assert indexes.put(records) == 2
        assert indexes.put(records) == 0
        assert indexes.get(table.id, 1, "file-0") == records[0]
        assert indexes.get(table.id, 2, "file-0") is None
        assert list(indexes.all(table.id, 1)) == records
        assert indexes.content(records[0]) == CONTENT
        with pytest.raises(CataloguePreconditionError):
            indexes.content(records[1])

    def test_an_index_is_replaced(self, catalogue: CatalogueStores) -> None:
        table = catalogue.table()
        indexes = Indexes(catalogue.account())
        indexes.put([replace(a_failed_index(table), target_id="file-0")])
        indexes.put_content(table.id, 1, "file-0", CONTENT)
        assert indexes.put([an_index(table)]) == 1
        assert indexes.get(table.id, 1, "file-0") == an_index(table)

    @pytest.mark.parametrize(
        "changes",
        [
            {"blob_key": None},
            {"state": IndexState.FAILED},
            {"sha256": "c" * 64},
            {"table_id": an_id()},
        ],
        ids=["without content", "failed with content", "other content", "other table"],
    )
    def test_a_record_that_does_not_fit_its_content_is_refused(
        self, catalogue: CatalogueStores, changes: dict[str, object]
    ) -> None:
        table = catalogue.table()
        indexes = Indexes(catalogue.account())
        with pytest.raises(CataloguePreconditionError, match="stored"):
            indexes.put([an_index(table)])
        indexes.put_content(table.id, 1, "file-0", CONTENT)
        record = replace(an_index(table), **changes)  # type: ignore[arg-type]  # fields
        with pytest.raises(CataloguePreconditionError):
            indexes.put([record])
        missing = replace(a_failed_index(table), table_id=an_id())
        with pytest.raises(CataloguePreconditionError):
            indexes.put([missing])
        assert list(indexes.all(table.id, 1)) == []

    @pytest.mark.case("S18")
    def test_damaged_and_missing_content_is_refused(self, catalogue: CatalogueStores) -> None:
        table = catalogue.table()
        account = catalogue.account()
        indexes = Indexes(account)
        indexes.put_content(table.id, 1, "file-0", CONTENT)
        account.blobs.put(_sidecar(table), b"other bytes")
        with pytest.raises(BlobCorruptError):
            indexes.content(an_index(table))
        account.blobs.delete(_sidecar(table))
        with pytest.raises(CatalogueInconsistentError):
            indexes.content(an_index(table))

    @pytest.mark.case("S48")
    def test_a_dead_index_goes_and_a_live_one_stays(self, catalogue: CatalogueStores) -> None:
        table = catalogue.table()
        account = catalogue.account()
        indexes, snapshots = Indexes(account), Snapshots(account)
        for number in (1, 2):
            snapshots.ingest(a_snapshot(table, number, hours=number), is_current=True)
            indexes.put_content(table.id, number, "file-0", CONTENT)
            indexes.put([an_index(table, number)])
        dead = indexes.put_content(table.id, 1, "file-9", CONTENT)
        collector = Collector(account=catalogue.account(catalogue.collector))
        assert collector.collect().deleted == 0
        catalogue.pass_time(LATER)
        collector.collect()
        assert account.blobs.head(dead) is None
        assert indexes.content(an_index(table)) == CONTENT
        snapshots.remove(table.id, 1)
        catalogue.pass_time(LATER)
        collector.collect()
        assert account.blobs.head(_sidecar(table)) is None
        assert indexes.get(table.id, 1, "file-0") is None
        assert indexes.content(an_index(table, 2)) == CONTENT


def _sidecar(table: Table, number: int = 1) -> str:
    return layout.sidecar_blob(A_TENANT, table.id, number, "file-0", SHA)


def an_index(table: Table, number: int = 1) -> IndexArtifact:
    return IndexArtifact(
        table_id=table.id,
        snapshot_id=number,
        target_id="file-0",
        path="part-0.parquet",
        source_etag="e1",
        state=IndexState.READY,
        blob_key=_sidecar(table, number),
        sha256=SHA,
        size_bytes=len(CONTENT),
        columns=("id",),
        rows=3,
    )


def a_failed_index(table: Table) -> IndexArtifact:
    return IndexArtifact(
        table_id=table.id,
        snapshot_id=1,
        target_id="file-1",
        path="part-1.parquet",
        source_etag="e1",
        state=IndexState.FAILED,
        columns=(),
    )
