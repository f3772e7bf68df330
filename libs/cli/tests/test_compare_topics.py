"""`datarecs` over a topic of a real broker, beside files."""

import json
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

from datarecs_cli.main import run
from datarecs_testing.stack import KafkaBroker

pytestmark = pytest.mark.integration
Shown = pytest.CaptureFixture[str]
JOB = """\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: cluster}}
spec:
  type: kafka
  config: {{brokers: ["{bootstrap}"], security: SASL_PLAINTEXT, user: {user}}}
  auth: {{password: "env:TOPIC_PASSWORD"}}
---
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {{name: landing}}
spec:
  sources:
    - name: landing
      kind: kafka
      connection: cluster
      topic: {topic}
      {more}
    - {{name: export, kind: csv, path: export.csv}}
  stages:
    - {{name: rows, type: row, dimensions: [id], measures: "*"}}
"""
ROWS = 500


class Landing:
    """A topic with the rows of `export.csv`, and the job that compares both."""

    def __init__(self, broker: KafkaBroker, folder: Path) -> None:
        self.broker, self.folder = broker, folder
        self.topic = f"orders-{secrets.token_hex(4)}"
        self.rows = [{"id": n, "amount": n * 1.5, "who": f"w{n % 7}"} for n in range(ROWS)]
        lines = [f"{row['id']},{row['amount']},{row['who']}" for row in self.rows]
        (folder / "export.csv").write_text("\n".join(["id,amount,who", *lines]) + "\n")
        with KafkaAdminClient(**broker.access.settings()) as admin:
            admin.create_topics(
                {self.topic: {"num_partitions": 3, "replication_factor": 1}},
                wait_for_metadata=True,
            )

    def write(self, rows: Sequence[object]) -> None:
        with KafkaProducer(**self.broker.access.settings(), acks="all") as producer:
            for number, row in enumerate(rows):
                value = row if isinstance(row, bytes) else json.dumps(row).encode()
                key = str(row["id"]) if isinstance(row, dict) else "k"
                producer.send(self.topic, value, key.encode(), partition=number % 3)
            producer.flush()

    def job(self, more: str = "options: {}") -> None:
        text = JOB.format(
            bootstrap=self.broker.bootstrap,
            user=self.broker.username,
            topic=self.topic,
            more=more,
        )
        (self.folder / "job.yaml").write_text(text)


@pytest.fixture
def landing(kafka_broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Landing:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("TOPIC_PASSWORD", kafka_broker.password)
    return Landing(kafka_broker, tmp_path)


def output_of(shown: Shown, landing: Landing) -> str:
    """Everything that was printed, as one line; never the password."""
    out, err = shown.readouterr()
    assert landing.broker.password not in out + err
    return " ".join(f"{out} {err}".split())


@pytest.mark.case("P68")
def test_a_topic_equals_a_file_and_a_lost_record_is_named(landing: Landing, capsys: Shown) -> None:
    landing.write([row for row in landing.rows if row["id"] != 317])
    landing.job()
    assert run(["compare", "job.yaml", "--out", "out"]) == 1
    text = output_of(capsys, landing)
    assert "UNMATCHED" in text
    assert "1 only in export" in text
    assert "317" in Path("out/report.html").read_text()
    for file in Path("out").rglob("*"):
        if file.is_file():
            assert landing.broker.password.encode() not in file.read_bytes()
    landing.write([landing.rows[317]])
    assert run(["compare", "job.yaml"]) == 0
    assert "● MATCHED 500 of 500 groups within tolerance" in output_of(capsys, landing)


@pytest.mark.case("P68")
def test_a_changed_topic_is_folded_to_its_last_records(landing: Landing, capsys: Shown) -> None:
    landing.write([{**row, "amount": 0} for row in landing.rows])
    landing.write(landing.rows)
    landing.job("options: {fold: latest_by_key}")
    assert run(["compare", "job.yaml"]) == 0
    assert "MATCHED 500 of 500" in output_of(capsys, landing)


def test_a_plan_shows_the_pinned_offsets(landing: Landing, capsys: Shown) -> None:
    landing.write(landing.rows)
    landing.job('snapshot: {from: {offsets: {"0": 10}}}')
    assert run(["plan", "job.yaml"]) == 0
    text = output_of(capsys, landing)
    assert f"kafka {landing.topic} over connection cluster" in text
    assert f"490 offsets of topic {landing.topic}, committed records" in text
    assert "partition 0: [10, 167)" in text
    assert run(["validate", "job.yaml"]) == 0
    assert run(["doctor", "job.yaml"]) == 0
    assert "3 partitions, 490 offsets to read" in output_of(capsys, landing)


@pytest.mark.case("P68")
def test_the_offsets_are_part_of_the_proof(landing: Landing, capsys: Shown) -> None:
    landing.write(landing.rows)
    landing.job()
    assert run(["compare", "job.yaml", "--out", "out"]) == 0
    output_of(capsys, landing)
    (document,) = Path("out").rglob("run.json")
    pins = list(_pins(json.loads(document.read_text())))
    assert pins
    assert pins[0]["topic"] == landing.topic
    assert [each["end"] for each in pins[0]["ranges"]] == ["167", "167", "166"]


def _pins(document: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401  a value of JSON
    match document:
        case {"kind": "topic_offsets"}:
            yield document
        case dict():
            for value in document.values():
                yield from _pins(value)
        case list():
            for value in document:
                yield from _pins(value)


def test_a_value_that_is_not_json_ends_the_run_with_its_place(
    landing: Landing, capsys: Shown
) -> None:
    landing.write([b"not-json-but-private"])
    landing.job()
    assert run(["compare", "job.yaml"]) == 3
    text = output_of(capsys, landing)
    assert "DR3009" in text
    assert f"topic {landing.topic} partition 0 offset 0" in text
    assert "private" not in text


def test_a_topic_that_is_not_there_is_named(landing: Landing, capsys: Shown) -> None:
    landing.topic = "no-such-topic"
    landing.job()
    assert run(["compare", "job.yaml"]) == 3
    assert "no-such-topic" in output_of(capsys, landing)
    assert run(["doctor", "job.yaml"]) != 0


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("options: {decode: protobuf}", "decode"),
        ("snapshot: {from: latest}", "from"),
        ("snapshot: {to: {offsets: {x: 1}}}", "partition"),
        ("snapshot: {from: {timestamp: yesterday}}", "timestamp"),
        ("snapshot: {to: watermark}", "watermark is that of the one iceberg source of a job"),
        ("snapshot: {from: watermark}", "from"),
        ("snapshot: {from: {}}", "give exactly one of timestamp and offsets"),
        ("options: {decode: text, schema: {a: int}}", "the one column `value`"),
        ("path: x", "path"),
        ("partition: id", "not cut into ranges"),
    ],
)
def test_faults_of_a_topic_are_reported_without_a_broker(
    landing: Landing, capsys: Shown, more: str, words: str
) -> None:
    landing.job(more)
    assert run(["validate", "job.yaml"]) == 2
    assert words in output_of(capsys, landing)
