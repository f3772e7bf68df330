"""Both memory stores against the repository suites of the catalogue."""

import pytest

from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_testing.catalogue import CatalogueStores, ShiftedClock
from datarecs_testing.clock import ManualClock
from datarecs_testing.conformance.catalogue import CatalogueConformance
from datarecs_testing.conformance.catalogue_collecting import CollectingConformance
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


class TestRepeatedRequests(RepeatedRequestsConformance):
    pass


class TestCollecting(CollectingConformance):
    pass
