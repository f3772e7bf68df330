"""Each run is announced once, and never before the database has the same state."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from datarecs_core.access.permissions import Role
from datarecs_core.runs.events import RunFinalised
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_postgres.change_feed import PostgresChangeFeed, PostgresResourceFeed
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import SystemClock
from datarecs_testing.api import ApiHouse
from datarecs_testing.builders import A_TENANT

pytestmark = pytest.mark.integration
RUNS = 300
"""10,000 once by hand."""


@pytest.fixture
def rest(path: Any) -> Iterator[TestClient]:  # noqa: ANN401  the fixture
    """REST over the same database, with a reader's key."""
    clock = SystemClock()
    house = ApiHouse(
        unit=path.unit,
        queries=path.queries,
        changes=PostgresChangeFeed(path.api),
        resource_changes=PostgresResourceFeed(path.api),
        finder=PostgresWorkFinder(path.api),
        clock=clock,
        ids=path.ids,
        blobs=MemoryBlobStores(clock),
    )
    with house.caller(A_TENANT, Role.VIEWER) as client:
        yield client


@pytest.mark.slow
@pytest.mark.case("L43")
def test_whoever_receives_an_end_reads_a_terminal_run_and_its_record(
    path: Any,  # noqa: ANN401  the fixture
    rest: TestClient,
) -> None:
    path.controller()
    path.work(slots=2)
    runs = path.trigger(RUNS)
    ends = []
    for event in path.ends(runs):
        assert isinstance(event, RunFinalised)
        ends.append(event.run_id)
        run = rest.get(f"/api/v1/runs/{event.run_id}").json()
        assert run["status"] == "COMPLETED"
        assert run["result"] == event.result
        events = rest.get(f"/api/v1/runs/{event.run_id}/events").json()["items"]
        assert events[-1]["type"].endswith("run.finalised")
    assert sorted(ends) == sorted(run.run_id for run in runs)
