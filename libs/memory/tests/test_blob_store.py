import pytest

from datarecs_application.ports.outside import BlobStores
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_testing.clock import ManualClock
from datarecs_testing.conformance.blob_store import BlobStoreConformance


class TestMemoryBlobStore(BlobStoreConformance):
    @pytest.fixture
    def stores(self) -> BlobStores:
        return MemoryBlobStores(ManualClock())
