"""What a pipeline takes away: JUnit XML and Markdown of local comparisons and of platform runs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from datarecs_cli.main import run
from datarecs_core.errors.api import ApiCode
from datarecs_testing.finished_runs import balance_check, books, document
from datarecs_testing.scripted_api import (
    RUN_ID,
    ScriptedApi,
    a_run_view,
    a_whole_stream,
    an_entry,
    refuses,
    says,
    written_credentials,
)

Shown = pytest.CaptureFixture[str]
RUN = f"/runs/{RUN_ID}"


def tags(path: str) -> list[str]:
    """What each case holds, or passed."""
    root = ET.fromstring(Path(path).read_bytes())  # noqa: S314  our file
    return [next((one.tag for one in case), "passed") for case in root.iter("testcase")]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.csv").write_text("id,v\n1,1\n2,2\n")
    (tmp_path / "two.csv").write_text("id,v\n1,1\n2,3\n")
    return tmp_path


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    written_credentials(tmp_path)
    api = ScriptedApi()
    api.on("GET", "/jobs/orders", refuses(404, ApiCode.NOT_FOUND))
    api.on("POST", "/jobs/orders/runs", says(a_run_view(status="TRIGGERED"), 202))
    with api.in_place_of_the_network():
        yield api


def ends(server: ScriptedApi, status: str, result: str | None, **more: Any) -> None:  # noqa: ANN401  members of a run
    ended = a_run_view(status=status, result=result, last_sequence=1, **more)
    tables = books()
    server.on("GET", f"{RUN}/events", a_whole_stream(an_entry(1, "run.triggered"), run=ended))
    server.on("GET", RUN, says(a_run_view()), says(ended))
    server.on("GET", f"{RUN}/report", says(document(balance_check(tables), tables)))
    server.on("GET", f"{RUN}/mismatches", says({"items": [], "next": None}))


@pytest.mark.usefixtures("files")
def test_compare_writes_junit_whatever_the_verdict() -> None:
    arguments = ["one.csv", "two.csv", "--key", "id", "--junit", "ci/junit.xml"]
    assert run(["compare", *arguments]) == 1
    assert tags("ci/junit.xml") == ["passed", "failure", "passed"]
    Path("two.csv").write_text("id,v\n1,1\n2,2\n")
    assert run(["compare", *arguments]) == 0
    assert tags("ci/junit.xml") == ["passed", "passed", "passed"]


@pytest.mark.usefixtures("files")
def test_a_comparison_that_fails_is_an_error_there() -> None:
    Path("two.csv").write_text('id,v\n1,"open\n')
    arguments = ["one.csv", "two.csv", "--key", "id", "--junit", "junit.xml"]
    assert run(["compare", *arguments]) == 3
    assert tags("junit.xml") == ["error"]


@pytest.mark.usefixtures("files")
def test_compare_prints_markdown(capsys: Shown) -> None:
    assert run(["compare", "one.csv", "two.csv", "--key", "id", "-o", "md"]) == 1
    output = capsys.readouterr().out
    assert output.startswith("# ▲ UNMATCHED: one-vs-two")
    assert "| 2 | v | outside | 2 | 3 | 1 |" in output


@pytest.mark.usefixtures("files")
def test_a_file_that_cannot_be_written_is_reported(capsys: Shown) -> None:
    Path("taken").write_text("")
    arguments = ["one.csv", "two.csv", "--key", "id", "--junit", "taken/junit.xml"]
    assert run(["compare", *arguments]) == 3
    assert "taken/junit.xml: the results cannot be stored" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "result", "code", "elements"),
    [
        ("COMPLETED", "UNMATCHED", 1, ["failure", "failure"]),
        ("ERRORED", None, 3, ["error"]),
        ("CANCELLED", None, 4, ["skipped"]),
    ],
)
def test_run_writes_junit_of_every_end(
    server: ScriptedApi, status: str, result: str | None, code: int, elements: list[str]
) -> None:
    ends(server, status, result)
    assert run(["run", "orders", "--junit", "junit.xml"]) == code
    assert tags("junit.xml") == elements


def test_report_makes_markdown_and_junit_of_a_finished_run(server: ScriptedApi) -> None:
    ends(server, "COMPLETED", "UNMATCHED")
    finished = a_run_view(status="COMPLETED", result="UNMATCHED")
    server.on("GET", RUN, says(finished), says(finished))
    assert run(["report", RUN_ID, "--format", "md"]) == 0
    assert "975 of 1,005 groups agree" in Path(f"report-{RUN_ID}.md").read_text()
    assert run(["report", RUN_ID, "--format", "junit"]) == 0
    assert tags(f"report-{RUN_ID}.xml") == ["failure", "failure"]
