"""Captures over REST, beside a queue in memory that a test works on."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from starlette.testclient import TestClient

from datarecs_application.capturing import queue
from datarecs_application.ports.capturing import ClaimRequest
from datarecs_core.captures.items import (
    CaptureJobId,
    CaptureTask,
    NewWork,
    WorkItem,
    WorkKind,
    WorkToken,
)
from datarecs_core.captures.request import ObjectName
from datarecs_core.resources.resource import Kind
from datarecs_core_api.routes.captures import CAPTURES
from datarecs_testing.api import MemoryApiHouse, declare
from datarecs_testing.builders import A_TENANT

PLACE = f"/api/v1{CAPTURES}"
LAKE = "lake"
METADATA = {"connection": LAKE, "mode": "METADATA_ONLY", "snapshots": {"select": "CURRENT"}}
TABLE = UUID("019b0000-0000-7000-8000-0000000000aa")


def caller_with_a_connection(house: MemoryApiHouse) -> TestClient:
    """An admin of a tenant with the connection `lake`."""
    caller = house.caller()
    declare(caller, Kind.CONNECTION, name=LAKE)
    return caller


def started(client: TestClient, **changes: object) -> str:
    answer = client.post(PLACE, json={**METADATA, **changes})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["job_id"])


def item_of(house: MemoryApiHouse, job_id: str) -> WorkItem:
    with house.unit.begin(A_TENANT, read_only=True) as tx:
        item = tx.capture_work.get(CaptureJobId(UUID(job_id)))
    assert item is not None
    return item


def taken(house: MemoryApiHouse) -> list[WorkToken]:
    """Claim and begin everything that is due."""
    request = ClaimRequest(executor="worker-1", kinds=(), limit=100)
    tokens = list(house.finder.claim_work(request).tokens)
    for token in tokens:
        with house.unit.begin(token.tenant_id) as tx:
            assert queue.begin(tx, token) is not None
    return tokens


def succeed(
    house: MemoryApiHouse, token: WorkToken, *children: NewWork, **counters: int
) -> WorkItem:
    with house.unit.begin(token.tenant_id) as tx:
        return queue.end_succeeded(
            tx,
            house.ids,
            token,
            outcome_sha256=f"{token.item_id}",
            children=children,
            counters=counters,
        )


def a_table(house: MemoryApiHouse, job_id: str, name: str) -> NewWork:
    request = item_of(house, job_id).task.request
    task = CaptureTask(request=request, object=ObjectName(namespace=("default",), name=name))
    return NewWork(kind=WorkKind.PLAN_TABLE, task=task)


def a_snapshot(house: MemoryApiHouse, job_id: str, number: int) -> NewWork:
    task = CaptureTask(
        request=item_of(house, job_id).task.request,
        object=ObjectName(namespace=("default",), name="t"),
        table_id=TABLE,
        snapshot_id=number,
        native_id=str(number),
    )
    return NewWork(kind=WorkKind.PLAN_SNAPSHOT, task=task)


def planned(house: MemoryApiHouse, job_id: str, *names: str) -> None:
    """The root is planned into these tables."""
    (token,) = taken(house)
    succeed(house, token, *(a_table(house, job_id, name) for name in names), tables_scanned=1)


def shown_job(client: TestClient, job_id: str) -> Mapping[str, Any]:
    answer = client.get(f"{PLACE}/{job_id}")
    assert answer.status_code == 200, answer.text
    body: Mapping[str, Any] = answer.json()
    return body


def faults(
    client: TestClient, body: Mapping[str, object], path: str = PLACE
) -> set[tuple[str, str]]:
    answer = client.post(path, json=body)
    assert answer.status_code == 422, answer.text
    return {(one["code"], one["pointer"]) for one in answer.json()["errors"]}
