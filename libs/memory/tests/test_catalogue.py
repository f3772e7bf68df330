"""Both memory stores against the repository suites of the catalogue."""

from dataclasses import dataclass
from threading import Barrier

import pytest

from datarecs_application.catalogue.account import WRITERS, NewRecord
from datarecs_application.ports.outside import BlobInfo, BlobStore
from datarecs_core.catalog import layout
from datarecs_core.errors.storage import BlobStoreUnavailableError
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_testing.builders import A_TENANT
from datarecs_testing.catalogue import CatalogueStores, ShiftedClock, a_catalog
from datarecs_testing.clock import ManualClock
from datarecs_testing.conformance.catalogue import CatalogueConformance
from datarecs_testing.conformance.catalogue_collecting import CollectingConformance
from datarecs_testing.conformance.catalogue_ended import EndedConformance
from datarecs_testing.conformance.catalogue_generations import GenerationsConformance
from datarecs_testing.conformance.catalogue_indexes import IndexesConformance
from datarecs_testing.conformance.catalogue_snapshots import (
    RepeatedRequestsConformance,
    SnapshotsConformance,
    StatisticsConformance,
)
from datarecs_testing.conformance.stores import Stores


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the database, at the same time as that of the blobs."""
    return ManualClock(ShiftedClock().now())


@pytest.fixture
def catalogue(stores: Stores) -> CatalogueStores:
    clock = ShiftedClock()
    return CatalogueStores(
        worker=stores.capture.unit,
        collector=stores.resources.unit,
        blobs=MemoryBlobStores(clock),
        pass_database_time=stores.pass_time,
        clock=clock,
    )


class TestCatalogue(CatalogueConformance):
    pass


class TestSnapshots(SnapshotsConformance):
    pass


class TestStatistics(StatisticsConformance):
    pass


class TestGenerations(GenerationsConformance):
    pass


class TestIndexes(IndexesConformance):
    pass


class TestEnded(EndedConformance):
    pass


class TestRepeatedRequests(RepeatedRequestsConformance):
    pass


class TestCollecting(CollectingConformance):
    pass


@dataclass(frozen=True, kw_only=True)
class TogetherBlobs:
    """Every write waits until all writers are at work."""

    real: BlobStore
    at_work: Barrier
    broken: str = ""

    def put(self, key: str, data: bytes) -> BlobInfo:
        self.at_work.wait()
        if key.startswith(self.broken, key.rindex("/") + 1) and self.broken:
            raise BlobStoreUnavailableError(where="disk", cause="no space")
        return self.real.put(key, data)


def test_many_records_are_written_at_once(catalogue: CatalogueStores) -> None:
    blobs = TogetherBlobs(real=catalogue.blobs.of(A_TENANT), at_work=Barrier(WRITERS, timeout=10))
    account = catalogue.account(blobs=blobs)
    records = [_new(number) for number in range(2 * WRITERS)]
    staged = account.stage(*records)
    assert staged is not None
    assert len(set(staged.blob_keys)) == len(staged.fences) == len(records)
    assert all(blobs.real.head(key) is not None for key in staged.blob_keys)
    failing = TogetherBlobs(
        real=blobs.real,
        at_work=blobs.at_work,
        broken=staged.blob_keys[-1].rpartition("/")[2],
    )
    with pytest.raises(BlobStoreUnavailableError):
        catalogue.account(blobs=failing).stage(*records)


def _new(number: int) -> NewRecord:
    record = a_catalog(name=f"c{number}")
    return NewRecord(
        record=record, key_of=lambda sha: layout.catalog_blob(A_TENANT, record.id, sha)
    )
