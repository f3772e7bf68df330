"""`datarecs validate` and `datarecs schema`: what people and pipelines see, and the exit codes."""

import io
import json
from pathlib import Path
from typing import IO, Any

import pytest

from datarecs_cli.declared_files import check_files, in_apply_order
from datarecs_cli.main import run
from datarecs_core.resources.resource import Kind

Shown = pytest.CaptureFixture[str]
JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: orders}
spec:
  sources:
    - {name: ledger, kind: postgres, connection: pg, relation: public.orders}
    - {name: exports, kind: csv, connection: files, path: a.csv}
  stages:
    - {name: rows, type: row, dimensions: [id], measures: [{name: amount}]}
"""
CONNECTION = """\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {name: files}
spec: {type: files, config: {root: data}}
"""
BROKEN = (
    JOB.replace("dimensions", "dimension")
    .replace("kind: csv", "kind: cvs")
    .replace("  stages:", "  reference: legder\n  stages:")
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    (tmp_path / "good.yaml").write_text(JOB)
    (tmp_path / "bad.yaml").write_text(BROKEN)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_a_clean_file_ends_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "good.yaml"]) == 0
    out, err = capsys.readouterr()
    assert err == "1 file, 0 errors, 2 notes\n"
    assert [line.split()[:3] for line in out.splitlines()] == [
        ["good.yaml:6:50", "DR1023", "note:"],
        ["good.yaml:7:46", "DR1023", "note:"],
    ]


def test_a_misspelt_event_type_is_a_fault(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "hook.yaml").write_text(
        "apiVersion: datarecs.io/v1\nkind: WebhookEndpoint\nmetadata: {name: hook}\n"
        "spec:\n  url: https://example.com/hook\n"
        "  filter: {types: [reconciliation.run.finalized]}\n"
    )
    assert run(["validate", "hook.yaml"]) == 2
    out = capsys.readouterr().out
    assert out.startswith("hook.yaml:6:20 DR1009 spec.filter.types[0]: no event has such a type")
    assert "did you mean 'reconciliation.run.finalised'?" in out


def test_a_fault_of_syntax_shows_its_fix_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "cron.yaml").write_text("spec:\n  cron: */5 * * * *\n")
    assert run(["validate", "cron.yaml"]) == 2
    out = capsys.readouterr().out
    assert "fix   put the value in quotes" in out
    assert out.count("put the value in quotes") == 1


def test_a_connection_that_is_declared_beside_the_job_is_no_note(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "connection.yaml").write_text(CONNECTION)
    assert run(["validate", "--strict", "good.yaml", "connection.yaml"]) == 0
    assert capsys.readouterr().out.count("DR1023 note:") == 1
    (folder / "connection.yaml").write_text(
        CONNECTION.replace(
            "type: files, config: {root: data}",
            "type: iceberg, config: {catalog: {type: hadoop, warehouse: w}}",
        )
    )
    assert run(["validate", "good.yaml", "connection.yaml"]) == 2
    assert "good.yaml:7:46 DR1024 spec.sources[1].connection" in capsys.readouterr().out


@pytest.mark.case("U16")
def test_an_object_declared_twice_is_a_fault_at_the_second_place(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "apiVersion: datarecs.io/v1\nkind: Schedule\nmetadata: {name: nightly}\n"
    text += 'spec: {job: orders, cron: "@daily"}\n'
    (folder / "a.yaml").write_text(text)
    (folder / "b.yaml").write_text(f"{text.replace('nightly', 'other')}---\n{text}")
    assert run(["validate", "a.yaml", "b.yaml"]) == 2
    shown = capsys.readouterr().out
    assert "b.yaml:8:18" in shown
    assert "DR1020" in shown
    assert "another document declares this Schedule too" in shown
    (folder / "b.yaml").write_text(text.replace("{name: nightly}", "{name: nightly, namespace: x}"))
    assert run(["validate", "a.yaml", "b.yaml"]) == 0


@pytest.mark.usefixtures("folder")
def test_every_fault_is_a_line_with_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "bad.yaml"]) == 2
    out, err = capsys.readouterr()
    heads = [line for line in out.splitlines() if line.startswith("bad.yaml:")]
    assert [head.split()[:2] for head in heads] == [
        ["bad.yaml:7:29", "DR1012"],
        ["bad.yaml:8:14", "DR1021"],
        ["bad.yaml:10:31", "DR1004"],
    ]
    assert [head.rsplit("; ", 1)[1] for head in heads] == [
        "did you mean 'csv'?",
        "did you mean 'ledger'?",
        "did you mean 'dimensions'?",
    ]
    assert err == "1 file, 3 errors\n"


@pytest.mark.case("U16")
@pytest.mark.usefixtures("folder")
def test_a_pipeline_gets_annotations(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["validate", "bad.yaml", "-o", "github"]) == 2
    annotations = capsys.readouterr().out
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    assert run(["validate", "bad.yaml"]) == 2
    assert capsys.readouterr().out == annotations
    assert annotations.splitlines()[0].startswith(
        "::error file=bad.yaml,line=7,col=29,title=DR1012::bad.yaml:7:29 DR1012 "
    )


@pytest.mark.case("X82")
def test_a_hostile_file_name_breaks_no_annotation(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "a,b::error::%0A.yaml"
    (folder / name).write_text("kind: x\n")
    run(["validate", name, "-o", "github"])
    out = capsys.readouterr().out
    assert "file=a%2Cb%3A%3Aerror%3A%3A%250A.yaml,line=" in out


@pytest.mark.usefixtures("folder")
def test_a_program_gets_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["validate", "-o", "json", "good.yaml", "bad.yaml"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "datarecs.cli.validate/1"
    assert [(one["file"], len(one["findings"])) for one in document["files"]] == [
        ("good.yaml", 2),
        ("bad.yaml", 3),
    ]
    assert document["files"][1]["findings"][0] == {
        "file": "bad.yaml",
        "document": 0,
        "severity": "error",
        "path": "spec.sources[1].kind",
        "code": "DR1012",
        "pointer": "/spec/sources/1/kind",
        "line": 7,
        "column": 29,
        "message": "not one of postgres, parquet, csv, json, iceberg, kafka",
        "hint": "did you mean 'csv'?",
    }


@pytest.mark.usefixtures("folder")
def test_a_stream_of_findings_is_one_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    run(["validate", "-o", "jsonl", "bad.yaml"])
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["code"] for line in lines] == ["DR1012", "DR1021", "DR1004"]


def test_a_warning_fails_only_on_request(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "alias.yaml").write_text(JOB.replace("dimensions", "keys"))
    assert (run(["validate", "alias.yaml"]), run(["validate", "--strict", "alias.yaml"])) == (0, 2)
    assert "1 file, 0 errors, 1 warning" in capsys.readouterr().err


def test_stdin_and_folders_are_read(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stdin:
        buffer = io.BytesIO(BROKEN.encode())

    monkeypatch.setattr("sys.stdin", Stdin())
    assert run(["validate", "-"]) == 2
    assert capsys.readouterr().out.startswith("<stdin>:7:29 DR1012")
    (folder / "jobs" / "deep").mkdir(parents=True)
    (folder / "jobs" / "deep" / "a.yml").write_text(JOB)
    (folder / "jobs" / "note.txt").write_text("not ours")
    assert run(["validate", "jobs"]) == 0
    assert capsys.readouterr().err == "1 file, 0 errors, 2 notes\n"


def test_a_file_that_vanishes_before_it_is_read_is_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = folder / "jobs/a.yaml", folder / "jobs/b.yaml"
    first.parent.mkdir()
    for file in (first, last):
        file.write_text(JOB)
    open_file = Path.open

    def removing(path: Path, mode: str) -> IO[Any]:
        (last if path == Path("jobs/a.yaml") else first).unlink(missing_ok=True)
        return open_file(path, mode)

    monkeypatch.setattr(Path, "open", removing)
    assert run(["validate", "jobs"]) == 0
    assert capsys.readouterr().err == "1 file, 0 errors, 2 notes\n"


@pytest.mark.parametrize(
    "arguments", [["validate"], ["validate", "gone.yaml"], ["validate", "empty"]]
)
def test_what_cannot_be_read_is_usage(
    folder: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "empty").mkdir()
    assert run(arguments) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.case("U14")
def test_a_terminal_never_gets_an_escape(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "esc.yaml").write_text(JOB + '  "o\\e[31mwner": x  # \N{RIGHT-TO-LEFT OVERRIDE}\n')
    assert run(["validate", "esc.yaml"]) == 2
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in out


def test_documents_are_applied_in_the_order_of_what_they_refer_to(folder: Path) -> None:
    (folder / "both.yaml").write_text(f"{JOB}---\n{CONNECTION}")
    documents = in_apply_order(check_files(["both.yaml"]))
    assert [one.declared.name for one in documents if one.declared] == ["files", "orders"]


def test_schema_prints_a_kind_a_field_or_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "job"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "ReconciliationJob"
    assert run(["schema", "job.spec.execution.memory"]) == 0
    assert "default      2GiB" in capsys.readouterr().out
    assert run(["schema"]) == 0
    assert "/schemas/job/v1.json" in capsys.readouterr().out
    assert run(["schema", "-o", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["kinds"]) == len(Kind)
    assert run(["schema", "job.spec.reference", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["type"] == "string"


@pytest.mark.parametrize(
    ("word", "said"),
    [("pipeline", "unknown kind pipeline"), ("job.spec.sorces", "has no field sorces")],
)
def test_an_unknown_kind_or_field_is_usage(
    word: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["schema", word]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.csv.gz", "a.parquet", "a.ndjson", "a.tsv"])
@pytest.mark.parametrize("command", ["validate", "apply"])
def test_a_file_of_data_is_no_declaration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown, name: str, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("a,b\n" + "1,2\n" * 90_000)
    assert run([command, name] if command == "validate" else [command, "-f", name]) == 2
    assert f"{name} is a file of data, not a declaration" in capsys.readouterr().err


def test_a_file_too_large_for_declarations_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.json").write_text("[" + "1," * 200_000 + "1]")
    assert run(["validate", "a.json"]) == 2
    shown = capsys.readouterr().out
    assert "the file has more than 256 KiB, the most for declarations" in shown
    assert "split the file, or name a file of declarations" in shown
