"""`validate`, `plan`, `compare`, `apply`, `run` and REST refuse the same documents alike.

The corpus is every shipped example and every bad document of the shapes' tests. What only a
server needs, or only whoever reads, is a note elsewhere: in the same words, at the same place.
"""

import json
import re
import runpy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from datarecs_cli.main import run
from datarecs_core.errors.api import ApiCode
from datarecs_core.resources.resource import Kind
from datarecs_specs.documents import decode_yaml
from datarecs_specs.kinds import KINDS
from datarecs_testing.api import memory_api
from datarecs_testing.scripted_api import ScriptedApi, refuses, says, written_credentials

ROOT = Path(__file__).parents[2]
LOCAL, SERVER = ("plan", "compare"), ("apply", "run")
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "validate": ("validate", "job.yaml"),
    "plan": ("plan", "--offline", "job.yaml"),
    "compare": ("compare", "--engine", "reference", "job.yaml"),
    "apply": ("apply", "-f", "job.yaml"),
    "run": ("run", "job.yaml", "--detach"),
}
_HEADLINE = re.compile(r"job\.yaml:(\d+):(\d+) (DR\d+)( note:| warning:)? (.*)")
JOB_CONNECTIONS = """\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {name: files}
spec: {type: files, config: {root: data}}
"""
SCHEDULE = """\
apiVersion: datarecs.io/v1
kind: Schedule
metadata: {name: nightly}
spec: {job: orders, cron: "30 2 * * *"}
"""
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


def _cases(module: Mapping[str, object], test: str) -> Iterator[object]:
    """The first argument of every case of a parametrized test."""
    for mark in getattr(module[test], "pytestmark", ()):
        if mark.name == "parametrize":
            yield from (case[0] if isinstance(case, tuple) else case for case in mark.args[1])


def _declared(kind: Kind, spec: object) -> str:
    document = {"apiVersion": "datarecs.io/v1", "kind": kind, "metadata": {"name": "x"}}
    return json.dumps({**document, "spec": spec})


def corpus() -> Iterator[tuple[str, str]]:
    """Every document with a name."""
    for file in sorted((ROOT / "docs/examples").glob("*.yaml")):
        yield file.name, file.read_text(encoding="utf-8")
    tests = ROOT / "libs/specs/tests"
    documents = runpy.run_path(str(tests / "test_documents.py"))
    yield "twelve faults", documents["TWELVE"]
    yield "minimal job", documents["MINIMAL"]
    shapes = runpy.run_path(str(tests / "test_job_shape.py"))
    text: Callable[..., str] = shapes["text"]
    for part, test in (
        ("source", "test_a_bad_source_is_reported"),
        ("stage", "test_a_bad_stage_is_reported"),
        ("rest", "test_the_rest_of_a_job_is_read_strictly"),
    ):
        for number, case in enumerate(_cases(shapes, test)):
            yield f"{part} {number}", text(**{part: case})
    others = runpy.run_path(str(tests / "test_other_kinds.py"))
    for kind, test in (
        (Kind.CONNECTION, "test_a_bad_connection_is_reported"),
        (Kind.WEBHOOK_ENDPOINT, "test_a_bad_endpoint_is_reported"),
        (Kind.NOTIFICATION_RULE, "test_a_bad_rule_is_reported"),
    ):
        for number, case in enumerate(_cases(others, test)):
            yield f"{kind} {number}", _declared(kind, case)
    schedules = runpy.run_path(str(tests / "test_schedule_shape.py"))
    for number, case in enumerate(_cases(schedules, "test_a_bad_schedule_is_reported")):
        yield f"schedule {number}", _declared(Kind.SCHEDULE, case)
    yaml = runpy.run_path(str(tests / "test_yaml_source.py"))
    written = _cases(yaml, "test_what_a_declaration_may_not_hold_is_reported_with_its_place")
    for number, case in enumerate(written):
        yield f"yaml {number}", str(case)
    yield "job and connection", f"{JOB_CONNECTIONS}---\n{JOB}"
    yield "job without connection", JOB
    yield "job and schedule", f"{JOB_CONNECTIONS}---\n{JOB}---\n{SCHEDULE}"
    other = JOB_CONNECTIONS.replace("files, config: {root: data}", "postgres, config: {}")
    yield "job and broken connection", f"{JOB}---\n{other}"
    hadoop = "iceberg, config: {catalog: {type: hadoop, warehouse: w}}"
    wrong = JOB_CONNECTIONS.replace("files, config: {root: data}", hadoop)
    yield "job and connection of another type", f"{JOB}---\n{wrong}"
    absolute = JOB.replace("connection: files, path: a", "path: /data/a")
    yield "absolute path", f"{JOB_CONNECTIONS}---\n{absolute}"


CORPUS = dict(corpus())


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedApi]:
    """A server that knows nothing yet and takes everything."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    written_credentials(tmp_path)
    api = _AnyApi()
    with api.in_place_of_the_network():
        yield api


class _AnyApi(ScriptedApi):
    def __call__(self, request: object) -> object:  # type: ignore[override]  # as the transport calls it
        method = getattr(request, "method", "")
        self.requests.append(request)  # type: ignore[arg-type]  # an httpx.Request
        if method == "GET":
            return refuses(404, ApiCode.NOT_FOUND)(request)  # type: ignore[arg-type]  # as above
        return says({"outcome": "created", "run_id": "r"}, 201)(request)  # type: ignore[arg-type]  # as above


Said = tuple[tuple[str, str, str, str], ...]


def run_command(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, Said, Said]:
    """Exit code, what is refused, and what is only noted; positions and words of each."""
    code = run([*COMMANDS[command]])
    headlines = [_HEADLINE.fullmatch(line) for line in capsys.readouterr().out.splitlines()]
    heads = [one.groups() for one in headlines if one]
    refused = tuple((line, at, docs, text) for line, at, docs, word, text in heads if not word)
    noted = tuple((line, at, docs, text) for line, at, docs, word, text in heads if word)
    return code, refused, tuple(one for one in noted if one[2] != "DR1007")


def has_one_job(text: str) -> bool:
    return text.count("kind: ReconciliationJob") == 1


@pytest.mark.parametrize("name", CORPUS)
def test_every_command_refuses_the_same_with_the_same_words(
    name: str, server: ScriptedApi, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("job.yaml").write_text(CORPUS[name], encoding="utf-8")
    code, refused, noted = run_command("validate", capsys)
    assert code == (2 if refused else 0)
    if refused:
        everything = sorted((*refused, *noted))
        for command in (*LOCAL, *SERVER):
            assert run_command(command, capsys)[0] == 2
        for command in (*LOCAL, *SERVER):
            _, also, beside = run_command(command, capsys)
            assert sorted((*also, *beside)) == everything
        assert server.requests == []
        return
    if not has_one_job(CORPUS[name]):
        return
    for command in LOCAL:
        missing = tuple(one for one in noted if one[2] == "DR1023")
        result = run_command(command, capsys)
        assert (result[0] == 2, result[1]) == (bool(missing), missing)
    for command in SERVER:
        missing = tuple(one for one in noted if one[2] in {"DR1008", "DR1010"})
        result = run_command(command, capsys)
        assert (result[0] == 2, result[1]) == (bool(missing), missing)


@pytest.mark.parametrize("name", CORPUS)
def test_rest_refuses_the_same_with_the_same_words(name: str) -> None:
    data = CORPUS[name].encode()
    documents = decode_yaml(data)
    kind = next((one for one in Kind if f"kind: {one}" in CORPUS[name]), None)
    kind = kind or next((one for one in Kind if f'"kind": "{one}"' in CORPUS[name]), None)
    if len(documents) != 1 or kind is None:
        return
    here = [
        one.as_json()
        for one in documents[0].findings
        if not one.warning or one.code.docs_id in {"DR1008", "DR1010"}
    ]
    caller = memory_api().caller()
    entry, yaml = KINDS[kind], {"Content-Type": "application/yaml"}
    posted = caller.post(f"/api/v1/{entry.path}", content=data, headers=yaml)
    put = caller.put(
        f"/api/v1/{entry.path}/orders",
        params={"apply": "true"},
        content=data,
        headers={**yaml, "If-Match": "*"},
    )
    assert _without_operator(posted.json(), here) == here
    assert posted.status_code == 422 if here else posted.status_code in {201, 422}
    if here:
        assert _without_operator(put.json(), here) == here


def _without_operator(problem: Mapping[str, Any], here: list[dict[str, object]]) -> object:
    """Errors but for those of the operator's rules, and of the name in the path."""
    return [
        one
        for one in problem.get("errors", [])
        if one in here or (one["code"] != "DR1019" and "in the path" not in one["message"])
    ]


def test_the_corpus_is_whole() -> None:
    assert len(CORPUS) > 100
    assert {"books.recon.yaml", "lake.recon.yaml", "ledger.recon.yaml"} <= CORPUS.keys()
