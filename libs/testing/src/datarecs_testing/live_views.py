"""Live views for tests: frames off the wire, and runs with new facts.

A separate module because the streams of a run, of a tenant and of a socket have the same content.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from uuid import UUID

from datarecs_application.ports.state import HistoryEntry
from datarecs_core.runs.model import Disposition, RunResult, RunStatus
from datarecs_core.values import RunId, TenantId
from datarecs_testing.api import ApiHouse, change_run, declare
from datarecs_testing.builders import A_TENANT


@dataclass(frozen=True)
class Frame:
    """A server-sent event as a browser parses it."""

    event: str
    id: str | None
    data: dict[str, object]


def frames(lines: Iterator[str]) -> Iterator[Frame]:
    """Frames as a browser reads them; comments and `retry` are left out."""
    fields: dict[str, str] = {}
    for line in lines:
        if not line and "data" in fields:
            yield Frame(fields["event"], fields.get("id"), json.loads(fields["data"]))
        name, _, value = line.partition(": ")
        fields = {**fields, name: value} if line else {}


def a_followed_run(house: ApiHouse, tenant: TenantId = A_TENANT) -> str:
    """The path of a new run of the tenant."""
    caller = house.caller(tenant)
    declare(caller)
    run_id = caller.post("/api/v1/jobs/ledger-vs-exports/runs").json()["run_id"]
    return f"/api/v1/runs/{run_id}"


def record(
    house: ApiHouse, run: str, count: int = 1, *, tenant: TenantId = A_TENANT, **fields: object
) -> None:
    """Facts without an event, one commit each."""
    for _ in range(count):
        with house.unit.begin(tenant, feed=1) as tx:
            run_id = RunId(UUID(run.rpartition("/")[2]))
            tx.runs.for_update(run_id)
            entry = {
                "sequence": 0,
                "event_id": house.ids.new(),
                "type": "attempt_lost",
                "source": "/datarecs/core-api",
                "time": tx.now,
                "data": {"attempt": 1},
                "disposition": Disposition.SYNTHESISED,
            }
            tx.runs.record(run_id, HistoryEntry(**{**entry, **fields}))  # type: ignore[arg-type]  # fields of an entry


def end(house: ApiHouse, run: str) -> None:
    """Set the row of the run to its end."""
    run_id = run.rpartition("/")[2]
    change_run(house.unit, run_id, status=RunStatus.COMPLETED, result=RunResult.MATCHED)
