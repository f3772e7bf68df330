"""`datarecs compare` and `init` over objects in a store, with the environment of the user."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_cli.main import run
from datarecs_cli.stack.java import Java
from datarecs_testing.command_line import run_command
from datarecs_testing.object_store import ADMIN, ObjectServer

pytestmark = pytest.mark.integration
Shown = pytest.CaptureFixture[str]


@pytest.fixture
def bucket(object_server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """`a.parquet` in a bucket; `b.csv` in the working folder, with one other amount."""
    monkeypatch.chdir(tmp_path)
    key, _, secret = ADMIN.partition(":")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    monkeypatch.setenv("AWS_ENDPOINT_URL", object_server.endpoint)
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    name = object_server.create_folder()
    pq.write_table(pa.table({"id": [1, 2, 3], "amount": [10, 20, 30]}), "a.parquet")
    client = object_server.client(name)
    client.put("exports/a.parquet", Path("a.parquet"))
    client.put("exports/b.csv", b"id,amount\n1,10\n2,20\n3,31\n")
    Path("b.csv").write_text("id,amount\n1,10\n2,20\n3,31\n")
    return name


@pytest.mark.parametrize("engine", ["kernel", "reference"])
@pytest.mark.parametrize("second", ["b.csv", "s3://{}/exports/*.csv"])
def test_an_object_is_compared_with_a_file(bucket: str, engine: str, second: str) -> None:
    places = [f"s3://{bucket}/exports/a.parquet", second.format(bucket)]
    options = ["--key", "id", "--engine", engine, "--out", "out"]
    assert run(["compare", *places, *options]) == 1
    document = json.loads(Path("out/run.json").read_text())
    (stage,) = document["proof"]["stages"]
    assert document["proof"]["result"] == "UNMATCHED"
    assert stage["counts"]["matched_groups"] == 3
    pins = json.dumps(document["proof"])
    assert "a.parquet" in pins
    assert "s3cret" not in Path("out/run.json").read_text()


@pytest.mark.parametrize("place", ["s3://{}/many", "s3://{}/many/"])
def test_a_folder_of_objects_is_compared_like_a_local_one(
    bucket: str, object_server: ObjectServer, place: str, capsys: Shown
) -> None:
    client = object_server.client(bucket)
    client.put("many/_SUCCESS", b"")
    client.put("many/1.csv", b"id,amount\n1,10\n2,20\n")
    client.put("many/2.csv", b"id,amount\n3,31\n")
    client.put("none/notes.txt", b"x")
    assert run(["compare", place.format(bucket), "b.csv", "--key", "id", "--out", "out"]) == 0
    assert run(["compare", f"s3://{bucket}/none/", "b.csv", "--key", "id"]) == 2
    assert "the folder has no file ending in .parquet" in capsys.readouterr().err
    assert run(["compare", f"s3://{bucket}/absent/", "b.csv", "--key", "id"]) == 3
    assert "no file matches" in capsys.readouterr().err


def test_equal_objects_match(bucket: str) -> None:
    place = f"s3://{bucket}/exports/a.parquet"
    assert run(["compare", place, "a.parquet", "--key", "id", "--out", "out"]) == 0


@pytest.mark.spark
def test_spark_compares_an_object_without_credentials_for_it(
    bucket: str, java_runtime: Java
) -> None:
    places = [f"s3://{bucket}/exports/a.parquet", f"s3://{bucket}/exports/b.csv"]
    options = ["--key", "id", "--engine", "spark", "--out", "out"]
    ended = run_command(java_runtime, "compare", *places, *options, cwd=Path.cwd())
    assert ended.returncode == 1, ended.stderr
    document = json.loads(Path("out/run.json").read_text())
    assert document["proof"]["result"] == "UNMATCHED"


def test_a_job_file_names_objects_over_a_connection(
    bucket: str, object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("LAKE_KEY", ADMIN)
    Path("job.yaml").write_text(
        f"""\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: lake}}
spec:
  type: object_store
  config: {{url: "s3://{bucket}/exports", endpoint: "{object_server.endpoint}"}}
  auth: {{credentials: "env:LAKE_KEY"}}
---
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {{name: lake-vs-file}}
spec:
  sources:
    - {{name: lake, kind: parquet, connection: lake, path: "*.parquet"}}
    - {{name: file, kind: csv, path: b.csv}}
  stages:
    - {{name: rows, type: row, dimensions: [id], measures: [{{name: amount}}]}}
"""
    )
    assert run(["compare", "job.yaml", "--out", "out"]) == 1
    assert run(["plan", "job.yaml"]) == 0


def test_a_job_is_drafted_from_objects(bucket: str) -> None:
    place = f"s3://{bucket}/exports"
    assert run(["init", f"{place}/a.parquet", f"{place}/b.csv"]) == 0
    assert f"{place}/b.csv" in Path("a-vs-b.recon.yaml").read_text()
    assert run(["compare", "a-vs-b.recon.yaml", "--engine", "kernel"]) == 1


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("s3://{}/none.parquet", "no file matches"),
        ("s3://{}/exports", "the folder has files of several kinds: 1 .csv, 1 .parquet"),
        ("s3://{}/../x.csv", "no part `.` or `..`"),
        (
            "s3://none-at-all/x.csv",
            "bucket none-at-all does not exist at the server of your environment",
        ),
    ],
)
def test_what_cannot_be_read_is_named(bucket: str, capsys: Shown, place: str, words: str) -> None:
    assert run(["compare", place.format(bucket), "b.csv", "--key", "id"]) not in {0, 1}
    shown = capsys.readouterr()
    assert words in " ".join(f"{shown.out} {shown.err}".split())


def test_refused_credentials_are_named_and_never_shown(
    bucket: str, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-s3cret")
    place = f"s3://{bucket}/exports/a.parquet"
    assert run(["compare", place, "b.csv", "--key", "id"]) not in {0, 1}
    shown = capsys.readouterr()
    assert "check the credentials" in " ".join(f"{shown.out} {shown.err}".split())
    assert "s3cret" not in shown.out + shown.err
