"""The proof of a table with the newest record of each key: every commit, and commits that lag."""

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
from kafka import KafkaProducer
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.update import SetSnapshotRefUpdate

from datarecs_core.resources.resource import Kind
from datarecs_core.sink.declared import CommitRecord
from datarecs_core.values import ResourceUid
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.lake import NAMESPACE
from datarecs_testing.service_process import ServiceProcess, running_service
from datarecs_testing.sink_process import MODULE, TABLE, SinkHouse, tasks_of, wait_until
from datarecs_testing.sink_proofs import Shown, compare, proof_house, table_of
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
