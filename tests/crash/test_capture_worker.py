"""Kill the capture-worker at every named place: each file is recorded once, and the capture ends.

A case kills the process at a place, ends the leases of the dead as time does, and starts the next
one, until nothing is left to be done.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any, LiteralString

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_application.capturing import queue
from datarecs_application.ports.capturing import WorkFilter
from datarecs_core.captures.items import CaptureJobId, WorkItem, WorkState
from datarecs_core.captures.request import CapturePolicy, CaptureScope, Output
from datarecs_core.crashing import CrashPoint
from datarecs_postgres.database import Database
from datarecs_postgres.roles import API, CAPTURE
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_runtime.clock import UuidV7Ids
from datarecs_runtime.environment import process_environment
from datarecs_testing.builders import A_TENANT, a_resource
from datarecs_testing.captures import a_request
from datarecs_testing.crashes import killing
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.service_process import running_service

pytestmark = [pytest.mark.integration, pytest.mark.crash, pytest.mark.slow]

MODULE = "datarecs_capture_worker"
LAUNCHER = "datarecs_testing.crashes.launcher"
PLACES = tuple(point for point in CrashPoint if point.startswith("capture."))
HITS = (1, 2, 3, 4, 5) if process_environment().get("DATARECS_TEST_CRASH") == "all" else (4,)
"""Passes: connector, table, snapshot, group, finaliser."""
FILES = 3
_LEASES_END: LiteralString = """
UPDATE datarecs.capture_work SET lease_until = now() - interval '1 h'
WHERE lease_until IS NOT NULL RETURNING 1
"""


class Storm:
    """A folder of files, a capture of it, and the worker that dies."""

    def __init__(self, database: PreparedDatabase, folder: Path) -> None:
        self.database, self.folder = database, folder
        (folder / killing.FOLDER).mkdir()
        self.orders = killing.Orders(folder / killing.FOLDER)
        files = folder / "data"
        (files / "orders").mkdir(parents=True)
        for number in range(FILES):
            pq.write_table(pa.table({"id": [number]}), files / "orders" / f"{number}.parquet")
        self.settings = {
            "DATARECS_PROFILE": "local",
            "DATARECS_DATABASE__URL": database.url(CAPTURE),
            "DATARECS_BLOB__URL": (folder / "blobs").as_uri(),
            "DATARECS_WORKER__SCRATCH_DIR": str(folder / "scratch"),
            "DATARECS_FILES__ROOTS": f'["{files}"]',
            "DATARECS_FILES__OWNER": str(A_TENANT),
        }
        self.root = self._enqueued()

    def _enqueued(self) -> CaptureJobId:
        spec: dict[str, Any] = {"type": "files", "config": {"root": "."}}
        resource = a_resource(name="lake", spec=spec)
        request = a_request(
            connection_uid=resource.uid,
            scope=CaptureScope(),
            policy=CapturePolicy(outputs=tuple(Output)),
        )
        with (
            closing(Database(self.database.url(API))) as opened,
            PostgresUnitOfWork(opened, UuidV7Ids()).begin(A_TENANT) as tx,
        ):
            tx.resources.add(resource)
            return queue.enqueue_root(tx, UuidV7Ids(), request, requested_by="u-1").id

    def killed_at(self, point: CrashPoint, *, hit: int) -> None:
        token = self.orders.place(MODULE, point, hit=hit)
        with running_service(
            LAUNCHER,
            self.settings,
            log=self.folder / "log",
            arguments=(MODULE,),
            folder=self.folder,
        ) as worker:
            until(lambda: worker.process.poll() is not None)
            assert worker.process.returncode == killing.EXIT, worker.text()
        assert self.orders.obeyed(token)
        self.database.query(_LEASES_END)

    def settled(self) -> None:
        with running_service(MODULE, self.settings, log=self.folder / "log"):
            until(lambda: self.item().has_ended)

    def item(self) -> WorkItem:
        (root,) = (item for item in self.items() if item.id == self.root)
        return root

    def items(self) -> list[WorkItem]:
        with (
            closing(Database(self.database.url(CAPTURE))) as opened,
            PostgresUnitOfWork(opened, UuidV7Ids()).begin(A_TENANT, read_only=True) as tx,
        ):
            return list(tx.capture_work.matching(WorkFilter(), before=None, limit=500))

    def totals(self) -> dict[str, int]:
        with (
            closing(Database(self.database.url(CAPTURE))) as opened,
            PostgresUnitOfWork(opened, UuidV7Ids()).begin(A_TENANT, read_only=True) as tx,
        ):
            return dict(queue.totals(tx, self.root))


def until(holds: Callable[[], bool]) -> None:
    ends = monotonic() + 40
    while not holds():
        assert monotonic() < ends
        Event().wait(0.05)


@pytest.mark.parametrize("point", PLACES)
@pytest.mark.parametrize("hit", HITS)
def test_a_kill_leaves_each_file_recorded_once(
    private_database: PreparedDatabase, tmp_path: Path, point: CrashPoint, hit: int
) -> None:
    storm = Storm(private_database, tmp_path)
    storm.killed_at(point, hit=hit)
    storm.settled()
    assert storm.item().state is WorkState.SUCCEEDED
    assert len(storm.items()) == 5
    totals = storm.totals()
    assert (totals["files_completed"], totals["indexes_written"]) == (FILES, FILES)
    assert totals["snapshots_finalized"] == 1
    ((sent, distinct),) = storm.database.query(
        "SELECT count(*), count(DISTINCT event_id) FROM datarecs.outbox "
        "WHERE type LIKE '%%capture.file_group.completed'"
    )
    assert (sent, distinct) == (1, 1)
