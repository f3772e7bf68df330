"""POST /runs/{id}/cancel: the table of answers, and who is remembered."""

from uuid import UUID

import pytest
from starlette.testclient import TestClient

from datarecs_core.runs.model import RunResult, RunStatus
from datarecs_core.values import RunId
from datarecs_testing.api import MemoryApiHouse, change_run, declare, memory_api, subject_of
from datarecs_testing.builders import A_TENANT

CANCEL_REQUESTED = "io.datarecs.reconciliation.run.cancel_requested"


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


@pytest.fixture
def ana(house: MemoryApiHouse) -> TestClient:
    caller = house.caller()
    declare(caller)
    return caller


@pytest.fixture
def run(ana: TestClient) -> str:
    """The path of a triggered run."""
    return str(ana.post("/api/v1/jobs/ledger-vs-exports/runs").headers["Location"])


def become(house: MemoryApiHouse, run: str, status: RunStatus) -> None:
    result = RunResult.MATCHED if status is RunStatus.COMPLETED else None
    change_run(house.unit, run.rpartition("/")[2], status=status, result=result)


@pytest.mark.case("L26")
def test_two_cancels_by_two_people_are_one_request(
    house: MemoryApiHouse, ana: TestClient, run: str
) -> None:
    first = ana.post(f"{run}/cancel", json={"reason": "the wrong month"})
    second = house.caller(owner="u-bob").post(f"{run}/cancel", json={"reason": "me too"})
    assert [first.status_code, second.status_code] == [202, 202]
    assert first.json()["cancelling"]
    shown = second.json()
    assert (shown["cancelled_by"], shown["cancel_reason"]) == (subject_of(ana), "the wrong month")
    rows = house.store.committed(A_TENANT).outbox.values()
    assert [one.row.type for one in rows].count(CANCEL_REQUESTED) == 1


@pytest.mark.case("L26")
@pytest.mark.parametrize(
    ("status", "answered"),
    [
        (RunStatus.QUEUED, 202),
        (RunStatus.RUNNING, 202),
        (RunStatus.CANCELLED, 200),
        (RunStatus.COMPLETED, 409),
        (RunStatus.ERRORED, 409),
        (RunStatus.QUEUE_ERRORED, 409),
    ],
)
def test_the_answer_depends_on_the_state_of_the_run(
    house: MemoryApiHouse, ana: TestClient, run: str, status: RunStatus, answered: int
) -> None:
    become(house, run, status)
    answer = ana.post(f"{run}/cancel")
    assert answer.status_code == answered
    assert ana.get(run).json()["status"] == status
    if answered == 409:
        assert answer.json()["reason"] == "RUN_ALREADY_TERMINAL"


def test_a_refused_cancel_writes_nothing(house: MemoryApiHouse, ana: TestClient, run: str) -> None:
    become(house, run, RunStatus.COMPLETED)
    before = house.store.committed(A_TENANT)
    ana.post(f"{run}/cancel", headers={"Idempotency-Key": "k"})
    after = house.store.committed(A_TENANT)
    assert (after.audit, after.outbox, after.runs, after.remembered) == (
        before.audit,
        before.outbox,
        before.runs,
        before.remembered,
    )


def test_a_cancel_is_audited_with_its_outcome(
    house: MemoryApiHouse, ana: TestClient, run: str
) -> None:
    ana.post(f"{run}/cancel", json={"reason": "the wrong month"})
    line = house.store.committed(A_TENANT).audit[-1].row
    assert line.action == "run.cancel"
    assert line.detail == {"outcome": "ASKED", "reason": "the wrong month"}


def test_a_cancel_with_a_key_is_requested_once(
    house: MemoryApiHouse, ana: TestClient, run: str
) -> None:
    key = {"Idempotency-Key": "k"}
    first = ana.post(f"{run}/cancel", headers=key)
    become(house, run, RunStatus.CANCELLED)
    again = ana.post(f"{run}/cancel", headers=key)
    assert (again.status_code, again.text) == (202, first.text)
    assert again.headers["Idempotency-Replayed"] == "true"


def test_waiting_for_a_cancel_answers_with_the_end(
    house: MemoryApiHouse, ana: TestClient, run: str
) -> None:
    def confirm(channel: str, run_id: str) -> None:
        if channel != "datarecs_run":
            return
        if house.store.committed(A_TENANT).runs[RunId(UUID(run_id))].cancelling:
            change_run(house.unit, run_id, status=RunStatus.CANCELLED)

    house.store.listen(confirm)
    answer = ana.post(f"{run}/cancel", headers={"Prefer": "wait=20"})
    assert (answer.status_code, answer.json()["status"]) == (200, "CANCELLED")


@pytest.mark.parametrize("reason", ["", "a\nb", "zero\u200bwidth", 201 * "x", 7])
def test_a_reason_is_one_short_line(ana: TestClient, run: str, reason: object) -> None:
    answer = ana.post(f"{run}/cancel", json={"reason": reason})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/reason"
