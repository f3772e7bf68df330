"""Retention policies in `get`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from datarecs_cli.main import run
from datarecs_testing.scripted_api import ScriptedApi, says, written_credentials


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    monkeypatch.chdir(tmp_path)
    written_credentials(tmp_path)
    scripted = ScriptedApi()
    with scripted.in_place_of_the_network():
        yield scripted


def a_policy() -> dict[str, object]:
    return {
        "apiVersion": "datarecs.io/v1",
        "kind": "RetentionPolicy",
        "metadata": {"name": "finance", "namespace": "default", "uid": "u", "generation": 1},
        "spec": {
            "targets": {
                "differences": {"ttl": "P30D", "keep_last": 0},
                "runs": {"ttl": "P90D", "keep_last": 30},
            },
            "dry_run": True,
        },
        "status": {
            "last_sweep_at": "2027-01-04T08:00:02.130412Z",
            "would_delete": {"runs": 12, "differences": 3},
        },
    }


def test_a_list_of_policies_says_what_they_remove_and_when_they_did(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/retention-policies", says({"items": [a_policy()], "next": None}))
    assert run(["get", "retention-policies"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAME", "NAMESPACE", "REMOVES", "DRY", "RUN", "LAST", "SWEEP"]
    assert line.split()[:2] == ["finance", "default"]
    assert "runs after P90D, differences after P30D" in line
    assert "true" in line
    assert "2027-01-04" in line


def test_one_policy_shows_what_its_last_sweep_counted(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/retention-policies/finance", says(a_policy()))
    assert run(["get", "ret", "finance", "-o", "yaml"]) == 0
    out = capsys.readouterr().out
    assert "would_delete" in out
    assert "runs: 12" in out
