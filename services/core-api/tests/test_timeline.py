"""GET /runs/{id}/timeline: the lanes of a run, however long its history is."""

import pytest
from starlette.testclient import TestClient

from datarecs_application.ports.state import HistoryEntry
from datarecs_application.runs import request_cancel, trigger_run
from datarecs_core.runs.model import Disposition, Run
from datarecs_core.runs.start import TriggerRun
from datarecs_core.values import EventId, JobId, RunId
from datarecs_testing.api import MemoryApiHouse, memory_api
from datarecs_testing.builders import A_TENANT, B_TENANT, an_id

MANY = 450
"""More than one page of the store."""


@pytest.fixture
def house() -> MemoryApiHouse:
    return memory_api()


def triggered(house: MemoryApiHouse) -> Run:
    command = TriggerRun(
        tenant_id=A_TENANT,
        run_id=RunId(an_id()),
        job_id=JobId(an_id()),
        job_name="ledger-vs-exports",
        job_generation=1,
        spec_hash="sha256:" + 64 * "0",
        spec={},
        triggered_by="ana",
    )
    with house.unit.begin(A_TENANT, feed=8) as tx:
        return trigger_run(tx, command)


def record_event(house: MemoryApiHouse, run: Run, name: str, **data: object) -> None:
    with house.unit.begin(A_TENANT, feed=1) as tx:
        tx.runs.for_update(run.run_id)
        entry = HistoryEntry(
            sequence=0,
            event_id=EventId(house.ids.new()),
            type=f"io.datarecs.reconciliation.{name}",
            source="/datarecs/reconciliation-worker",
            time=tx.now,
            data=data,
            disposition=Disposition.HISTORY,
        )
        tx.runs.record(run.run_id, entry)


def timeline(caller: TestClient, run: Run) -> dict[str, list[dict[str, object]]]:
    answer = caller.get(f"/api/v1/runs/{run.run_id}/timeline")
    assert answer.status_code == 200, answer.text
    body: dict[str, list[dict[str, object]]] = answer.json()
    return body


def test_a_waiting_run_has_an_open_lane(house: MemoryApiHouse) -> None:
    run = triggered(house)
    body = timeline(house.caller(), run)
    (lane,) = body["lanes"]
    assert (lane["kind"], lane["state"], lane["end"]) == ("queue", "OPEN", None)
    assert (body["gaps"], body["late"], body["synthesised"]) == ([], [], [])


def test_every_line_of_a_long_history_counts(house: MemoryApiHouse) -> None:
    run = triggered(house)
    for number in range(MANY):
        record_event(house, run, "run.extraction.started", attempt=1, extraction_index=number)
    record_event(house, run, "run.extraction.completed", attempt=1, extraction_index=MANY - 1)
    lanes = timeline(house.caller(), run)["lanes"]
    assert [lane["name"] for lane in lanes[:3]] == ["queue", "attempt 1", "extraction 0"]
    assert len(lanes) == MANY + 2
    assert (lanes[-1]["name"], lanes[-1]["state"]) == (f"extraction {MANY - 1}", "DONE")


def test_a_cancel_is_no_lane_and_another_tenant_sees_none(house: MemoryApiHouse) -> None:
    run = triggered(house)
    with house.unit.begin(A_TENANT, feed=8) as tx:
        request_cancel(tx, run.run_id, by="ana", reason=None, fact_id=EventId(an_id()))
    assert len(timeline(house.caller(), run)["lanes"]) == 1
    other = house.caller(B_TENANT)
    assert other.get(f"/api/v1/runs/{run.run_id}/timeline").status_code == 404
