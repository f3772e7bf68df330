"""A sink on a running platform says whether its table is proven, by the runs of its own proof."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from datarecs_cli.stack.credentials import LocalSecrets
from datarecs_connectors.iceberg.local_lake import LocalLake
from datarecs_kafka import sink_logins
from datarecs_kafka.access import BrokerAccess

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
TOPIC, LOGIN, SINK, TABLE = "proven.orders", "proven-sink", "proven-orders", "proven.orders"
PARTITIONS, RECORDS = 2, 200
LOST = (1, 17)
"""Partition and offset of the row that is deleted."""
DECLARED = """\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: proven-cluster}}
spec:
  type: kafka
  config: {{brokers: ["{bootstrap}"], security: SASL_PLAINTEXT, user: {login}}}
  auth: {{password: "file:{secret}"}}
---
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: proven-lake}}
spec:
  type: iceberg
  config: {{catalog: {{type: sql, name: lake, sqlite: "{catalog}"}}}}
---
apiVersion: datarecs.io/v1
kind: SinkTable
metadata: {{name: {sink}}}
spec:
  connection: proven-cluster
  topics: [{topic}]
  table: {{catalog: proven-lake, namespace: [proven], name: orders}}
  auto_create: true
  commit: {{interval: PT1S, timeout: PT1S}}
  verify: [{sink}-proof]
"""


@pytest.fixture
def lake(platform: Any) -> LocalLake:  # noqa: ANN401  the platform of this folder's conftest
    """An empty catalog, and a sink without its proof that has landed every record of its topic."""
    home = platform.folder / ".datarecs"
    tenant = tomllib.loads((home / "credentials.toml").read_text())["local"]["tenant_id"]
    secrets = home / "tenant-secrets" / tenant
    secrets.mkdir(mode=0o700, parents=True, exist_ok=True)
    password = LocalSecrets(secrets).password(LOGIN)
    broker = _broker(home)
    sink_logins.create_topic(broker, TOPIC, partitions=PARTITIONS)
    sink_logins.create_login(broker, LOGIN, [TOPIC], password=password)
    orders = ({"id": number, "amount": number % 7 + 0.5} for number in range(RECORDS))
    sink_logins.send_values(broker, TOPIC, (json.dumps(one).encode() for one in orders))
    lake = LocalLake(folder=platform.folder / "proven-lake", name="lake")
    lake.create()
    declared = DECLARED.format(
        bootstrap=broker.bootstrap,
        login=LOGIN,
        secret=secrets / LOGIN,
        catalog=lake.file,
        sink=SINK,
        topic=TOPIC,
    )
    platform.apply("proven.yaml", declared)
    wait_for(platform, "Committing")
    assert lake.count(TABLE) == RECORDS
    return lake


def _broker(home: Path) -> BrokerAccess:
    port = json.loads((home / "state.json").read_text())["ports"]["kafka"]
    password = (home / "secrets/kafka-stack").read_text()
    return BrokerAccess(bootstrap=f"127.0.0.1:{port}", username="stack", password=password)


def wait_for(platform: Any, claim: str) -> Mapping[str, Any]:  # noqa: ANN401  as above
    """The condition, once it is what is claimed."""
    waited = platform.datarecs(
        *("wait", "sink-table", SINK, "--for", f"condition={claim}", "--timeout", "180")
    )
    assert waited.returncode == 0, waited.stdout + waited.stderr
    status = platform.client.get(f"/api/v1/sink-tables/{SINK}").json()["status"]
    name, _, _ = claim.partition("=")
    (condition,) = (one for one in status["conditions"] if one["type"] == name)
    return {**condition, "last_proofs": status.get("last_proofs")}


@pytest.mark.case("I63")
def test_a_sink_is_proven_until_a_row_of_its_table_is_lost(
    platform: Any,  # noqa: ANN401  as above
    lake: LocalLake,
) -> None:
    assert wait_for(platform, "Proven=Unknown")["reason"] == "JobMissing"
    printed = platform.datarecs("sink", "proof", SINK)
    assert printed.returncode == 0, printed.stderr
    platform.apply("proven-proof.yaml", printed.stdout)
    first = platform.ended(platform.trigger(f"{SINK}-proof"))
    assert first["result"] == "MATCHED", first
    claim = wait_for(platform, "Proven")
    assert (claim["reason"], first["run_id"] in claim["message"]) == ("Matched", True)
    partition, offset = LOST
    lake.delete_row(TABLE, {"_kafka_partition": partition, "_kafka_offset": offset})
    second = platform.ended(platform.trigger(f"{SINK}-proof"))
    assert second["result"] == "UNMATCHED", second
    claim = wait_for(platform, "Proven=False")
    assert claim["reason"] == "Unmatched"
    assert f"run {second['run_id']} of job {SINK}-proof ended UNMATCHED at" in claim["message"]
    assert " with 1 difference; see" in claim["message"]
    (proof,) = claim["last_proofs"]
    assert (proof["run_id"], proof["result"]) == (second["run_id"], "UNMATCHED")
    (lost,) = platform.client.get(f"/api/v1/runs/{second['run_id']}/mismatches").json()["items"]
    key = {name: str(value) for name, value in lost["key"].items()}
    assert key == {
        "_kafka_topic": TOPIC,
        "_kafka_partition": str(partition),
        "_kafka_offset": str(offset),
    }
    assert wait_for(platform, "Ready")["status"] == "True"
    described = platform.datarecs("describe", "sink-table", SINK).stdout
    assert f"last proof       {SINK}-proof UNMATCHED" in described
