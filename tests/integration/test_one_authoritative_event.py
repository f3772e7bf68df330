"""Each run is announced once, and never before the database says the same."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from datarecs_core.access.permissions import GRANTS, Role
from datarecs_core.access.tokens import new_key
from datarecs_core.egress.addresses import Profile
from datarecs_core.runs.events import RunFinalised
from datarecs_core_api.app import build
from datarecs_core_api.auth import Authenticator
from datarecs_core_api.dependencies import Ports, RunsChanged
from datarecs_core_api.pagination import Cursors
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import SystemClock, random_bytes
from datarecs_runtime.sections import Egress
from datarecs_runtime.tracing import child_of
from datarecs_testing.builders import A_TENANT, an_api_key
from datarecs_testing.platform import NoSecrets

pytestmark = pytest.mark.integration
RUNS = 1_000


@pytest.fixture
def rest(path: Any) -> Iterator[TestClient]:  # noqa: ANN401  the fixture
    """REST over the same database, with a reader's key."""
    made = new_key(id_bytes=bytes(9), secret_bytes=bytes(32))
    with path.unit.begin(A_TENANT) as tx:
        tx.api_keys.add(
            an_api_key(
                key_id=made.key_id,
                secret_sha256=made.secret_sha256,
                permissions=GRANTS[Role.VIEWER],
                created_at=tx.now,
                expires_at=tx.now + timedelta(days=1),
            )
        )
    clock, finder = SystemClock(), PostgresWorkFinder(path.api)
    ports = Ports(
        unit=path.unit,
        queries=path.queries,
        finder=finder,
        blobs=MemoryBlobStores(clock),
        secrets=NoSecrets(),
        clock=clock,
        ids=path.ids,
        random_bytes=random_bytes,
        cursors=Cursors(bytes(32)),
        runs_changed=RunsChanged(),
        profile=Profile.LOCAL,
        egress=Egress(),
        reference_rules=lambda tenant: (_ for _ in ()).throw(LookupError(str(tenant))),
        traceparent=child_of,
    )
    client = TestClient(build(ports, Authenticator(finder, clock)))
    client.headers["Authorization"] = f"Bearer {made.text}"
    with client:
        yield client


@pytest.mark.slow
@pytest.mark.case("L43")
def test_whoever_hears_of_an_end_reads_a_terminal_run_and_its_record(
    path: Any,  # noqa: ANN401  the fixture
    rest: TestClient,
) -> None:
    path.controller()
    path.work(slots=2)
    runs = path.trigger(RUNS)
    heard = []
    for event in path.ends(runs):
        assert isinstance(event, RunFinalised)
        heard.append(event.run_id)
        run = rest.get(f"/api/v1/runs/{event.run_id}").json()
        assert run["status"] == "COMPLETED"
        assert run["result"] == event.result
        events = rest.get(f"/api/v1/runs/{event.run_id}/events").json()["items"]
        assert events[-1]["type"].endswith("run.finalised")
    assert sorted(heard) == sorted(run.run_id for run in runs)
