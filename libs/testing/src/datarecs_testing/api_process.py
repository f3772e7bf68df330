"""core-api as a process as in production, over a real database, with a key.

Separate from `api`, which runs the application in the test's process.
"""

import base64
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import httpx2

from datarecs_cli.stack.services import UNHINDERED
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_postgres.change_feed import PostgresChangeFeed, PostgresResourceFeed
from datarecs_postgres.database import Database
from datarecs_postgres.queries import PostgresQueries
from datarecs_postgres.roles import API, CONTROLLER
from datarecs_postgres.unit_of_work import PostgresUnitOfWork
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import SystemClock, UuidV7Ids
from datarecs_testing.api import ApiHouse
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.service_process import ServiceProcess, running_service
from datarecs_testing.stack import free_test_port

KEK = base64.b64encode(bytes(range(32))).decode()


@dataclass(frozen=True)
class Running:
    """A ready process."""

    service: ServiceProcess
    client: httpx2.Client
    """Signed in as an admin of tenant A."""
    controller: PostgresUnitOfWork
    """Ends runs, as the run-controller does."""
    port: int


def settings_for(database: PreparedDatabase, folder: Path, port: int) -> dict[str, str]:
    """The settings of core-api for this port."""
    return {
        "DATARECS_PROFILE": "local",
        "DATARECS_BASE_URL": f"http://127.0.0.1:{port}",
        "DATARECS_API__PORT": str(port),
        "DATARECS_DATABASE__URL": database.url(API),
        "DATARECS_BLOB__URL": f"file://{folder}",
        "DATARECS_SECRETS__KEK": KEK,
        **UNHINDERED,
    }


def a_key(database: PreparedDatabase, owner: str = "u-ana") -> str:
    """A new key of an admin of tenant A."""
    with closing(Database(database.url(API))) as api:
        ids, clock = UuidV7Ids(), SystemClock()
        house = ApiHouse(
            unit=PostgresUnitOfWork(api, ids),
            queries=PostgresQueries(api),
            changes=PostgresChangeFeed(api),
            resource_changes=PostgresResourceFeed(api),
            finder=PostgresWorkFinder(api),
            clock=clock,
            ids=ids,
            blobs=MemoryBlobStores(clock),
        )
        return house.key(owner=owner)


def wait_until_ready(client: httpx2.Client, service: ServiceProcess) -> None:
    """Fails with the log if the process ends or needs more than half a minute."""
    clock = SystemClock()
    for _ in range(300):
        try:
            if client.get("/readyz").status_code == 200:
                return
        except httpx2.ConnectError:
            assert service.process.poll() is None, service.text()
        clock.wait(timedelta(seconds=0.1))
    raise AssertionError(service.text())


@contextmanager
def running_api(
    database: PreparedDatabase, folder: Path, *, port: int | None = None, **settings: str
) -> Iterator[Running]:
    """A ready process with a client that is an admin of tenant A.

    `settings` are further variables of its environment; `port` is that of an earlier one.
    """
    port = free_test_port() if port is None else port
    environment = settings_for(database, folder, port) | settings
    headers = {"Authorization": f"Bearer {a_key(database)}"}
    with (
        running_service("datarecs_core_api", environment, log=folder / "service.log") as service,
        httpx2.Client(
            base_url=environment["DATARECS_BASE_URL"], headers=headers, trust_env=False, timeout=20
        ) as client,
        closing(Database(database.url(CONTROLLER))) as controller,
    ):
        wait_until_ready(client, service)
        yield Running(service, client, PostgresUnitOfWork(controller, UuidV7Ids()), port)
