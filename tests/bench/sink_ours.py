"""Our side: the service iceberg-sink with one process for each task, over the same topic.

Declared as a person declares it; the wish of the controller is written here. The catalog is the
same database as that of the Java side.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import unquote, urlsplit

from datarecs_cli.stack.part import tail
from datarecs_core.resources.resource import Kind
from datarecs_core.values import ResourceUid
from datarecs_testing.builders import A_TENANT
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.service_process import ServiceProcess, running_service
from datarecs_testing.sink_process import MODULE, SinkHouse
from tests.bench.sink_figures import Side
from tests.bench.sink_load import (
    CATALOG,
    INTERVAL_S,
    NAMESPACE,
    PARTITIONS,
    TASKS,
    TIMEOUT_S,
    TOPIC,
    Load,
)

NAME, TABLE = "datarecs", "datarecs_orders"
CONNECTION = "warehouse"
PASSWORD = f"DATARECS_CONN_{A_TENANT.hex.upper()}_LAKE"
LOG_LINES = 20
"""Of the log, in a failure."""


@contextmanager
def running(load: Load, database: PreparedDatabase) -> Iterator[Side]:
    """The service for the block; ended in an orderly way."""
    folder = load.folder / NAME
    folder.mkdir()
    with ExitStack() as stack:
        house = SinkHouse(
            database=database,
            broker=load.broker,
            folder=folder,
            stack=stack,
            partitions=PARTITIONS,
        )
        settings = house.settings | _declare_catalog(house, load)
        settings["DATARECS_FILES__ROOTS"] = f'["{load.folder / "warehouse"}"]'
        uid = house.declare(Kind.SINK_TABLE, TABLE.replace("_", "-"), _spec())
        house.want(uid, tasks=TASKS)
        service = stack.enter_context(running_service(MODULE, settings, log=folder / "service.log"))
        yield Side(
            name=NAME,
            group=f"datarecs.sink.{uid}",
            control_topic=f"datarecs.sink.{uid}",
            roots=lambda: (service.process.pid,),
            failure=lambda: _failure(house, uid, service),
            is_worker=lambda command: "task_child" in command,
        )
        service.stop()


def _declare_catalog(house: SinkHouse, load: Load) -> dict[str, str]:
    """A connection to the catalog's database; the variable with its password."""
    address = urlsplit(load.database)
    server = {
        "host": address.hostname,
        "port": address.port,
        "database": address.path.removeprefix("/"),
        "user": unquote(address.username or ""),
        "sslmode": "disable",
    }
    catalog = {"type": "sql", "name": CATALOG, "postgres": server}
    house.declare(
        Kind.CONNECTION,
        CONNECTION,
        {
            "type": "iceberg",
            "config": {"catalog": catalog},
            "auth": {"password": f"env:{PASSWORD}"},
        },
    )
    return {PASSWORD: unquote(address.password or "")}


def _failure(house: SinkHouse, uid: ResourceUid, service: ServiceProcess) -> str | None:
    code = service.process.poll()
    if code is not None:
        return f"the service ended with exit code {code}: {tail(service.log, LOG_LINES)}"
    reports = [task.report for task in house.status(uid).tasks if task.report is not None]
    halted = [report.error for report in reports if report.is_halted]
    return f"a task halted: {halted[0]}" if halted else None


def _spec() -> dict[str, object]:
    return {
        "connection": "events",
        "topics": [TOPIC],
        "table": {"catalog": CONNECTION, "namespace": NAMESPACE, "name": TABLE},
        "metadata_columns": "none",
        "commit": {"interval": f"PT{INTERVAL_S}S", "timeout": f"PT{TIMEOUT_S}S"},
        "tasks": TASKS,
    }
