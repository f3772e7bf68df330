"""Captures of folders over the twins."""

import pytest

from datarecs_application.ports.outside import BlobStores
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_runtime.clock import SystemClock
from datarecs_testing.conformance.captured_folders import CapturedFolderConformance


class TestCapturedFolders(CapturedFolderConformance):
    @pytest.fixture
    def blobs(self) -> BlobStores:
        return MemoryBlobStores(SystemClock())
