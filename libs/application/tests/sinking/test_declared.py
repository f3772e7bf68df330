"""The controller of SinkTable over the store in memory: what the tasks shall do, and when."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from datarecs_application.resources import (
    Key,
)
from datarecs_application.sinking.declared import FOLLOW_EVERY
from datarecs_core.resources.conditions import conditions_of, phase_of
from datarecs_core.resources.reconciling import DRAIN_SINK, PAUSED, SKIP_DRAIN
from datarecs_core.resources.resource import Kind
from datarecs_core.sink.checkpoint import (
    Checkpoint,
    PartitionState,
    TaskReport,
    TaskWish,
)
from datarecs_core.sink.declared import SinkStatus, SinkWish, TaskStatus
from datarecs_testing.controlled_sinks import (
    CATALOG,
    FIRST,
    KAFKA,
    LAKE,
    ORDERS,
    SPEC,
    Platform,
)

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


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


def test_a_resumed_sink_that_no_process_has_room_for_waits_for_a_slot(platform: Platform) -> None:
    platform.apply("landing", SPEC)
    platform.run_tasks(TaskReport(positions={FIRST: 5}, ends={FIRST: 5}))
    platform.commit(at=platform.clock.now())
    platform.annotate(PAUSED, "true")
    platform.annotate(PAUSED, None)
    tasks = platform.status().tasks
    platform.report(tasks=tuple(replace(one, is_held=False) for one in tasks))
    platform.after(FOLLOW_EVERY)
    committing = platform.conditions()["Committing"]
    assert (str(committing.status), committing.reason) == ("Unknown", "WaitingForSlot")
    assert "raise its DATARECS_SINK__MAX_TASKS" in committing.message
    assert phase_of(platform.sink()) == "Starting"
    platform.run_tasks()
    platform.after(FOLLOW_EVERY)
    assert phase_of(platform.sink()) == "Committing"


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        ({"connection": "other"}, "ConnectionMissing", "connection other does not exist"),
        ({"connection": "lake"}, "ConnectionMismatch", "topics are read through a connection of"),
        ({"tables": [{**ORDERS, "catalog": "x"}]}, "ConnectionMissing", "connection x does not"),
        ({"tables": [{**ORDERS, "catalog": "kafka"}]}, "ConnectionMismatch", "of type iceberg"),
        ({"tables": [{**ORDERS, "catalog": "old"}]}, "CatalogUnsupported", "Use a rest or sql"),
        ({"decode": {"value": "avro"}}, "RegistryMissing", "write config.registry"),
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


@pytest.mark.case("I70")
def test_a_table_is_taken_also_by_another_connection_to_its_catalog(platform: Platform) -> None:
    platform.apply("lake2", LAKE, kind=Kind.CONNECTION)
    platform.apply("landing", SPEC)
    platform.clock.advance(SECOND)
    platform.apply("second", {**SPEC, "tables": [{**ORDERS, "catalog": "lake2"}]})
    ready = platform.ready("second")
    assert ready.reason == "SinkTableTaken"
    assert "writes to table sales.orders of connection lake2 too, by connection lake" in (
        ready.message
    )
    assert platform.status("second").wished is None
    pond = {**LAKE, "config": {"catalog": {**CATALOG, "sqlite": "pond.db"}}}
    platform.apply("lake2", pond, kind=Kind.CONNECTION)
    assert platform.ready("second").reason != "SinkTableTaken"


def test_one_sink_does_not_write_to_a_table_by_two_connections(platform: Platform) -> None:
    platform.apply("lake2", LAKE, kind=Kind.CONNECTION)
    platform.apply("landing", {**SPEC, "tables": [ORDERS, {**ORDERS, "catalog": "lake2"}]})
    assert platform.ready().reason == "SinkTableTaken"
    assert "names table sales.orders by connections lake and lake2" in platform.ready().message


def test_tables_of_a_connection_that_is_gone_are_compared_by_its_name(platform: Platform) -> None:
    lost = {**SPEC, "tables": [{**ORDERS, "catalog": "lost"}]}
    platform.apply("landing", lost)
    platform.clock.advance(SECOND)
    platform.apply("second", {**SPEC, "tables": [ORDERS]})
    assert platform.status("second").wished is not None


def test_tables_of_the_same_name_in_other_places_are_others(platform: Platform) -> None:
    pond = {**LAKE, "config": {"catalog": {**CATALOG, "sqlite": "pond.db"}}}
    platform.apply("pond", pond, kind=Kind.CONNECTION)
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


def test_who_declares_that_the_drain_is_skipped_ends_the_wait(platform: Platform) -> None:
    """Also of a sink that only read, and never committed anything."""
    platform.apply("landing", SPEC)
    platform.begin()
    platform.run_tasks(TaskReport(error_code="COMMIT_FAILED", error="409 of the catalog"))
    platform.delete()
    assert SKIP_DRAIN in platform.conditions()["DeletionBlocked"].message
    platform.apply("landing", SPEC, annotations={SKIP_DRAIN: "true"})
    assert platform.stored() is None


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
