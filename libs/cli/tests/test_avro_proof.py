"""Records in Avro, landed by the service and proven against their topic by `datarecs compare`."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from datarecs_cli.main import run
from datarecs_cli.sink_proof import proof_documents, yaml_of
from datarecs_core.resources.resource import Kind
from datarecs_core.sink.proof import ProofOptions
from datarecs_testing.avro_values import confluent, record_of
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.schema_registry import Registry, running_registry
from datarecs_testing.service_process import running_service
from datarecs_testing.sink_process import MODULE, SinkHouse, wait_until
from datarecs_testing.stack import KafkaBroker

pytestmark = pytest.mark.integration
Shown = pytest.CaptureFixture[str]
CONNECTIONS = """\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: events}}
spec:
  type: kafka
  config:
    brokers: [{brokers}]
    security: SASL_PLAINTEXT
    user: {user}
    registry: {{url: "{registry}", username: {reader}}}
  auth: {{password: "env:TOPIC_PASSWORD", registry_password: "env:REGISTRY_PASSWORD"}}
---
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: lake}}
spec: {{type: iceberg, config: {{catalog: {{type: sql, name: lake, sqlite: lake/catalog.db}}}}}}
---
"""


def logical(kind: str, name: str, **facts: object) -> dict[str, object]:
    return {"type": kind, "logicalType": name, **facts}


WHO = record_of({"name": "string", "age": ["null", "int"]}, "Who")
FIELDS: Mapping[str, object] = {
    "id": "long",
    "is_paid": ["null", "boolean"],
    "small": "int",
    "single": "float",
    "wide": "double",
    "amount": logical("bytes", "decimal", precision=20, scale=8),
    "fixed_amount": {
        "type": "fixed",
        "name": "Amount",
        "size": 9,
        "logicalType": "decimal",
        "precision": 10,
        "scale": 2,
    },
    "huge": logical("bytes", "decimal", precision=60, scale=0),
    "name": "string",
    "raw": "bytes",
    "four": {"type": "fixed", "name": "Four", "size": 4},
    "state": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]},
    "uid": logical("string", "uuid"),
    "day": logical("int", "date"),
    "clock": logical("int", "time-millis"),
    "fine_clock": logical("long", "time-micros"),
    "at": logical("long", "timestamp-millis"),
    "fine_at": logical("long", "timestamp-micros"),
    "finest_at": logical("long", "timestamp-nanos"),
    "local_at": logical("long", "local-timestamp-micros"),
    "several": ["null", "int", "string", "double", WHO],
    "who": ["null", "Who"],
    "tags": {"type": "array", "items": "string"},
    "marks": {"type": "map", "values": "long"},
}
OLDER = record_of(FIELDS, "Order")
NEWER = record_of(
    {**FIELDS, "rate": ["null", logical("bytes", "decimal", precision=5, scale=4)]}, "Order"
)
BRANCHES = ((0, None), (1, -5), (2, 'say "x"'), (3, 1e22), (4, {"name": "é", "age": (1, 7)}))


def an_order(number: int) -> dict[str, Any]:
    """Values of every type, with the ends of their ranges among them."""
    wide = (0.1, -0.0, 1e308, float("inf"), 5e-324)[number % 5]
    return {
        "id": number,
        "is_paid": (0, None) if number % 3 else (1, number % 2 == 0),
        "small": (-(2**31), 2**31 - 1, number)[number % 3],
        "single": (0.5, -1.25, float("inf"))[number % 3],
        "wide": wide,
        "amount": (number - 40).to_bytes(4, signed=True),
        "fixed_amount": (7 - number).to_bytes(9, signed=True),
        "huge": (10**50 + number).to_bytes(22, signed=True),
        "name": f"order {number} é\U0001f600",
        "raw": bytes([number % 256, 0]),
        "four": bytes(3) + bytes([number % 256]),
        "state": ("OPEN", "PAID")[number % 2],
        "uid": str(UUID(int=number)),
        "day": number * 100 - 5_000,
        "clock": number * 1_000 + 1,
        "fine_clock": 86_399_999_999 - number,
        "at": 1_767_225_600_000 + number,
        "fine_at": -number - 1,
        "finest_at": (1_767_225_600_000_000 + number) * 1_000,
        "local_at": number,
        "several": BRANCHES[number % 5],
        "who": (1, {"name": "a", "age": (0, None)}) if number % 2 else (0, None),
        "tags": ["x"] * (number % 3),
        "marks": {"k": number},
        "rate": (1, number.to_bytes(2)) if number % 2 else (0, None),
    }


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as running:
        yield running


@pytest.fixture
def house(
    private_database: PreparedDatabase,
    kafka_broker: KafkaBroker,
    registry: Registry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[SinkHouse]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("TOPIC_PASSWORD", kafka_broker.password)
    monkeypatch.setenv("REGISTRY_PASSWORD", registry.login[1])
    with ExitStack() as stack:
        yield SinkHouse(
            database=private_database,
            broker=kafka_broker,
            folder=tmp_path,
            registry=registry,
            stack=stack,
        )


def proof(house: SinkHouse, spec: Mapping[str, object], excluded: Sequence[str]) -> Path:
    """The job of the proof with its connections, as a file."""
    assert house.registry is not None
    text = CONNECTIONS.format(
        brokers=", ".join(f'"{one}"' for one in house.broker.bootstrap.split(",")),
        user=house.broker.username,
        registry=house.registry.url,
        reader=house.registry.login[0],
    )
    resource = {"metadata": {"name": "orders"}, "spec": spec}
    documents = proof_documents(resource, ProofOptions(excluded=excluded))
    file = house.folder / "proof.yaml"
    file.write_text(text + yaml_of(documents))
    return file


@pytest.mark.case("I41")
@pytest.mark.case("I63")
def test_a_table_of_avro_is_created_follows_its_schema_and_equals_its_topic(
    house: SinkHouse, registry: Registry, capsys: Shown
) -> None:
    first = registry.register(OLDER, subject="orders-value")
    spec = house.sink_spec(
        decode={"value": "avro"}, partition_by=["hour(at)"], evolve="add", id_columns=["id"]
    )
    uid = house.declare(Kind.SINK_TABLE, "orders", spec)
    house.want(uid)
    house.send_values(confluent(first, OLDER, an_order(number)) for number in range(60))
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: house.rows()[0] >= 60, service.text)
        second = registry.register(NEWER, subject="orders-value")
        registry.is_down = True
        house.send_values(confluent(second, NEWER, an_order(number)) for number in range(60, 100))
        wait_until(lambda: hindered(house, uid), service.text)
        registry.is_down = False
        wait_until(lambda: house.rows()[0] >= 100, service.text)
        assert service.stop() == 0, service.text()
        assert registry.login[1] not in service.text()
    assert house.rows() == (100, 100)
    table = house.table()
    assert table is not None
    assert str(table.schema().find_field("rate").field_type) == "decimal(5, 4)"
    assert [str(one.transform) for one in table.spec().fields] == ["hour"]
    job = str(proof(house, spec, ("who", "tags", "marks")))
    assert run(["doctor", job, "--no-color"]) == 0
    assert "is a schema registry" in " ".join(capsys.readouterr().out.split())
    code = run(["compare", job, "--out", "out"])
    text = " ".join(" ".join(capsys.readouterr()).split())
    assert (code, "MATCHED 100 of 100" in text) == (0, True), text
    table.delete("id < 60")  # whole files: pyiceberg divides none by hours
    code = run(["compare", job, "--out", "out"])
    text = " ".join(" ".join(capsys.readouterr()).split())
    assert (code, "UNMATCHED" in text) == (1, True), text


def hindered(house: SinkHouse, uid: Any) -> bool:  # noqa: ANN401  an id
    """Whether the task waits for the registry; the sink has not stopped."""
    report = house.status(uid).tasks[0].report
    return report is not None and report.error_code == "CONNECTION_FAILED" and not report.is_halted


def test_texts_and_bytes_are_one_column(house: SinkHouse, capsys: Shown) -> None:
    spec = house.sink_spec(decode={"value": "text"})
    uid = house.declare(Kind.SINK_TABLE, "orders", spec)
    house.want(uid)
    house.send_values(f"line {number} é".encode() for number in range(10))
    with running_service(MODULE, house.settings, log=house.folder / "log") as service:
        wait_until(lambda: has_rows(house, 10), service.text)
        assert service.stop() == 0, service.text()
    code = run(["compare", str(proof(house, spec, ())), "--out", "out"])
    text = " ".join(" ".join(capsys.readouterr()).split())
    assert (code, "MATCHED 10 of 10" in text) == (0, True), text


def has_rows(house: SinkHouse, count: int) -> bool:
    table = house.table()
    return table is not None and table.scan().to_arrow().num_rows == count
