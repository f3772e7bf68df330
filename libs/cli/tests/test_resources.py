"""`apply`, `get`, `delete`: nothing is sent while a file has a fault; each object has its line."""

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from datarecs_cli.applying import differences
from datarecs_cli.main import run
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.security import SecurityCode
from datarecs_testing.scripted_api import (
    RUN_ID,
    Reply,
    ScriptedApi,
    a_run_view,
    hangs_up,
    refuses,
    says,
    written_credentials,
)

RULE = """\
apiVersion: datarecs.io/v1
kind: NotificationRule
metadata: {name: finance, labels: {team: a}}
spec: {to: [{address: finops@example.com}]}
"""
HOOK = """\
apiVersion: datarecs.io/v1
kind: WebhookEndpoint
metadata: {name: erp}
spec: {url: "https://erp.example.com/hooks"}
"""
CONNECTION = """\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {name: files}
spec: {type: files, config: {root: data}}
"""
SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
PATHS = ("/connections/files", "/webhook-endpoints/erp", "/notification-rules/finance")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    monkeypatch.chdir(tmp_path)
    written_credentials(tmp_path)
    (tmp_path / "all.yaml").write_text(f"{RULE}---\n{HOOK}---\n{CONNECTION}", encoding="utf-8")
    api = ScriptedApi()
    for path in PATHS:
        api.on("PUT", path, says({"outcome": "created"}, 201), says({"outcome": "unchanged"}))
    with api.in_place_of_the_network():
        yield api


def test_each_object_has_a_line_in_the_order_of_references(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["apply", "-f", "all.yaml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "connection/files created",
        "webhook-endpoint/erp created",
        "notification-rule/finance created",
    ]
    assert [one.url.path for one in server.requests] == [f"/api/v1{path}" for path in PATHS]


def test_an_apply_says_that_an_object_is_being_deleted(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    metadata = {"name": "files", "deletionTimestamp": "2026-01-15T12:00:00.000000Z"}
    server.on("PUT", PATHS[0], says({"outcome": "unchanged", "metadata": metadata}))
    assert run(["apply", "-f", "all.yaml"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "connection/files unchanged",
        "  it is being deleted; datarecs describe shows what it waits for",
    ]


def test_what_is_sent_is_the_whole_declaration_over_whatever_stands_there(
    server: ScriptedApi,
) -> None:
    run(["apply", "-f", "all.yaml"])
    request = server.requests[-1]
    body = json.loads(request.content)
    assert request.headers["if-match"] == "*"
    assert dict(request.url.params) == {"namespace": "default", "apply": "true"}
    assert body["metadata"]["labels"] == {"team": "a"}
    assert body["spec"]["to"] == [{"address": "finops@example.com"}]


def test_a_fault_in_one_file_sends_nothing(
    server: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.yaml").write_text(HOOK.replace("url:", "ulr:"), encoding="utf-8")
    assert run(["apply", "-f", "all.yaml", "-f", "bad.yaml"]) == 2
    shown = capsys.readouterr().out
    assert "bad.yaml:4" in shown
    assert "did you mean 'url'?" in shown
    assert server.requests == []


def test_a_missing_file_is_wrong_usage(server: ScriptedApi) -> None:
    assert run(["apply", "-f", "nowhere.yaml"]) == 2
    assert server.requests == []


def test_a_refused_object_does_not_hold_up_the_rest(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    errors = [{"code": "DR1080", "pointer": "/spec/url", "message": "the host is refused"}]
    server.on("PUT", PATHS[1], refuses(422, ApiCode.INVALID_SPEC, errors=errors))
    assert run(["apply", "-f", "all.yaml"]) == 2
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "connection/files created",
        "webhook-endpoint/erp failed",
        "notification-rule/finance created",
    ]
    assert "/spec/url: the host is refused" in shown.err


@pytest.mark.parametrize(
    "reply", [refuses(403, SecurityCode.FORBIDDEN), hangs_up, refuses(500, ApiCode.INTERNAL_ERROR)]
)
def test_what_stops_one_object_for_all_stops_all(server: ScriptedApi, reply: Reply) -> None:
    server.on("PUT", PATHS[0], reply)
    assert run(["apply", "-f", "all.yaml"]) == 5
    assert server.requests_to("PUT", PATHS[1]) == []


def test_a_new_signing_secret_is_shown_once_and_not_as_data(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("PUT", PATHS[1], says({"outcome": "created", "generated_secret": SECRET}, 201))
    assert run(["apply", "-f", "all.yaml", "--quiet"]) == 0
    shown = capsys.readouterr()
    assert SECRET in shown.err
    assert SECRET not in shown.out


def test_or_goes_into_a_file_that_only_its_owner_reads(
    server: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("PUT", PATHS[1], says({"outcome": "created", "generated_secret": SECRET}, 201))
    target = tmp_path / "secret"
    assert run(["apply", "-f", "all.yaml", "--secret-out", str(target)]) == 0
    assert target.read_text(encoding="utf-8") == f"{SECRET}\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    shown = capsys.readouterr()
    assert SECRET not in shown.out + shown.err


@pytest.mark.usefixtures("server")
def test_json_lists_what_became_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    run(["apply", "-f", "all.yaml", "-o", "json"])
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "datarecs.cli.apply/1"
    assert document["items"][0] == {"name": "connection/files", "outcome": "created"}


def as_stored(_request: httpx.Request) -> httpx.Response:
    """The rule as the server holds it: another recipient."""
    spec = {"enabled": True, "to": [{"address": "old@example.com"}]}
    return httpx.Response(200, json={"spec": spec, "metadata": {"labels": {"team": "a"}}})


def test_a_dry_run_against_the_server_shows_each_change_and_writes_nothing(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in PATHS[:2]:
        server.on("GET", path, refuses(404, ApiCode.NOT_FOUND))
    server.on("GET", PATHS[2], as_stored)
    wanted = {"spec": {"enabled": True, "to": [{"address": "finops@example.com"}]}}
    labels = {"metadata": {"labels": {"team": "a"}}}
    server.on("PUT", PATHS[2], says({"outcome": "configured", **wanted, **labels}))
    for path in PATHS[:2]:
        server.on("PUT", path, says({"outcome": "created"}))
    arguments = ["apply", "-f", "all.yaml", "--dry-run", "server"]
    assert run([*arguments, "--exit-code"]) == 1
    assert run(arguments) == 0
    shown = capsys.readouterr().out
    assert "notification-rule/finance configured" in shown
    assert '~ spec.to[0].address: "old@example.com" -> "finops@example.com"' in shown
    assert {one.url.params["dry_run"] for one in server.requests_to("PUT")} == {"true"}


def test_a_dry_run_of_the_client_calls_no_server(server: ScriptedApi) -> None:
    assert run(["apply", "-f", "all.yaml", "--dry-run", "client"]) == 0
    assert run(["apply", "-f", "all.yaml", "--dry-run", "maybe"]) == 2
    assert server.requests == []


def test_differences_name_every_field_that_differs() -> None:
    held = {"a": [1, {"b": "x"}], "gone": None}
    wanted = {"a": [1, {"b": "y"}, 2]}
    assert list(differences(held, wanted, "spec")) == [
        '~ spec.a[1].b: "x" -> "y"',
        "~ spec.a[2]: null -> 2",
    ]


def an_object(name: str) -> dict[str, object]:
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": "u",
        "generation": 2,
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-15T12:00:00.000000Z",
        "deletionTimestamp": None,
        "labels": {"team": "a"},
        "annotations": {"datarecs.io/reconcile-at": "2026-01-15T12:30:00Z"},
        "finalizers": [],
    }
    spec = {"to": [{"address": "finops@example.com"}]}
    return {
        "apiVersion": "datarecs.io/v1",
        "kind": "NotificationRule",
        "metadata": metadata,
        "spec": spec,
        "status": {"observed_generation": 2},
    }


def test_a_list_is_a_table(server: ScriptedApi, capsys: pytest.CaptureFixture[str]) -> None:
    server.on("GET", "/notification-rules", says({"items": [an_object("finance")], "next": None}))
    assert run(["get", "rules"]) == 2
    assert run(["get", "rule"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [
        "finance",
        "default",
        "2",
        "2026-01-15T12:00:00.000000Z",
    ]


def test_an_exported_object_can_be_applied_again(
    server: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", PATHS[2], says(an_object("finance")))
    assert run(["get", "rule", "finance", "-o", "yaml", "--export"]) == 0
    shown = capsys.readouterr().out
    assert "annotations" not in shown
    (tmp_path / "again.yaml").write_text(shown, encoding="utf-8")
    assert run(["apply", "-f", "again.yaml"]) == 0


@pytest.mark.case("R67")
def test_an_exported_list_can_be_applied_again(
    server: ScriptedApi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"finance-{number}" for number in range(60)]
    page = {"items": [an_object(name) for name in names], "next": None}
    server.on("GET", "/notification-rules", says(page))
    assert run(["get", "notification-rules", "--export"]) == 0
    (tmp_path / "again.yaml").write_text(capsys.readouterr().out, encoding="utf-8")
    assert run(["validate", "again.yaml"]) == 0
    for name in names:
        server.on("PUT", f"/notification-rules/{name}", says({"outcome": "unchanged"}))
    assert run(["apply", "-f", "again.yaml"]) == 0
    assert capsys.readouterr().out.count(" unchanged") == len(names)


def test_an_export_of_nothing_says_so(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/notification-rules", says({"items": [], "next": None}))
    assert run(["get", "notification-rules", "--export"]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "no notification-rules to export\n")


@pytest.mark.parametrize("arguments", [["notification-rules"], ["rule", "finance"], ["runs"]])
def test_an_export_that_cannot_be_applied_is_refused(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    server.on("GET", PATHS[2], says(an_object("finance")))
    for output in ("table", "json"):
        assert run(["get", *arguments, "--export", "-o", output]) == 2
        assert "export" in capsys.readouterr().err


def test_an_empty_list_says_what_to_do(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/jobs", says({"items": [], "next": None}))
    server.on("GET", "/runs", says({"items": [], "next": None}))
    assert run(["get", "jobs"]) == run(["get", "runs"]) == 0
    shown = capsys.readouterr().err
    assert "datarecs apply -f FILE" in shown
    assert "datarecs run JOB" in shown


def test_runs_are_filtered_by_the_server(server: ScriptedApi) -> None:
    server.on("GET", "/runs", says({"items": [], "next": None}))
    run(["get", "runs", "--job", "orders", "--result", "UNMATCHED", "--limit", "3"])
    assert dict(server.requests[0].url.params) == {
        "job": "orders",
        "result": "UNMATCHED",
        "limit": "4",
    }
    assert run(["get", "jobs", "--job", "orders"]) == 2


def test_a_list_that_is_cut_says_so(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [an_object(f"finance-{number}") for number in range(51)]
    server.on("GET", "/notification-rules", says({"items": items, "next": None}))
    assert run(["get", "notification-rules", "-o", "json"]) == 0
    shown = capsys.readouterr()
    assert len(json.loads(shown.out)["items"]) == 50
    assert "only the newest 50 notification-rules; --limit 500 lists more" in shown.err
    assert run(["get", "notification-rules", "--limit", "51"]) == 0
    assert "only the newest" not in capsys.readouterr().err


def test_an_unknown_kind_or_name_is_wrong_usage(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/jobs/nix", refuses(404, ApiCode.NOT_FOUND))
    assert run(["get", "tables"]) == run(["get", "job", "nix"]) == 2
    assert "known: connections, jobs" in capsys.readouterr().err


@pytest.mark.parametrize(("status", "word"), [(200, "deleted"), (202, "deleting")])
def test_a_deletion_says_how_far_it_came(
    server: ScriptedApi, status: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("DELETE", PATHS[2], says(an_object("finance"), status))
    assert run(["delete", "rule", "finance", "--yes"]) == 0
    assert capsys.readouterr().out == f"notification-rule/finance {word}\n"
    assert server.requests[0].headers["if-match"] == "*"


def test_nothing_is_deleted_unasked_without_a_person(server: ScriptedApi) -> None:
    assert run(["delete", "rule", "finance"]) == 2
    assert server.requests == []


def test_a_run_shows_the_reason_of_its_trigger(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = a_run_view(trigger_reason="the books were corrected")
    server.on("GET", "/runs", says({"items": [shown], "next": None}))
    server.on("GET", f"/runs/{RUN_ID}", says(shown))
    for command in (["get", "runs"], ["get", "run", RUN_ID]):
        assert run(command) == 0
        assert "the books were corrected" in capsys.readouterr().out
