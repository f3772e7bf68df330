"""The service as a process: a stream of changes becomes a table of its living rows."""

import json
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # publishes no types
import pytest

from datarecs_core.resources.resource import Kind
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.service_process import ServiceProcess, running_service
from datarecs_testing.sink_process import MODULE, SinkHouse, wait_until
from datarecs_testing.stack import KafkaBroker

pytestmark = pytest.mark.integration
CDC = {"mode": "cdc", "cdc": {"field": "op"}, "id_columns": ["id"], "tasks": 2}


@pytest.fixture
def house(
    private_database: PreparedDatabase, kafka_broker: KafkaBroker, tmp_path: Path
) -> Iterator[SinkHouse]:
    with ExitStack() as stack:
        yield SinkHouse(
            database=private_database, broker=kafka_broker, folder=tmp_path, stack=stack
        )


def send(house: SinkHouse, op: str, ids: range, name: str = "") -> None:
    """Records of an even and an odd id in turn, so that a key stays in its partition."""
    values: Iterable[dict[str, object]] = ({"op": op, "id": one, "name": name} for one in ids)
    house.send_values(json.dumps(value).encode() for value in values)


def rows(house: SinkHouse) -> dict[int, str]:
    """As pyiceberg reads them; a key that is there twice is a mistake."""
    table = house.table()
    if table is None:
        return {}
    pairs = [(row["id"], row["name"]) for row in table.scan().to_arrow().to_pylist()]
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


def a_task(service: ServiceProcess) -> psutil.Process | None:
    """A process of a task: a child of the template."""
    below = psutil.Process(service.process.pid).children(recursive=True)
    templates = {one.ppid() for one in below} & {one.pid for one in below}
    return next((one for one in below if one.ppid() in templates), None)


@pytest.mark.case("I47")
def test_changes_of_two_partitions_are_one_row_for_each_living_key(house: SinkHouse) -> None:
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec(**CDC))
    send(house, "c", range(1_000), "new")
    house.want(uid, tasks=2)
    expected = dict.fromkeys(range(1_000), "new")
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: rows(house) == expected, service.text)
        wait_until(lambda: not list(house.lake.folder.rglob("*-keys.parquet")), service.text)
        send(house, "u", range(500), "changed")
        send(house, "d", range(400, 600))
        task = a_task(service)
        assert task is not None
        os.kill(task.pid, signal.SIGKILL)
        house.forget_members(uid)
        send(house, "u", range(600, 700), "last")
        changed = dict.fromkeys(range(400), "changed") | dict.fromkeys(range(600, 700), "last")
        expected = changed | dict.fromkeys(range(700, 1_000), "new")
        wait_until(lambda: rows(house) == expected, service.text, seconds=120)
        assert service.stop() == 0, service.text()
    assert rows(house) == expected
