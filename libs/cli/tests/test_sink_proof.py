"""`datarecs compare` of a topic with the table that a sink writes, at the sink's own cut."""

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil  # type: ignore[import-untyped]  # publishes no types
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from datarecs_cli.main import run
from datarecs_core.resources.resource import Kind
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.lake import NAMESPACE
from datarecs_testing.service_process import ServiceProcess, running_service
from datarecs_testing.sink_process import MODULE, TABLE, SinkHouse, wait_until
from datarecs_testing.stack import KafkaBroker

pytestmark = pytest.mark.integration
Shown = pytest.CaptureFixture[str]
ID = NestedField(1, "id", LongType())
JOB = """\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: events}}
spec:
  type: kafka
  config: {{brokers: [{brokers}], security: SASL_PLAINTEXT, user: {user}}}
  auth: {{password: "env:TOPIC_PASSWORD"}}
---
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: lake}}
spec: {{type: iceberg, config: {{catalog: {{type: sql, name: lake, sqlite: lake/catalog.db}}}}}}
---
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {{name: orders-proof}}
spec:
  sources:
    - name: topic
      kind: kafka
      connection: events
      topic: {topic}
      options: {{tombstones: delete}}
      snapshot: {{to: watermark}}
    - name: table
      kind: iceberg
      connection: lake
      relation: {table}
      snapshot: {{{pin}}}
  stages:
    - name: rows
      type: row
      dimensions: [_kafka_topic, _kafka_partition, _kafka_offset]
      measures: "*"
"""


@pytest.fixture
def house(
    private_database: PreparedDatabase,
    kafka_broker: KafkaBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[SinkHouse]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("TOPIC_PASSWORD", kafka_broker.password)
    with ExitStack() as stack:
        yield SinkHouse(
            database=private_database, broker=kafka_broker, folder=tmp_path, stack=stack
        )


def an_order(number: int) -> bytes:
    """Every kind of value that a sink writes into a table that it creates, but for nested ones."""
    at = datetime(2026, 1, 31, tzinfo=UTC) + timedelta(seconds=number)
    order = {
        "id": number,
        "name": f"order {number}",
        "amount": number / 8 + 0.1,
        "is_paid": number % 3 == 0,
        "at": at.isoformat(),
        "note": None if number % 5 else "few have one",
        **({"late": number} if number > 500 else {}),
    }
    return json.dumps(order).encode()


def send(house: SinkHouse, numbers: range) -> None:
    house.send_values(an_order(number) for number in numbers)


def proof(house: SinkHouse, pin: str = "") -> Path:
    """The job of the proof, as a file."""
    text = JOB.format(
        brokers=", ".join(f'"{one}"' for one in house.broker.bootstrap.split(",")),
        user=house.broker.username,
        topic=house.topic,
        table=f"{NAMESPACE}.{TABLE}",
        pin=pin,
    )
    file = house.folder / "proof.yaml"
    file.write_text(text)
    return file


def compare(house: SinkHouse, shown: Shown, pin: str = "") -> tuple[int, str]:
    """Exit code, and everything that was printed, as one line."""
    code = run(["compare", str(proof(house, pin)), "--out", "out", "--no-color"])
    return code, " ".join(" ".join(shown.readouterr()).split())


def table_of(house: SinkHouse) -> Table:
    table = house.table()
    assert table is not None
    return table


def tasks_of(service: ServiceProcess) -> list[psutil.Process]:
    """The processes of tasks: children of the template."""
    below = psutil.Process(service.process.pid).children(recursive=True)
    templates = {one.ppid() for one in below} & {one.pid for one in below}
    return [one for one in below if one.ppid() in templates]


def compact(house: SinkHouse) -> None:
    """As another engine does: the same rows in other files, in a snapshot of its own."""
    table = table_of(house)
    table.overwrite(table.scan().to_arrow())


@pytest.mark.case("I63")
@pytest.mark.case("I65")
def test_a_table_equals_its_topic_at_every_commit_and_tampering_is_named(
    house: SinkHouse, capsys: Shown
) -> None:
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec())
    house.want(uid)
    sent = 0
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        for number in range(10):
            send(house, range(sent, sent := sent + 100))
            wait_until(lambda: house.rows()[0] >= sent, service.text, seconds=120)
            if number in {3, 6}:
                send(house, range(sent, sent := sent + 100))
                os.kill(tasks_of(service)[0].pid, signal.SIGKILL)
                house.forget_members(uid)
        assert service.stop() == 0, service.text()
    send(house, range(sent, sent + 50))  # which no commit has
    assert compare(house, capsys)[0] == 0
    commits = [one.snapshot_id for one in table_of(house).metadata.snapshots]
    assert len(commits) >= 10
    for snapshot in commits:
        code, text = compare(house, capsys, f"snapshot_id: {snapshot}")
        assert (code, "MATCHED" in text) == (0, True), text
    tamper(house, capsys)


def tamper(house: SinkHouse, shown: Shown) -> None:
    """A row is lost, then another one changed, then another one doubled."""
    rows = {one["id"]: one for one in table_of(house).scan().to_arrow().to_pylist()}
    expected = []
    for number, change in ((5, lose), (6, alter), (7, double)):
        change(table_of(house), rows[number])
        place = [str(rows[number][f"_kafka_{name}"]) for name in ("topic", "partition", "offset")]
        expected.append(",".join(place))
        code, text = compare(house, shown)
        assert (code, "UNMATCHED" in text) == (1, True), text
        assert run(["diff", "out", "-o", "csv"]) == 1
        csv = shown.readouterr().out
        assert all(place in csv for place in expected), csv
        assert len({line.rsplit(",", 9)[0] for line in csv.splitlines()[1:]}) > 0


def lose(table: Table, row: Mapping[str, Any]) -> None:
    table.delete(f"id = {row['id']}")


def alter(table: Table, row: Mapping[str, Any]) -> None:
    lose(table, row)
    double(table, {**row, "name": "changed"})


def double(table: Table, row: Mapping[str, Any]) -> None:
    table.append(pa.Table.from_pylist([row], schema=table.schema().as_arrow()))


@pytest.mark.case("I64")
def test_a_proof_is_never_wrong_while_commits_go_on_and_after_compaction(
    house: SinkHouse, capsys: Shown
) -> None:
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec(tasks=2))
    house.want(uid, tasks=2)
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        for number in range(3):
            sent = (number + 1) * 600
            with sending(house, range(sent - 600, sent)):
                wait_until(lambda: house.rows()[0] > sent - 600, service.text, seconds=120)
                for _ in range(3):
                    code, text = compare(house, capsys)
                    assert (code, "MATCHED" in text) == (0, True), text
            wait_until(lambda: house.rows()[0] >= sent, service.text, seconds=120)
            compact(house)
            code, text = compare(house, capsys)
            assert (code, f"MATCHED {sent:,} of {sent:,}" in text) == (0, True), text
        assert service.stop() == 0, service.text()


@contextmanager
def sending(house: SinkHouse, numbers: range) -> Iterator[None]:
    """Send records in small portions meanwhile; all of them at the end."""
    ended = Event()

    def send_all() -> None:
        for start in numbers[::20]:
            send(house, range(start, start + 20))
            ended.wait(0.1)

    sender = Thread(target=send_all)
    sender.start()
    try:
        yield
    finally:
        ended.set()
        sender.join()


def test_a_plan_says_where_the_topic_ends_and_a_table_without_a_sink_has_no_watermark(
    house: SinkHouse, capsys: Shown
) -> None:
    house.send(range(10))
    house.lake.catalog.create_table(f"{NAMESPACE}.{TABLE}", Schema(ID)).append(
        pa.table({"id": pa.array([1], pa.int64())})
    )
    code, text = compare(house, capsys)
    assert code == 3
    assert "DR3" in text
    assert "no sink has written its snapshots" in text
