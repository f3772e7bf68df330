"""`datarecs compare` of a topic with the table that a sink writes, at the sink's own cut."""

import json
import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from datarecs_cli.main import run
from datarecs_core.resources.resource import Kind
from datarecs_core.sink.proof import ProofOptions
from datarecs_runtime.environment import process_environment
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.lake import NAMESPACE
from datarecs_testing.service_process import running_service
from datarecs_testing.sink_process import MODULE, TABLE, SinkHouse, tasks_of, wait_until
from datarecs_testing.sink_proofs import (
    ID,
    Shown,
    compare,
    proof,
    proof_house,
    table_of,
    wait_for_rows,
)
from datarecs_testing.stack import KafkaBroker

pytestmark = pytest.mark.integration


@pytest.fixture
def house(
    private_database: PreparedDatabase,
    kafka_broker: KafkaBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[SinkHouse]:
    with proof_house(private_database, kafka_broker, tmp_path, monkeypatch) as opened:
        yield opened


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


def compact(house: SinkHouse) -> None:
    """As another engine does: the same rows in other files, in a snapshot of its own."""
    while True:
        table = table_of(house)
        with suppress(CommitFailedException, ValidationException):  # the sink was first
            table.overwrite(table.scan().to_arrow())
            return


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
    for snapshot in commits[::3]:
        code, text = compare(house, capsys, snapshot)
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
        assert {",".join(line.split(",")[:3]) for line in csv.splitlines()[1:]} == set(expected)


def lose(table: Table, row: Mapping[str, Any]) -> None:
    table.delete(f"id = {row['id']}")


def alter(table: Table, row: Mapping[str, Any]) -> None:
    lose(table, row)
    double(table, {**row, "name": "changed"})


def double(table: Table, row: Mapping[str, Any]) -> None:
    table.append(pa.Table.from_pylist([row], schema=table.schema().as_arrow()))


ROUNDS = 25 if process_environment().get("DATARECS_TEST_CRASH") == "all" else 3
"""Of four comparisons; `make crash` makes a hundred of them."""


@pytest.mark.case("I64")
def test_a_proof_is_never_wrong_while_commits_go_on_and_after_compaction(
    house: SinkHouse, capsys: Shown
) -> None:
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec(tasks=2))
    house.want(uid, tasks=2)
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        for start in range(0, ROUNDS * 600, 600):
            with sending(house, range(start, start + 600)):
                wait_for_rows(house, service, start + 1)
                for _ in range(3):
                    compact(house)
                    code, text = compare(house, capsys)
                    assert (code, "MATCHED" in text) == (0, True), text
            wait_for_rows(house, service, start + 600)
            compact(house)
            code, text = compare(house, capsys)
            assert (code, f"MATCHED {start + 600:,} of {start + 600:,}" in text) == (0, True), text
        assert service.stop() == 0, service.text()


@pytest.mark.case("I64")
def test_a_window_leaves_out_what_the_retention_of_the_topic_has_removed(
    house: SinkHouse, capsys: Shown
) -> None:
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec())
    house.want(uid)
    old = datetime.now(UTC) - timedelta(days=10)  # noqa: TID251  the broker's clock judges records
    with closing(KafkaProducer(**house.broker.access.settings())) as producer:
        for number in range(100):
            at = int(old.timestamp() * 1000) + number
            producer.send(house.topic, an_order(number), partition=number % 2, timestamp_ms=at)
    send(house, range(100, 150))
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_for_rows(house, service, 150)
        assert service.stop() == 0, service.text()
    with closing(KafkaAdminClient(**house.broker.access.settings())) as admin:
        admin.delete_records({TopicPartition(house.topic, number): 40 for number in range(2)})
    code, text = compare(house, capsys)
    assert (code, "80 only in table" in text) == (1, True), text
    code, text = compare(house, capsys, options=ProofOptions(window=timedelta(days=7)))
    assert (code, "MATCHED 50 of 50" in text) == (0, True), text


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


def test_a_plan_says_where_the_topic_ends(house: SinkHouse, capsys: Shown) -> None:
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec())
    house.want(uid)
    send(house, range(10))
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_for_rows(house, service, 10)
        assert service.stop() == 0, service.text()
    send(house, range(10, 30))
    file = str(proof(house))
    assert run(["plan", file, "--no-color"]) == 0
    text = " ".join("".join(capsys.readouterr()).split())
    snapshot = table_of(house).current_snapshot()
    assert snapshot is not None
    assert f"watermark of the sink's table snapshot {snapshot.snapshot_id}" in text
    assert "partition 0: [0, 5)" in text
    assert run(["doctor", file, "--no-color"]) == 0
    assert "2 partitions, 30 offsets to read" in " ".join(capsys.readouterr().out.split())


def test_a_table_without_a_sink_has_no_watermark(house: SinkHouse, capsys: Shown) -> None:
    house.send(range(10))
    house.lake.catalog.create_table(f"{NAMESPACE}.{TABLE}", Schema(ID)).append(
        pa.table({"id": pa.array([1], pa.int64())})
    )
    code, text = compare(house, capsys)
    assert code == 3
    assert "no sink has written its snapshots" in text
