"""`datarecs compare` of a topic with the table that a sink writes, at the sink's own cut."""

import json
import os
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import UUID

import psutil  # type: ignore[import-untyped]  # publishes no types
import pyarrow as pa
import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationException
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import SetSnapshotRefUpdate
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from datarecs_cli.main import run
from datarecs_cli.sink_proof import proof_documents, yaml_of
from datarecs_core.resources.resource import Kind
from datarecs_core.sink.declared import CommitRecord
from datarecs_core.sink.definition import MetadataColumns
from datarecs_core.sink.proof import ProofOptions
from datarecs_core.values import ResourceUid
from datarecs_runtime.environment import process_environment
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.lake import NAMESPACE
from datarecs_testing.service_process import ServiceProcess, running_service
from datarecs_testing.sink_process import MODULE, TABLE, SinkHouse, wait_until
from datarecs_testing.stack import KafkaBroker

pytestmark = pytest.mark.integration
Shown = pytest.CaptureFixture[str]
WHOLE = ProofOptions()
APPEND: Mapping[str, object] = {}
ID = NestedField(1, "id", LongType())
TYPES = {
    "flag": BooleanType(),
    "small": IntegerType(),
    "big": LongType(),
    "single": FloatType(),
    "wide": DoubleType(),
    "price": DecimalType(10, 2),
    "name": StringType(),
    "day": DateType(),
    "clock": TimeType(),
    "local": TimestampType(),
    "moment": TimestamptzType(),
    "uid": UUIDType(),
    "raw": BinaryType(),
    "four": FixedType(4),
    "_kafka_topic": StringType(),
    "_kafka_partition": IntegerType(),
    "_kafka_offset": LongType(),
    "_kafka_timestamp": TimestamptzType(),
    "_kafka_key": BinaryType(),
    "_kafka_headers": MapType(101, StringType(), 102, BinaryType(), value_required=False),
    "tags": ListType(103, StringType(), element_required=False),
}
FORMS = Schema(
    *(NestedField(number, name, kind) for number, (name, kind) in enumerate(TYPES.items(), 1))
)
PLACE_COLUMNS = MetadataColumns.OFFSETS.columns
VALUES: Sequence[Mapping[str, Any]] = (
    {"flag": True, "small": 7, "big": 2**53 + 1, "single": 0.1, "wide": 0.1, "price": 12.5},
    {"small": "7", "big": 1e3, "single": 16777216, "wide": 3, "price": "0012.50"},
    {"name": {"b": 1.50, "a": [1, None, "x"]}, "day": "2026-01-31", "clock": "12:00"},
    {"name": "é\U0001f600", "clock": "23:59:59.5", "local": "2026-01-31 12:00"},
    {"name": [], "moment": "2026-01-31T12:00+0130", "uid": str(UUID(int=7))},
    {"moment": "2026-01-31T12:00:00.123456Z", "raw": "AAH/", "four": "AAECAw==", "wide": -0.0},
    {"local": "2026-01-31T12:00:00.123456", "raw": "", "unknown": 1, "tags": ["a"]},
    {"name": None, "wide": 1e308, "single": -1.5, "price": -99999999.99},
)
CONNECTIONS = """\
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


def proof(
    house: SinkHouse,
    snapshot: int | None = None,
    options: ProofOptions = WHOLE,
    spec: Mapping[str, object] = APPEND,
) -> Path:
    """The job of the proof with its connections, as a file."""
    text = CONNECTIONS.format(
        brokers=", ".join(f'"{one}"' for one in house.broker.bootstrap.split(",")),
        user=house.broker.username,
    )
    resource = {"metadata": {"name": "orders"}, "spec": house.sink_spec(**spec)}
    documents: Any = proof_documents(resource, options)
    if snapshot is not None:
        documents[0]["spec"]["sources"][1]["snapshot"] = {"snapshot_id": snapshot}
    file = house.folder / "proof.yaml"
    file.write_text(text + yaml_of(documents))
    return file


def compare(
    house: SinkHouse,
    shown: Shown,
    snapshot: int | None = None,
    options: ProofOptions = WHOLE,
    spec: Mapping[str, object] = APPEND,
) -> tuple[int, str]:
    """Exit code, and everything that was printed, as one line."""
    code = run(["compare", str(proof(house, snapshot, options, spec)), "--out", "out"])
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


def wait_for_rows(house: SinkHouse, service: ServiceProcess, count: int) -> None:
    wait_until(lambda: house.rows()[0] >= count, service.text, seconds=120)


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


@pytest.mark.case("I63")
def test_every_form_that_the_sink_converts_is_equal_in_the_proof(
    house: SinkHouse, capsys: Shown
) -> None:
    house.lake.catalog.create_table(f"{NAMESPACE}.{TABLE}", FORMS)
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec(metadata_columns="all"))
    house.want(uid)
    house.send_values(json.dumps(one).encode() for one in VALUES)
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: has_rows(house, len(VALUES)), service.text)
        assert service.stop() == 0, service.text()
    code, text = compare(house, capsys)
    assert (code, "tags" in text) == (1, True), text
    code, text = compare(house, capsys, options=ProofOptions(excluded=("tags",)))
    assert (code, f"MATCHED {len(VALUES)} of {len(VALUES)}" in text) == (0, True), text


MAPPED = Schema(
    ID,
    NestedField(2, "amount", LongType()),
    *(NestedField(2 + at, name, TYPES[name]) for at, name in enumerate(PLACE_COLUMNS, 1)),
)
MAPPING = '[{"field-id": 2, "names": ["amount", "amt"]}]'


@pytest.mark.case("I63")
def test_a_field_of_another_name_is_compared_and_a_dead_letter_before_the_window_is_not(
    house: SinkHouse, capsys: Shown
) -> None:
    properties = {"schema.name-mapping.default": MAPPING}
    house.lake.catalog.create_table(f"{NAMESPACE}.{TABLE}", MAPPED, properties=properties)
    rules = {"case_insensitive": True, "errors": {"tolerance": "dead_letter"}}
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec(**rules))
    house.want(uid)
    old = datetime.now(UTC) - timedelta(days=10)  # noqa: TID251  the broker's clock judges records
    with closing(KafkaProducer(**house.broker.access.settings())) as producer:
        at = int(old.timestamp() * 1000)
        producer.send(house.topic, b"no object", partition=0, timestamp_ms=at)
    names = ("amt", "AMT", "amount", "Amount")
    house.send_values(json.dumps({"id": n, names[n % 4]: n}).encode() for n in range(20))
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: has_rows(house, 20), service.text)
        assert service.stop() == 0, service.text()
    week = ProofOptions(window=timedelta(days=7))
    code, text = compare(house, capsys, options=week, spec=rules)
    assert (code, "MATCHED 20 of 20" in text) == (0, True), text
    table = table_of(house)
    rows = table.scan().to_arrow()
    empty = pa.nulls(20, pa.int64())
    table.overwrite(rows.set_column(1, rows.schema.field(1), empty))
    code, text = compare(house, capsys, options=week, spec=rules)
    assert (code, "UNMATCHED" in text) == (1, True), text


@pytest.mark.case("I65")
def test_a_table_of_newest_records_equals_its_folded_topic_at_every_commit(
    house: SinkHouse, capsys: Shown
) -> None:
    mode: Mapping[str, object] = {"mode": "upsert", "id_columns": ["id"]}
    uid = house.declare(Kind.SINK_TABLE, "orders", house.sink_spec(**mode))
    house.want(uid)
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        for round_ in range(4):
            write_keyed(house, range(round_ * 20, round_ * 20 + 60), round_)
            present = 60 + round_ * 20 - (round_ + 1) * 2
            wait_until(partial(has_live_rows, house, present), service.text)
        assert service.stop() == 0, service.text()
    commits = [one.snapshot_id for one in table_of(house).metadata.snapshots]
    for snapshot in commits:
        code, text = compare(house, capsys, snapshot, spec=mode)
        assert (code, "MATCHED" in text) == (0, True), text


SECOND = "orders_second"


@pytest.mark.case("I65")
def test_proofs_of_a_partial_commit_and_of_a_table_that_lags_behind_are_matched(
    house: SinkHouse, capsys: Shown
) -> None:
    mode: Mapping[str, object] = {"mode": "upsert", "id_columns": ["id"], "tasks": 2}
    tables = {name: table_spec(name) for name in (TABLE, SECOND)}
    spec = house.sink_spec(**mode, tables=list(tables.values()))
    del spec["table"]
    uid = house.declare(Kind.SINK_TABLE, "orders", spec)
    house.want(uid, tasks=2)
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        write_keyed(house, range(60), 0)
        wait_until(partial(has_live_rows, house, 58), service.text)
        wait_until(partial(each_task_reads, house, uid), service.text)
        partials = partial_snapshots(house, uid, service)
        older = rolled_back(house, service)
        write_keyed(house, range(120, 180), 2)
        wait_until(partial(has_live_rows, house, 58 + 58 + 58), service.text)
        assert compare(house, capsys, older, spec={**mode, "table": tables[SECOND]})[0] == 0
        assert service.stop() == 0, service.text()
    for name, snapshot in [*partials, (TABLE, None)]:
        code, text = compare(house, capsys, snapshot, spec={**mode, "table": tables[name]})
        assert (code, "MATCHED" in text) == (0, True), text


def table_spec(name: str) -> Mapping[str, object]:
    return {"catalog": "lake", "namespace": NAMESPACE, "name": name}


def each_task_reads(house: SinkHouse, uid: ResourceUid) -> bool:
    """Whether the group has divided the two partitions: one that joins now holds both up."""
    reports = [one.report for one in house.status(uid).tasks]
    return len(reports) == 2 and all(one is not None and len(one.positions) == 1 for one in reports)


def partial_snapshots(
    house: SinkHouse, uid: ResourceUid, service: ServiceProcess
) -> list[tuple[str, int]]:
    """Those of a commit while one of the two tasks stood still, with the table of each."""
    for task in tasks_of(service):
        known = {one.commit_id for one in house.commits(uid)}
        task.suspend()
        write_keyed(house, range(60, 120), 1)
        new: list[CommitRecord] = []

        def has_partial(known: Collection[UUID] = known, new: list[CommitRecord] = new) -> bool:
            fresh = [one for one in house.commits(uid) if one.commit_id not in known]
            new[:] = [one for one in fresh if one.is_partial and one.snapshots]
            return bool(new)

        # The one that stands still may be the coordinator; its session lasts 10 s.
        with suppress(AssertionError):
            wait_until(has_partial, service.text, seconds=6)
        task.resume()
        if new:
            return [(one.table.name, one.snapshot_id) for one in new[0].snapshots]
    raise AssertionError(service.text())


def rolled_back(house: SinkHouse, service: ServiceProcess) -> int:
    """The second table takes nothing more; its snapshot now."""
    wait_until(partial(has_live_rows, house, 58 + 58), service.text)
    wait_until(partial(has_live_rows, house, 58 + 58, SECOND), service.text)
    table = house.lake.catalog.load_table(f"{NAMESPACE}.{SECOND}")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.parent_snapshot_id is not None
    update = SetSnapshotRefUpdate.model_validate(
        {"ref-name": "main", "type": "branch", "snapshot-id": snapshot.parent_snapshot_id}
    )
    house.lake.catalog.commit_table(table, (), (update,))
    return snapshot.parent_snapshot_id


def write_keyed(house: SinkHouse, numbers: range, round_: int) -> None:
    """A record for each key, then none any more for the first two."""
    with closing(KafkaProducer(**house.broker.access.settings())) as producer:
        for number in numbers:
            value = json.dumps({"id": number, "name": f"{number} of {round_}"}).encode()
            # Rows are of their id columns; what keys of records are is up to their producer.
            key = None if number % 3 else f"k{round_}-{number}".encode()
            producer.send(house.topic, value, key, partition=number % 2)
        for number in numbers[:2]:
            producer.send(house.topic, None, key_of(number), partition=number % 2)
        producer.flush()


def key_of(number: int) -> bytes:
    return json.dumps({"id": number}).encode()


def has_live_rows(house: SinkHouse, count: int, name: str = TABLE) -> bool:
    try:
        table = house.lake.catalog.load_table(f"{NAMESPACE}.{name}")
    except NoSuchTableError:
        return False
    return bool(table.scan().to_arrow().num_rows == count)


def has_rows(house: SinkHouse, count: int) -> bool:
    snapshot = table_of(house).current_snapshot()
    total = None if snapshot is None or snapshot.summary is None else snapshot.summary
    return total is not None and int(total["total-records"] or 0) >= count


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
