"""`datarecs compare`: two files and a verdict, without a server, on the oracle."""

import gzip
import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_cli import parts, service_commands
from datarecs_cli.local.engines import EngineChoice, cells_of, decide, heap_of
from datarecs_cli.main import run
from datarecs_core.comparison.planning.plan import ComparisonPlan, StagePlan, StrategyChoice
from datarecs_core.comparison.planning.scan import (
    FileList,
    PinnedFile,
    Scan,
    ScanColumn,
    SourceSchema,
)
from datarecs_core.jobs.types import INT
from datarecs_core.jobs.vocabulary import SourceKind, StageType, Strategy
from datarecs_reports.differences import DifferenceFilter, read_differences
from datarecs_testing.finished_runs import books

JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: ledger-vs-exports}
spec:
  sources:
    - {name: ledger, kind: parquet, path: ledger.parquet}
    - {name: exports, kind: csv, path: exports.csv}
  stages:
    - name: balance-check
      type: aggregate
      dimensions: [account]
      measures:
        - {name: total_amount, column: amount, tolerances: [{type: ABSOLUTE, value: 0.01}]}
"""
OUT = Path("datarecs-compare/ledger-vs-exports")
Shown = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ledger as Parquet, exports as CSV, with the numbers of Source 001; the job over both."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("USER", "ana")
    ledger, exports = books()
    write_parquet(tmp_path / "ledger.parquet", ledger.rows)
    lines = [f"{account},{amount}" for account, amount in exports.rows]
    (tmp_path / "exports.csv").write_text("\n".join(["account,amount", *lines, ""]))
    (tmp_path / "job.recon.yaml").write_text(JOB)
    return tmp_path


QUERIES = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {name: control}
spec:
  parameters: {least: {type: decimal, default: "0"}, note: {type: text, default: "it's"}}
  sources:
    - {name: ledger, kind: parquet, path: ledger.parquet}
    - {name: exports, kind: csv, path: exports.csv, filter: "account > 0"}
  stages:
    - name: control-total
      type: custom_sql
      dimensions: [k]
      measures: [{name: t}]
      queries:
        ledger: "select account % 7 k, sum(amount) t from ledger where amount > :least group by 1"
        exports: |
          with all_rows as (select account, amount from exports where :note = 'it''s')
          select account % 7 as k, sum(amount) as t from all_rows group by all -- totals
"""


def test_files_answer_queries_of_a_stage(folder: Path, capsys: Shown) -> None:
    """In separate dialects, and with every digit of the sums."""
    (folder / "control.yaml").write_text(QUERIES)
    assert run(["plan", "control.yaml"]) == 0
    output = capsys.readouterr().out
    assert "query      ledger: select account % 7 k, sum(amount) t from ledger" in output
    assert run(["compare", "control.yaml", "--out", "kept", "-o", "json"]) == 1
    (stage,) = json.loads(capsys.readouterr().out)["stages"]
    assert stage["counts"]["source_row_counts"] == {"source_0": 7, "source_1": 7}
    totals = []
    for table in books():
        rows = [(int(str(account)), Decimal(str(amount))) for account, amount in table.rows]
        totals.append(sum(amount for account, amount in rows if account > 0 and amount > 0))
    (measure,) = stage["measures"]
    assert [Decimal(each) for each in measure["total_by_source"].values()] == totals
    assert run(["verify", "kept"]) == 0


@pytest.mark.parametrize("path", ["packed.csv.gz", "pack*.csv.gz", "packed"])
def test_a_compressed_file_is_compared_by_the_ending_of_its_text(folder: Path, path: str) -> None:
    (folder / "packed").mkdir()
    content = gzip.compress((folder / "exports.csv").read_bytes())
    for place in (folder / "packed.csv.gz", folder / "packed/1.csv.gz"):
        place.write_bytes(content)
    arguments = ["compare", path, "exports.csv", "--key", "account"]
    assert run([*arguments, "--engine", "reference"]) == 0


def test_a_query_over_files_that_reads_others_ends_with_its_reason(
    folder: Path, capsys: Shown
) -> None:
    stolen = QUERIES.replace("from ledger where", "from 'exports.csv' where")
    (folder / "control.yaml").write_text(stolen)
    assert run(["compare", "control.yaml"]) == 3
    assert "source ledger: its query" in capsys.readouterr().err


def write_parquet(path: Path, rows: Any) -> None:  # noqa: ANN401  pairs of account and amount
    schema = pa.schema([("account", pa.int64()), ("amount", pa.decimal128(18, 2))])
    columns = [pa.array([row[at] for row in rows], schema.types[at]) for at in (0, 1)]
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), path)


def output_of(shown: Shown) -> str:
    """Everything that was printed, as one line."""
    out, err = shown.readouterr()
    return " ".join(f"{out} {err}".split())


def two_csv(folder: Path, one: str, other: str) -> list[str]:
    (folder / "one.csv").write_text(one)
    (folder / "two.csv").write_text(other)
    return ["compare", "one.csv", "two.csv"]


def test_the_largest_difference_has_the_places_of_its_measure(folder: Path, capsys: Shown) -> None:
    question = two_csv(folder, "id,amount,pieces\n1,1.105,788\n", "id,amount,pieces\n1,1.2,8\n")
    assert run([*question, "--key", "id"]) == 1
    assert "largest pieces id 1 one 788 two 8 Δ -780 report" in output_of(capsys)


def test_the_largest_difference_of_times_is_a_length_of_time(folder: Path, capsys: Shown) -> None:
    question = two_csv(folder, "id,booked_on\n1,2026-01-03\n", "id,booked_on\n1,2026-01-28\n")
    assert run([*question, "--key", "id"]) == 1
    assert "largest id 1 one 2026-01-03 two 2026-01-28 Δ 25 d report" in output_of(capsys)


@pytest.mark.case("F18")
@pytest.mark.usefixtures("folder")
def test_the_sample_of_source_001_has_its_numbers(capsys: Shown) -> None:
    assert run(["compare", "job.recon.yaml"]) == 1
    text = output_of(capsys)
    assert "▲ UNMATCHED 980 in both · 5 only in ledger · 20 only in exports" in text
    assert "total_amount ABSOLUTE 0.01 975 within · 5 outside · gap -1,234.56" in text
    assert "largest account 4711 ledger 1,677.75 exports 677.75 Δ -1,000.00" in text
    assert f"report {OUT}/report.html" in text
    (stage,) = json.loads((OUT / "run.json").read_text())["proof"]["stages"]
    assert stage["counts"]["source_row_counts"] == {"source_0": 1000, "source_1": 1005}
    assert stage["counts"]["rows_compared"] == 1005
    assert stage["counts"]["rows_matched"] == 975
    assert stage["counts"]["rows_unmatched"] == 30


@pytest.mark.usefixtures("folder")
def test_report_document_and_differences_are_left_behind() -> None:
    run(["compare", "job.recon.yaml", "--out", "kept"])
    document = json.loads(Path("kept/run.json").read_text())
    assert document["run"]["command"] == "datarecs compare job.recon.yaml"
    execution = document["run"]["execution"]
    assert (execution["engine"], execution["rows_scanned"]) == ("reference", 2005)
    (strategy,) = execution["strategies"]
    assert (strategy["stage"], strategy["chosen"]) == ("balance-check", "full")
    assert [each["strategy"] for each in strategy["rejected"]] == [
        "narrow",
        "fingerprint",
        "pushdown",
    ]
    assert document["run"]["triggered_by"] == "ana"
    page = Path("kept/report.html").read_text()
    assert "30 of 1,005 groups do not agree" in page
    assert document["proof_hash"] in page
    parts = [one.read_bytes() for one in Path("kept/differences").rglob("*.parquet")]
    rows = read_differences(parts, DifferenceFilter(), limit=100)
    assert len(rows) == 30
    assert rows[0]["key"] == {"account": "4711"}


def test_equal_files_match(folder: Path, capsys: Shown) -> None:
    text = "account,amount\n1,10.5\n2,20.25\n"
    assert run([*two_csv(folder, text, text), "--key", "account"]) == 0
    assert "● MATCHED 2 of 2 groups within tolerance" in output_of(capsys)


def test_the_report_names_the_folder_of_the_results(folder: Path) -> None:
    arguments = two_csv(folder, "id,amount\n1,10\n", "id,amount\n1,11\n")
    assert run([*arguments, "--key", "id", "--out", "results"]) == 1
    page = (folder / "results/report.html").read_text(encoding="utf-8")
    assert "datarecs export results --stage rows" in page


def test_without_a_key_whole_rows_are_compared(folder: Path, capsys: Shown) -> None:
    arguments = two_csv(folder, "a,b\n1,x\n2,y\n", "a,b\n2,y\n1,z\n")
    assert run(arguments) == 1
    assert "1 in both · 1 only in one · 1 only in two" in output_of(capsys)


def test_each_measure_has_a_separate_limit(folder: Path, capsys: Shown) -> None:
    arguments = two_csv(
        folder,
        "id,amount,qty,at\n1,10.00,200,2026-01-31T12:00:00Z\n",
        "id,amount,qty,at\n1,10.01,202,2026-01-31T12:00:01Z\n",
    )
    limits = ["--measure", "amount=0.01", "--measure", "qty=1%", "--measure", "at=PT1S"]
    assert run([*arguments, "--key", "id", *limits]) == 0
    assert run([*arguments, "--key", "id", *limits[:-1], "at"]) == 1
    assert "at EXACT 0 within · 1 outside" in output_of(capsys)


def test_a_column_that_only_one_file_has_does_not_pass(folder: Path, capsys: Shown) -> None:
    arguments = [*two_csv(folder, "id,v,extra\n1,a,b\n", "id,v\n1,a\n"), "--key", "id"]
    assert run(arguments) == 1
    shown = output_of(capsys)
    assert "SCHEMA_DIFFERS column extra is absent in two, so every group differs in it" in shown
    assert "extra EXACT 0 within · 1 outside" in shown
    assert "not compared" not in shown
    assert run([*arguments, "--except", "extra"]) == 0
    assert "not compared extra" in output_of(capsys)


def test_three_files_are_compared_with_the_first(folder: Path, capsys: Shown) -> None:
    arguments = two_csv(folder, "id,v\n1,1\n2,2\n", "id,v\n1,1\n2,2\n")
    (folder / "three.csv").write_text("id,v\n1,1.5\n")
    assert run([*arguments, "three.csv", "--key", "id"]) == 1
    assert "1 in all 3 · 1 missing in three" in output_of(capsys)


def test_folders_and_patterns_are_sources_too(folder: Path) -> None:
    for name in ("old", "new"):
        (folder / name).mkdir()
        for part in (1, 2):
            (folder / name / f"orders-{part}.csv").write_text(f"id,v\n{part},x\n")
    assert run(["compare", "old", "new/*.csv", "--key", "id"]) == 0
    document = json.loads(Path("datarecs-compare/old-vs-new/run.json").read_text())
    pins = [source["pin"] for source in document["proof"]["sources"]]
    assert [file["path"] for file in pins[1]["files"]] == ["new/orders-1.csv", "new/orders-2.csv"]


def test_no_absolute_path_enters_a_proof(folder: Path) -> None:
    (folder / "day=1").mkdir()
    (folder / "day=1" / "a.csv").write_text("id\n1\n")
    absolute = str(folder / "day=1" / "a.csv")
    run(["compare", absolute, "day=1/../day=1/a.csv", "--key", "id", "--out", "kept"])
    proof = json.dumps(json.loads(Path("kept/run.json").read_text())["proof"])
    assert str(folder) not in proof
    assert '"path": "day=1/a.csv"' in proof


def test_equal_files_in_other_folders_have_an_equal_proof(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = []
    for name in ("here", "there"):
        (folder / name).mkdir()
        monkeypatch.chdir(folder / name)
        run([*two_csv(folder / name, "id,v\n1,2\n", "id,v\n1,3\n"), "--key", "id", "--out", "o"])
        hashes.append(json.loads(Path("o/run.json").read_text())["proof_hash"])
    assert hashes[0] == hashes[1]


def test_tab_separated_files_are_read_as_such(folder: Path) -> None:
    (folder / "one.tsv").write_text("id\tv\n1\ta,b\n")
    (folder / "two.csv").write_text('id,v\n1,"a,b"\n')
    assert run(["compare", "one.tsv", "two.csv", "--key", "id"]) == 0


@pytest.mark.usefixtures("folder")
def test_json_output_is_one_object_with_exact_texts(capsys: Shown) -> None:
    assert run(["compare", "job.recon.yaml", "-o", "json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["schema"] == "datarecs.cli.compare/1"
    assert shown["result"] == "UNMATCHED"
    (measure,) = shown["stages"][0]["measures"]
    assert measure["gap_by_source"] == {"source_0": "0", "source_1": "-1234.56"}
    assert shown["run_json"] == f"{OUT}/run.json"


@pytest.mark.usefixtures("folder")
def test_signs_are_ascii_where_the_locale_is(
    capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C")
    run(["compare", "job.recon.yaml"])
    out, _ = capsys.readouterr()
    assert out.startswith("DIFF UNMATCHED")
    assert out.isascii()


@pytest.mark.case("X81")
def test_values_cannot_move_the_cursor_or_forge_a_line(folder: Path, capsys: Shown) -> None:
    evil = "\x1b[2J\u202e[red]x[/red]\x1b]8;;http://evil\x07"
    arguments = two_csv(folder, f"id,n\n{evil},1\n", f"id,n\n{evil},5\n")
    assert run([*arguments, "--key", "id", "--measure", "n=1"]) == 1
    out, err = capsys.readouterr()
    for character in ("\x1b", "\u202e", "\x07", "\r"):
        assert character not in out + err
    assert "\\x1b[2J\\u202e[red]x[/red]" in out
    report = Path("datarecs-compare/one-vs-two/report.html").read_text()
    assert report.count("<script") == 1  # its own, which the policy knows by hash


@pytest.mark.case("GLO-04")
def test_no_line_calls_a_run_failed_or_a_success(folder: Path, capsys: Shown) -> None:
    run(["compare", "job.recon.yaml"])
    run([*two_csv(folder, "id\n1\n", "id\n1\n"), "--key", "id"])
    run([*two_csv(folder, "id\n1,2\n", "id\n1\n"), "--key", "id"])
    assert not re.search(r"\b(failed|failure|success)\b", output_of(capsys).lower())


JOB_WITH_MORE = JOB.replace(
    "spec:\n",
    "spec:\n  parameters:\n    least: {type: decimal, default: '0'}\n"
    "    days: {type: list<date>, default: ['2026-01-31']}\n",
).replace(
    "      measures:",
    "      where: amount > :least\n      accept: {max_outside: 5, max_unmatched: 25}\n"
    "      measures:",
)


@pytest.mark.usefixtures("folder")
def test_parameters_are_written_in_and_shown(capsys: Shown) -> None:
    Path("more.yaml").write_text(JOB_WITH_MORE)
    days = ["--param", "days=2026-01-01", "--param", "days=2026-01-02"]
    assert run(["compare", "more.yaml", "--param", "least=100000", *days]) == 0
    document = json.loads((OUT / "run.json").read_text())
    assert document["proof"]["parameters"]["least"] == '"100000"'
    assert document["proof"]["parameters"]["days"] == '["2026-01-01","2026-01-02"]'
    assert run(["compare", "more.yaml", "--param", "leest=1"]) == 2
    assert "--param leest: the job declares no such parameter; did you mean 'least'?" in output_of(
        capsys
    )
    assert run(["compare", "more.yaml", "--param", "least=x"]) == 2


@pytest.mark.usefixtures("folder")
@pytest.mark.case("P58")
def test_the_acceptance_gate_lets_declared_limits_pass() -> None:
    Path("more.yaml").write_text(JOB_WITH_MORE)
    assert run(["compare", "more.yaml"]) == 1
    assert run(["compare", "more.yaml", "--gate", "acceptance"]) == 0
    Path("more.yaml").write_text(JOB_WITH_MORE.replace("max_outside: 5", "max_outside: 4"))
    assert run(["compare", "more.yaml", "--gate", "acceptance"]) == 1
    assert run(["compare", "job.recon.yaml", "--gate", "acceptance"]) == 1


@pytest.mark.usefixtures("folder")
def test_paths_of_a_job_start_at_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert run(["compare", "../job.recon.yaml"]) == 1


FILES_CONNECTION = """
---
apiVersion: datarecs.io/v1
kind: Connection
metadata: {name: files}
spec: {type: files, config: {root: delivered}}
"""


def test_a_connection_of_the_same_file_is_used(folder: Path, capsys: Shown) -> None:
    (folder / "delivered").mkdir()
    (folder / "exports.csv").rename(folder / "delivered" / "exports.csv")
    connected = JOB.replace("path: exports.csv", "path: exports.csv, connection: files")
    Path("job.yaml").write_text(connected)
    assert run(["compare", "job.yaml"]) == 2
    assert "DR1023 spec.sources[1].connection: no connection has this name" in output_of(capsys)
    Path("job.yaml").write_text(connected + FILES_CONNECTION)
    assert run(["compare", "job.yaml"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ledger.parquet", "nope.csv"], "nope.csv: no such file"),
        (["ledger.parquet"], "compare needs two or more sources"),
        (["nope.yaml"], "nope.yaml: No such file or directory"),
        (["notes.xlsx", "exports.csv"], "files ending in .xlsx cannot be compared"),
        (["exports/**", "exports.csv"], "the pattern does not end in the ending of its files"),
        (["empty", "exports.csv"], "the folder has no file ending in .parquet"),
        (["job.recon.yaml", "--key", "account"], "declare them in the job file"),
        (
            ["ledger.parquet", "exports.csv", "--measure", "a", "--except", "b"],
            "leave one of them out",
        ),
        (["ledger.parquet", "exports.csv", "--param", "a=1"], "--param is only for job files"),
        (["ledger.parquet", "exports.csv", "--engine", "fast"], "known: auto, kernel, spark"),
        (["ledger.parquet", "exports.csv", "-o", "csv"], "-o csv is not a format of this command"),
        (["ledger.parquet", "exports.csv", "--nope"], "--nope"),
        (
            ["ledger.parquet", "exports.csv", "--key", "acount"],
            "--key acount: source exports has no column 'acount'; it has account, amount; did you",
        ),
        (
            ["ledger.parquet", "exports.csv", "--key", "account", "--measure", "amont=1"],
            "DR1060 --measure amont=1: source ledger has no column 'amont'",
        ),
        (
            ["ledger.parquet", "exports.csv", "--key", "account", "--measure", "amount=1e3"],
            "DR1040 --measure amount=1e3",
        ),
        (
            ["ledger.parquet", "exports.csv", "--key", "account", "--measure", "amount=101%"],
            "DR1041 --measure amount=101%: above 100",
        ),
        (
            ["ledger.parquet", "words.csv", "--key", "account"],
            "DR1062 --key account: account is int in ledger, text in words",
        ),
        (
            ["ledger.parquet", "twice.csv", "--key", "account"],
            "DR1061 --key account: source twice has the column 'account' more than once",
        ),
        (["ledger.parquet", "exports.csv", "--measure", "amount=1"], "--measure amount=1"),
    ],
)
def test_an_invalid_question_ends_with_2(
    folder: Path, capsys: Shown, arguments: list[str], message: str
) -> None:
    (folder / "notes.xlsx").touch()
    (folder / "empty").mkdir()
    (folder / "words.csv").write_text("account,amount\nabc,1\n")
    (folder / "twice.csv").write_text("account,account\n1,2\n")
    assert run(["compare", *arguments]) == 2
    text = output_of(capsys)
    assert message in text
    assert "Traceback" not in text
    assert not list(Path().glob("datarecs-compare/*"))


def test_faults_of_a_job_file_are_shown_in_place(folder: Path, capsys: Shown) -> None:
    (folder / "bad.yaml").write_text(JOB.replace("tolerances", "tolerence"))
    assert run(["compare", "bad.yaml"]) == 2
    assert "bad.yaml:13:48 DR1004" in output_of(capsys)
    another = JOB.replace("{name: ledger-vs-exports}", "{name: another}")
    (folder / "two.yaml").write_text(f"{JOB}---\n{another}")
    assert run(["compare", "two.yaml"]) == 2
    assert "declares 2 jobs, but a comparison takes one" in output_of(capsys)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    files = (one for one in folder.rglob("*") if one.is_file())
    return {str(one.relative_to(folder)): one.read_bytes() for one in files}


@pytest.mark.usefixtures("folder")
def test_a_run_that_ends_well_removes_the_page_of_a_failed_one() -> None:
    good = Path("exports.csv").read_text()
    for content, code in (("account\n1,2,3\n", 3), (good, 1)):
        Path("exports.csv").write_text(content)
        assert run(["compare", "job.recon.yaml", "--out", "kept"]) == code
    assert not Path("kept/error.html").exists()
    assert not Path("kept/.new").exists()
    assert run(["verify", "kept"]) == 0


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("broken.csv", b"account,amount\n1,2,3\n", "DR3009"),
        ("open.csv", b'account,amount\n1,"2\n', "DR3009"),
        ("broken.parquet", b"not parquet", "DR3009"),
        ("empty.csv", b"", "DR3009"),
    ],
)
def test_a_file_that_cannot_be_read_ends_with_3_and_a_page_that_says_so(
    folder: Path, capsys: Shown, name: str, content: bytes, code: str
) -> None:
    arguments = ["compare", "ledger.parquet", name, "--key", "account", "--out", "kept"]
    (folder / name).write_bytes(b"account,amount\n1,1\n" if name.endswith(".csv") else b"x")
    run(arguments)
    earlier = contents(Path("kept"))
    (folder / name).write_bytes(content)
    assert run(arguments) == 3
    text = output_of(capsys)
    assert code in text
    assert "Traceback" not in text
    page = Path("kept/error.html").read_text()
    assert contents(Path("kept")) == {**earlier, "error.html": page.encode()}
    assert "CORRUPT_SOURCE" in page
    assert "MATCHED" not in page


def test_an_error_is_one_json_object_when_json_is_wanted(folder: Path, capsys: Shown) -> None:
    (folder / "bad.parquet").write_bytes(b"no")
    arguments = ["compare", "ledger.parquet", "bad.parquet", "--key", "account", "-o", "json"]
    assert run(arguments) == 3
    shown = json.loads(capsys.readouterr().out)
    assert shown["code"] == "CORRUPT_SOURCE"
    assert shown["exit_code"] == 3


@pytest.mark.usefixtures("folder")
def test_files_that_are_not_ours_are_left_alone(capsys: Shown) -> None:
    foreign_folder = Path("kept/differences/stage=mine")
    foreign_folder.mkdir(parents=True)
    (foreign_folder / "notes.txt").write_text("mine")
    assert run(["compare", "job.recon.yaml", "--out", "kept"]) == 3
    assert "the results cannot be stored: Directory not empty" in output_of(capsys)
    assert (foreign_folder / "notes.txt").read_text() == "mine"


@pytest.mark.usefixtures("folder")
def test_an_out_folder_that_cannot_be_made_ends_with_3(capsys: Shown) -> None:
    assert run(["compare", "job.recon.yaml", "--out", "ledger.parquet/x"]) == 3
    assert "DR3031 ledger.parquet/x: the results cannot be stored" in output_of(capsys)


@pytest.mark.usefixtures("folder")
def test_progress_begins_at_once_and_goes_on_in_plain_lines(capsys: Shown) -> None:
    """On stderr, so that data on stdout stays data."""
    run(["compare", "job.recon.yaml", "-o", "json"])
    out, err = capsys.readouterr()
    json.loads(out)
    lines = err.splitlines()
    assert lines[0] == "preparing to compare job.recon.yaml"
    for step in ("reading ledger", "read exports: 1,005 rows", "stage balance-check"):
        assert step in lines
    run(["compare", "job.recon.yaml", "-q"])
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("folder")
def test_a_second_comparison_replaces_the_first() -> None:
    run(["compare", "job.recon.yaml", "--out", "kept"])
    two_stages = JOB.replace("balance-check", "other")
    Path("job.recon.yaml").write_text(two_stages)
    run(["compare", "job.recon.yaml", "--out", "kept"])
    assert [one.name for one in Path("kept/differences").iterdir()] == ["stage=other"]


@pytest.mark.case("U50")
def test_38_digits_reach_run_json_and_the_difference_file(folder: Path) -> None:
    one, other = (
        "12345678901234567890123456789012345.678",
        "12345678901234567890123456789012345.677",
    )
    arguments = two_csv(folder, f"id,amount\n1,{one}\n", f"id,amount\n1,{other}\n")
    assert run([*arguments, "--key", "id", "--out", "kept"]) == 1
    parts = [part.read_bytes() for part in Path("kept/differences").rglob("*.parquet")]
    (row,) = read_differences(parts, DifferenceFilter(), limit=5)
    assert row["values"] == {"one": one, "two": other}
    assert row["deltas"] == {"two": "-0.001"}
    assert f"{Decimal(one):,}" in Path("kept/report.html").read_text()


COLUMN = ScanColumn(name="id", physical="id", type=INT)


def a_plan(rows: int | None, *, columns: int = 2, **fields: Any) -> ComparisonPlan:  # noqa: ANN401  any field of StagePlan
    """Two Parquet sources with so many rows each, by their footers."""
    file = PinnedFile(path="a.parquet", size_bytes=1, rows=rows)
    pin = FileList(root="/", files=(file,), taken_at=datetime(2026, 1, 31, tzinfo=UTC))
    scans = tuple(
        Scan(
            source=name,
            index=index,
            kind=SourceKind.PARQUET,
            columns=(COLUMN,) * columns,
            schema=SourceSchema(columns=()),
            pin=pin,
        )
        for index, name in enumerate(("one", "two"))
    )
    uid = UUID(int=1)
    stage = StagePlan(name="s", index=0, type=StageType.ROW, job_uid=uid, scans=scans, **fields)
    return ComparisonPlan(job="j", job_uid=uid, spec_hash="", scans=scans, stages=(stage,))


FORCED = StrategyChoice(chosen=Strategy.FULL, requested=Strategy.NARROW)


@pytest.mark.parametrize(
    ("plan", "engine"),
    [
        (a_plan(14_000, columns=10), EngineChoice.REFERENCE),
        (a_plan(90_000, columns=10), EngineChoice.SPARK),
        (a_plan(90_000, columns=1), EngineChoice.REFERENCE),
        (a_plan(None), EngineChoice.SPARK),
        (a_plan(10, strategy=FORCED), EngineChoice.SPARK),
        (a_plan(10, where="id > 5"), EngineChoice.REFERENCE),
    ],
)
def test_small_questions_are_answered_without_spark(
    plan: ComparisonPlan, engine: EngineChoice
) -> None:
    assert EngineChoice(decide(plan, 2 * 2**30).engine) is engine


def test_report_and_run_json_say_which_engine_answered_and_why(folder: Path) -> None:
    run(["compare", "job.recon.yaml"])
    execution = json.loads((OUT / "run.json").read_text())["run"]["execution"]
    assert execution["engine"] == "reference"
    assert execution["engine_reason"] == "about 0.0 s in memory, Spark alone starts in 4 s"
    assert f"reference: {execution['engine_reason']}" in (folder / OUT / "report.html").read_text()


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where only the base of the distribution is installed."""

    def find(name: str) -> object | None:
        return None if name in {"pyspark", "kafka", "fastapi"} else find_spec(name)

    monkeypatch.setattr(parts, "find_spec", find)


@pytest.mark.usefixtures("folder", "without_spark")
def test_without_spark_the_kernel_compares_in_this_process(capsys: Shown) -> None:
    assert run(["plan", "job.recon.yaml"]) == 0
    assert "engine kernel: Spark is not installed" in re.sub(" +", " ", capsys.readouterr().out)
    run(["compare", "job.recon.yaml"])
    by_kernel = json.loads((OUT / "run.json").read_text())
    run(["compare", "job.recon.yaml", "--engine", "reference"])
    by_oracle = json.loads((OUT / "run.json").read_text())
    assert by_kernel["run"]["execution"]["engine"] == "kernel"
    assert by_kernel["run"]["execution"]["engine_reason"] == "Spark is not installed"
    assert by_kernel["proof_hash"] == by_oracle["proof_hash"]
    assert by_kernel["proof"] == by_oracle["proof"]


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize(
    ("words", "what", "extra"),
    [
        (["compare", "a.csv", "b.csv", "--engine", "spark"], "--engine spark needs", "spark"),
        (["up", "--detach"], "datarecs up needs", "local"),
        (["demo"], "datarecs demo needs", "all"),
        (["admin", "migrate"], "datarecs admin needs", "server"),
    ],
)
def test_a_part_that_is_not_installed_is_named_with_the_command_that_installs_it(
    words: list[str], what: str, extra: str, capsys: Shown
) -> None:
    assert run(words) == 2
    said = capsys.readouterr().err
    assert f"{what} parts that are not installed (" in said
    assert f"pip install 'datarecs[{extra}]'" in said
    assert run([words[0], "--help"]) == 0


def test_memory_that_the_kernel_lacks_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("datarecs_cli.local.engines.kernel_memory", lambda _: 2**24)
    for name in ("one", "two"):
        table = pa.table({"id": [f"{name}{k}" for k in range(40_000)], "v": ["x" * 1_000] * 40_000})
        pq.write_table(table, f"{name}.parquet", use_dictionary=False)
    assert run(["compare", "one.parquet", "two.parquet", "--key", "id", "--engine", "kernel"]) == 3
    said = capsys.readouterr().err
    assert "the rows need more memory at once than the kernel has; the run had " in said
    assert "raise execution.memory in the job (--memory on the command line)" in said
    assert "Java" not in said


def test_cells_are_counted_where_every_source_says_its_rows() -> None:
    assert cells_of(a_plan(1_000, columns=3)) == 6_000
    assert cells_of(a_plan(None)) is None


@pytest.mark.parametrize(
    ("memory_gib", "heap"), [(1, "512m"), (1.5, "768m"), (2, "1024m"), (8, "4096m")]
)
def test_java_gets_half_of_a_runs_memory(memory_gib: float, heap: str) -> None:
    assert heap_of(int(memory_gib * 2**30)) == heap


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["compare", "plan"])
@pytest.mark.parametrize(
    ("source", "extra"),
    [
        ("{name: a, kind: parquet, path: s3://lake/a.parquet}", "stores"),
        ("{name: a, kind: iceberg, connection: lake, relation: db.t}", "iceberg"),
    ],
)
def test_a_source_without_its_part_is_a_usage_fault_that_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, capsys: Shown, command: str, source: str, extra: str
) -> None:
    monkeypatch.setattr("datarecs_connectors.registry.find_spec", lambda _: None)
    folder = Path.cwd()
    (folder / "b.csv").write_text("id,v\n1,2\n")
    (folder / "parts.yaml").write_text(
        f"""\
apiVersion: datarecs.io/v1
kind: Connection
metadata: {{name: lake}}
spec:
  type: iceberg
  config: {{catalog: {{type: sql, name: lake, sqlite: catalog.db}}}}
---
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {{name: parts}}
spec:
  sources:
    - {source}
    - {{name: b, kind: csv, path: b.csv}}
  stages: [{{name: rows, type: row, dimensions: [id], measures: "*"}}]
"""
    )
    assert run([command, "parts.yaml"]) == 2
    shown = capsys.readouterr()
    text = shown.out + shown.err
    assert f"pip install 'datarecs[{extra}]'" in text
    assert "leave the column out" not in text


def test_a_folder_in_a_store_needs_the_part_that_lists_it(
    monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    monkeypatch.setattr(parts, "find_spec", lambda _: None)
    assert run(["compare", "s3://lake/many/", "s3://lake/b.csv", "--key", "id"]) == 2
    assert "pip install 'datarecs[stores]'" in capsys.readouterr().err


def test_a_worker_without_its_parts_names_all_its_extras(
    monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    monkeypatch.setattr(parts, "find_spec", lambda _: None)
    assert service_commands.reconciliation_worker() == 2
    assert "pip install 'datarecs[server,spark,iceberg]'" in capsys.readouterr().err


def test_a_time_without_zone_against_an_instant_says_where_a_zone_is_declared(
    folder: Path, capsys: Shown
) -> None:
    rows = ("id,at\n1,2026-01-31T12:00:00\n", "id,at\n1,2026-01-31T12:00:00Z\n")
    assert run([*two_csv(folder, *rows), "--key", "id"]) == 2
    assert "declare `timezone` of source one in a job, which `datarecs init` writes" in output_of(
        capsys
    )
