"""A run on a Spark cluster has the same proof as on one machine, even if a node is lost.

The worker's child does the run with the worker's settings: only those of section `spark` differ.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import SecretStr

from datarecs_application.child_frames import FINISHED, READY, RUN, Reader
from datarecs_application.stopping import Stopping
from datarecs_core.comparison.results.differences import difference_bytes
from datarecs_core.documents import to_document
from datarecs_core.egress.addresses import Profile
from datarecs_core.hashing import canonical_json
from datarecs_core.resources.connection import Connection, ConnectionType, FilesConfig
from datarecs_core.runs.result_file import ARTEFACTS, NAME
from datarecs_kernel.stored import read_differences
from datarecs_reconciliation_worker.child import tools_of
from datarecs_reconciliation_worker.frame_reporter import FrameReporter
from datarecs_reconciliation_worker.settings import Settings
from datarecs_reconciliation_worker.wiring import CHILD, hello_frame
from datarecs_reconciliation_worker.work import read_assignment, work
from datarecs_runtime.blob_section import Blob
from datarecs_runtime.child import SpawnedChild
from datarecs_runtime.child_surroundings import INHERITED
from datarecs_runtime.environment import process_environment
from datarecs_runtime.frames import SupervisorChannel
from datarecs_runtime.sections import Files, Java, Spark
from datarecs_spark.session import SparkRuntime, SparkSettings
from datarecs_testing.builders import A_TENANT, an_id
from datarecs_testing.spark_cluster import ADDRESS, Node, SparkCluster, running_cluster

pytestmark = pytest.mark.spark

ROWS, FILES = 400, 4
SOURCES = [
    {"name": "ledger", "kind": "parquet", "connection": "here", "path": "ledger"},
    {"name": "copy", "kind": "parquet", "connection": "here", "path": "copy"},
    {"name": "export", "kind": "csv", "connection": "here", "path": "export.csv"},
]
COUNTED: dict[str, Any] = {
    "sources": SOURCES,
    "stages": [
        {"name": "each", "type": "row", "dimensions": ["id"], "measures": "*"},
        {
            "name": "totals",
            "type": "aggregate",
            "dimensions": ["account"],
            "measures": [{"name": "amount", "function": "sum"}],
        },
    ],
    "execution": {"strategy": "narrow"},
}
SEALED: dict[str, Any] = {
    "sources": SOURCES,
    "stages": [
        {
            "name": "totals",
            "type": "aggregate",
            "dimensions": ["account"],
            "measures": [{"name": "amount", "function": "sum"}],
            "on_unmatched": "escalate",
        },
        {"name": "rows", "type": "row", "dimensions": ["id"], "measures": [{"name": "amount"}]},
    ],
    "execution": {"proof": "rows"},
}


def rows_of(source: int) -> list[tuple[int, str, int]]:
    """Each source lacks other rows and has other amounts in some."""
    return [
        (key, f"a{key % 7}", 100 * key + (key % 41 == source))
        for key in range(ROWS)
        if key % 53 != source + 1
    ]


def written(folder: Path) -> None:
    """In many files, so that every executor has something to read."""
    for source, name in enumerate(("ledger", "copy")):
        (folder / name).mkdir()
        ids, accounts, cents = zip(*rows_of(source), strict=True)
        amounts = pa.array(cents).cast(pa.decimal128(20, 0))
        table = pa.table({"id": ids, "account": accounts, "amount": amounts})
        size = -(-table.num_rows // FILES)
        for at in range(FILES):
            pq.write_table(table.slice(at * size, size), folder / name / f"{at}.parquet")
    lines = [f"{key},{account},{cents}" for key, account, cents in rows_of(2)]
    (folder / "export.csv").write_text("\n".join(["id,account,amount", *lines, ""]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One worker's surroundings."""

    sources: Path
    folder: Path

    def hello(self, runtime: SparkSettings, spark: Spark) -> dict[str, Any]:
        """The first frame to its child."""
        settings = Settings.model_construct(
            profile=Profile.LOCAL,
            blob=Blob(url=(self.folder / "blobs").as_uri()),
            files=Files(roots=(self.sources,), owner=A_TENANT),
            java=Java(home=Path(str(runtime.java_home)), options=runtime.java_options),
            spark=spark,
        )
        return dict(hello_frame(settings, self.folder / "scratch"))

    def frame(self, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
        """A run."""
        attempt = self.folder / name
        attempt.mkdir(parents=True)
        secret = attempt / "credentials.json"
        secret.write_text(json.dumps({"break_key": "5a" * 32}))
        here = Connection(type=ConnectionType.FILES, config=FilesConfig(root=str(self.sources)))
        return {
            "type": RUN,
            "tenant_id": str(A_TENANT),
            "run_id": str(an_id()),
            "job_id": str(A_TENANT),
            "job": "on-a-cluster",
            "spec_hash": "sha256:" + 64 * "0",
            "spec": spec,
            "parameters": {},
            "attempt": 1,
            "lease_epoch": 1,
            "started_at": None,
            "connections": {"here": to_document(here)},
            "pins": {"by_source": {}},
            "folder": str(attempt),
            "triggered_by": "ana",
            "credentials_file": str(secret),
        }

    def left(self, frame: Mapping[str, Any]) -> "Left":
        """What a run has left."""
        result = json.loads((Path(frame["folder"]) / NAME).read_bytes())
        assert result["outcome"] == "COMPLETED", result["nodes"]
        (stored,) = (Path(frame["folder"]) / ARTEFACTS).rglob("run.json")
        document = json.loads(stored.read_bytes())
        return Left(
            proof=document["proof"],
            differences={
                folder.name: sorted(map(difference_bytes, read_differences(folder)))
                for folder in (stored.parent / "differences").iterdir()
            },
            digests=[each.read_bytes() for each in stored.parent.glob("digests.parquet")],
            strategies=document["run"]["execution"]["strategies"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    proof: Mapping[str, Any]
    differences: Mapping[str, list[bytes]]
    digests: list[bytes]
    strategies: list[dict[str, Any]]


class Child:
    """The worker's child, as its supervisor holds it."""

    def __init__(self, hello: Mapping[str, Any]) -> None:
        inherited = process_environment()
        environment = {name: inherited[name] for name in INHERITED if name in inherited}
        self._process = SpawnedChild([sys.executable, "-m", CHILD], environment)
        self._process.start(canonical_json(dict(hello)))

    def begin(self, frame: Mapping[str, Any]) -> None:
        self._process.send(canonical_json(dict(frame)))

    def receive(self, kind: str, *, within_s: float = 120) -> None:
        """Return once the child has said so."""
        ends = time.monotonic() + within_s
        while time.monotonic() < ends and self._process.ended() is None:
            said = self._process.frames(timedelta(seconds=1))
            if said is not None and said["type"] == kind:
                return
        raise AssertionError(f"no frame {kind!r}: {self._process.ended()}")

    def kill(self) -> None:
        self._process.kill()


@pytest.fixture
def cluster(tmp_path: Path, spark_runtime: SparkRuntime) -> Iterator[SparkCluster]:
    home = Path(str(spark_runtime.settings.java_home))
    options = spark_runtime.settings.java_options
    with running_cluster(
        tmp_path / "cluster", home, workers=2, memory_mb=512, java_options=options
    ) as machines:
        yield machines


@pytest.mark.case("F12")
@pytest.mark.case("P60")
def test_a_cluster_proves_what_one_machine_proves_even_when_it_loses_a_node(
    tmp_path: Path, spark_runtime: SparkRuntime, cluster: SparkCluster
) -> None:
    written(tmp_path)
    place = Place(sources=tmp_path, folder=tmp_path / "joined")
    spark = Spark(
        master=cluster.url,
        secret=SecretStr(cluster.secret),
        driver_host=ADDRESS,
        driver_memory="600m",
        executor_memory="512m",
        max_cores=2,
    )
    child = Child(place.hello(spark_runtime.settings, spark))
    try:
        alone = Place(sources=tmp_path, folder=tmp_path / "alone")
        expected = [_on_this_machine(alone, spark_runtime, spec) for spec in (COUNTED, SEALED)]
        child.receive(READY)
        frames = [place.frame("counted", COUNTED), place.frame("sealed", SEALED)]
        for frame, lose in zip(frames, (cluster.lose_executors, cluster.lose), strict=True):
            _lose_in(cluster, lambda: child.begin(frame), lose)  # noqa: B023 - called at once
            child.receive(FINISHED)
    finally:
        child.kill()
    results = [place.left(frame) for frame in frames]
    assert [each.proof for each in results] == [each.proof for each in expected]
    assert [each.differences for each in results] == [each.differences for each in expected]
    assert all(rows for each in expected for rows in each.differences.values())
    assert [each.digests for each in results] == [each.digests for each in expected]
    chosen = [[each["chosen"] for each in left.strategies] for left in (*expected, *results)]
    assert chosen == [["narrow", "full"], ["full", "full"]] * 2


def _on_this_machine(place: Place, runtime: SparkRuntime, spec: Mapping[str, Any]) -> Left:
    hello = place.hello(runtime.settings, Spark(master="local[2]"))
    frame = place.frame("-".join(spec["execution"]), spec)
    reporter = FrameReporter(SupervisorChannel(BytesIO(), BytesIO()))
    work(read_assignment(frame), tools_of(Reader(hello), runtime, Stopping()), reporter)
    return place.left(frame)


def _lose_in(
    cluster: SparkCluster, begin: Callable[[], None], lose: Callable[[Node], None]
) -> None:
    """One node holds a task of the run for ever; the other is lost after it has done its task.

    So the run cannot have ended, and what was shuffled is gone with those that had it.
    """
    lost, holding = cluster.nodes
    before = lost.outputs()
    holding.freeze()
    begin()
    _until(lambda: bool(lost.outputs() - before))
    lose(lost)
    holding.thaw()


def _until(reached: Callable[[], bool]) -> None:
    ends = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < ends, "the node did nothing"
        time.sleep(0.02)  # noqa: TID251  files of another process have no signal here
