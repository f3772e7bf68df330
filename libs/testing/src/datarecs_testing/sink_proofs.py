"""`datarecs compare` of a topic with the table of a sink, in a folder with both."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from datarecs_cli.main import run
from datarecs_cli.sink_proof import proof_documents, yaml_of
from datarecs_core.sink.proof import ProofOptions
from datarecs_testing.database import PreparedDatabase
from datarecs_testing.service_process import ServiceProcess
from datarecs_testing.sink_process import SinkHouse, wait_until
from datarecs_testing.stack import KafkaBroker

Shown = pytest.CaptureFixture[str]
WHOLE = ProofOptions()
APPEND: Mapping[str, object] = {}
ID = NestedField(1, "id", LongType())
CONNECTIONS = """\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: events}}
spec:
  type: kafka
  config: {{brokers: [{brokers}], security: SASL_PLAINTEXT, user: {user}}}
  auth: {{password: "env:TOPIC_PASSWORD"}}
---
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: lake}}
spec: {{type: iceberg, config: {{catalog: {{type: sql, name: lake, sqlite: lake/catalog.db}}}}}}
---
"""


def proof(
    house: SinkHouse,
    snapshot: int | None = None,
    options: ProofOptions = WHOLE,
    spec: Mapping[str, object] = APPEND,
) -> Path:
    """The job of the proof with its connections, as a file."""
    text = CONNECTIONS.format(
        brokers=", ".join(f'"{one}"' for one in house.broker.bootstrap.split(",")),
        user=house.broker.username,
    )
    resource = {"metadata": {"name": "orders"}, "spec": house.sink_spec(**spec)}
    documents: Any = proof_documents(resource, options)
    if snapshot is not None:
        documents[0]["spec"]["sources"][1]["snapshot"] = {"snapshot_id": snapshot}
    file = house.folder / "proof.yaml"
    file.write_text(text + yaml_of(documents))
    return file


def compare(
    house: SinkHouse,
    shown: Shown,
    snapshot: int | None = None,
    options: ProofOptions = WHOLE,
    spec: Mapping[str, object] = APPEND,
) -> tuple[int, str]:
    """Exit code, and everything that was printed, as one line."""
    code = run(["compare", str(proof(house, snapshot, options, spec)), "--out", "out"])
    return code, " ".join(" ".join(shown.readouterr()).split())


def table_of(house: SinkHouse) -> Table:
    table = house.table()
    assert table is not None
    return table


def wait_for_rows(house: SinkHouse, service: ServiceProcess, count: int) -> None:
    wait_until(lambda: house.rows()[0] >= count, service.text, seconds=120)


def has_rows(house: SinkHouse, count: int) -> bool:
    snapshot = table_of(house).current_snapshot()
    total = None if snapshot is None or snapshot.summary is None else snapshot.summary
    return total is not None and int(total["total-records"] or 0) >= count


@contextmanager
def proof_house(
    database: PreparedDatabase, broker: KafkaBroker, folder: Path, patch: pytest.MonkeyPatch
) -> Iterator[SinkHouse]:
    """A topic and a lake in the working folder, as one who runs `datarecs compare` has them."""
    patch.chdir(folder)
    patch.setenv("LC_ALL", "C.UTF-8")
    patch.setenv("TOPIC_PASSWORD", broker.password)
    with ExitStack() as stack:
        yield SinkHouse(database=database, broker=broker, folder=folder, stack=stack)
