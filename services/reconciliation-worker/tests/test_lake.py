"""A lake table in the child: pinned there, read there, and sealed with its snapshot."""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from datarecs_application.assignments import Prepared, Preparing
from datarecs_application.catalogued_sources import Catalogued
from datarecs_application.ports.comparing import Connector, Engine
from datarecs_connectors.extracted import rows_of
from datarecs_connectors.registry import open_connector
from datarecs_core.captures.catalogued import CataloguedTable
from datarecs_core.catalog.layout import run_document
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.documents import to_document
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.connection import (
    Connection,
    ConnectionType,
    FilesConfig,
    KafkaConfig,
    KafkaSecurity,
)
from datarecs_core.runs.result_file import ARTEFACTS, NAME
from datarecs_core.values import RunId, instant_text
from datarecs_memory.engine import MemoryEngine
from datarecs_reconciliation_worker.frame_reporter import FrameReporter
from datarecs_reconciliation_worker.work import Allowance, Tools, read_assignment, work
from datarecs_reports.html import run_report
from datarecs_runtime.frames import SupervisorChannel
from datarecs_specs.documents import StoredSpecs, job_of
from datarecs_testing.builders import A_TENANT, NOON, a_run, an_id
from datarecs_testing.clock import ManualClock
from datarecs_testing.fields.tiny_topics import open_tiny_topic
from datarecs_testing.lake import Lake, a_lake, delete_equal
from datarecs_testing.platform import NoSecrets

RUN_ID = RunId(an_id())
SPEC = {
    "sources": [
        {"name": "ledger", "kind": "csv", "connection": "here", "path": "ledger.csv"},
        {"name": "table", "kind": "iceberg", "connection": "lake", "relation": "books.words"},
    ],
    "stages": [
        {"name": "how-many", "type": "counts"},
        {"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"},
    ],
}
PROOF = {
    "sources": [
        {
            "name": "topic",
            "kind": "kafka",
            "connection": "cluster",
            "topic": "orders",
            "snapshot": {"to": "watermark"},
        },
        {"name": "table", "kind": "iceberg", "connection": "lake", "relation": "books.words"},
    ],
    "stages": [{"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"}],
}
CLUSTER = Connection(
    type=ConnectionType.KAFKA,
    config=KafkaConfig(brokers=("127.0.0.1:9092",), security=KafkaSecurity.PLAINTEXT),
)
SINK = {
    "datarecs.sink.lineage": 32 * "0",
    "kafka.connect.commit-id": str(an_id()),
    "datarecs.sink.source-ends": '{"orders": {"0": 2}}',
}
"""What a snapshot of a sink states."""
WORDS = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "word", StringType(), required=False),
)


@dataclass
class Child:
    lake: Lake
    opened: dict[str, Connector] = field(default_factory=dict)
    clock: ManualClock = field(default_factory=ManualClock)
    catalogued: Mapping[str, CataloguedTable] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=lambda: SPEC)

    def connect(
        self,
        allowance: Allowance,
        source: Source,
        connection: Connection | None,
        secrets: Mapping[str, str],
    ) -> Connector:
        if source.kind is SourceKind.KAFKA:
            self.opened[source.name] = open_tiny_topic(
                source, connection, self.lake.folder, self.clock.now
            )
            return self.opened[source.name]
        around = replace(self.lake.surroundings, catalogued=allowance.catalogued)
        self.opened[source.name] = open_connector(source, connection, secrets, surroundings=around)
        return self.opened[source.name]

    def engine(self, _plan: ComparisonPlan, _key: bytes, _directory: Path) -> Engine:
        return MemoryEngine(lambda scan: rows_of(self.opened[scan.source], scan))

    def work(self) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Result file and, if there is one, run.json."""
        attempt = self.lake.folder / "attempt"
        attempt.mkdir()
        secrets = attempt / "credentials.json"
        secrets.write_text(json.dumps({"break_key": "00" * 32}))
        files = Connection(type=ConnectionType.FILES, config=FilesConfig(root="."))
        connections = {"here": files, "lake": self.lake.connection, "cluster": CLUSTER}
        frame = {
            "tenant_id": str(A_TENANT),
            "run_id": str(RUN_ID),
            "job_id": str(an_id()),
            "job": "ledger-vs-table",
            "spec_hash": "sha256:" + 64 * "0",
            "spec": self.spec,
            "parameters": {},
            "attempt": 1,
            "lease_epoch": 7,
            "started_at": None,
            "connections": {name: to_document(one) for name, one in connections.items()},
            "pins": {"by_source": {}},
            "folder": str(attempt),
            "triggered_by": "ana",
            "credentials_file": str(secrets),
        }
        if self.catalogued:
            frame["catalogued"] = to_document(Catalogued(by_source=self.catalogued))
        tools = Tools(
            connect=self.connect,
            engine=self.engine,
            clock=self.clock,
            versions={"tzdata": "2026f"},
        )
        channel = SupervisorChannel(io.BytesIO(), io.BytesIO())
        work(read_assignment(frame), tools, FrameReporter(channel))
        result = json.loads((attempt / NAME).read_bytes())
        if result["outcome"] != "COMPLETED":
            return result, None
        document = attempt / ARTEFACTS / run_document(A_TENANT, RUN_ID)
        return result, json.loads(document.read_bytes())


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    with ExitStack() as closing:
        lake = a_lake(tmp_path / "lake", closing)
        (lake.folder / "ledger.csv").write_text("id,word\n1,a\n2,b\n")
        table = lake.table("words", WORDS, pa.table({"id": [1, 2, 3], "word": ["a", "b", "c"]}))
        delete_equal(table, pa.table({"id": [3]}))
        yield Child(lake)


def test_a_table_without_its_deleted_rows_matches_and_its_snapshot_is_sealed(
    child: Child,
) -> None:
    result, document = child.work()
    assert (result["outcome"], result["result"]) == ("COMPLETED", "MATCHED")
    assert document is not None
    pin = document["proof"]["sources"][1]["pin"]
    current = child.lake.catalog.load_table("books.words").current_snapshot()
    assert current is not None
    assert pin["snapshot_id"] == str(current.snapshot_id)
    assert str(child.lake.folder) not in json.dumps(document["proof"])


def test_a_captured_snapshot_is_named(child: Child) -> None:
    current = child.lake.catalog.load_table("books.words").current_snapshot()
    assert current is not None
    table_id, number = an_id(), str(current.snapshot_id)
    child.catalogued = {
        "table": CataloguedTable(table_id=table_id, name="words", snapshots={number: NOON})
    }
    _, document = child.work()
    assert document is not None
    ledger, table = document["proof"]["sources"]
    assert "catalogued" not in ledger["pin"]
    assert table["pin"]["catalogued"] == {
        "table_id": str(table_id),
        "snapshot_id": number,
        "committed_at": instant_text(NOON),
    }
    page = run_report(
        document, {"run_id": str(RUN_ID), "job": "ledger-vs-table"}, samples=True
    ).decode()
    assert f"snapshot {number} of the catalogue, committed" in page


def test_a_topic_is_read_up_to_the_watermark_of_the_table_that_the_child_pins(
    child: Child,
) -> None:
    (child.lake.folder / "one.json").write_text(
        "\n".join(json.dumps({"id": number, "word": "w"}) for number in range(4))
    )
    table = child.lake.catalog.load_table("books.words")
    table.overwrite(pa.table({"id": [0, 1], "word": ["w", "w"]}), snapshot_properties=SINK)
    written = child.lake.catalog.load_table("books.words").current_snapshot()
    table.refresh().overwrite(table.scan().to_arrow())  # by another writer
    child.spec = PROOF
    result, document = child.work()
    assert (result["outcome"], result["result"]) == ("COMPLETED", "MATCHED")
    assert document is not None
    assert written is not None
    pin = document["proof"]["sources"][0]["pin"]
    assert [each["end"] for each in pin["ranges"]] == ["2", "0"]
    assert pin["table_snapshot"] == str(written.snapshot_id)
    page = run_report(document, {"run_id": str(RUN_ID), "job": "proof"}, samples=True).decode()
    assert "2 offsets of topic orders, committed records" in page
    assert f"table snapshot {written.snapshot_id}" in page


def test_a_table_without_a_sink_leaves_no_verdict_about_a_topic(child: Child) -> None:
    child.spec = PROOF
    result, document = child.work()
    assert (result["outcome"], document) == ("ERRORED", None)
    assert "SNAPSHOT_LOST" in json.dumps(result)
    assert "no sink has written its snapshots" in json.dumps(result)


def test_a_table_that_is_not_there_leaves_no_verdict(child: Child) -> None:
    child.lake.catalog.drop_table("books.words")
    result, document = child.work()
    assert (result["outcome"], document) == ("ERRORED", None)
    assert "books.words" in json.dumps(result)
    assert "QUERY_ERROR" in json.dumps(result)


@pytest.mark.parametrize("spec", [SPEC, PROOF])
def test_the_supervisor_opens_no_table(child: Child, spec: Mapping[str, Any]) -> None:
    """It holds the platform's credentials, and metadata is a file of the customer."""

    def connect(source: Source, _connection: Connection | None, _secrets: object) -> Connector:
        raise AssertionError(source.name)

    secured = replace(child.lake.connection, auth={"password": "env:DATARECS_CONN_A_LAKE"})
    login = replace(CLUSTER, auth={"password": "env:DATARECS_CONN_A_CLUSTER"})
    connections = {"lake": secured, "cluster": login}
    prepared = Prepared(run=a_run(), job=job_of("job", spec), connections=connections, secrets={})
    preparing = Preparing(
        decode=StoredSpecs(), secrets=NoSecrets(), connect=connect, break_key=lambda _: "00"
    )
    with ExitStack() as held:
        assert preparing.pin(prepared, held) == {}
