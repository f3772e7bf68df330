"""`history JOB`: outcomes of the latest runs, and since when they differ."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from datarecs_cli.main import run
from datarecs_core.errors.api import ApiCode
from datarecs_testing.scripted_api import (
    ScriptedApi,
    a_run_view,
    refuses,
    says,
    written_credentials,
)

Shown = pytest.CaptureFixture[str]
IDS = [f"01890a5d-ac96-774b-bcce-b302099a80{number:02}" for number in range(4)]
RESULTS = ("UNMATCHED", None, "UNMATCHED", "MATCHED")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    """Four runs, newest first: the second ended without a verdict."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C")
    written_credentials(tmp_path)
    runs = [
        {
            **a_run_view(),
            "run_id": run_id,
            "status": "COMPLETED" if result else "ERRORED",
            "result": result,
            "summary": None,
        }
        for run_id, result in zip(IDS, RESULTS, strict=True)
    ]
    api = ScriptedApi()
    api.on("GET", "/runs", says({"items": runs, "next": None}))
    with api.in_place_of_the_network():
        yield api


def test_outcomes_are_a_strip_and_a_table(server: ScriptedApi, capsys: Shown) -> None:
    assert run(["history", "orders"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split()[:4] == ["OK", "DIFF", "ERR", "DIFF"]
    assert f"UNMATCHED since {a_run_view()['created_at']}, run {IDS[2]}" in err
    assert dict(server.requests[0].url.params) == {"job": "orders", "limit": "30"}


@pytest.mark.usefixtures("server")
@pytest.mark.case("U13")
def test_history_is_data_as_json_and_csv(capsys: Shown) -> None:
    assert run(["history", "orders", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["schema"] == "datarecs.cli.history/1"
    assert [each["outcome"] for each in shown["items"]] == [
        "UNMATCHED",
        "ERRORED",
        "UNMATCHED",
        "MATCHED",
    ]
    assert shown["unmatched_since"]["run_id"] == IDS[2]
    assert run(["history", "orders", "-o", "csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "RUN,CREATED,OUTCOME,COMPARED,UNMATCHED"


def test_a_job_that_does_not_exist_is_an_unknown_name(server: ScriptedApi) -> None:
    server.on("GET", "/runs", says({"items": [], "next": None}))
    server.on("GET", "/jobs/orders", refuses(404, ApiCode.NOT_FOUND))
    assert run(["history", "orders"]) == 2
    server.on("GET", "/jobs/orders", says({}))
    assert run(["history", "orders"]) == 0
