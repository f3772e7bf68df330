"""What a server says does nothing to the terminal, whichever command shows it and in which form."""

import io
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_cli.border import CLEAR, Border, guarded_streams, harmless
from datarecs_cli.main import run
from datarecs_core.errors.api import ApiCode
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

HOSTILE = (
    "a\x1b[2J\x1b]8;;http://evil.example\x07link\x1b]8;;\x07"  # erases, links
    "\x1b[31mred\r overwritten\x08\x00\x7f\x9b2J"  # colours, overwrites, C1, DEL
    "\x1b[31mclosed\x1b[0m"  # as our colours are
    "\u202eevil\u2066\u200b [red]x[/] |b"  # bidi controls, invisible, markup
)
FORMS = ("table", "md", "csv", "name", "yaml", "json", "jsonl")
_METADATA = {
    "name": HOSTILE,
    "namespace": HOSTILE,
    "generation": 1,
    "creationTimestamp": "2026-01-15T12:00:00.000000Z",
    "labels": {HOSTILE: HOSTILE},
}
OBJECT = {
    "apiVersion": "datarecs.io/v1",
    "kind": "ReconciliationJob",
    "metadata": _METADATA,
    "spec": {"sources": [{"name": HOSTILE}]},
    "status": {},
}
RUN = a_run_view(
    job=HOSTILE,
    status="ERRORED",
    trigger_reason=HOSTILE,
    triggered_by=HOSTILE,
    error={"code": "QUERY_FAILED", "message": HOSTILE, "detail_code": HOSTILE},
    last_sequence=1,
)
DIFFERENCE = {
    "break_id": HOSTILE,
    "stage": HOSTILE,
    "measure": HOSTILE,
    "class": HOSTILE,
    "key": {HOSTILE: HOSTILE},
    "values": {HOSTILE: HOSTILE},
    "present": {HOSTILE: 1},
}
KEY = {"key_id": HOSTILE, "name": HOSTILE, "subject": HOSTILE, "revoked_at": None}
DELIVERY = {
    "delivery_id": HOSTILE,
    "event_type": HOSTILE,
    "state": HOSTILE,
    "attempts": [{"status": None, "outcome": HOSTILE}],
}
EVENT = an_entry(1, HOSTILE, stage_name=HOSTILE, reason=HOSTILE, triggered_by=HOSTILE)
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "objects": ("get", "jobs"),
    "one object": ("get", "job", "orders"),
    "an exported object": ("get", "job", "orders", "--export"),
    "runs": ("get", "runs"),
    "one run": ("get", "run", RUN_ID),
    "a started run": ("run", "orders", "--detach"),
    "a run to its end": ("run", "orders"),
    "a watched run": ("watch", RUN_ID),
    "a watched run's events": ("watch", RUN_ID, "--events"),
    "a cancelled run": ("cancel", RUN_ID),
    "differences": ("diff", RUN_ID),
    "hints": ("explain", RUN_ID),
    "events": ("events", "list", RUN_ID),
    "followed events": ("events", "tail", RUN_ID),
    "keys": ("key", "list"),
    "deliveries": ("webhook", "deliveries", "--endpoint", "erp"),
    "a refusal": ("delete", "job", "refused", "--yes"),
    "a refusal with faults": ("get", "job", "faulty"),
}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    """Every text that it says is hostile."""
    monkeypatch.chdir(tmp_path)
    written_credentials(tmp_path)
    api, page = ScriptedApi(), {"next": None}
    run_path = f"/runs/{RUN_ID}"
    fault = {"code": "DR4020", "pointer": HOSTILE, "message": HOSTILE, "hint": HOSTILE}
    api.on("GET", "/jobs", says({"items": [OBJECT], **page}))
    api.on("GET", "/jobs/orders", says(OBJECT))
    api.on("GET", f"/jobs/{HOSTILE}", says(OBJECT))
    api.on("GET", "/runs", says({"items": [RUN], **page}))
    api.on("GET", run_path, says(RUN))
    api.on("POST", "/jobs/orders/runs", says(RUN, 202))
    api.on("POST", f"{run_path}/cancel", says(RUN, 202))
    api.on("GET", f"{run_path}/mismatches", says({"items": [DIFFERENCE], **page}))
    api.on("GET", f"{run_path}/stages", says({"items": [{"name": HOSTILE}], **page}))
    api.on("GET", f"{run_path}/report", says({"proof": {"stages": []}, "run": {"job": HOSTILE}}))
    api.on("GET", f"{run_path}/events", a_whole_stream(EVENT, run=RUN))
    api.on("GET", "/keys", says({"items": [KEY], **page}))
    api.on("GET", "/webhook-endpoints/erp/deliveries", says({"items": [DELIVERY], **page}))
    api.on("DELETE", "/jobs/refused", refuses(409, ApiCode.BEING_DELETED, detail=HOSTILE))
    api.on(
        "GET",
        "/jobs/faulty",
        refuses(422, ApiCode.INVALID_INPUT, detail=HOSTILE, errors=[fault]),
    )
    with api.in_place_of_the_network():
        yield api


def obeyed(text: str) -> set[str]:
    """Characters that a terminal would obey, or that hide."""
    return {one for one in text if one != "\n" and not one.isprintable()}


@pytest.mark.case("X81")
@pytest.mark.case("U14")
@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("form", [None, *FORMS])
@pytest.mark.parametrize("command", COMMANDS.values(), ids=[*COMMANDS])
def test_hostile_text_of_a_server_is_shown_in_escapes(
    command: tuple[str, ...],
    form: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    chosen = [] if form is None else ["-o", form]
    run([*command, *chosen, "--no-color"])
    output = capsys.readouterr()
    assert output.out or output.err
    assert "defect" not in output.err
    assert obeyed(output.out) == obeyed(output.err) == set()
    if form == "json":
        for line in output.out.splitlines():
            json.loads(line)


@pytest.mark.usefixtures("server")
def test_a_file_of_data_preserves_every_character(capsys: pytest.CaptureFixture[str]) -> None:
    run(["get", "runs", "-o", "csv"])
    assert HOSTILE in capsys.readouterr().out.replace('""', '"')


@pytest.mark.usefixtures("server")
def test_yaml_and_json_read_back_as_what_the_server_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from ruamel.yaml import YAML

    run(["get", "job", "orders", "-o", "yaml"])
    assert YAML(typ="safe").load(capsys.readouterr().out) == OBJECT
    run(["get", "job", "orders", "-o", "json"])
    assert json.loads(capsys.readouterr().out)["object"] == OBJECT


def test_our_colours_and_the_moving_line_pass() -> None:
    for text in ("\x1b[32m● MATCHED\x1b[0m", f"{CLEAR}reading", f"{CLEAR}\x1b[36m━━\x1b[0m 3 s\n"):
        assert harmless(text) == text


def test_a_closed_colour_that_hides_is_shown() -> None:
    assert harmless("\x1b[8mhidden\x1b[0m") == "\\x1b[8mhidden\\x1b[0m"


@pytest.mark.parametrize("text", ["\x1b[31mopen", "\x1b[0m", f"x{CLEAR}", "\x1b]0;title\x07"])
def test_what_would_change_the_terminal_does_not(text: str) -> None:
    assert "\x1b" not in harmless(text)


@given(st.text())
def test_nothing_but_closed_colours_is_obeyed(text: str) -> None:
    shown = harmless(text)
    assert obeyed(shown) <= ({"\x1b"} if "m" in text else set())


def test_the_border_is_gone_after_the_command() -> None:
    before = sys.stdout
    with guarded_streams():
        assert isinstance(sys.stdout, Border)
    assert sys.stdout is before


def test_a_border_counts_as_its_stream_does() -> None:
    stream = io.StringIO()
    assert Border(stream).write("a\x1b[2J") == 5
    assert stream.getvalue() == "a\\x1b[2J"
