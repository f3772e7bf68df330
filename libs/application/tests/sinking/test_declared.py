"""The controller of SinkTable over the store in memory: what the tasks shall do, and when."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

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
from datarecs_application.sinking.declared import FOLLOW_EVERY, SinkController
from datarecs_application.source_conditions import ConnectionController
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.access.principal import Principal
from datarecs_core.resources.conditions import Condition, conditions_of, phase_of
from datarecs_core.resources.declared import Declared
from datarecs_core.resources.reconciling import DRAIN_SINK, PAUSED, SKIP_DRAIN
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    Lineage,
    PartitionState,
    TableCommit,
    TaskReport,
    TaskWish,
)
from datarecs_core.sink.control import SourcePartition, TableReference
from datarecs_core.sink.declared import CommitRecord, SinkStatus, SinkWish, TaskStatus
from datarecs_core.sink.definition import SinkTable
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_runtime.clock import Latch
from datarecs_runtime.secrets import Keyring, TenantSecrets
from datarecs_runtime.sections import Secrets
from datarecs_specs.documents import decode_stored
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.metrics import RecordedMetrics

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
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
        controllers = (ConnectionController(), SinkController(sinks=StoredSpecs(read_sink)))
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


@pytest.fixture
def platform() -> Platform:
    return Platform()


def test_a_new_sink_wants_its_tasks(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    assert (platform.wished.tasks, platform.wished.wish) == (2, TaskWish.RUN)
    assert [one.number for one in platform.status().tasks] == [0, 1]
    platform.after(FOLLOW_EVERY)
    assert platform.ready().reason == "NoProcess"
    assert phase_of(platform.sink()) == "Starting"


def test_a_sink_that_commits_says_so(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.run_tasks(TaskReport(positions={FIRST: 5}, ends={FIRST: 8}))
    platform.commit(at=platform.clock.now())
    platform.after(FOLLOW_EVERY)
    assert {name: str(one.status) for name, one in platform.conditions().items()} == {
        "Valid": "True",
        "ReferencesResolved": "True",
        "Ready": "True",
        "Committing": "True",
        "Lagging": "False",
        "Fenced": "False",
    }
    status = platform.sink().status
    assert (status["workers"], status["lag"]) == (2, 3)
    assert status["last_commit_id"] == str(UUID(int=7))
    assert phase_of(platform.sink()) == "Committing"


def test_a_sink_is_late_when_what_it_read_stays_uncommitted(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.run_tasks(TaskReport(positions={FIRST: 5}, ends={FIRST: 5}))
    platform.after(FOLLOW_EVERY)
    for _ in range(21):
        platform.after(FOLLOW_EVERY)
    assert str(platform.conditions()["Lagging"].status) == "True"
    checkpoint = platform.status().state.checkpoint
    accepted = replace(checkpoint, partitions={FIRST: PartitionState(accepted=5)})
    platform.report(state=replace(platform.status().state, checkpoint=accepted))
    platform.after(FOLLOW_EVERY)
    assert str(platform.conditions()["Lagging"].status) == "False"
    assert "uncommitted" not in platform.sink().status


def test_an_unchanged_sink_leaves_no_trace(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.run_tasks()
    platform.after(FOLLOW_EVERY)
    before = platform.sink()
    platform.after(FOLLOW_EVERY)
    assert platform.sink() == before


def events_of(platform: Platform) -> Counter[str]:
    """Events of the sink by type."""
    queued = platform.store.committed(platform.tenant).outbox.values()
    prefix = "io.datarecs.resource.sinktable."
    types = [one.row.type for one in queued]
    return Counter(name.removeprefix(prefix) for name in types if name.startswith(prefix))


def test_a_healthy_sink_makes_one_event_a_minute(platform: Platform) -> None:
    """It commits every minute and reads all the time; its figures never stand still."""
    platform.apply("landing", SPEC)
    platform.run_tasks(TaskReport(positions={FIRST: 1}, ends={FIRST: 2}))
    platform.commit(at=platform.clock.now())
    platform.after(FOLLOW_EVERY)
    before = events_of(platform)
    for step in range(40):
        read = 10 * step + 10
        state = platform.status().state
        accepted = PartitionState(accepted=read - 5)
        checkpoint = replace(state.checkpoint, partitions={FIRST: accepted})
        platform.report(state=replace(state, checkpoint=checkpoint))
        platform.run_tasks(TaskReport(positions={FIRST: read}, ends={FIRST: read + step}))
        if step % 4 == 0:
            platform.commit(at=platform.clock.now(), number=step + 8)
        platform.after(FOLLOW_EVERY)
    assert phase_of(platform.sink()) == "Committing"
    events = events_of(platform) - before
    assert list(events) == ["status_updated"]
    assert 8 <= events["status_updated"] <= 10


def test_an_idle_sink_makes_no_event(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.run_tasks(TaskReport(positions={FIRST: 2}, ends={FIRST: 2}))
    platform.report(
        state=replace(
            platform.status().state,
            checkpoint=Checkpoint(partitions={FIRST: PartitionState(accepted=2)}),
        )
    )
    platform.commit(at=platform.clock.now())
    platform.after(FOLLOW_EVERY)
    before = events_of(platform)
    for _ in range(40):
        platform.after(FOLLOW_EVERY)
    assert events_of(platform) == before


def test_figures_are_new_at_once_when_a_condition_changes(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.run_tasks(TaskReport(positions={FIRST: 1}, ends={FIRST: 1}))
    platform.after(FOLLOW_EVERY)
    platform.run_tasks(TaskReport(positions={FIRST: 1}, ends={FIRST: 7}))
    platform.after(FOLLOW_EVERY)
    assert platform.sink().status["lag"] == 0
    platform.commit(at=platform.clock.now())
    platform.after(FOLLOW_EVERY)
    assert platform.sink().status["lag"] == 6
    assert str(platform.conditions()["Committing"].status) == "True"


def test_another_declaration_is_another_revision(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    before = platform.wished
    platform.apply("landing", {**SPEC, "tasks": 3})
    assert platform.wished.tasks == 3
    assert platform.wished.revision != before.revision


def test_another_address_of_the_cluster_is_another_revision(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    before = platform.wished
    platform.apply("kafka", {**KAFKA, "config": {"brokers": ["b:9092"]}}, kind=Kind.CONNECTION)
    assert platform.wished.revision != before.revision


def test_a_paused_sink_commits_and_holds_until_it_is_resumed(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    revision = platform.wished.revision
    platform.annotate(PAUSED, "true")
    assert platform.wished == SinkWish(tasks=2, wish=TaskWish.PAUSE, revision=revision)
    assert platform.status().state.wish is TaskWish.PAUSE
    assert str(platform.conditions()["Paused"].status) == "True"
    assert phase_of(platform.sink()) == "Paused"
    platform.after(FOLLOW_EVERY)
    assert "Paused" in platform.conditions()
    platform.annotate(PAUSED, None)
    assert platform.wished == SinkWish(tasks=2, wish=TaskWish.RUN, revision=revision)
    assert "Paused" not in platform.conditions()


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        ({"connection": "other"}, "ConnectionMissing", "connection other does not exist"),
        ({"connection": "lake"}, "ConnectionMismatch", "topics are read through a connection of"),
        ({"tables": [{**ORDERS, "catalog": "x"}]}, "ConnectionMissing", "connection x does not"),
        ({"tables": [{**ORDERS, "catalog": "kafka"}]}, "ConnectionMismatch", "of type iceberg"),
        ({"tables": [{**ORDERS, "catalog": "old"}]}, "CatalogUnsupported", "Use a rest or sql"),
    ],
)
def test_a_sink_with_unfit_connections_does_not_start(
    platform: Platform, spec: Mapping[str, Any], reason: str, words: str
) -> None:
    hadoop = {"type": "iceberg", "config": {"catalog": {"type": "hadoop", "warehouse": "w"}}}
    platform.apply("old", hadoop, kind=Kind.CONNECTION)
    platform.apply("landing", {**SPEC, **spec})
    assert platform.status().wished is None
    resolved = platform.conditions()["ReferencesResolved"]
    assert (str(resolved.status), resolved.reason) == ("False", reason)
    assert words in resolved.message
    assert platform.ready() == replace(resolved, type="Ready")
    assert phase_of(platform.sink()) == "Degraded"


def test_a_sink_starts_when_its_connection_is_created(platform: Platform) -> None:
    platform.apply("landing", {**SPEC, "connection": "late"})
    platform.apply("late", KAFKA, kind=Kind.CONNECTION)
    assert platform.wished.wish is TaskWish.RUN


def test_a_sink_whose_declaration_becomes_unfit_runs_no_task(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.apply("landing", {**SPEC, "connection": "lake"})
    assert (platform.wished.tasks, platform.status().tasks) == (0, ())


@pytest.mark.case("I70")
def test_the_older_of_two_sinks_has_the_table(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.clock.advance(SECOND)
    both = [{**ORDERS, "name": "x"}, ORDERS]
    platform.apply("second", {**SPEC, "tables": both})
    ready = platform.ready("second")
    assert (str(ready.status), ready.reason) == ("False", "SinkTableTaken")
    assert ready.message.startswith(
        "SINK_TABLE_TAKEN: SinkTable default/landing writes to table sales.orders of connection"
    )
    assert platform.status("second").wished is None
    assert platform.wished.wish is TaskWish.RUN


@pytest.mark.case("I70")
@pytest.mark.parametrize("is_older_named", [True, False])
def test_a_table_that_a_topic_names_is_taken_too(platform: Platform, is_older_named: bool) -> None:
    named = {name: value for name, value in SPEC.items() if name != "tables"}
    named["dynamic"] = {"catalog": "lake", "namespace": "sales", "from": "topic"}
    platform.apply("landing", named if is_older_named else SPEC)
    platform.clock.advance(SECOND)
    platform.apply("second", SPEC if is_older_named else named)
    assert platform.ready("second").reason == "SinkTableTaken"
    assert platform.wished.wish is TaskWish.RUN


def test_a_catalog_of_named_tables_must_be_there(platform: Platform) -> None:
    named = {name: value for name, value in SPEC.items() if name != "tables"}
    named["dynamic"] = {"catalog": "late", "namespace": "sales", "from": {"field": "a"}}
    platform.apply("landing", named)
    assert platform.ready().reason == "ConnectionMissing"
    platform.apply("late", LAKE, kind=Kind.CONNECTION)
    assert platform.wished.wish is TaskWish.RUN


def test_a_table_is_free_when_the_older_sink_leaves_it(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.clock.advance(SECOND)
    platform.apply("second", SPEC)
    platform.apply("landing", {**SPEC, "tables": [{**ORDERS, "name": "other"}]})
    platform.after(FOLLOW_EVERY)
    assert platform.status("second").wished is not None


def test_tables_of_the_same_name_in_other_places_are_others(platform: Platform) -> None:
    platform.apply("pond", LAKE, kind=Kind.CONNECTION)
    platform.apply("landing", SPEC)
    platform.clock.advance(SECOND)
    others = [{**ORDERS, "catalog": "pond"}, {**ORDERS, "namespace": "sales.eu"}]
    platform.apply("second", {**SPEC, "tables": others})
    assert platform.status("second").wished is not None


@pytest.mark.case("I70")
@pytest.mark.case("R63")
def test_a_deleted_sink_goes_after_its_last_commit(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.begin()
    platform.run_tasks()
    uid = platform.sink().uid
    assert not platform.delete()
    assert platform.sink().finalizers == (DRAIN_SINK,)
    assert (platform.wished.tasks, platform.wished.wish) == (2, TaskWish.DRAIN)
    blocked = platform.conditions()["DeletionBlocked"]
    assert (blocked.reason, phase_of(platform.sink())) == ("Draining", "Deleting")
    platform.drained()
    platform.after(FOLLOW_EVERY)
    assert platform.stored() is None
    with platform.unit.begin(platform.tenant, read_only=True) as tx:
        assert tx.sinks.status(uid) == SinkStatus()


def test_a_deletion_restarts_no_task(platform: Platform) -> None:
    """They commit what they have read; a restart would read it again first."""
    platform.apply("landing", SPEC)
    platform.begin()
    before = platform.wished.revision
    platform.delete()
    assert platform.wished.revision == before


def test_a_paused_sink_is_drained_as_well(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.begin()
    platform.annotate(PAUSED, "true")
    platform.delete()
    assert platform.wished.wish is TaskWish.DRAIN


def test_a_sink_that_never_began_is_deleted_at_once(platform: Platform) -> None:
    platform.apply("landing", {**SPEC, "connection": "none"})
    platform.delete()
    assert platform.stored() is None


def test_a_sink_that_never_committed_is_deleted_at_once(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    failing = TaskReport(error_code="LOG_UNAVAILABLE", error="nobody answers")
    platform.run_tasks(failing)
    uid = platform.sink().uid
    platform.delete()
    assert platform.stored() is None
    with platform.unit.begin(platform.tenant, read_only=True) as tx:
        assert tx.sinks.status(uid) == SinkStatus()


def test_a_deletion_that_a_fault_hinders_says_it_at_once(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.begin()
    platform.run_tasks(TaskReport(error_code="COMMIT_FAILED", error="409 of the catalog"))
    platform.delete()
    blocked = platform.conditions()["DeletionBlocked"]
    assert blocked.reason == "TaskFailed"
    assert "no last commit was possible so far: COMMIT_FAILED: 409 of the cat" in blocked.message
    assert f"set its annotation {SKIP_DRAIN} to" in blocked.message


def test_an_apply_does_not_end_the_wait_for_the_last_commit(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.begin()
    platform.delete()
    platform.apply("landing", SPEC)
    assert platform.sink().finalizers == (DRAIN_SINK,)


def test_a_sink_that_cannot_commit_says_how_to_delete_it(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.begin()
    halted = TaskReport(error_code="TABLE_LOST", error="sales.orders is gone", is_halted=True)
    platform.run_tasks(halted)
    platform.delete()
    blocked = platform.conditions()["DeletionBlocked"]
    assert blocked.reason == "Halted"
    assert "TABLE_LOST: sales.orders is gone." in blocked.message
    assert f"set its annotation {SKIP_DRAIN} to" in blocked.message
    platform.annotate(SKIP_DRAIN, "true")
    assert platform.stored() is None


def test_a_deletion_that_lasts_an_hour_says_what_can_be_done(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.begin()
    platform.delete()
    platform.after(HOUR - SECOND)
    assert platform.conditions()["DeletionBlocked"].reason == "Draining"
    platform.after(FOLLOW_EVERY)
    blocked = platform.conditions()["DeletionBlocked"]
    assert blocked.reason == "DrainTimeout"
    assert SKIP_DRAIN in blocked.message


def test_a_sink_may_be_deleted_without_a_last_commit(platform: Platform) -> None:
    platform.apply("landing", SPEC, annotations={SKIP_DRAIN: "true"})
    assert platform.delete()
    assert platform.stored() is None


@pytest.mark.parametrize("name", ["kafka", "lake"])
def test_a_connection_remains_until_its_sink_is_gone(platform: Platform, name: str) -> None:
    platform.apply("landing", SPEC)
    platform.begin()
    connection = Key(kind=Kind.CONNECTION, name=name)
    assert not platform.delete(connection)
    stored = platform.stored(connection)
    assert stored is not None
    blocked = conditions_of(stored.status)["DeletionBlocked"]
    assert blocked.message.startswith("1 object use this connection: sink landing; delete")
    platform.delete()
    platform.drained()
    platform.after(FOLLOW_EVERY)
    assert platform.stored(connection) is None


def test_tasks_of_the_store_are_replaced_with_the_revision(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.run_tasks()
    platform.apply("landing", {**SPEC, "topics": ["payments"]})
    assert platform.status().tasks == (
        TaskStatus(number=0, is_held=False),
        TaskStatus(number=1, is_held=False),
    )


def test_an_unreadable_sink_runs_no_task(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.begin()
    platform.apply("landing", {**SPEC, "mode": "cdc"})
    assert platform.wished.tasks == 0
    assert platform.conditions()["Valid"].reason == "Unreadable"
    platform.delete()
    assert platform.conditions()["DeletionBlocked"].reason == "Unreadable"
    platform.annotate(SKIP_DRAIN, "true")
    assert platform.stored() is None
