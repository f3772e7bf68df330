"""Sinks under their controller, over the store in memory, with a clock that a test moves."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.reconciling import Reconciling
from datarecs_application.resources import (
    ANY,
    Key,
    Making,
    annotate_resource,
    apply_resource,
    delete_resource,
)
from datarecs_application.sinking.declared import SinkController
from datarecs_application.source_conditions import ConnectionController
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.access.principal import Principal
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.resources.conditions import Condition, conditions_of
from datarecs_core.resources.declared import Declared
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.sink.checkpoint import (
    Lineage,
    TableCommit,
    TaskReport,
)
from datarecs_core.sink.control import SourcePartition, TableReference
from datarecs_core.sink.declared import CommitRecord, SinkStatus, SinkWish
from datarecs_core.sink.definition import SinkTable
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_runtime.clock import Latch
from datarecs_runtime.secrets import Keyring, TenantSecrets
from datarecs_runtime.sections import Secrets
from datarecs_specs.documents import decode_stored, job_of
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.metrics import RecordedMetrics

KAFKA: Mapping[str, Any] = {"type": "kafka", "config": {}}
CATALOG = {"type": "sql", "name": "lake", "sqlite": "lake.db"}
LAKE: Mapping[str, Any] = {"type": "iceberg", "config": {"catalog": CATALOG}}
ORDERS: Mapping[str, Any] = {"catalog": "lake", "namespace": "sales", "name": "orders"}
SPEC: Mapping[str, Any] = {
    "connection": "kafka",
    "topics": ["orders"],
    "tables": [ORDERS],
    "tasks": 2,
    "commit": {"interval": "PT1M", "timeout": "PT30S"},
}
LANDING = Key(kind=Kind.SINK_TABLE, name="landing")
FIRST = SourcePartition("orders", 0)


def read_job(spec: Mapping[str, object]) -> ReconciliationJob:
    return job_of("", spec)


def read_sink(spec: Mapping[str, object]) -> SinkTable:
    sink = decode_stored(Kind.SINK_TABLE, "", spec)
    assert isinstance(sink, SinkTable)
    return sink


def _snapshot(number: int) -> TableCommit:
    table = TableReference(catalog="lake", namespace=("sales",), name="orders", uuid=UUID(int=1))
    return TableCommit(
        commit_id=UUID(int=number),
        table=table,
        snapshot_id=number,
        control_offset=3,
        valid_through=None,
        records=5,
        files=1,
        source_ends={},
    )


class Platform:
    """One tenant with the connections `kafka` and `lake`, and the resource-controller."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock, FixedIds())
        self.tenant = self.store.create_tenant()
        self.unit, self.finder = MemoryUnitOfWork(self.store), MemoryWorkFinder(self.store)
        self.actor = Principal(tenant_id=self.tenant, subject="ann")
        secrets = TenantSecrets(
            Secrets(), keyring=Keyring({"k1": bytes(32)}, current="k1"), environment={}
        )
        self.making = Making(ids=FixedIds(5_000), secrets=secrets, random_bytes=bytes)
        sinks = SinkController(sinks=StoredSpecs(read_sink), jobs=StoredSpecs(read_job))
        controllers = (ConnectionController(), sinks)
        self.loop = Reconciling(
            unit=self.unit,
            finder=self.finder,
            controllers={one.kind: one for one in controllers},
            metrics=RecordedMetrics(),
            rhythm=Rhythm(clock=self.clock, wake=Latch()),
            fraction=lambda: 0.5,
        )
        self.apply("kafka", KAFKA, kind=Kind.CONNECTION)
        self.apply("lake", LAKE, kind=Kind.CONNECTION)

    def apply(
        self,
        name: str,
        spec: Mapping[str, Any],
        *,
        kind: Kind = Kind.SINK_TABLE,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        declared = Declared(
            kind=kind,
            name=name,
            spec=spec,
            spec_hash=str(hash(repr(spec))),
            annotations=annotations or {},
        )
        with self.unit.begin(self.tenant, feed=1) as tx:
            apply_resource(tx, self.actor, declared, making=self.making)
        self.reconcile()

    def annotate(self, name: str, value: str | None) -> None:
        with self.unit.begin(self.tenant, feed=1) as tx:
            annotate_resource(tx, self.actor, LANDING, set_to={name: value}, action="test")
        self.reconcile()

    def delete(self, key: Key = LANDING) -> bool:
        with self.unit.begin(self.tenant, feed=1) as tx:
            is_gone = delete_resource(tx, self.actor, key, match=ANY).is_gone
        self.reconcile()
        return is_gone

    def reconcile(self) -> None:
        while self.loop.step():
            self.loop.drain()

    def after(self, time: timedelta) -> None:
        self.clock.advance(time)
        self.reconcile()

    def stored(self, key: Key = LANDING) -> Resource | None:
        with self.unit.begin(self.tenant, read_only=True) as tx:
            return tx.resources.get(key.kind, key.namespace, key.name)

    def sink(self, name: str = "landing") -> Resource:
        sink = self.stored(Key(kind=Kind.SINK_TABLE, name=name))
        assert sink is not None
        return sink

    def conditions(self, name: str = "landing") -> Mapping[str, Condition]:
        return conditions_of(self.sink(name).status)

    def ready(self, name: str = "landing") -> Condition:
        return self.conditions(name)["Ready"]

    def status(self, name: str = "landing") -> SinkStatus:
        with self.unit.begin(self.tenant, read_only=True) as tx:
            return tx.sinks.status(self.sink(name).uid)

    @property
    def wished(self) -> SinkWish:
        wished = self.status().wished
        assert wished is not None
        return wished

    def report(self, **changes: Any) -> None:  # noqa: ANN401  parts of the status
        """What the service of the sink stores."""
        status = replace(self.status(), **changes)
        with self.unit.begin(self.tenant) as tx:
            tx.sinks.set_status(self.sink().uid, status)

    def run_tasks(self, report: TaskReport | None = None) -> None:
        tasks = self.status().tasks
        self.report(
            tasks=tuple(replace(one, is_held=True, report=report or TaskReport()) for one in tasks)
        )

    def commit(self, *, at: datetime, number: int = 7) -> None:
        record = CommitRecord(
            commit_id=UUID(int=number),
            epoch=1,
            completed_at=at,
            is_partial=False,
            control_offset=3,
            valid_through=None,
            records=5,
            snapshots=(_snapshot(number),),
        )
        with self.unit.begin(self.tenant) as tx:
            tx.sinks.add_commit(self.sink().uid, record)

    def begin(self) -> None:
        """What the first coordinator stores."""
        lineage = Lineage(cluster_id="c", topic_id="t", group="g")
        state = self.status().state
        checkpoint = replace(state.checkpoint, lineage=lineage)
        self.report(state=replace(state, checkpoint=checkpoint))

    def drained(self) -> None:
        self.report(state=replace(self.status().state, is_drained=True))
