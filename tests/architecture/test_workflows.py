"""Workflows: pinned actions, few rights, no secrets in pull requests; the linters find nothing."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
ACTIONS = {
    "actions/attest-build-provenance": ("a2bbfa25375fe432b6a289bc6b6cd05ecd0c4c32", "v4.1.0"),
    "actions/checkout": ("3d3c42e5aac5ba805825da76410c181273ba90b1", "v7.0.1"),
    "actions/download-artifact": ("3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c", "v8.0.1"),
    "actions/setup-python": ("5fda3b95a4ea91299a34e894583c3862153e4b97", "v7.0.0"),
    "actions/upload-artifact": ("bbbca2ddaa5d8feaa63e36b76fdaad77386f024f", "v7.0.0"),
    "docker/setup-buildx-action": ("37fe631027851001ddb9b187196cc803df7f5f0e", "v4.3.0"),
}
"""The commit of each action's tag, read from its repository."""
USES = re.compile(r"uses: (\S+)@(\S+)(?: # (\S+))?")
EXPRESSION = re.compile(r"\$\{\{.*?\}\}")

every_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)


def loaded(path: Path) -> dict[str, Any]:
    # YAML 1.1 would read `on` as true.
    document: dict[str, Any] = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    return document


def jobs(path: Path) -> Mapping[str, dict[str, Any]]:
    named: Mapping[str, dict[str, Any]] = loaded(path)["jobs"]
    return named


def scripts(path: Path) -> Iterator[str]:
    for job in jobs(path).values():
        yield from (step["run"] for step in job["steps"] if "run" in step)


@every_workflow
def test_every_action_is_pinned_by_its_commit(path: Path) -> None:
    uses = USES.findall(path.read_text(encoding="utf-8"))
    assert uses
    assert {(name, ACTIONS.get(name)) for name, _, _ in uses} == {
        (name, (commit, tag)) for name, commit, tag in uses
    }


@every_workflow
def test_rights_are_granted_by_job_and_every_job_ends(path: Path) -> None:
    assert loaded(path)["permissions"] == {}
    for job in jobs(path).values():
        assert job["permissions"].items() >= {"contents": "read"}.items()
        assert 0 < job["timeout-minutes"] <= 120


@every_workflow
def test_no_secret_is_stored_and_no_checkout_leaves_a_token(path: Path) -> None:
    assert "secrets." not in path.read_text(encoding="utf-8")
    for job in jobs(path).values():
        for step in job["steps"]:
            if str(step.get("uses", "")).startswith("actions/checkout@"):
                assert step["with"] == {"persist-credentials": False}


@every_workflow
def test_no_script_contains_an_expression(path: Path) -> None:
    """A name of a branch or tag would be executed; values come by the environment."""
    assert [text for text in scripts(path) if EXPRESSION.search(text)] == []


def test_pull_requests_may_only_read() -> None:
    document = loaded(ROOT / ".github/workflows/ci.yml")
    assert set(document["on"]) == {"pull_request", "push"}
    for job in document["jobs"].values():
        assert job["permissions"] == {"contents": "read"}
        assert "environment" not in job


def test_only_a_tag_publishes_and_only_in_the_protected_environment() -> None:
    document = loaded(ROOT / ".github/workflows/release.yml")
    assert document["on"] == {"push": {"tags": ["v*"]}}
    for job in document["jobs"].values():
        writes = {right for right, level in job["permissions"].items() if level == "write"}
        assert ("environment" in job) is bool(writes)


def test_zizmor_has_no_finding() -> None:
    program = Path(sys.executable).parent / "zizmor"
    if not program.exists():
        pytest.skip("zizmor is not installed; `make setup` installs it")
    result = subprocess.run(
        [str(program), "--quiet", "--offline", ".github"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_actionlint_has_no_finding() -> None:
    program = shutil.which("actionlint", path=Path(sys.executable).parent) or shutil.which(
        "actionlint"
    )
    if program is None:
        pytest.skip("actionlint is not installed; `make workflows` builds it with Go")
    result = subprocess.run([program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
