"""The snippets of the page about Python run as written, from the first to the last."""

import re
from pathlib import Path

import pytest

import datarecs
from datarecs_testing.scripted_api import (
    API_KEY,
    RUN_ID,
    ScriptedApi,
    a_run_view,
    a_whole_stream,
    an_entry,
    says,
)

PAGE = Path(__file__).resolve().parents[2] / "docs/howto/python.md"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = f"/runs/{RUN_ID}"


def blocks(text: str, language: str) -> list[str]:
    return [body for written, body in FENCE.findall(text) if written == language]


@pytest.fixture
def text() -> str:
    return PAGE.read_text(encoding="utf-8").replace("drk_…", API_KEY)


@pytest.fixture
def server() -> ScriptedApi:
    ended = a_run_view(status="COMPLETED", result="UNMATCHED", last_sequence=1)
    api = ScriptedApi()
    api.on("POST", "/jobs/orders/runs", says(a_run_view(status="TRIGGERED"), 202))
    api.on("GET", f"{RUN}/events", a_whole_stream(an_entry(1, "run.triggered"), run=ended))
    api.on("GET", RUN, says(ended))
    api.on("GET", "/jobs/orders", says({"spec": {"sources": [{"name": "ledger"}]}}))
    api.on("GET", f"{RUN}/mismatches", says({"items": [], "next": None}))
    return api


def test_every_snippet_runs(
    text: str,
    server: ScriptedApi,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    first, *others = blocks(text, "python")
    exec(first, names)  # noqa: S102  the page is the program under test
    assert capsys.readouterr().out == blocks(text, "")[0]
    with server.in_place_of_the_network():
        for snippet in others:
            exec(snippet, names)  # noqa: S102  the page is the program under test
    printed = capsys.readouterr().out
    assert "DR1060\nkey order_id: source source-1 has no column 'order_id'" in printed
    assert (tmp_path / "report.html").exists()
    assert server.requests_to("GET", f"{RUN}/mismatches")
    exported = names["test_exports_equal_the_ledger"]
    assert callable(exported)
    with pytest.raises(datarecs.Unmatched, match="UNMATCHED: 1 of 4 groups agree"):
        exported()
