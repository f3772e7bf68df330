"""A SinkTable behind a core-api in memory, with what other services store of it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from starlette.testclient import TestClient

from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.reconciling import Reconciling
from datarecs_application.sinking.declared import SinkController
from datarecs_application.source_conditions import ConnectionController
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.resources.resource import Kind
from datarecs_core.sink.checkpoint import Lineage
from datarecs_core.sink.control import SourcePartition
from datarecs_core.sink.declared import CommitRecord, SinkStatus
from datarecs_core.sink.definition import SinkTable
from datarecs_core.values import ResourceUid
from datarecs_runtime.clock import Latch
from datarecs_specs.documents import decode_stored, job_of
from datarecs_testing.api import MemoryApiHouse, declare
from datarecs_testing.builders import A_TENANT, NOON
from datarecs_testing.metrics import RecordedMetrics

SINKS = "/api/v1/sink-tables"
PLACE = f"{SINKS}/payments-landing"
ANY = {"If-Match": "*"}
FIRST, SECOND = SourcePartition("payments", 0), SourcePartition("payments", 1)
KAFKA = {
    "type": "kafka",
    "auth": {"password": "env:DATARECS_CONN_DEFAULT_KAFKA"},
    "config": {"brokers": ["kafka.example.com:9093"], "user": "sink"},
}
LAKE = {
    "type": "iceberg",
    "config": {"catalog": {"type": "rest", "uri": "https://catalog.example.com"}},
}
COMMIT = CommitRecord(
    commit_id=UUID(int=1),
    epoch=3,
    completed_at=NOON,
    is_partial=False,
    control_offset=40,
    valid_through=None,
    records=12,
)
LINEAGE = Lineage(cluster_id="c", topic_id="t", group="g")


def read_sink(spec: Mapping[str, object]) -> SinkTable:
    sink = decode_stored(Kind.SINK_TABLE, "", spec)
    assert isinstance(sink, SinkTable)
    return sink


def reconcile(house: MemoryApiHouse) -> None:
    sinks = SinkController(sinks=StoredSpecs(read_sink), jobs=StoredSpecs(partial(job_of, "")))
    controllers = (sinks, ConnectionController())
    loop = Reconciling(
        unit=house.unit,
        finder=house.finder,
        controllers={one.kind: one for one in controllers},
        metrics=RecordedMetrics(),
        rhythm=Rhythm(clock=house.clock, wake=Latch()),
        fraction=lambda: 0.5,
    )
    while loop.step():
        loop.drain()


def connect(caller: TestClient) -> None:
    for name, spec in (("events-kafka", KAFKA), ("lake", LAKE)):
        body = {
            "apiVersion": "datarecs.io/v1",
            "kind": "Connection",
            "metadata": {"name": name},
            "spec": spec,
        }
        answer = caller.post("/api/v1/connections", json=body)
        assert answer.status_code == 201, answer.text


def declare_sink(house: MemoryApiHouse, caller: TestClient) -> ResourceUid:
    """The Sink of the published example, with its tasks wanted."""
    connect(caller)
    declare(caller, Kind.SINK_TABLE)
    reconcile(house)
    return ResourceUid(UUID(caller.get(PLACE).json()["metadata"]["uid"]))


def read_status(house: MemoryApiHouse, uid: ResourceUid) -> SinkStatus:
    with house.unit.begin(A_TENANT, read_only=True) as tx:
        return tx.sinks.status(uid)


def store_status(house: MemoryApiHouse, uid: ResourceUid, status: SinkStatus) -> None:
    with house.unit.begin(A_TENANT) as tx:
        tx.sinks.set_status(uid, status)  # type: ignore[attr-defined]  # of the twin


def add_commit(house: MemoryApiHouse, uid: ResourceUid, number: int, **fields: Any) -> None:  # noqa: ANN401  of a record
    at = house.clock.now() + number * timedelta(minutes=1)
    record = replace(COMMIT, commit_id=UUID(int=number), completed_at=at, **fields)
    with house.unit.begin(A_TENANT) as tx:
        tx.sinks.add_commit(uid, record)  # type: ignore[attr-defined]  # of the twin
