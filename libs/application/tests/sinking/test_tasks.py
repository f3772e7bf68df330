"""Slots of iceberg-sink over a scripted process: what begins a task, and what ends it."""

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

from structlog.testing import capture_logs

from datarecs_application.errors import StoreUnavailableError
from datarecs_core.resources.connection import Connection
from datarecs_core.resources.resource import Kind
from datarecs_core.sink.checkpoint import Checkpoint, SinkCommit, TaskReport
from datarecs_core.sink.definition import SinkTable
from datarecs_core.sink.documents import sink_document
from datarecs_testing.scripted_child import ChildSide
from datarecs_testing.task_slots import CANARY, KAFKA, SINK, TaskHouse, call, decoded, waits

COMMIT = SinkCommit(
    commit_id=UUID(int=1),
    epoch=1,
    checkpoint=Checkpoint(),
    is_partial=True,
    tables=1,
    records=4,
    duration=timedelta(seconds=2.5),
)


def test_a_task_gets_its_declaration_its_secrets_and_nothing_else() -> None:
    house = TaskHouse()
    assert house.slot.step() == 1
    (plan,) = house.plans
    assert plan["sink"] == SINK
    assert plan["number"] == 0
    assert plan["secrets"] == {"events/password": CANARY}
    assert sorted(plan["connections"]) == ["events", "lake"]  # type: ignore[call-overload]  # JSON
    assert "database" not in str(plan)
    assert house.leases.released == [house.leases.lease]
    assert house.memory.reports == []


def test_a_call_is_answered_and_its_effect_is_stored() -> None:
    answers = []

    def script(_: Mapping[str, object], side: ChildSide) -> int:
        answers.append(call(side, "begin_epoch"))
        answers.append(call(side, "report", {"dead_letters": 2}))
        house.stop.set()
        return waits(side)

    house = TaskHouse(script)
    house.slot.step()
    assert [one["value"] for one in answers] == [1, None]
    assert house.last == TaskReport(dead_letters=2)


def test_a_task_that_dies_begins_again_with_growing_pauses() -> None:
    def script(_: Mapping[str, object], _side: ChildSide) -> int:
        house.renewals.beat()
        return 1

    house = TaskHouse(*[script] * 4)
    house.work()
    assert len(house.children) == 5
    assert len(set(house.leases.sessions)) == 5
    assert 1 + 2 + 4 + 8 <= house.clock.monotonic() < 20
    assert house.last.error_code == "TASK_CRASHED"
    assert house.last.error == "the process of the task ended with exit code 1 and no report"


def test_a_broker_that_does_not_answer_is_named() -> None:
    house = TaskHouse(lambda _plan, _side: 79)
    house.work()
    assert house.last.error_code == "BROKER_TIMEOUT"


def test_what_a_task_says_of_its_failure_is_stored_without_secrets() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        call(side, "report", {"dead_letters": 2})
        side.send({"type": "failed", "code": "TOPIC_REFUSED", "message": f"no topic\nfor {CANARY}"})
        return 1

    house = TaskHouse(script)
    house.work()
    assert house.last == TaskReport(
        dead_letters=2, error_code="TOPIC_REFUSED", error="no topic for ***"
    )


def test_a_line_of_a_task_is_logged_without_secrets() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        fields = {"code": 3, "text": f"of {CANARY}"}
        side.send({"type": "log", "level": "error", "name": "sink_x", "fields": fields})
        house.stop.set()
        return waits(side)

    house = TaskHouse(script)
    with capture_logs() as lines:
        house.slot.step()
    (line,) = (one for one in lines if one["event"] == "sink_task_log")
    assert line["log_level"] == "error"
    assert (line["message"], line["task_code"], line["task_text"]) == ("sink_x", "3", "of ***")


def test_calls_of_a_task_are_counted() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        call(side, "state")
        call(side, "report", {"dead_letters": 2, "positions": {"orders/0": 5}, "ends": {}})
        position, end = {"orders/0": 5}, {"orders/0": 8}
        call(side, "report", {"dead_letters": 3, "positions": position, "ends": end})
        running.append(house.metrics.last("sink_tasks", state="running"))
        call(side, "committed", sink_document(COMMIT))
        call(side, "committed", sink_document(COMMIT))
        house.stop.set()
        return waits(side)

    running: list[float | None] = []
    house = TaskHouse(script)
    house.slot.step()
    metrics = house.metrics
    assert metrics.total("sink_dead_letters_total") == 3
    assert metrics.total("sink_commits_total", outcome="partial") == 1
    assert metrics.total("sink_records_total") == 4
    assert metrics.values("sink_commit_seconds") == [2.5]
    assert running == [1]
    assert metrics.last("sink_tasks", state="running") == 0
    assert max(metrics.values("sink_lag_messages")) == 3
    assert metrics.last("sink_lag_messages") == 0


def test_an_unavailable_store_ends_nothing() -> None:
    def script(_: Mapping[str, object], side: ChildSide) -> int:
        answers.append(call(side, "state")["error"])
        answers.append(call(side, "begin_epoch")["value"])
        house.stop.set()
        return waits(side)

    answers: list[object] = []
    house = TaskHouse(script)
    house.memory.faults.append(StoreUnavailableError(cause="it restarts"))
    house.slot.step()
    assert answers == ["STORE_UNAVAILABLE", 1]
    assert len(house.children) == 1


def test_a_missing_secret_is_reported_and_tried_again() -> None:
    house = TaskHouse()
    house.secrets.failures = 2
    house.work()
    assert [one.error_code for one in house.memory.reports] == ["SECRET_UNAVAILABLE"] * 2
    assert len(house.children) == 1


def test_nothing_is_claimed_where_nothing_waits() -> None:
    house = TaskHouse()
    house.leases.is_free = False
    assert house.slot.step() == 0
    assert house.children == []


def test_the_types_of_a_declaration_are_those_of_the_ports() -> None:
    assert isinstance(decoded(Kind.SINK_TABLE)("landing", SINK), SinkTable)
    assert isinstance(decoded(Kind.CONNECTION)("events", KAFKA), Connection)
