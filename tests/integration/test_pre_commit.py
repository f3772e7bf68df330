"""The pre-commit hook `datarecs-validate` in a repository with job files, without a network."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from datarecs_runtime.environment import process_environment

pytest.importorskip("pre_commit", reason="pre-commit is not installed; run make setup")
ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
GOOD = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: orders}
spec:
  sources:
    - {name: one, kind: csv, path: one.csv}
    - {name: two, kind: csv, path: two.csv}
  stages:
    - {name: rows, type: row, dimensions: [id], measures: [{name: amount}]}
"""
BAD = GOOD.replace("dimensions", "dimension")


def hook() -> dict[str, Any]:
    """As published; `language: python` would install this repository from the network."""
    (published,) = YAML(typ="safe").load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert published["language"] == "python"
    return {**published, "language": "system"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    config = {"repos": [{"repo": "local", "hooks": [hook()]}]}
    with (folder / ".pre-commit-config.yaml").open("w") as file:
        YAML().dump(config, file)
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    return folder


def commit(repository: Path, **files: str) -> subprocess.CompletedProcess[str]:
    """Stage the files and run the hooks on them, as a commit does."""
    for name, text in files.items():
        (repository / name.replace("_", ".")).write_text(text)
    subprocess.run(["git", "add", "--all"], cwd=repository, check=True)
    environment = process_environment() | {
        "PATH": f"{BIN}{os.pathsep}{process_environment()['PATH']}",
        "PRE_COMMIT_HOME": str(repository.parent / "cache"),
    }
    return subprocess.run(
        [sys.executable, "-m", "pre_commit", "run"],
        cwd=repository,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_good_job_passes_and_other_files_are_left_out(repository: Path) -> None:
    done = commit(repository, orders_recon_yaml=GOOD, deploy_yaml=BAD)
    assert (done.returncode, "Passed" in done.stdout) == (0, True), done.stdout + done.stderr


def test_a_faulty_job_stops_the_commit_with_its_line(repository: Path) -> None:
    done = commit(repository, orders_recon_yaml=BAD)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "orders.recon.yaml:9:" in done.stdout
    assert "dimension" in done.stdout


def test_hooks_of_contributors_use_tools_of_the_lock() -> None:
    config = YAML(typ="safe").load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    (local,) = config["repos"]
    assert local["repo"] == "local"
    locked = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    packages = {"ruff": "ruff", "lint-imports": "import-linter"}
    for each in local["hooks"]:
        program = each["entry"].split()[0].removeprefix(".venv/bin/")
        assert f"\n{packages[program]}==" in f"\n{locked}"
        assert each["language"] == "system"
