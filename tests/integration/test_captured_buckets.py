"""`datarecs compare --as-of` of a captured bucket: objects by their etags, from a real store."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from datarecs_cli.main import run
from datarecs_connectors.object_stores.opening import StoreRules, open_connected
from datarecs_connectors.object_stores.tree import ObjectTree
from datarecs_connectors.source_trees import SourceTree
from datarecs_core.access.permissions import Role
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.resources.connection import ObjectStoreConfig
from datarecs_core.resources.object_urls import ObjectUrl
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_testing.api import MemoryApiHouse, memory_api
from datarecs_testing.builders import A_TENANT
from datarecs_testing.catalogue import ShiftedClock
from datarecs_testing.conformance.catalogued_runs import CapturedFolder
from datarecs_testing.memory_stores import memory_stores
from datarecs_testing.object_store import ADMIN, ObjectServer
from datarecs_testing.scripted_api import RealApi, written_credentials

pytestmark = pytest.mark.integration
Shown = pytest.CaptureFixture[str]
JOB = {
    "apiVersion": "datarecs.io/v1",
    "kind": "ReconciliationJob",
    "metadata": {"name": "orders"},
    "spec": {
        "sources": [
            {"name": name, "kind": "csv", "connection": "exports", "path": "orders/"}
            for name in ("one", "two")
        ],
        "stages": [{"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"}],
    },
}


@dataclass(kw_only=True)
class CapturedBucket(CapturedFolder):
    """A folder of objects instead of one on a disk."""

    server: ObjectServer
    place: str

    @property
    def spec(self) -> dict[str, object]:
        return {
            "type": "object_store",
            "config": {"url": self.uri, "endpoint": self.server.endpoint},
            "auth": {"credentials": "env:LAKE_KEY"},
        }

    @property
    def uri(self) -> str:
        return f"s3://{self.place}"

    def tree(self) -> SourceTree:
        config = ObjectStoreConfig(url=self.uri, endpoint=self.server.endpoint)
        rules = StoreRules(
            policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
            is_guarded=False,
            platform_bucket=None,
        )
        bucket = open_connected("capture", config, {"credentials": ADMIN}, rules)
        return ObjectTree(bucket=bucket, root=ObjectUrl.parse(self.uri), now=self.clock.now)

    def newest_time(self) -> datetime:
        return self.clock.now()

    def put(self, name: str, rows: str) -> None:
        self.server.client(self.place).put(f"orders/{name}", f"id\n{rows}\n".encode())


@pytest.fixture
def house() -> MemoryApiHouse:
    house = memory_api(blobs=MemoryBlobStores(ShiftedClock()))
    # The files have real times, and the server reads none that is still to come.
    house.clock.advance(ShiftedClock().now() - house.clock.now())
    return house


@pytest.fixture
def captured(house: MemoryApiHouse, object_server: ObjectServer, tmp_path: Path) -> CapturedBucket:
    bucket = CapturedBucket(
        stores=memory_stores(house.store, house.clock),
        folder=tmp_path / "unused",
        blobs=house.blobs,
        clock=ShiftedClock(),
        server=object_server,
        place=object_server.create_folder(),
    )
    bucket.put("a.csv", "1")
    bucket.put("b.csv", "2")
    bucket.capture()
    bucket.put("c.csv", "3")
    return bucket


@pytest.fixture
def as_of(
    house: MemoryApiHouse,
    captured: CapturedBucket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[str]:
    """A time after the capture, with a job and the server in place."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKE_KEY", ADMIN)
    written_credentials(tmp_path)
    Path("job.yaml").write_text(json.dumps(JOB), encoding="utf-8")
    api = RealApi(house.caller(A_TENANT, Role.VIEWER))
    with api.in_place_of_the_network():
        yield (captured.clock.now() + timedelta(seconds=30)).isoformat()


def test_a_bucket_is_read_as_it_was(as_of: str) -> None:
    assert run(["compare", "job.yaml", "--out", "out", "--as-of", as_of]) == 0
    sources = json.loads(Path("out/run.json").read_bytes())["proof"]["sources"]
    for source in sources:
        assert [file["path"] for file in source["pin"]["files"]] == ["orders/a.csv", "orders/b.csv"]


@pytest.mark.parametrize("form", ["{}/orders/", "{}/orders", "{}/orders/*.csv", "./orders//"])
def test_every_form_of_a_path_is_read_as_it_was(
    captured: CapturedBucket, as_of: str, form: str
) -> None:
    path = form.format(captured.uri)
    text = Path("job.yaml").read_text(encoding="utf-8")
    Path("job.yaml").write_text(text.replace('"orders/"', json.dumps(path)), encoding="utf-8")
    assert run(["compare", "job.yaml", "--out", "out"]) == 0
    assert _files() == [["orders/a.csv", "orders/b.csv", "orders/c.csv"]] * 2
    assert run(["compare", "job.yaml", "--out", "out", "--as-of", as_of]) == 0
    assert _files() == [["orders/a.csv", "orders/b.csv"]] * 2


def _files() -> list[list[str]]:
    sources = json.loads(Path("out/run.json").read_bytes())["proof"]["sources"]
    return [[file["path"] for file in source["pin"]["files"]] for source in sources]


def test_an_object_with_another_content_is_named(
    captured: CapturedBucket, as_of: str, capsys: Shown
) -> None:
    captured.put("b.csv", "9")
    assert run(["compare", "job.yaml", "--out", "out", "--as-of", as_of]) == 3
    shown = capsys.readouterr().err
    assert "orders/b.csv of snapshot" in shown
    assert "has changed" in shown
