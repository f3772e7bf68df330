"""The capture-worker as a process, for tests: its settings, a folder connection, its results."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from datarecs_application.capturing import queue
from datarecs_application.catalogue.account import CatalogueAccount
from datarecs_application.catalogue.generations import Generations
from datarecs_application.catalogue.pointer_store import PointerStore
from datarecs_application.ports.capturing import WorkFilter
from datarecs_core.captures.items import CaptureJobId, WorkItem, WorkKind
from datarecs_core.captures.request import CapturePolicy, CaptureScope, Output
from datarecs_core.catalog.records import FileStats
from datarecs_core.resources.resource import Kind
from datarecs_core.values import ResourceUid
from datarecs_postgres.database import Database
from datarecs_postgres.roles import API, CAPTURE
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_storage.opening import open_blob_stores
from datarecs_testing.builders import A_TENANT, a_resource
from datarecs_testing.captures import a_request
from datarecs_testing.database import PreparedDatabase

MODULE = "datarecs_capture_worker"
OUTPUTS = tuple(Output)


class House:
    """A folder connection, and what an API does with its captures."""

    def __init__(self, database: PreparedDatabase, folder: Path) -> None:
        self.database, self.folder = database, folder
        self.files = folder / "data"
        self.files.mkdir()
        self.settings = {
            "DATARECS_PROFILE": "local",
            "DATARECS_DATABASE__URL": database.url(CAPTURE),
            "DATARECS_BLOB__URL": (folder / "blobs").as_uri(),
            "DATARECS_WORKER__SCRATCH_DIR": str(folder / "scratch"),
            "DATARECS_WORKER__MAX_PARALLELISM": "2",
            "DATARECS_FILES__ROOTS": f'["{self.files}"]',
            "DATARECS_FILES__OWNER": str(A_TENANT),
        }

    def fill(self, table: str, files: int) -> None:
        (self.files / table).mkdir()
        for number in range(files):
            rows = {"id": [number * 10 + one for one in range(10)], "name": ["a"] * 10}
            pq.write_table(pa.table(rows), self.files / table / f"{number:03}.parquet")

    def connection(self) -> ResourceUid:
        spec: dict[str, Any] = {"type": "files", "config": {"root": "."}}
        resource = a_resource(kind=Kind.CONNECTION, name="lake", spec=spec)
        with (
            closing(Database(self.database.url(API))) as opened,
            PostgresUnitOfWork(opened, UuidV7Ids()).begin(A_TENANT) as tx,
        ):
            tx.resources.add(resource)
        return resource.uid

    def enqueue(self, connection: ResourceUid) -> CaptureJobId:
        request = a_request(
            connection_uid=connection,
            scope=CaptureScope(),
            policy=CapturePolicy(outputs=OUTPUTS),
        )
        with (
            closing(Database(self.database.url(API))) as opened,
            PostgresUnitOfWork(opened, UuidV7Ids()).begin(A_TENANT) as tx,
        ):
            return queue.enqueue_root(tx, UuidV7Ids(), request, requested_by="u-1").id

    def items(self) -> Sequence[WorkItem]:
        with (
            closing(Database(self.database.url(CAPTURE))) as opened,
            PostgresUnitOfWork(opened, UuidV7Ids()).begin(A_TENANT, read_only=True) as tx,
        ):
            return tx.capture_work.matching(WorkFilter(), before=None, limit=500)

    def totals(self, root: CaptureJobId) -> dict[str, int]:
        with (
            closing(Database(self.database.url(CAPTURE))) as opened,
            PostgresUnitOfWork(opened, UuidV7Ids()).begin(A_TENANT, read_only=True) as tx,
        ):
            return dict(queue.totals(tx, root))

    def root(self, root: CaptureJobId) -> WorkItem:
        return next(item for item in self.items() if item.id == root)

    def recorded(self) -> list[FileStats]:
        """Of every published snapshot."""
        with closing(Database(self.database.url(CAPTURE))) as opened:
            unit = PostgresUnitOfWork(opened, UuidV7Ids())
            account = CatalogueAccount(
                tenant=A_TENANT,
                pointers=PointerStore(unit=unit, tenant=A_TENANT),
                blobs=open_blob_stores(self.settings["DATARECS_BLOB__URL"]).of(A_TENANT),
                clock=SystemClock(),
            )
            generations = Generations(account)
            files = []
            for item in self.items():
                if item.kind is WorkKind.FINALIZE_SNAPSHOT_CAPTURE:
                    assert item.task.table_id is not None
                    assert item.task.snapshot_id is not None
                    active = generations.active(item.task.table_id, item.task.snapshot_id)
                    assert active is not None
                    files += list(generations.files(active))
            return files


def wait_until(is_reached: Callable[[], bool], text: Callable[[], str]) -> None:
    ends = time.monotonic() + 60
    while not is_reached():
        assert time.monotonic() < ends, text()
        time.sleep(0.1)  # noqa: TID251  another process has no signal here
