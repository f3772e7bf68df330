"""`datarecs diff RUN --with EARLIER`: two runs of one job, break by break."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from datarecs_cli.main import run
from datarecs_testing.scripted_api import ScriptedApi, a_run_view, says, written_credentials

Shown = pytest.CaptureFixture[str]
ONE = "id,amount\n1,10.00\n2,20.00\n3,30.00\n4,40.00\n"
BEFORE = "id,amount\n1,11.00\n2,25.00\n3,30.00\n"
AFTER = "id,amount\n1,11.00\n2,26.00\n3,31.00\n4,40.00\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown) -> Path:
    """Two comparisons, before and after a repair that broke something else."""
    monkeypatch.chdir(tmp_path)
    Path("one.csv").write_text(ONE)
    for name, text in (("before", BEFORE), ("after", AFTER)):
        Path("two.csv").write_text(text)
        assert run(["compare", "one.csv", "two.csv", "--key", "id", "--out", name]) == 1
    capsys.readouterr()
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_breaks_are_new_changed_gone_or_as_before(capsys: Shown) -> None:
    assert run(["diff", "after", "--with", "before"]) == 1
    shown_lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert shown_lines[0] == "breaks 1 new, 1 changed, 1 gone, 1 as before"
    assert shown_lines[1] == "rows two: 3 rows -> 4"
    assert shown_lines[3:] == [
        "new rows id=3 amount one 30, two 31",
        "changed rows id=2 amount one 20, two 25 one 20, two 26",
        "gone rows id=4 presence one 1",
    ]


@pytest.mark.usefixtures("folder")
def test_as_json_both_states_stand_beside_each_other(capsys: Shown) -> None:
    assert run(["diff", "after", "--with", "before", "-o", "json", "--limit", "2"]) == 1
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert document["schema"] == "datarecs.cli.diff/1"
    assert [document[name] for name in ("new", "changed", "gone", "same")] == [1, 1, 1, 1]
    assert [each["change"] for each in document["items"]] == ["NEW", "CHANGED"]
    assert document["items"][1]["before"]["values"] == {"one": "20", "two": "25"}
    assert document["items"][1]["after"]["values"] == {"one": "20", "two": "26"}


@pytest.mark.usefixtures("folder")
def test_a_run_and_itself_have_no_change(capsys: Shown) -> None:
    assert run(["diff", "after", "--with", "after"]) == 0
    assert "0 new, 0 changed, 0 gone, 3 as before" in capsys.readouterr().out
    assert run(["diff", "after", "--with", "before", "--measure", "none"]) == 0


@pytest.mark.usefixtures("folder")
def test_runs_of_different_jobs_are_refused(capsys: Shown) -> None:
    Path("other.csv").write_text(ONE)
    run(["compare", "other.csv", "two.csv", "--key", "id", "--out", "other"])
    capsys.readouterr()
    assert run(["diff", "other", "--with", "before"]) == 2
    assert "name two runs of one job" in capsys.readouterr().err


@pytest.mark.usefixtures("folder")
def test_a_changed_question_is_said(capsys: Shown) -> None:
    arguments = ["one.csv", "two.csv", "--key", "id", "--measure", "amount=5"]
    assert run(["compare", *arguments, "--out", "loose"]) == 1
    capsys.readouterr()
    assert run(["diff", "loose", "--with", "after"]) == 1
    assert "job          changed between the runs" in capsys.readouterr().out


A = "019bc0ef-2a10-7d44-9b6f-000000000001"
B = "019bc0ef-2a10-7d44-9b6f-000000000002"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    monkeypatch.chdir(tmp_path)
    written_credentials(tmp_path)
    api = ScriptedApi()
    for run_id in (A, B):
        view = {**a_run_view(status="COMPLETED", result="UNMATCHED"), "run_id": run_id}
        api.on("GET", f"/runs/{run_id}", says(view))
    api.on("GET", "/jobs/orders", says({"spec": {"sources": [{"name": "a"}, {"name": "b"}]}}))
    with api.in_place_of_the_network():
        yield api


def a_row(number: int, value: str = "1") -> dict[str, object]:
    return {
        "stage": "rows",
        "measure": "v",
        "class": "OUTSIDE",
        "presence": 3,
        "key": {"id": str(number)},
        "values": {"a": "0", "b": value},
        "deltas": {"b": value},
    }


def test_runs_of_a_server_are_compared_as_far_as_it_lists_them(
    server: ScriptedApi, capsys: Shown
) -> None:
    server.on("GET", f"/runs/{A}/mismatches", says({"items": [a_row(1), a_row(2)], "next": None}))
    server.on(
        "GET", f"/runs/{B}/mismatches", says({"items": [a_row(2, "5"), a_row(3)], "next": None})
    )
    assert run(["diff", B, "--with", A]) == 1
    assert "1 new, 1 changed, 1 gone, 0 as before" in capsys.readouterr().out
    many = {"items": [a_row(at) for at in range(1000)], "next": None}
    server.on("GET", f"/runs/{A}/mismatches", says(many))
    assert run(["diff", B, "--with", A]) == 2
    assert "more than the 1000 differences that a server lists" in capsys.readouterr().err
