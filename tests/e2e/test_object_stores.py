"""A platform that reads its sources from an object store and stores its artefacts there."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import pytest

from datarecs_storage.opening import open_blob_stores
from datarecs_testing import azure_store, google_store
from datarecs_testing.conformance.blob_store import ROOT, TENANT
from datarecs_testing.object_store import ADMIN, ObjectServer

pytestmark = pytest.mark.e2e
JOB = """
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: lake}}
spec:
  type: object_store
  config: {{url: "{url}/accounts", endpoint: "{endpoint}"}}
  auth: {{credentials: "env:DATARECS_CONN_DEFAULT_LAKE"}}
---
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {{name: objects}}
spec:
  sources:
    - {{name: orders, kind: csv, connection: lake, path: "*/orders.csv"}}
    - {{name: bookings, kind: json, connection: lake, path: "*/bookings-*.jsonl"}}
  stages:
    - {{name: rows, type: row, dimensions: [id], measures: [{{name: amount}}]}}
"""


class Store(NamedTuple):
    """A server with a bucket for sources and one for artefacts."""

    sources: str
    artefacts: str
    endpoint: str
    credentials: str


@pytest.fixture(params=["s3", "azure", "google"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "s3":
        server: ObjectServer = request.getfixturevalue("object_server")
        sources, artefacts = server.create_bucket("sources"), server.create_bucket("artefacts")
        return Store(f"s3://{sources}", f"s3://{artefacts}", server.endpoint, ADMIN)
    if request.param == "azure":
        azure: azure_store.AzureServer = request.getfixturevalue("azure_server")
        sources, artefacts = azure.create_container(), azure.create_container()
        return Store(f"az://{sources}", f"az://{artefacts}", azure.endpoint, azure_store.KEY)
    google: google_store.GoogleServer = request.getfixturevalue("google_server")
    sources, artefacts = google.create_bucket(), google.create_bucket()
    return Store(f"gs://{sources}", f"gs://{artefacts}", google.endpoint, google_store.KEY)


def test_a_run_reads_objects_and_stores_its_artefacts(
    store: Store,
    start_platform: Callable[[], AbstractContextManager[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATARECS_BLOB__URL", f"{store.artefacts}/platform")
    monkeypatch.setenv("DATARECS_BLOB__ENDPOINT", store.endpoint)
    monkeypatch.setenv("DATARECS_BLOB__CREDENTIALS", store.credentials)
    monkeypatch.setenv("DATARECS_CONN_DEFAULT_LAKE", store.credentials)
    uses = {"env:DATARECS_CONN_DEFAULT_LAKE": ["object-store:127.0.0.1"]}
    monkeypatch.setenv("DATARECS_SECRETS__USES", json.dumps(uses))
    sources = open_blob_stores(
        store.sources, endpoint=store.endpoint, credentials=store.credentials
    ).of(TENANT)
    sources.put(f"{ROOT}orders.csv", b"id,amount\n1,10\n2,20\n3,30\n")
    sources.put(f"{ROOT}bookings-1.jsonl", b'{"id": 1, "amount": 10}\n')
    sources.put(f"{ROOT}bookings-2.jsonl", b'{"id": 2, "amount": 21}\n{"id": 3, "amount": 30}\n')
    with start_platform() as platform:
        platform.apply("objects.yaml", JOB.format(url=store.sources, endpoint=store.endpoint))
        run = platform.trigger("objects")
        ended = platform.ended(run)
        assert (ended["status"], ended["result"]) == ("COMPLETED", "UNMATCHED"), ended
        (difference,) = platform.client.get(f"/api/v1/runs/{run}/mismatches").json()["items"]
        assert difference["key"] == {"id": "2"}
        assert "UNMATCHED" in platform.client.get(f"/api/v1/runs/{run}/report").text
        checked = json.loads(platform.datarecs("doctor", "--platform", "-o", "json").stdout)
        states = {row["source"]: row["state"] for row in checked["items"]}
        assert states["blobs"] == "ok"
        assert not list((platform.folder / ".datarecs/blobs").rglob("run.json"))
