"""Both memory stores against the repository suites of the catalogue."""

import pytest

from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_testing.catalogue import CatalogueStores, ShiftedClock
from datarecs_testing.conformance.catalogue import CatalogueConformance
from datarecs_testing.conformance.stores import Stores


@pytest.fixture
def catalogue(stores: Stores) -> CatalogueStores:
    clock = ShiftedClock()
    return CatalogueStores(
        worker=stores.worker.unit,
        collector=stores.resources.unit,
        blobs=MemoryBlobStores(clock),
        pass_database_time=stores.pass_time,
        clock=clock,
    )


class TestCatalogue(CatalogueConformance):
    pass
