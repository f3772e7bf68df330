"""`pip install datarecs` alone: its size, its commands, its messages about missing parts."""

import json
import tomllib
from pathlib import Path

import pytest

from datarecs_testing.distribution import ROOT, Installation, build_wheel, install

pytestmark = pytest.mark.integration
MOST_BYTES = 350 * 10**6
FURTHER = (
    *("pyspark", "pandas", "kafka", "fastapi", "sqlalchemy", "cryptography", "pyiceberg"),
    "obstore",
    "datarecs_testing",
)
"""Packages of extras and of tests."""
JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: books}
spec:
  sources:
    - {name: ours, kind: csv, path: ours.csv}
    - {name: theirs, kind: csv, path: theirs.csv}
  stages: [{name: rows, type: row, dimensions: [id], measures: "*"}]
"""


@pytest.fixture(scope="module")
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Installation:
    folder = tmp_path_factory.mktemp("distribution")
    return install(build_wheel(folder), "", folder / "base", request.config)


@pytest.fixture
def books(tmp_path: Path) -> Path:
    (tmp_path / "ours.csv").write_text("id,amount\n1,10.00\n2,20.00\n")
    (tmp_path / "theirs.csv").write_text("id,amount\n1,10.00\n2,20.50\n")
    (tmp_path / "job.yaml").write_text(JOB)
    return tmp_path


def test_the_base_is_small_and_has_no_server(installed: Installation, tmp_path: Path) -> None:
    code = "from importlib.util import find_spec as f; print(*filter(f, {}))"
    assert installed.evaluate(code.format(FURTHER), tmp_path) == ""
    assert installed.size_bytes < MOST_BYTES
    place = installed.evaluate("import datarecs_cli; print(datarecs_cli.__file__)", tmp_path)
    assert Path(place).is_relative_to(installed.folder)


def test_it_says_the_version_that_the_project_states(
    installed: Installation, tmp_path: Path
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    said = installed.run("--version", cwd=tmp_path)
    assert (said.stdout, said.stderr) == (f"datarecs {project['version']}\n", "")


def test_kernel_and_oracle_have_one_answer_and_one_proof(
    installed: Installation, books: Path
) -> None:
    runs = {}
    for engine in ("auto", "reference"):
        words = ("ours.csv", "theirs.csv", "--key", "id", "--engine", engine, "--out", engine)
        ended = installed.run("compare", *words, cwd=books)
        assert ended.returncode == 1, ended.stderr
        assert "amount EXACT   1 within · 1 outside · gap 0.5" in ended.stdout
        runs[engine] = json.loads((books / engine / "run.json").read_text())
    assert runs["auto"]["run"]["execution"]["engine"] == "kernel"
    assert runs["auto"]["proof_hash"] == runs["reference"]["proof_hash"]


def test_python_programs_compare_files_and_tables(installed: Installation, books: Path) -> None:
    code = (
        "import datarecs; from pyarrow import csv; ours = csv.read_csv('ours.csv'); "
        "print(datarecs.compare(ours, 'theirs.csv', key='id').counts.outside, "
        "datarecs.compare(ours, ours).verdict)"
    )
    assert installed.evaluate(code, books) == "1 MATCHED"


def test_jobs_are_validated_planned_compared_and_reported(
    installed: Installation, books: Path
) -> None:
    assert installed.run("validate", "job.yaml", cwd=books).returncode == 0
    planned = installed.run("plan", "job.yaml", cwd=books)
    assert planned.returncode == 0, planned.stderr
    assert "kernel: Spark is not installed" in planned.stdout
    assert installed.run("compare", "job.yaml", "--out", "result", cwd=books).returncode == 1
    assert "UNMATCHED" in (books / "result/report.html").read_text()
    shown = installed.run("diff", "result", cwd=books)
    assert shown.returncode == 1, shown.stderr
    assert installed.run("verify", "result", cwd=books).returncode == 0


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["compare", "ours.csv", "theirs.csv", "--key", "id", "--engine", "spark"], "spark"),
        (["up", "--detach"], "local"),
        (["demo"], "all"),
        (["admin", "migrate"], "server"),
        (["doctor", "--platform"], "server"),
    ],
)
def test_what_is_not_installed_is_named_with_the_command_that_installs_it(
    installed: Installation, books: Path, words: list[str], extra: str
) -> None:
    ended = installed.run(*words, cwd=books)
    assert ended.returncode == 2
    assert f"install them with: pip install 'datarecs[{extra}]'" in ended.stderr


@pytest.mark.parametrize(
    "service",
    [
        "capture-worker",
        "core-api",
        "email-notifier",
        "iceberg-sink",
        "reconciliation-worker",
        "resource-controller",
        "run-controller",
        "webhook-service",
    ],
)
def test_a_service_without_its_parts_names_the_command_that_installs_them(
    installed: Installation, tmp_path: Path, service: str
) -> None:
    ended = installed.run(command=f"datarecs-{service}", cwd=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"datarecs-{service} needs parts that are not installed (")
    extras = {
        "capture-worker": "server,iceberg",
        "iceberg-sink": "server,iceberg",
        "reconciliation-worker": "server,spark,iceberg",
    }.get(service, "server")
    assert ended.stderr.endswith(f"pip install 'datarecs[{extras}]'\n")
