"""`schedule preview`, and schedules in `apply` and `get`."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from datarecs_cli.main import run
from datarecs_core.errors.api import ApiCode
from datarecs_core.resources.resource import Kind
from datarecs_core_api.request_examples import EXAMPLES
from datarecs_runtime.clock import SystemClock
from datarecs_specs.kinds import KINDS
from datarecs_testing.scripted_api import ScriptedApi, refuses, says, written_credentials

JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: orders}
spec:
  sources:
    - {name: one, kind: csv, connection: files, path: a.csv}
    - {name: two, kind: csv, connection: files, path: b.csv}
  stages:
    - {name: rows, type: row, dimensions: [id], measures: [{name: amount}]}
"""
NIGHTLY = """\
apiVersion: datarecs.io/v1
kind: Schedule
metadata: {name: nightly}
spec: {job: orders, cron: 30 2 * * *, timezone: Europe/Berlin}
"""
PREVIEW = {
    "times": [
        {
            "fire_time": "2026-03-29T01:00:00.000000Z",
            "local": "2026-03-29T03:00:00+02:00",
            "note": "02:30 is skipped",
        }
    ],
    "held": ["the schedule is suspended"],
}
WINTER = datetime(2026, 3, 27, 12, tzinfo=UTC)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    monkeypatch.chdir(tmp_path)
    written_credentials(tmp_path)
    scripted = ScriptedApi()
    with scripted.in_place_of_the_network():
        yield scripted


@pytest.mark.case("R66")
def test_every_kind_of_one_file_is_sent_after_the_kinds_it_names(
    server: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    order = sorted(KINDS.values(), key=lambda one: one.order)
    names = {one.kind: str(name_in_example(one.kind)) for one in order}
    for one in order:
        path = f"/{one.path}/{names[one.kind]}"
        server.on("PUT", path, says({"outcome": "created"}, 201), says({"outcome": "unchanged"}))
    texts = [json.dumps(EXAMPLES[one.kind]) for one in reversed(order)]
    (tmp_path / "all.yaml").write_text("\n---\n".join(texts), encoding="utf-8")
    expected = [f"{one.singular}/{names[one.kind]}" for one in order]
    assert expected[1:5] == [
        "sink-table/payments-landing",
        "capture/exports-stats",
        "job/ledger-vs-exports",
        "schedule/ledger-nightly",
    ]
    for outcome in ("created", "unchanged"):
        assert run(["apply", "-f", "all.yaml"]) == 0
        assert capsys.readouterr().out.splitlines() == [f"{one} {outcome}" for one in expected]
    sent = len(server.requests)
    bad = NIGHTLY.replace("30 2", "61 2")
    (tmp_path / "all.yaml").write_text("\n---\n".join([*texts, bad]), encoding="utf-8")
    assert run(["apply", "-f", "all.yaml"]) == 2
    assert len(server.requests) == sent


def name_in_example(kind: Kind) -> object:
    metadata = EXAMPLES[kind]["metadata"]
    return metadata["name"] if isinstance(metadata, dict) else None


def an_object(**spec: object) -> dict[str, object]:
    return {
        "apiVersion": "datarecs.io/v1",
        "kind": "Schedule",
        "metadata": {"name": "nightly", "namespace": "default", "uid": "u", "generation": 1},
        "spec": {"job": "orders", "timezone": "UTC", "suspend": False, **spec},
        "status": {},
    }


def test_a_list_of_schedules_has_their_job_and_times(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [an_object(cron="30 2 * * *", suspend=True), an_object(interval="PT15M")]
    server.on("GET", "/schedules", says({"items": items, "next": None}))
    assert run(["get", "schedules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["NAME", "JOB", "WHEN", "ZONE", "SUSPENDED"]
    assert lines[1].split() == ["nightly", "orders", "30", "2", "*", "*", "*", "UTC", "true"]
    assert lines[2].split() == ["nightly", "orders", "every", "PT15M", "UTC", "false"]


def test_one_schedule_is_a_line_and_its_export_can_be_applied(
    server: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/schedules/nightly", says(an_object(cron="30 2 * * *")))
    server.on("PUT", "/schedules/nightly", says({"outcome": "unchanged"}))
    assert run(["get", "schedule", "nightly"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:2] == ["nightly", "orders"]
    assert run(["get", "sched", "nightly", "-o", "yaml", "--export"]) == 0
    (tmp_path / "again.yaml").write_text(capsys.readouterr().out, encoding="utf-8")
    assert run(["apply", "-f", "again.yaml"]) == 0
    assert capsys.readouterr().out == "schedule/nightly unchanged\n"


def test_a_stored_schedule_is_previewed_by_the_server(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("POST", "/schedules/nightly/actions/preview", says(PREVIEW))
    assert run(["schedule", "preview", "nightly", "--namespace", "books"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "TIME                           UTC                  NOTE",
        "Sun 2026-03-29 03:00:00 +0200  2026-03-29 01:00:00  02:30 is skipped",
    ]
    assert "no run starts: the schedule is suspended" in shown.err
    assert dict(server.requests[0].url.params) == {"namespace": "books"}
    assert run(["schedule", "preview", "nightly", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["object"] == PREVIEW


def test_an_unknown_schedule_is_wrong_usage(server: ScriptedApi) -> None:
    server.on("POST", "/schedules/nix/actions/preview", refuses(404, ApiCode.NOT_FOUND))
    assert run(["schedule", "preview", "nix"]) == 2


def test_a_file_is_previewed_without_a_server(
    server: ScriptedApi,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(SystemClock, "now", lambda _: WINTER)
    (tmp_path / "nightly.yaml").write_text(f"{NIGHTLY}---\n{JOB}", encoding="utf-8")
    assert run(["schedule", "preview", "nightly.yaml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 11
    assert lines[1] == "Sat 2026-03-28 02:30:00 +0100  2026-03-28 01:30:00"
    assert lines[2].startswith("Sun 2026-03-29 03:00:00 +0200  2026-03-29 01:00:00  ")
    assert server.requests == []


def test_a_file_says_why_no_run_would_start(
    server: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = NIGHTLY.replace("cron:", "suspend: true, end_at: 2020-01-01T00:00:00Z, cron:")
    (tmp_path / "nightly.yaml").write_text(ended, encoding="utf-8")
    assert run(["schedule", "preview", "nightly.yaml"]) == 0
    shown = capsys.readouterr().err
    assert "no run starts: the schedule is suspended" in shown
    assert "no run starts: the schedule has ended" in shown
    assert server.requests == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (JOB, "declares 0 schedules"),
        (f"{NIGHTLY}---\n{NIGHTLY.replace('nightly', 'other')}", "declares 2 schedules"),
        (NIGHTLY.replace("30 2", "0 0 30"), "DR1073"),
    ],
)
def test_a_file_must_have_one_sound_schedule(
    server: ScriptedApi,
    tmp_path: Path,
    text: str,
    expected: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "nightly.yaml").write_text(text, encoding="utf-8")
    assert run(["schedule", "preview", "nightly.yaml"]) == 2
    shown = capsys.readouterr()
    assert expected in shown.out + shown.err
    assert server.requests == []
