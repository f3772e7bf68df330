"""Captures of folders over the twins, by a worker that reaches them over HTTP alone."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from datarecs_application.capturing.control import LocalControl
from datarecs_application.ports.capturing import CaptureControl
from datarecs_application.ports.outside import BlobStores
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_runtime.clock import SystemClock
from datarecs_testing.conformance.captured_folders import CapturedFolderConformance
from datarecs_testing.control_api import BesideFinalizer, serving
from datarecs_testing.issuer import running_issuer

pytestmark = pytest.mark.integration


class TestRemoteFolders(CapturedFolderConformance):
    @pytest.fixture
    def blobs(self) -> BlobStores:
        return MemoryBlobStores(SystemClock())

    @pytest.fixture
    def over(self) -> Iterator[Callable[[LocalControl], CaptureControl]]:
        with ExitStack() as stack:
            issuer = stack.enter_context(running_issuer())

            def remote(local: LocalControl) -> CaptureControl:
                api = stack.enter_context(serving(local, issuer))
                return BesideFinalizer(remote=api.worker(), local=local)

            yield remote
