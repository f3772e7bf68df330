"""The report as a browser gets it: complete, closed, escaped, small, and honest about outcomes."""

import base64
import hashlib
import re
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser
from typing import Any

import pytest

from datarecs_core.comparison.proof.reading import DocumentUnreadableError
from datarecs_core.jobs.definition import Breaks, Execution, Results, SchemaPolicy
from datarecs_core.jobs.vocabulary import ProofMode, SchemaMode
from datarecs_core.runs.model import RunStatus
from datarecs_reports.html import MAX_BYTES, error_report, run_report
from datarecs_testing.comparisons import a_measure, comparing_columns, counting, rows_by
from datarecs_testing.finished_runs import (
    RUN,
    balance_check,
    books,
    document,
    document_with_recheck,
)
from datarecs_testing.tables import a_job, a_table

HOSTILE = (
    "<script>alert(1)</script>",
    '" onerror="alert(1)',
    "{{7*7}}",
    "javascript:alert(1)",
    "</style><h1>x</h1>",
    "<img src=x>",
)
ERRORED = {**RUN, "status": "ERRORED", "result": None}


class _Page(HTMLParser):
    """Everything a browser would see: elements, attributes, texts."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._inside = ""
        self.style = self.script = ""
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag if tag in {"style", "script"} else ""

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002  the parser's form
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "style":
            self.style += data
        elif self._inside == "script":
            self.script += data
        elif data.strip():
            self.texts.append(data.strip())

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def unmatched_page(*, samples: bool = True) -> _Page:
    tables = books()
    content = document(balance_check(tables), tables)
    return _Page(run_report(content, {**RUN, "result": "UNMATCHED"}, samples=samples))


def matched_page() -> _Page:
    ledger, _ = books()
    tables = [ledger, replace(ledger, name="exports")]
    return _Page(run_report(document(balance_check(tables), tables), RUN, samples=True))


@pytest.mark.case("F18")
def test_the_sample_of_source_001_is_shown_number_by_number() -> None:
    text = unmatched_page().text
    assert "30 of 1,005 groups do not agree: 5 only in ledger, 20 only in exports" in text
    assert "rows: 1,000 ledger, 1,005 exports" in text
    assert "Agree 975 97.014 %" in text
    assert "ABSOLUTE 0.01 980 975 0 5 0 -1,234.56 1,000.00" in text
    assert "in both 980" in text


def test_values_stand_side_by_side_with_their_difference() -> None:
    text = unmatched_page().text
    assert "total_amount outside tolerance all 5, largest first" in text
    assert "account ledger exports Δ Δ % 4711 1,677.75 677.75 -1,000.00 -59.603 %" in text


def test_a_page_says_what_was_read_and_how_to_repeat_it() -> None:
    text = unmatched_page().text
    assert "ledger reference" in text
    assert "columns read: account int, amount decimal(18,2)" in text
    assert "1,005 = 1,005 compared" in text
    assert "total_amount (sum) at most 0.01 apart" in text
    assert "None: values were compared exactly as the sources hold them." in text
    assert "datarecs run ledger-vs-exports" in text
    assert "Requested by ana.lopez@example.com (immediate)" in text
    assert re.search(r"proof_hash sha256:[0-9a-f]{64}", text)
    assert re.search(r"Spec hash sha256:[0-9a-f]{64}", text)


def test_a_matched_run_says_so_in_one_sentence() -> None:
    text = matched_page().text
    assert "MATCHED 985 groups compared: every one is in both sources" in text
    assert "UNMATCHED" not in text


@pytest.mark.case("U46")
@pytest.mark.parametrize("page", [unmatched_page, matched_page])
def test_a_page_needs_nothing_else_and_sends_nothing(page: Any) -> None:  # noqa: ANN401  a maker of pages
    shown: _Page = page()
    assert shown.tags.isdisjoint({"link", "iframe", "img", "object", "form", "base", "a"})
    names = {name for _, attributes in shown.elements for name in attributes}
    assert names.isdisjoint({"src", "href", "style", "srcset", "action", "background"})
    assert not [name for name in names if name.startswith("on")]
    assert "url(" not in shown.style
    assert "@import" not in shown.style
    assert not re.search(r"fetch|XMLHttp|WebSocket|import\(|eval|innerHTML|location", shown.script)


@pytest.mark.case("U46")
def test_only_a_page_with_rows_to_filter_has_a_script() -> None:
    assert len([tag for tag, _ in unmatched_page().elements if tag == "script"]) == 1
    assert "script" not in matched_page().tags
    assert "script" not in unmatched_page(samples=False).tags


@pytest.mark.case("U46")
def test_the_policy_allows_the_one_style_sheet_and_the_one_script() -> None:
    page = unmatched_page()
    style, script = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (page.style, page.script)
    )
    policy = next(
        attributes["content"]
        for tag, attributes in page.elements
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


@pytest.mark.case("U46")
def test_samples_shrink_before_a_page_reaches_two_megabytes() -> None:
    tables = books()
    content = document(balance_check(tables), tables)
    stage = content["proof"]["stages"][0]
    measure, sample = stage["measures"][0], content["samples"]["balance-check"][0]
    stage["measures"] = [{**measure, "name": f"m{n}", "outside": 1_000_000} for n in range(500)]
    content["samples"]["balance-check"] = [
        {**sample, "measure": f"m{n}", "break_id": f"{n}-{at}", "values": [["ledger", "x" * 500]]}
        for n in range(500)
        for at in range(20)
    ]
    page = run_report(content, RUN, samples=True)
    assert len(page) < MAX_BYTES
    text = _Page(page).text
    assert "Fewer differences are shown than usual" in text
    assert "m499" in text


@pytest.mark.case("U46")
def test_a_table_of_many_columns_is_printed_across_the_paper_with_all_of_them() -> None:
    """Paper does not scroll: what would not fit is set smaller, and broken within a cell."""
    _, _, printed = unmatched_page().style.partition("@media print")
    wide = ".scroll:has(thead th:nth-child(10))"
    rules = dict(re.findall(r"([^{}]+?) \{ ([^{}]*) \}", printed))
    rules_by_selector = {selector.strip(): rule for selector, rule in rules.items()}
    assert "size: landscape" in rules_by_selector["@page wide"]
    assert (
        next(rule for name, rule in rules_by_selector.items() if name.endswith(wide))
        == "page: wide;"
    )
    assert "overflow-wrap: anywhere" in rules_by_selector[f"{wide} :is(th, td, td.number)"]
    assert "overflow: visible" in rules_by_selector[".scroll"]


@pytest.mark.case("X79")
def test_hostile_values_and_columns_are_shown_literally() -> None:
    one = a_table("one", "id text, v text", *[(text, text) for text in HOSTILE])
    two = a_table("two", "id text, v text", *[(text, f"{text}!") for text in HOSTILE])
    tables = [one, two]
    content = document(a_job(tables, rows_by("id", a_measure("v"))), tables)
    stage = content["proof"]["stages"][0]
    stage["question"]["dimensions"][0]["name"] = HOSTILE[0]
    content["run"]["job"] = HOSTILE[4]
    content["proof"]["warnings"] = [{"code": "WARN_AT", "message": HOSTILE[1]}]
    page = _Page(run_report(content, {**RUN, "triggered_by": HOSTILE[5]}, samples=True))
    for text in HOSTILE:
        assert text in page.texts or f'"{text}"' in page.texts
    plain = unmatched_page()
    assert page.tags <= plain.tags | {"ul", "li"}
    assert not [name for _, each in page.elements for name in each if name.startswith("on")]
    assert page.style == plain.style


@pytest.mark.case("X79")
def test_a_hostile_error_is_shown_literally() -> None:
    error = {"code": "UNKNOWN", "detail_code": HOSTILE[0], "message": HOSTILE[4]}
    page = _Page(error_report({**ERRORED, "job": HOSTILE[0], "error": error}))
    assert HOSTILE[4] in page.texts
    assert "script" not in page.tags


def test_without_the_right_no_value_is_on_the_page() -> None:
    text = unmatched_page(samples=False).text
    assert "4711" not in text
    assert "9500" not in text
    assert "you have no permission to read them" in text
    assert "5 only in ledger" in text


@pytest.mark.case("U48")
def test_an_errored_run_shows_cause_and_last_step_and_no_verdict() -> None:
    error = {
        "code": "QUERY_FAILED",
        "detail_code": "CORRUPT_SOURCE",
        "message": "source exports: a.csv line 812: the row has more fields than the header",
    }
    page = _Page(error_report({**ERRORED, "error": error}))
    assert "ERRORED A file or record of a source cannot be read in its declared" in page.text
    assert "a.csv line 812" in page.text
    assert "CORRUPT_SOURCE (DR3009)" in page.text
    assert "started by a worker 2026-11-20 06:14:03 UTC ended" in page.text
    assert "datarecs errors DR3009" in page.text
    assert "neither found equal nor different" in page.text
    classes = {name for _, each in page.elements for name in (each.get("class") or "").split()}
    assert classes.isdisjoint({"matched", "unmatched"})
    assert "errored" in classes


@pytest.mark.case("U48")
def test_a_cancelled_run_shows_who_and_why() -> None:
    run = {**RUN, "status": "CANCELLED", "cancelled_by": "ana", "cancel_reason": "wrong day"}
    page = _Page(error_report(run))
    assert "CANCELLED Cancelled by ana: wrong day" in page.text
    assert "What happened" not in page.text


def test_a_run_that_was_never_submitted_says_so() -> None:
    error = {"code": "UNKNOWN", "detail_code": "SUBMIT_REJECTED", "message": "quota"}
    run = {**RUN, "status": "QUEUE_ERRORED", "started_at": None, "error": error}
    text = _Page(error_report(run)).text
    assert "QUEUE_ERRORED The run could not be submitted, so it never started." in text


def test_an_unknown_detail_code_still_has_a_page() -> None:
    error = {"code": "CRASHED", "detail_code": "FROM_THE_FUTURE", "message": "gone"}
    text = _Page(error_report({**ERRORED, "error": error})).text
    assert "FROM_THE_FUTURE" in text
    assert "give the worker more memory" in text


@pytest.mark.case("GLO-04")
def test_no_page_calls_a_run_failed_or_a_success() -> None:
    pages = [unmatched_page(), matched_page()]
    for status in (RunStatus.ERRORED, RunStatus.QUEUE_ERRORED, RunStatus.CANCELLED):
        for code in ("TIMED_OUT", "CRASHED", "QUERY_FAILED", "UNKNOWN"):
            error = {"code": code, "message": "m"}
            pages.append(_Page(error_report({**RUN, "status": status, "error": error})))
    for page in pages:
        assert not re.search(r"\b(failed|failure|success|successful)\b", page.text.lower())


def test_three_sources_each_have_a_column_and_a_delta() -> None:
    columns = "id int, amount decimal(10,2)"
    tables = [
        a_table("ledger", columns, (1, Decimal("1.00")), (2, Decimal(5))),
        a_table("lake", columns, (1, Decimal("1.50")), (2, Decimal(5))),
        a_table("landing", columns, (1, Decimal("1.00"))),
    ]
    job = a_job(tables, counting(), rows_by("id", a_measure("amount")))
    text = _Page(run_report(document(job, tables), RUN, samples=True)).text
    assert "id ledger lake landing Δ lake Δ % lake Δ landing Δ % landing" in text
    assert "1 1.0 1.5 1.0 0.5 50 % 0.0 0 %" in text
    assert "Stage rows: 2 of 2 groups do not agree: 1 missing in landing" in text
    assert "Other stages that differ: counts." in text
    assert "Rows of ledger 2" in text


@pytest.mark.case("P61")
def test_a_page_says_how_many_of_how_many_differences_are_stored() -> None:
    tables = [
        a_table("ledger", "id int, v int", *((n, n) for n in range(9))),
        a_table("exports", "id int, v int", *((n, n + 1) for n in range(8))),
    ]
    few = Results(breaks=Breaks(max_rows=3))
    job = a_job(tables, rows_by("id", a_measure("v")), results=few)
    page = _Page(run_report(document(job, tables), RUN, samples=True))
    assert "3 of 9 differences are stored; the counts above are complete." in page.text
    assert "9 of 9 groups do not agree: 1 only in ledger" in page.text


def test_a_document_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(DocumentUnreadableError, match=r"run\.json: proof\.sources is not a list"):
        run_report({"proof": {"result": "MATCHED"}, "proof_hash": "x"}, RUN, samples=True)


def a_hint(**changes: object) -> dict[str, object]:
    return {
        "rule": "CONSTANT_FACTOR",
        "measure": "amount",
        "source": "lake",
        "what": "lake is exactly 100 times the <reference>",
        "explained": 8,
        "of": 9,
        "examples": ["aaa", "bbb"],
        "declare": 'sources[lake].columns: {amount: {expr: "amount * 0.01"}}',
        **changes,
    }


def with_hints() -> dict[str, Any]:
    tables = [
        a_table("ledger", "id int, amount int", (1, 1), (2, 2)),
        a_table("lake", "id int, amount int", (1, 100), (3, 7)),
    ]
    made = document(a_job(tables, rows_by("id", a_measure("amount"))), tables)
    return {**made, "hints": {"rows": [a_hint()]}}


def test_likely_causes_stand_with_share_evidence_and_line() -> None:
    text = _Page(run_report(with_hints(), RUN, samples=True)).text
    assert "Likely causes" in text
    assert "lake is exactly 100 times the <reference> such as aaa, bbb" in text
    assert "8 of 9 breaks (88.888 %)" in text
    assert 'sources[lake].columns: {amount: {expr: "amount * 0.01"}}' in text


def test_likely_causes_are_made_of_values_and_hidden_like_them() -> None:
    text = _Page(run_report(with_hints(), RUN, samples=False)).text
    assert "Likely causes" not in text
    assert "100 times" not in text


def test_the_way_from_one_total_to_the_other_is_drawn_without_values_of_rows() -> None:
    text = _Page(run_report(with_hints(), RUN, samples=False)).text
    assert "From one total to the other" in text
    assert "total of ledger 3" in text
    assert "missing in lake -2" in text
    assert "missing in ledger +7" in text
    assert "values that differ +99" in text
    assert "total of lake 107" in text


def test_a_page_says_how_each_stage_was_compared_and_why_not_otherwise() -> None:
    text = _Page(run_report(with_hints(), RUN, samples=True)).text
    assert "Compared in full, every row in one pass; not narrow (" in text


def test_what_a_schema_stage_lets_pass_is_a_relaxation() -> None:
    tables = [a_table(name, "id int, v text, x int") for name in ("a", "b")]
    loose = SchemaPolicy(mode=SchemaMode.COMPATIBLE, ignore=("x",))
    text = _Page(
        run_report(
            document(a_job(tables, comparing_columns(), schema=loose), tables), RUN, samples=True
        )
    ).text
    assert "types need only be comparable, not equal" in text
    assert "ignored are x" in text
    assert "None: values were compared exactly" not in text


def test_the_root_over_row_digests_stands_beside_the_proof() -> None:
    tables = [a_table(name, "id int", (1,)) for name in ("a", "b")]
    job = a_job(tables, rows_by("id"), execution=Execution(proof=ProofMode.ROWS))
    content = document(job, tables)
    text = _Page(run_report(content, RUN, samples=True)).text
    assert f"root over row digests {content['proof']['digests']['merkle_root']}" in text


@pytest.mark.case("P57")
def test_a_recheck_is_shown_with_both_counts() -> None:
    shown = _Page(run_report(document_with_recheck(), RUN, samples=True)).text
    assert "Agreed after recheck 1 of 3 that differed at first" in shown
    assert "3 groups differed at first and, rechecked once, 1 agreed (in flight)" in shown
