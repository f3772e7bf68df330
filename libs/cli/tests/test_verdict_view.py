"""The last lines of a run: the sample of the documentation, sign for sign."""

import json
from pathlib import Path

import pytest

from datarecs_cli.demo.books import write_csv, write_exports
from datarecs_cli.demo.entries import exports, ledger
from datarecs_cli.invocation import Invocation
from datarecs_cli.main import run
from datarecs_cli.output import ASCII, UNICODE
from datarecs_cli.verdict_view import ending_lines, headline, verdict_lines
from datarecs_reports.decoding import run_facts
from datarecs_reports.model import RunFacts
from datarecs_testing.scripted_api import a_run_view

STAGE = """\
    - name: {name}
      type: aggregate
      dimensions: [{dimension}]
      measures:
        - {{name: total_amount, function: sum, column: amount,
            tolerances: [{{type: ABSOLUTE, value: "0.01"}}]}}
"""
JOB = """\
apiVersion: datarecs.io/v1
kind: ReconciliationJob
metadata: {{name: ledger-vs-exports}}
spec:
  sources:
    - {{name: ledger, kind: csv, path: ledger.csv}}
    - {{name: exports, kind: parquet, path: exports.parquet}}
  stages:
{stages}"""
BY_ACCOUNT = STAGE.format(name="balance-check", dimension="account")
LARGEST = {
    "stage": "balance-check",
    "measure": "total_amount",
    "key": {"account": "4711"},
    "values": {"ledger": "1500", "exports": "500"},
    "deltas": {"exports": "-1000"},
}
PLAIN = Invocation()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "ledger.csv", ledger())
    return tmp_path


def facts(project: Path, *, corrected: bool = False, stages: str = BY_ACCOUNT) -> RunFacts:
    """What a comparison of the demo's files finds."""
    write_exports(project / "exports.parquet", exports(corrected=corrected))
    (project / "job.yaml").write_text(JOB.format(stages=stages), encoding="utf-8")
    run(["compare", "job.yaml", "--out", "out", "--quiet"])
    return run_facts(json.loads((project / "out" / "run.json").read_bytes()))


def test_an_unmatched_run_reads_as_the_documentation_shows(project: Path) -> None:
    assert verdict_lines(facts(project), LARGEST, UNICODE, PLAIN) == [
        "▲ UNMATCHED  980 in both · 5 only in ledger · 20 only in exports",
        "         total_amount ABSOLUTE 0.01   975 within · 5 outside · gap -1,234.56",
        "         largest  account 4711  ledger 1,500.00  exports 500.00  Δ -1,000.00",
    ]


def test_a_matched_run_says_how_much_was_compared(project: Path) -> None:
    assert verdict_lines(facts(project, corrected=True), None, UNICODE, PLAIN) == [
        "● MATCHED    985 of 985 groups within tolerance"
    ]


@pytest.mark.case("U12")
def test_without_utf_8_there_is_no_other_sign(project: Path) -> None:
    lines = verdict_lines(facts(project), LARGEST, ASCII, PLAIN)
    assert lines[0] == "DIFF UNMATCHED  980 in both | 5 only in ledger | 20 only in exports"
    assert "".join(lines).isascii()


def test_many_stages_have_a_line_each(project: Path) -> None:
    by_currency = STAGE.format(name="by-currency", dimension="currency")
    lines = verdict_lines(facts(project, stages=by_currency + BY_ACCOUNT), None, UNICODE, PLAIN)
    assert lines[0] == "▲ UNMATCHED  0 of 2 stages matched"
    assert lines[1] == "         by-currency  ▲ UNMATCHED  1 in both"
    assert lines[3].startswith("         balance-check  ▲ UNMATCHED  980 in both")


def test_colour_only_where_it_is_wanted() -> None:
    assert "\x1b" not in headline("MATCHED", UNICODE, PLAIN)
    assert "\x1b[32m● MATCHED\x1b[0m" in headline("MATCHED", UNICODE, Invocation(color=True))


def test_an_errored_run_says_why_and_where_to_read_on() -> None:
    error = {"code": "QUERY_FAILED", "detail_code": "AUTH_FAILED", "message": "no \x1b[2J entry"}
    assert ending_lines(a_run_view(status="ERRORED", error=error), UNICODE, PLAIN) == [
        "✖ ERRORED    QUERY_FAILED / AUTH_FAILED  no \\x1b[2J entry",
        "         docs  datarecs errors AUTH_FAILED",
    ]


def test_a_cancelled_run_says_who_and_why() -> None:
    run_view = a_run_view(status="CANCELLED", cancelled_by="u-7", cancel_reason="wrong month")
    assert ending_lines(run_view, UNICODE, PLAIN) == ["▬ CANCELLED  by u-7: wrong month"]
