"""`datarecs capture`: flags, what is sent, what is shown, exit codes."""

import json
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from datarecs_cli.capture_flags import Flags, wanted_capture
from datarecs_cli.capture_screens import tree_lines
from datarecs_cli.invocation import UsageFault
from datarecs_cli.main import run
from datarecs_cli.output import ASCII, UNICODE
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.captures import CaptureCode
from datarecs_core.errors.security import SecurityCode
from datarecs_runtime.clock import SystemClock
from datarecs_testing.scripted_api import ScriptedApi, hangs_up, refuses, says, written_credentials

JOB = "01890a5d-ac96-774b-bcce-b302099a8101"
TABLE = "01890a5d-ac96-774b-bcce-b302099a8102"
SMALLEST = ["lake", "--full", "--all", "--mode", "metadata-only"]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setattr(SystemClock, "wait", lambda _self, _time: None)
    written_credentials(tmp_path)
    scripted = ScriptedApi()
    scripted.on("POST", "/capture-jobs", says(begun(), 202))
    with scripted.in_place_of_the_network():
        yield scripted


def begun(**changes: object) -> dict[str, object]:
    return {"job_id": JOB, "state": "QUEUED", "deduped": False, **changes}


def a_job(state: str = "SUCCEEDED", **changes: object) -> dict[str, object]:
    return {
        "job_id": JOB,
        "kind": "PLAN_CONNECTOR",
        "state": state,
        "connection": "lake",
        "object": None,
        "snapshot_id": None,
        "group": None,
        "mode": "METADATA_ONLY",
        "error": None,
        "created_at": "2026-01-15T12:00:00.000000Z",
        "counters": {},
        "totals": {},
        **changes,
    }


def sent(server: ScriptedApi, path: str = "/capture-jobs") -> Mapping[str, object]:
    (request,) = server.requests_to("POST", path)
    body: Mapping[str, object] = json.loads(request.content)
    return body


class TestFlags:
    def test_the_metadata_of_every_snapshot(
        self, server: ScriptedApi, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["capture", "start", *SMALLEST]) == 0
        assert sent(server) == {
            "connection": "lake",
            "mode": "METADATA_ONLY",
            "full_rescan": True,
            "snapshots": {"select": "ALL"},
        }
        assert capsys.readouterr().out == f"{JOB}\n"

    def test_the_statistics_of_what_is_new(self, server: ScriptedApi) -> None:
        line = "lake --incremental --current --mode metadata-and-capture --capture stats"
        assert run(["capture", "start", *line.split()]) == 0
        assert sent(server) == {
            "connection": "lake",
            "mode": "METADATA_AND_CAPTURE",
            "full_rescan": False,
            "outputs": ["TABLE_STATS", "COLUMN_STATS", "FILE_STATS"],
            "snapshots": {"select": "CURRENT"},
        }

    def test_every_flag_is_sent(self, server: ScriptedApi) -> None:
        line = (
            "books/lake --incremental --snapshot 1,9007199254740993 --mode capture-only "
            "--capture stats,index --table a.t --table b.u --columns id,amount --class batch "
            "--lane fast"
        )
        assert run(["capture", "start", *line.split()]) == 0
        assert sent(server) == {
            "connection": "lake",
            "mode": "CAPTURE_ONLY",
            "full_rescan": False,
            "scope": {"tables": ["a.t", "b.u"]},
            "outputs": ["TABLE_STATS", "COLUMN_STATS", "FILE_STATS", "PARQUET_PAGE_INDEX"],
            "columns": {"choice": "EXPLICIT_ONLY", "names": ["id", "amount"]},
            "snapshots": {"select": "EXPLICIT", "ids": ["1", "9007199254740993"]},
            "execution": {"class": "BATCH", "lane": "fast"},
        }
        (request,) = server.requests_to("POST")
        assert request.url.params["namespace"] == "books"
        assert "Idempotency-Key" in request.headers

    @pytest.mark.parametrize(
        ("flags", "expected"),
        [
            ("--columns all", {"choice": "ALL"}),
            ("--columns 10", {"choice": "FIRST_N", "first": 10}),
        ],
    )
    def test_columns(self, server: ScriptedApi, flags: str, expected: object) -> None:
        line = f"lake --full --all --mode metadata-and-capture --capture stats {flags}"
        assert run(["capture", "start", *line.split()]) == 0
        assert sent(server)["columns"] == expected

    def test_a_view_has_no_snapshots(self, server: ScriptedApi) -> None:
        line = "lake --full --view sales.open_orders --mode metadata-only"
        assert run(["capture", "start", *line.split()]) == 0
        assert sent(server)["scope"] == {"view": "sales.open_orders"}
        assert "snapshots" not in sent(server)

    @pytest.mark.case("Q45")
    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("lake", ["--full and --incremental", "--mode is missing", "exactly one of --current"]),
            (
                "lake --full --incremental --current --all",
                ["--full and --incremental", "--mode is missing", "not --current and --all"],
            ),
            (
                "lake --full --view a.v --all --mode metadata-only",
                ["--all: a view has no snapshots"],
            ),
            (
                "lake --full --all --mode metadata-and-capture",
                ["--capture: METADATA_AND_CAPTURE needs outputs"],
            ),
            (
                "lake --full --all --mode metadata-only --capture fingerprint,stat",
                ["fingerprint is not captured in this release", "did you mean 'stats'?"],
            ),
            (
                "Lake --full --latest-n 0 --mode everything --class slow",
                ["CONNECTION: ", "--latest-n: 1 to", "--mode everything", "--class slow"],
            ),
            (
                "lake --full --snapshot x,1 --mode capture-only --capture stats --namespace a",
                ["--snapshot x", "--namespace: CAPTURE_ONLY", "--table: CAPTURE_ONLY needs"],
            ),
            (
                "lake --full --all --mode metadata-only --columns 5 --table orders",
                ["--columns: no output", "--table: the namespace is missing"],
            ),
            (
                "lake --full --all --mode metadata-only --lane x.y/..",
                ["--lane: at most 63 letters"],
            ),
        ],
    )
    def test_all_violations_are_listed_before_a_server_is_called(
        self,
        server: ScriptedApi,
        capsys: pytest.CaptureFixture[str],
        line: str,
        words: list[str],
    ) -> None:
        assert run(["capture", "start", *line.split()]) == 2
        assert server.requests == []
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == len(words) + 1
        for word in words:
            assert any(word in one for one in lines), (word, lines)

    @pytest.mark.parametrize("wait", ["0s", "61", "soon", "-1s"])
    def test_a_wait_out_of_range_is_refused(self, wait: str) -> None:
        flags = Flags(connection="lake", full=True, every=True, mode="metadata-only", max_wait=wait)
        with pytest.raises(UsageFault, match="--max-wait"):
            wanted_capture(flags)


class TestWaiting:
    def start(self, server: ScriptedApi, *states: str, **changes: object) -> int:
        jobs = [says(a_job(state, **changes)) for state in states]
        server.on("GET", f"/capture-jobs/{JOB}", *jobs)
        return run(["capture", "start", *SMALLEST, "--wait"])

    @pytest.mark.case("Q45")
    @pytest.mark.parametrize(("state", "code"), [("SUCCEEDED", 0), ("FAILED", 3), ("CANCELLED", 4)])
    def test_the_end_decides_the_exit_code(
        self, server: ScriptedApi, capsys: pytest.CaptureFixture[str], state: str, code: int
    ) -> None:
        error = {"code": "TABLE_MISSING", "message": "no table orders"}
        totals = {"tables_scanned": 3, "file_groups_total": 2, "file_groups_completed": 1}
        changes = {"error": error if state == "FAILED" else None, "totals": totals}
        assert self.start(server, "QUEUED", "WAITING", state, **changes) == code
        (line,) = capsys.readouterr().out.splitlines()
        assert f"{JOB} {state}" in line
        assert "tables 3, groups 1 of 2" in line
        assert ("TABLE_MISSING: no table orders" in line) is (state == "FAILED")

    def test_the_job_and_the_command_that_shows_it_are_printed_before_the_wait(
        self, server: ScriptedApi, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.start(server, "SUCCEEDED") == 0
        assert f"show it with: datarecs capture get {JOB}" in capsys.readouterr().err

    def test_a_lost_connection_is_repaired_within_the_wait(
        self, server: ScriptedApi, capsys: pytest.CaptureFixture[str]
    ) -> None:
        starting = refuses(500, ApiCode.INTERNAL_ERROR)
        server.on("GET", f"/capture-jobs/{JOB}", *[hangs_up] * 9, starting, says(a_job()))
        assert run(["capture", "start", *SMALLEST, "--wait"]) == 0
        shown = capsys.readouterr()
        assert f"{JOB} SUCCEEDED" in shown.out
        assert shown.err.count("connection lost") == 1

    def test_a_server_that_stays_away_ends_the_waiting_only(
        self,
        server: ScriptedApi,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        times = iter(range(0, 10_000, 60))
        monkeypatch.setattr(SystemClock, "monotonic", lambda _self: float(next(times)))
        server.on("GET", f"/capture-jobs/{JOB}", hangs_up)
        assert run(["capture", "start", *SMALLEST, "--wait"]) == 5
        lines = capsys.readouterr().err
        assert f"the capture goes on; show it with: datarecs capture get {JOB}" in lines

    def test_a_key_that_may_not_read_the_job_ends_the_waiting_at_once(
        self, server: ScriptedApi
    ) -> None:
        server.on("GET", f"/capture-jobs/{JOB}", refuses(403, SecurityCode.FORBIDDEN))
        assert run(["capture", "start", *SMALLEST, "--wait"]) == 5
        assert len(server.requests_to("GET")) == 1

    def test_a_failure_is_printed_whole_with_the_number_of_failed_tables(
        self, server: ScriptedApi, capsys: pytest.CaptureFixture[str]
    ) -> None:
        message = f"{'the folder has two formats; ' * 20}move one of them"
        error = {"code": "SOURCE_UNSUPPORTED", "message": message}
        totals = {"tables_scanned": 3, "tables_failed": 2, "views_failed": 1, "entries_left_out": 4}
        assert self.start(server, "FAILED", error=error, totals=totals) == 3
        shown = capsys.readouterr()
        assert message in shown.out
        assert "tables 3, failed tables 2, failed views 1, left out 4" in shown.out
        assert f"list what failed with: datarecs capture tree {JOB} --failed" in shown.err

    def test_a_success_has_the_number_of_entries_that_are_left_out(
        self, server: ScriptedApi, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert (
            self.start(server, "SUCCEEDED", totals={"tables_scanned": 3, "entries_left_out": 4})
            == 0
        )
        shown = capsys.readouterr()
        assert "tables 3, left out 4" in shown.out
        assert "--failed" not in shown.err

    def test_a_time_limit_ends_the_waiting_only(
        self,
        server: ScriptedApi,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        times = iter(range(0, 1000, 3))
        monkeypatch.setattr(SystemClock, "monotonic", lambda _self: float(next(times)))
        server.on("GET", f"/capture-jobs/{JOB}", says(a_job("WAITING")))
        assert run(["capture", "start", *SMALLEST, "--wait", "--timeout", "5"]) == 3
        assert f"datarecs capture get {JOB}" in capsys.readouterr().err

    def test_an_interrupt_ends_the_waiting_only(
        self,
        server: ScriptedApi,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def interrupted(_self: object, _time: timedelta) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(SystemClock, "wait", interrupted)
        server.on("GET", f"/capture-jobs/{JOB}", says(a_job("WAITING")))
        assert run(["capture", "start", *SMALLEST, "--wait"]) == 130
        assert f"datarecs capture cancel {JOB}" in capsys.readouterr().err
        assert server.requests_to("POST", f"/capture-jobs/{JOB}/cancel") == []

    @pytest.mark.parametrize(
        ("state", "timed_out", "deduped", "code"),
        [
            ("SUCCEEDED", False, False, 0),
            ("FAILED", False, False, 3),
            ("CANCELLING", True, False, 4),
            ("WAITING", True, True, 3),
        ],
    )
    def test_now_waits_on_the_server(
        self,
        server: ScriptedApi,
        capsys: pytest.CaptureFixture[str],
        state: str,
        code: int,
        *,
        timed_out: bool,
        deduped: bool,
    ) -> None:
        answer = {"job": a_job(state), "timed_out": timed_out, "deduped": deduped}
        server.on("POST", "/capture-jobs/now", says(answer))
        assert run(["capture", "now", *SMALLEST, "--max-wait", "45s"]) == code
        (request,) = server.requests
        assert request.url.params["max_wait"] == "45"
        assert request.extensions["timeout"]["read"] >= 75
        assert ("had not ended" in capsys.readouterr().err) is timed_out

    @pytest.mark.case("Q45")
    @pytest.mark.parametrize(
        ("status", "code"), [(401, SecurityCode.UNAUTHENTICATED), (403, SecurityCode.FORBIDDEN)]
    )
    def test_a_refused_key_has_its_exit_code(
        self, server: ScriptedApi, status: int, code: SecurityCode
    ) -> None:
        server.on("POST", "/capture-jobs", refuses(status, code))
        assert run(["capture", "start", *SMALLEST]) == 5


class TestReading:
    def test_get_prints_a_line_or_the_document(
        self, server: ScriptedApi, capsys: pytest.CaptureFixture[str]
    ) -> None:
        job = a_job("WAITING", totals={"files_total": 12})
        server.on("GET", f"/capture-jobs/{JOB}", says(job))
        assert run(["capture", "get", JOB]) == 0
        assert capsys.readouterr().out == f"◌ {JOB} WAITING  files 12\n"
        assert run(["capture", "get", JOB, "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["object"] == job
        assert run(["capture", "get", JOB, "-o", "csv"]) == 2

    @pytest.mark.parametrize("verb", ["start", "now"])
    def test_a_usage_error_names_the_help_of_the_sub_command(
        self, capsys: pytest.CaptureFixture[str], verb: str
    ) -> None:
        for arguments in (["lake"], ["lake", "--wrong"], []):
            assert run(["capture", verb, *arguments]) == 2
            assert f"help  datarecs capture {verb} --help" in capsys.readouterr().err
        assert run(["capture", "strat"]) == 2
        assert "help  datarecs capture --help" in capsys.readouterr().err

    def test_an_unknown_connection_names_the_command_that_lists_them(
        self, server: ScriptedApi, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.on("POST", "/capture-jobs", refuses(404, ApiCode.NOT_FOUND))
        assert run(["capture", "start", *SMALLEST]) == 2
        assert "`datarecs get connections`" in capsys.readouterr().err

    def test_an_unknown_job_is_a_usage_error(self, server: ScriptedApi) -> None:
        server.on("GET", f"/capture-jobs/{JOB}", refuses(404, CaptureCode.CAPTURE_NOT_FOUND))
        assert run(["capture", "get", JOB]) == 2

    def test_a_tree_is_drawn_from_all_pages(
        self, server: ScriptedApi, capsys: pytest.CaptureFixture[str]
    ) -> None:
        items = a_tree()
        server.on(
            "GET",
            f"/capture-jobs/{JOB}/tree",
            says({"items": items[:3], "next": "c"}),
            says({"items": items[3:], "next": None}),
        )
        assert run(["capture", "tree", JOB]) == 0
        assert capsys.readouterr().out.splitlines() == [
            (
                "◌ PLAN_CONNECTOR lake WAITING  "
                "tables 2, failed tables 1, snapshots 1, captured 4, groups 1 of 2"
            ),
            "├─ ✓ PLAN_TABLE default.a SUCCEEDED  tables 2, snapshots 1, captured 4, groups 1 of 2",
            "│  └─ ◌ PLAN_SNAPSHOT default.a snapshot 7 WAITING  captured 4, groups 1 of 2",
            "│     ├─ ✓ EXEC_FILE_GROUP group 0 SUCCEEDED  captured 4",
            "│     └─ ◌ FINALIZE_SNAPSHOT_CAPTURE default.a snapshot 7 QUEUED",
            "└─ ✖ PLAN_TABLE default.b FAILED  TABLE_MISSING: it was dropped",
        ]

    def test_a_tree_of_the_failed_parts_has_what_is_above_them(
        self, server: ScriptedApi, capsys: pytest.CaptureFixture[str]
    ) -> None:
        below = {"depth": 2, "kind": "PLAN_SNAPSHOT", "object": "default.b", "snapshot_id": "9"}
        items = [*a_tree(), a_job("FAILED", **below), a_job(depth=1, kind="PLAN_TABLE")]
        server.on("GET", f"/capture-jobs/{JOB}/tree", says({"items": items, "next": None}))
        assert run(["capture", "tree", JOB, "--failed", "-o", "json"]) == 0
        shown = json.loads(capsys.readouterr().out)["items"]
        assert [(one["depth"], one["object"]) for one in shown] == [
            (0, None),
            (1, "default.b"),
            (2, "default.b"),
        ]
        server.on("GET", f"/capture-jobs/{JOB}/tree", says({"items": items[:2], "next": None}))
        assert run(["capture", "tree", JOB, "--failed"]) == 0
        assert capsys.readouterr().err == "no part of it has failed\n"

    def test_a_plain_terminal_gets_ascii(self) -> None:
        lines = list(tree_lines(a_tree(), ASCII))
        assert all(line.isascii() for line in lines)
        assert lines[2].startswith("|  `- RUN PLAN_SNAPSHOT")
        assert len(lines) == len(list(tree_lines(a_tree(), UNICODE)))

    def test_a_list_has_captures_or_their_parts(
        self, server: ScriptedApi, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.on("GET", "/capture-jobs", says({"items": [a_job()], "next": None}))
        assert run(["capture", "list", "--connection", "books/lake", "-o", "csv"]) == 0
        assert JOB in capsys.readouterr().out
        assert run(["capture", "list", "--kind", "PLAN_TABLE", "--state", "FAILED"]) == 0
        first, second = (one.url.params for one in server.requests)
        assert (first["roots_only"], first["connection"], first["namespace"]) == (
            *("true", "lake", "books"),
        )
        assert (second["roots_only"], second["kind"]) == ("false", "PLAN_TABLE")

    def test_a_status_is_that_of_the_catalogue(
        self, server: ScriptedApi, capsys: pytest.CaptureFixture[str]
    ) -> None:
        status = {"state": "FINALIZED", "generation": 2}
        server.on("GET", f"/catalog/tables/{TABLE}/snapshots/7/capture-status", says(status))
        assert run(["capture", "status", TABLE, "7"]) == 0
        expected = "snapshot_id: '7'\nstate: FINALIZED\ngeneration: 2\n"
        assert capsys.readouterr().out == expected
        server.on("GET", "/catalog/resolve", says({"kind": "table", "id": TABLE}))
        current = {"record": {"snapshot_id": "7"}}
        server.on("GET", f"/catalog/tables/{TABLE}/snapshots/current", says(current))
        assert run(["capture", "status", "lake.default.orders"]) == 0
        assert capsys.readouterr().out == expected

    def test_names_of_a_list_are_ids(
        self, server: ScriptedApi, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.on("GET", "/capture-jobs", says({"items": [a_job("RUNNING")], "next": None}))
        assert run(["capture", "list", "-o", "name"]) == 0
        assert capsys.readouterr().out == f"{JOB}\n"


class TestActing:
    def test_a_cancel_has_its_reason(
        self, server: ScriptedApi, capsys: pytest.CaptureFixture[str]
    ) -> None:
        server.on("POST", f"/capture-jobs/{JOB}/cancel", says(a_job("CANCELLING")))
        assert run(["capture", "cancel", JOB, "--reason", "wrong tables"]) == 0
        assert sent(server, f"/capture-jobs/{JOB}/cancel") == {"reason": "wrong tables"}
        assert "CANCELLING" in capsys.readouterr().out

    def test_an_ended_capture_cannot_be_cancelled(self, server: ScriptedApi) -> None:
        refused = refuses(409, CaptureCode.CAPTURE_ENDED)
        server.on("POST", f"/capture-jobs/{JOB}/cancel", refused)
        assert run(["capture", "cancel", JOB]) == 5

    def test_a_release(self, server: ScriptedApi) -> None:
        server.on("POST", f"/capture-jobs/{JOB}/release", says(a_job("RUNNING")))
        assert run(["capture", "release", JOB]) == 0


def a_tree() -> list[dict[str, object]]:
    at = {"object": "default.a", "snapshot_id": "7"}
    error = {"code": "TABLE_MISSING", "message": "it was dropped"}
    planned = {"tables_scanned": 2, "snapshots_planned": 1}
    return [
        a_job("WAITING", depth=0, counters={}),
        a_job(depth=1, kind="PLAN_TABLE", object="default.a", counters=planned),
        a_job("WAITING", depth=2, kind="PLAN_SNAPSHOT", counters={"file_groups_total": 2}, **at),
        a_job(depth=3, kind="EXEC_FILE_GROUP", group=0, counters={"files_completed": 4}, **at),
        a_job("QUEUED", depth=3, kind="FINALIZE_SNAPSHOT_CAPTURE", **at),
        a_job("FAILED", depth=1, kind="PLAN_TABLE", object="default.b", error=error),
    ]
