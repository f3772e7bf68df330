"""`datarecs sink`: what is shown of a sink, and what is sent to steer it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from datarecs_cli.main import run
from datarecs_core.errors.sink import SinkCode
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.jobs.vocabulary import TopicEdge
from datarecs_core.scheduling.schedule import Schedule
from datarecs_specs.documents import decode_yaml
from datarecs_testing.scripted_api import ScriptedApi, refuses, says, written_credentials

AT = "2026-11-27T12:00:00.000000Z"
COMMIT = "01890a5d-ac96-774b-bcce-b302099a8101"
PLACE = "/sink-tables/landing"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    monkeypatch.chdir(tmp_path)
    written_credentials(tmp_path)
    scripted = ScriptedApi()
    scripted.on("GET", PLACE, says(a_sink()))
    with scripted.in_place_of_the_network():
        yield scripted


def a_sink(**status: object) -> dict[str, Any]:
    return {
        "apiVersion": "datarecs.io/v1",
        "kind": "SinkTable",
        "metadata": {
            "name": "landing",
            "namespace": "default",
            "generation": 1,
            "creationTimestamp": AT,
        },
        "spec": {"connection": "kafka", "topics": ["orders", "refunds"], "tables": []},
        "status": {
            "phase": "Committing",
            "conditions": [],
            "lag": 12,
            "epoch": 2,
            "dead_letters": 1,
            "workers": 1,
            "tasks": 2,
            "last_commit_id": COMMIT,
            "last_commit_at": AT,
            "valid_through_ts": AT,
            **status,
        },
    }


def a_partition(number: int, **changes: object) -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": number,
        "committed": 5,
        "largest_ts": AT,
        "position": 7,
        "end": 9,
        **changes,
    }


def test_sinks_are_listed_with_their_state(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/sink-tables", says({"items": [a_sink()], "next": None}))
    assert run(["sink", "ls"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        *("NAME", "NAMESPACE", "TOPICS", "PHASE", "TASKS", "LAG", "LAST", "COMMIT", "PROVEN")
    ]
    assert lines[1].split() == [
        *("landing", "default", "orders,", "refunds", "Committing", "1/2", "12", AT)
    ]


def test_the_proof_of_a_sink_is_shown(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = {"type": "Proven", "status": "False", "reason": "Unmatched", "last_transition_time": AT}
    proof = {"job": "orders-proof", "run_id": COMMIT, "result": "UNMATCHED", "finished_at": AT}
    proven = a_sink(conditions=[claim], last_proofs=[proof])
    server.on("GET", "/sink-tables", says({"items": [proven], "next": None}))
    assert run(["sink", "ls"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[-2:] == [AT, "False"]
    server.on("GET", PLACE, says(proven))
    assert run(["describe", "sink-table", "landing"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "  Proven  False    Unmatched, since 2026-11-27 12:00:00 UTC" in shown
    assert (
        f"last proof       orders-proof UNMATCHED, 2026-11-27 12:00:00 UTC, run {COMMIT}" in shown
    )


def test_a_sink_may_be_awaited_until_it_is_proven(server: ScriptedApi) -> None:
    claim = {"type": "Proven", "status": "True", "reason": "Matched", "last_transition_time": AT}
    server.on("GET", PLACE, says(a_sink(conditions=[claim], observed_generation=1)))
    assert run(["wait", "sink-table", "landing", "--for", "condition=Proven"]) == 0


def test_no_sinks_say_how_to_declare_one(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("GET", "/sink-tables", says({"items": [], "next": None}))
    assert run(["sink", "ls", "--namespace", "*"]) == 0
    assert "datarecs apply -f FILE" in capsys.readouterr().err
    assert server.requests[-1].url.params["namespace"] == "*"


def test_the_status_shows_figures_and_partitions(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    error = {"code": "COMMIT_FAILED", "message": "409"}
    server.on("GET", PLACE, says(a_sink(last_error=error, unrouted=3, tombstones=0)))
    items = [a_partition(0), a_partition(1, committed=None, largest_ts=None)]
    server.on("GET", f"{PLACE}/partitions", says({"items": items, "next": None}))
    assert run(["sink", "status", "landing"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "SinkTable landing in namespace default",
        "  phase       Committing",
        "  generation  1",
        "  created     2026-11-27 12:00:00 UTC",
        "tasks            1 of 2 run",
        "records waiting  12",
        "dead letters     1",
        "for no table     3, since its tasks began",
        "last commit      2026-11-27 12:00:00 UTC",
        "valid through    2026-11-27 12:00:00 UTC",
        "last error       COMMIT_FAILED: 409",
        "partitions",
        "  TOPIC   PARTITION  COMMITTED  READ  END  NEWEST",
        "  orders          0          5     7    9  2026-11-27 12:00:00 UTC",
        "  orders          1                7    9  -",
    ]
    assert run(["sink", "status", "landing", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["partitions"] == items
    assert run(["sink", "status", "landing", "-o", "csv"]) == 2


def test_a_decision_about_a_table_is_sent_and_shown(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("POST", f"{PLACE}/actions/accept-table", says(a_sink()))
    command = ["sink", "accept-table", "landing", "sales.orders", "--records", "leave_out"]
    assert run(command) == 0
    assert json.loads(server.requests[-1].content) == {
        "table": "sales.orders",
        "records": "leave_out",
    }
    assert "decides about table sales.orders next" in capsys.readouterr().out
    assert run([*command, "--catalog", "lake"]) == 0
    assert json.loads(server.requests[-1].content)["catalog"] == "lake"
    assert run(command[:-2]) == 2
    assert run([*command[:-1], "drop"]) == 2
    capsys.readouterr()
    decided = {
        "catalog": "lake",
        "table": "sales.orders",
        "records": "commit",
        "state": "refused",
        "message": "the file x does not exist",
    }
    server.on("GET", PLACE, says(a_sink(table_decision=decided)))
    server.on("GET", f"{PLACE}/partitions", says({"items": [], "next": None}))
    assert run(["sink", "status", "landing"]) == 0
    assert (
        "decision         commit for sales.orders is refused: the file x does not exist"
        in capsys.readouterr().out
    )


def test_commits_are_listed(server: ScriptedApi, capsys: pytest.CaptureFixture[str]) -> None:
    commit = {
        "commit_id": COMMIT,
        "completed_at": AT,
        "epoch": 2,
        "partial": True,
        "control_offset": 40,
        "valid_through_ts": None,
        "records": 12,
        "snapshots": [{"table": "orders"}],
    }
    server.on("GET", f"{PLACE}/commits", says({"items": [commit], "next": None}))
    assert run(["sink", "commits", "landing", "--limit", "5"]) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [COMMIT, AT, "partial", "12", "1"]
    assert run(["sink", "commits", "landing", "-o", "name"]) == 0
    assert capsys.readouterr().out == f"{COMMIT}\n"
    assert run(["sink", "commits", "landing", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["items"] == [commit]


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("pause", "pauses after its next commit"),
        ("resume", "resumed"),
        ("commit-now", "commit requested"),
        ("retry", "stopped tasks begin again"),
    ],
)
def test_a_verb_is_sent_once_with_a_key(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str], verb: str, words: str
) -> None:
    server.on("POST", f"{PLACE}/actions/{verb}", says(a_sink(), 202))
    assert run(["sink", verb, "landing"]) == 0
    assert capsys.readouterr().out == f"sink-table/landing {words}\n"
    (request,) = server.requests_to("POST", f"{PLACE}/actions/{verb}")
    assert request.headers["Idempotency-Key"]
    assert json.loads(request.content) == {}


def test_a_reset_sends_its_positions(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    items = [a_partition(0), a_partition(1), a_partition(2)]
    server.on("GET", f"{PLACE}/partitions", says({"items": items, "next": None}))
    server.on("POST", f"{PLACE}/actions/reset", says(a_sink(), 202))
    words = [f"--position {one}" for one in ("orders/0=4", "orders/1=7", "orders/2=5", "a.b/00=9")]
    line = f"sink reset landing {' '.join(words)}"
    assert run(line.split()) == 2
    assert "reset landing: without a terminal, add --yes" in capsys.readouterr().err
    assert not server.requests_to("POST", f"{PLACE}/actions/reset")
    assert run([*line.split(), "--yes", "-o", "json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["object"]["kind"] == "SinkTable"
    assert shown.err.splitlines() == [
        "orders/0: back from 5 to 4: up to 1 records are written again",
        "orders/1: ahead from 5 to 7: up to 2 records are left out for good",
        "orders/2: goes on at 5, which is what is committed",
        "a.b/0: goes on at 9; nothing of it is committed",
        "partitions that are not named stay where they are",
    ]
    (request,) = server.requests_to("POST", f"{PLACE}/actions/reset")
    assert json.loads(request.content) == {
        "positions": {"orders": {"0": 4, "1": 7, "2": 5}, "a.b": {"0": 9}}
    }


@pytest.mark.parametrize("positions", [["orders=5"], ["orders/0"], ["o/0=1", "o/00=2"], ["/0=1"]])
def test_a_position_of_another_form_is_refused(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str], positions: list[str]
) -> None:
    flags = [word for one in positions for word in ("--position", one)]
    assert run(["sink", "reset", "landing", *flags]) == 2
    assert "--position" in capsys.readouterr().err
    assert not server.requests


def test_a_refused_verb_names_the_code(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    server.on("POST", f"{PLACE}/actions/retry", refuses(409, SinkCode.SINK_NOT_STARTED))
    assert run(["sink", "retry", "landing"]) == 5
    assert "DR7024" in capsys.readouterr().err


SPEC: Mapping[str, Any] = {
    "connection": "kafka",
    "topics": ["orders"],
    "tables": [{"catalog": "lake", "namespace": ["sales"], "name": "orders"}],
}


def prove(server: ScriptedApi, spec: Mapping[str, Any], *flags: str) -> int:
    server.on("GET", PLACE, says({**a_sink(), "spec": spec}))
    return run(["sink", "proof", "landing", *flags])


def test_the_proof_of_a_sink_is_a_job_to_apply(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--cron", "@daily", "--timezone", "Europe/Paris", "--window", "P7D")
    assert prove(server, SPEC, *flags, "--except", "tags") == 0
    job, schedule = decode_yaml(capsys.readouterr().out.encode())
    assert not job.faults
    assert job.declared is not None
    assert job.declared.name == "landing-proof"
    assert schedule.spec == Schedule(job="landing-proof", cron="@daily", timezone="Europe/Paris")
    assert isinstance(job.spec, ReconciliationJob)
    topic, table = job.spec.sources
    assert (topic.topic, topic.snapshot.end.edge) == ("orders", TopicEdge.WATERMARK)
    assert table.relation == "sales.orders"
    assert topic.filter == table.filter == "_kafka_timestamp >= :since"
    assert job.spec.parameters["since"].default == "{{ run.timestamp - 10080m }}"
    assert job.spec.stages[0].except_ == ("tags",)
    assert tuple(topic.columns) == ("_kafka_timestamp",)


def test_a_proof_compares_what_the_sink_writes_and_as_it_writes_it(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    assert prove(server, {**SPEC, "metadata_columns": "all", "case_insensitive": True}) == 0
    (job,) = decode_yaml(capsys.readouterr().out.encode())
    assert isinstance(job.spec, ReconciliationJob)
    topic = job.spec.sources[0]
    assert tuple(topic.columns) == ("_kafka_timestamp", "_kafka_key")
    assert topic.options == {"tombstones": "delete", "case_insensitive": True}


def test_a_proof_without_flags_is_one_job_of_the_whole_topic(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    start = {"start": {"timestamp": "2026-01-31T12:00:00Z"}}
    assert prove(server, {**SPEC, **start}) == 0
    (job,) = decode_yaml(capsys.readouterr().out.encode())
    assert isinstance(job.spec, ReconciliationJob)
    topic = job.spec.sources[0]
    assert topic.snapshot.start.timestamp == "2026-01-31T12:00:00.000000Z"
    assert (topic.filter, job.spec.parameters) == (None, {})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"topics": ["orders", "refunds"]}, "2 topics and 1 tables"),
        ({"metadata_columns": "none"}, "metadata_columns: offsets"),
        ({"start": "latest"}, "snapshot.from"),
        ({"mode": "cdc", "id_columns": ["id"], "cdc": {"field": "op"}}, "fold: latest_by_id"),
        ({"mode": "upsert", "id_columns": ["id"], "tombstones": "ignore"}, "let tombstones delete"),
    ],
)
def test_a_sink_that_no_job_can_prove_is_refused_with_what_to_do(
    server: ScriptedApi,
    capsys: pytest.CaptureFixture[str],
    change: Mapping[str, Any],
    words: str,
) -> None:
    assert prove(server, {**SPEC, **change}) == 2
    assert words in capsys.readouterr().err


def test_a_routed_sink_needs_a_proof_by_hand(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    (table,) = SPEC["tables"]
    routed = {**SPEC, "route": {"field": "type"}, "tables": [{**table, "route": {"prefix": "a"}}]}
    assert prove(server, routed) == 2
    assert "as `filter` of the topic" in capsys.readouterr().err


@pytest.mark.parametrize("flags", [("--window", "a week"), ("--window", "PT1S"), ("--cron", "?")])
def test_times_that_a_proof_cannot_have_are_refused(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str], flags: tuple[str, str]
) -> None:
    assert prove(server, SPEC, *flags) == 2
    assert capsys.readouterr().err


def test_a_row_of_the_newest_record_is_compared_with_it_of_any_age(
    server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    upsert = {**SPEC, "mode": "upsert", "id_columns": ["id"]}
    assert prove(server, upsert) == 0
    (job,) = decode_yaml(capsys.readouterr().out.encode())
    assert isinstance(job.spec, ReconciliationJob)
    options = {"fold": "latest_by_id", "id_columns": ("id",), "tombstones": "delete"}
    assert job.spec.sources[0].options == options
    assert prove(server, upsert, "--window", "P7D") == 2
    assert "of any age" in capsys.readouterr().err
