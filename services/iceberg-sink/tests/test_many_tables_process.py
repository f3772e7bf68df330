"""A task that commits to many tables at once, and is killed while it does."""

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # publishes no types
import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from datarecs_core.resources.resource import Kind
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.lake import NAMESPACE
from datarecs_testing.service_process import ServiceProcess, running_service
from datarecs_testing.sink_process import MODULE, SinkHouse, wait_until
from datarecs_testing.stack import KafkaBroker, PostgresServer

pytestmark = pytest.mark.integration

NAMES = [f"t{number}" for number in range(10)]


@pytest.fixture
def house(
    private_database: PreparedDatabase,
    kafka_broker: KafkaBroker,
    postgres_server: PostgresServer,
    tmp_path: Path,
) -> Iterator[SinkHouse]:
    with ExitStack() as stack:
        yield SinkHouse(
            database=private_database,
            broker=kafka_broker,
            folder=tmp_path,
            stack=stack,
            catalog=postgres_server.fresh_database(),
        )


def table_of(house: SinkHouse, name: str) -> Table:
    return house.lake.catalog.load_table(f"{NAMESPACE}.{name}")


def ids_in(house: SinkHouse, name: str) -> Counter[int]:
    try:
        table = table_of(house, name)
    except NoSuchTableError:
        return Counter()
    return Counter(table.scan().to_arrow().column("id").to_pylist())


def snapshots_of(house: SinkHouse) -> list[int]:
    return [one.snapshot_id for name in NAMES for one in table_of(house, name).metadata.snapshots]


def stored_snapshots(house: SinkHouse) -> list[int]:
    rows = house.database.query("SELECT snapshot_id FROM datarecs.sink_table_commit")
    return [number for (number,) in rows]


def announced_snapshots(house: SinkHouse) -> list[int]:
    events = house.database.query(
        "SELECT data FROM datarecs.outbox WHERE type = 'io.datarecs.sink.table.committed'"
    )
    return [int(json.loads(bytes(data))["snapshot_id"]) for (data,) in events]


def kill_task(service: ServiceProcess) -> None:
    below = psutil.Process(service.process.pid).children(recursive=True)
    templates = {one.ppid() for one in below} & {one.pid for one in below}
    (task,) = [one for one in below if one.ppid() in templates]
    os.kill(task.pid, signal.SIGKILL)


@pytest.mark.case("I15")
def test_ten_tables_have_every_record_once_after_a_kill_between_their_commits(
    house: SinkHouse,
) -> None:
    tables = [{"catalog": "lake", "namespace": NAMESPACE, "name": name} for name in NAMES]
    spec = house.sink_spec(tables=tables)
    del spec["table"]
    uid = house.declare(Kind.SINK_TABLE, "many", spec)
    house.want(uid)
    house.send(range(500))
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: any(ids_in(house, name) for name in NAMES), service.text)
        kill_task(service)
        house.forget_members(uid)
        house.send(range(500, 1_000))
        wait_until(
            lambda: all(len(ids_in(house, name)) == 1_000 for name in NAMES),
            service.text,
            seconds=120,
        )
        assert service.stop() == 0, service.text()
    for name in NAMES:
        assert set(ids_in(house, name).values()) == {1}
    assert Counter(stored_snapshots(house)) == Counter(snapshots_of(house))
    assert Counter(announced_snapshots(house)) == Counter(snapshots_of(house))
