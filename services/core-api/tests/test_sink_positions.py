"""Resets of a SinkTable, and decisions about its tables, over REST."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid5

import pytest
from starlette.testclient import TestClient

from datarecs_core.access.permissions import Role
from datarecs_core.sink.checkpoint import Checkpoint, PartitionState, TableCommit, TaskReport
from datarecs_core.sink.control import SourcePartition, TableReference
from datarecs_core.sink.decisions import TableDecision, WaitingRecords
from datarecs_core.values import ResourceUid
from datarecs_testing.api import MemoryApiHouse, memory_api
from datarecs_testing.api_sinks import (
    FIRST,
    LINEAGE,
    PLACE,
    SECOND,
    add_commit,
    declare_sink,
    read_status,
    reconcile,
    store_status,
)
from datarecs_testing.builders import A_TENANT, B_TENANT


def test_reset_sets_positions_and_is_audited(house: MemoryApiHouse, ana: TestClient) -> None:
    uid = declare_sink(house, ana)
    body = {"positions": {"payments": {"0": 5, "1": 7}}}
    answer = ana.post(f"{PLACE}/actions/reset", json=body)
    assert answer.status_code == 202
    after = read_status(house, uid).state
    assert (after.epoch, after.checkpoint.lineage) == (1, None)
    assert {name: one.accepted for name, one in after.checkpoint.partitions.items()} == {
        FIRST: 5,
        SECOND: 7,
    }
    last = house.store.committed(A_TENANT).audit[-1].row
    assert (last.action, last.resource_uid) == ("sink.reset", str(uid))
    assert isinstance(last.detail, Mapping)
    assert last.detail["positions"] == {"payments/0": 5, "payments/1": 7}


@pytest.mark.parametrize(
    ("positions", "pointer"),
    [
        ({"refunds": {"0": 1}}, "/positions/refunds"),
        ({"payments": {"00": 1}}, "/positions/payments/00/[key]"),
        ({"payments": {"x": 1}}, "/positions/payments/x/[key]"),
        ({"payments": {"0": -1}}, "/positions/payments/0"),
        ({"payments": {"0": 1.5}}, "/positions/payments/0"),
    ],
)
def test_positions_of_a_reset_are_checked(
    house: MemoryApiHouse, ana: TestClient, positions: Mapping[str, Any], pointer: str
) -> None:
    uid = declare_sink(house, ana)
    answer = ana.post(f"{PLACE}/actions/reset", json={"positions": positions})
    assert answer.status_code == 422
    assert [one["pointer"] for one in answer.json()["errors"]] == [pointer]
    assert read_status(house, uid).state.epoch == 0


@pytest.mark.parametrize(
    ("positions", "pointer", "message"),
    [
        ({"9": 1}, "/positions/payments/9", "it knows 0, 1. Name one of these"),
        ({"0": 10}, "/positions/payments/0", "payments/0 ends at 9: name a position up to it"),
    ],
)
def test_a_reset_to_a_place_that_the_topic_does_not_have_is_refused(
    house: MemoryApiHouse, ana: TestClient, positions: Mapping[str, int], pointer: str, message: str
) -> None:
    uid = declare_sink(house, ana)
    before = read_status(house, uid)
    checkpoint = replace(before.state.checkpoint, partitions={SECOND: PartitionState(accepted=5)})
    report = TaskReport(positions={FIRST: 7}, ends={FIRST: 9})
    tasks = (replace(before.tasks[0], report=report), before.tasks[1])
    state = replace(before.state, checkpoint=checkpoint)
    store_status(house, uid, replace(before, state=state, tasks=tasks))
    answer = ana.post(f"{PLACE}/actions/reset", json={"positions": {"payments": positions}})
    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["pointer"]) == (422, pointer)
    assert message in fault["message"]
    assert read_status(house, uid).state.epoch == 0
    body = {"positions": {"payments": {"0": 9, "1": 999}}}
    assert ana.post(f"{PLACE}/actions/reset", json=body).status_code == 202


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


@pytest.fixture
def ana(house: MemoryApiHouse) -> TestClient:
    return house.caller()


def a_snapshot(number: int, name: str = "payments", *, end: int = 5) -> TableCommit:
    """A table has every record of partition 0 below the end."""
    return TableCommit(
        commit_id=UUID(int=number),
        table=TableReference(
            catalog="lake", namespace=("sales",), name=name, uuid=uuid5(UUID(int=7), name)
        ),
        snapshot_id=number,
        control_offset=10 * number,
        valid_through=None,
        records=5,
        files=1,
        source_ends={FIRST: end},
    )


def hold_snapshots(house: MemoryApiHouse, uid: ResourceUid, *snapshots: TableCommit) -> None:
    """The checkpoint is at position 3, control offset 15; snapshots are what tables hold."""
    before = read_status(house, uid)
    checkpoint = Checkpoint(
        lineage=LINEAGE,
        control_offset=15,
        partitions={FIRST: PartitionState(accepted=3)},
        tables=tuple({one.table.name: one.table for one in snapshots}.values()),
    )
    store_status(house, uid, replace(before, state=replace(before.state, checkpoint=checkpoint)))
    add_commit(house, uid, 9, snapshots=snapshots)


def accepted_positions(house: MemoryApiHouse, uid: ResourceUid) -> dict[SourcePartition, int]:
    partitions = read_status(house, uid).state.checkpoint.partitions
    return {name: one.accepted for name, one in partitions.items()}


@pytest.mark.parametrize(("number", "end"), [(1, 3), (2, 5)])
def test_a_reset_goes_on_at_what_the_one_table_holds(
    house: MemoryApiHouse, ana: TestClient, number: int, end: int
) -> None:
    uid = declare_sink(house, ana)
    hold_snapshots(house, uid, a_snapshot(number))
    assert ana.post(f"{PLACE}/actions/reset", json={}).status_code == 202
    assert accepted_positions(house, uid) == {FIRST: end}
    assert ana.post(f"{PLACE}/actions/reset", json={}).status_code == 202
    assert accepted_positions(house, uid) == {FIRST: end}


ACCEPT_TABLE = ("accept-table", {"table": "sales.payments", "records": "leave_out"})
RESET = ("reset", {"positions": {"payments": {"0": 4}}})


@pytest.mark.parametrize(
    "verbs", [(RESET,), (RESET, RESET), (ACCEPT_TABLE,), (ACCEPT_TABLE, RESET)]
)
def test_a_position_above_the_end_is_refused_after_other_verbs(
    house: MemoryApiHouse, ana: TestClient, verbs: Sequence[tuple[str, Mapping[str, Any]]]
) -> None:
    uid = declare_sink(house, ana)
    hold_snapshots(house, uid, a_snapshot(1))
    before = read_status(house, uid)
    report = TaskReport(positions={FIRST: 7}, ends={FIRST: 9})
    tasks = (replace(before.tasks[0], report=report), before.tasks[1])
    store_status(house, uid, replace(before, tasks=tasks))
    for verb, body in verbs:
        assert ana.post(f"{PLACE}/actions/{verb}", json=body).status_code == 202
    body = {"positions": {"payments": {"0": 5000}}}
    answer = ana.post(f"{PLACE}/actions/reset", json=body)
    assert answer.status_code == 422
    assert "payments/0 ends at 9: name a position up to it" in answer.json()["errors"][0]["message"]


@pytest.mark.parametrize("position", [0, 1200])
def test_a_reset_without_positions_undoes_one_that_has_read_nothing(
    house: MemoryApiHouse, ana: TestClient, position: int
) -> None:
    uid = declare_sink(house, ana)
    hold_snapshots(house, uid, a_snapshot(2))
    before = read_status(house, uid)
    tasks = (replace(before.tasks[0], report=TaskReport(ends={SECOND: 9})), before.tasks[1])
    store_status(house, uid, replace(before, tasks=tasks))
    body = {"positions": {"payments": {"0": position}}}
    assert ana.post(f"{PLACE}/actions/reset", json=body).status_code == 202
    assert accepted_positions(house, uid) == {FIRST: position}
    other = {"positions": {"payments": {"1": 7}}}
    assert ana.post(f"{PLACE}/actions/reset", json=other).status_code == 202
    assert accepted_positions(house, uid) == {FIRST: position, SECOND: 7}
    assert ana.post(f"{PLACE}/actions/reset", json={}).status_code == 202
    assert accepted_positions(house, uid)[FIRST] == 5


def test_a_reset_is_refused_while_tables_hold_different_records(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    uid = declare_sink(house, ana)
    hold_snapshots(house, uid, a_snapshot(2), a_snapshot(1, "refunds"))
    answer = ana.post(f"{PLACE}/actions/reset", json={})
    assert (answer.status_code, answer.json()["code"]) == (409, "DR7025")
    assert (
        "table sales.payments holds records that table sales.refunds does not hold"
        in (answer.json()["detail"])
    )
    assert read_status(house, uid).state.epoch == 0
    body = {"positions": {"payments": {"0": 4}}}
    assert ana.post(f"{PLACE}/actions/reset", json=body).status_code == 202
    assert accepted_positions(house, uid) == {FIRST: 4}
    assert ana.post(f"{PLACE}/actions/reset", json={}).status_code == 202
    assert accepted_positions(house, uid) == {FIRST: 4}


@pytest.mark.parametrize("catalog", [{}, {"catalog": "lake"}])
def test_a_decision_about_a_table_is_stored_and_audited(
    house: MemoryApiHouse, ana: TestClient, catalog: Mapping[str, str]
) -> None:
    uid = declare_sink(house, ana)
    hold_snapshots(house, uid, a_snapshot(2))
    body = {"table": "sales.payments", "records": "commit", **catalog}
    for _ in range(2):
        answer = ana.post(
            f"{PLACE}/actions/accept-table", json=body, headers={"Idempotency-Key": "k-1"}
        )
        assert answer.status_code == 202
    after = read_status(house, uid).state
    assert after.epoch == 1
    assert after.checkpoint.decision == TableDecision(
        catalog="lake",
        namespace=("sales",),
        name="payments",
        records=WaitingRecords.COMMIT,
        since=20,
    )
    last = house.store.committed(A_TENANT).audit[-1].row
    assert last.action == "sink.accept_table"
    assert isinstance(last.detail, Mapping)
    assert (last.detail["table"], last.detail["records"]) == ("sales.payments", "commit")
    reconcile(house)
    assert ana.get(PLACE).json()["status"]["table_decision"] == {
        "catalog": "lake",
        "table": "sales.payments",
        "records": "commit",
        "state": "open",
        "message": "",
    }


def test_a_decision_waits_for_one_about_another_table(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    uid = declare_sink(house, ana)
    hold_snapshots(house, uid, a_snapshot(1), a_snapshot(2, "refunds"))
    place = f"{PLACE}/actions/accept-table"
    first = {"table": "sales.payments", "records": "commit"}
    assert ana.post(place, json=first).status_code == 202
    other = ana.post(place, json={**first, "table": "sales.refunds"})
    assert (other.status_code, other.json()["code"]) == (409, "DR7026")
    assert "sales.payments" in other.json()["detail"]
    assert ana.post(place, json={**first, "records": "leave_out"}).status_code == 202


@pytest.mark.parametrize(
    ("body", "pointer", "message"),
    [
        ({"table": "sales.none", "records": "commit"}, "/table", "it has sales.payments"),
        ({"table": "sales..x", "records": "commit"}, "/table", "it has sales.payments"),
        (
            {"table": "sales.payments", "records": "commit", "catalog": "pond"},
            "/catalog",
            "it has lake",
        ),
        ({"table": "sales.payments", "records": "drop"}, "/records", ""),
        ({"table": "sales.payments"}, "/records", ""),
    ],
)
def test_a_decision_names_a_table_of_the_sink(
    house: MemoryApiHouse, ana: TestClient, body: Mapping[str, str], pointer: str, message: str
) -> None:
    uid = declare_sink(house, ana)
    hold_snapshots(house, uid, a_snapshot(1))
    answer = ana.post(f"{PLACE}/actions/accept-table", json=body)
    (fault,) = answer.json()["errors"]
    assert (answer.status_code, fault["pointer"]) == (422, pointer)
    assert message in fault["message"]
    assert read_status(house, uid).state.epoch == 0


def test_a_decision_needs_a_coordinator_that_has_begun(
    house: MemoryApiHouse, ana: TestClient
) -> None:
    declare_sink(house, ana)
    body = {"table": "sales.payments", "records": "leave_out"}
    answer = ana.post(f"{PLACE}/actions/accept-table", json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "DR7024")
    reader = house.caller(A_TENANT, Role.OPERATOR)
    assert reader.post(f"{PLACE}/actions/accept-table", json=body).status_code == 403
    bob = house.caller(B_TENANT, Role.ADMIN)
    assert bob.post(f"{PLACE}/actions/accept-table", json=body).status_code == 404
