"""The report as people meet it: phone, dark, print, screen reader, with and without scripts."""

from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from datarecs_core.jobs.types import parse_type
from datarecs_reports.decoding import run_facts
from datarecs_reports.html import MAX_BYTES, error_report, run_report
from datarecs_testing.browser import Page
from datarecs_testing.comparisons import a_measure, absolute, counting, rows_by
from datarecs_testing.finished_runs import RUN, balance_check, books, document
from datarecs_testing.tables import Row, a_job, a_table

pytestmark = pytest.mark.browser
D = Decimal
Json = dict[str, Any]
COLUMNS = "trade_id text, currency text, amount text, price decimal(18,4), note text"
CONTRAST = """
(() => {
  const rgb = (text) => text.match(/[0-9.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const part = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const back = rgb(getComputedStyle(at).backgroundColor);
      if (back.length === 3 || back[3] > 0) return back;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const one of document.querySelectorAll("body *")) {
    const owns = Array.from(one.childNodes).some((n) => n.nodeType === 3 && n.data.trim());
    if (!owns || one.closest("script, style, option")) continue;
    const [a, b] = [light(rgb(getComputedStyle(one).color)), light(behind(one))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const what = `${one.tagName} ${one.className} ${one.textContent.slice(0, 30)}`;
    if (ratio < 4.5) poor.push(`${what} ${ratio.toFixed(2)}`);
  }
  return poor;
})()
"""
ROWS = "Array.from(document.querySelectorAll('.rows tbody tr')).filter(one => !one.hidden)"


def trades() -> Json:
    """Trades in four currencies against a custodian with gaps, INVALID dates and long texts."""
    one: list[Row] = []
    two: list[Row] = []
    for number in range(200):
        currency = ["USD", "EUR", "JPY", "GBP"][number % 4]
        amount = D(1000 + number * 37) / 4
        row = (f"T-{number:05d}", currency, f"{amount:.2f}", D(number) / 8, "ok")
        one.append(row)
        if number % 31:
            other = f"{amount - D(number) / 10:.2f}" if number % 7 == 0 else f"{amount:.2f}"
            text = "a remark that goes on " * 20 if number % 41 == 0 else "ok"
            two.append((row[0], currency, "1.2.3" if number == 50 else other, row[3], text))
    tables = [a_table("ledger", COLUMNS, *one), a_table("custodian", COLUMNS, *two)]
    cast = {"cast": {"amount": parse_type("decimal(18,2)")}}
    measures = (a_measure("amount", absolute("0.01")), a_measure("price"), a_measure("note"))
    stage = rows_by("trade_id currency", *measures, name="trades")
    sources = {table.name: cast for table in tables}
    return document(a_job(tables, counting(), stage, sources=sources), tables)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    ledger, _ = books()
    same = [ledger, replace(ledger, name="exports")]
    run = {**RUN, "result": "UNMATCHED"}
    error = {"code": "QUERY_FAILED", "detail_code": "CORRUPT_SOURCE", "message": "line 812"}
    pages = {
        "trades": run_report(trades(), run, samples=True),
        "sample": run_report(document(balance_check(books()), books()), run, samples=True),
        "matched": run_report(document(balance_check(same), same), RUN, samples=True),
        "hidden": run_report(trades(), run, samples=False),
        "errored": error_report({**RUN, "status": "ERRORED", "result": None, "error": error}),
    }
    for name, page in pages.items():
        (folder / f"{name}.html").write_bytes(page)
    return {name: folder / f"{name}.html" for name in pages}


NAMES = ("trades", "sample", "matched", "hidden", "errored")


@pytest.mark.case("U46")
@pytest.mark.parametrize("name", NAMES)
def test_a_page_requests_nothing_and_breaks_no_rule_of_its_policy(
    page: Page, files: dict[str, Path], name: str
) -> None:
    page.set_media()
    before = len(page.requests)
    page.open(files[name])
    assert page.requests[before:] == [files[name].as_uri()]
    assert page.complaints == []


@pytest.mark.case("U39")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_every_text_stands_out_from_what_is_behind_it(
    page: Page, files: dict[str, Path], name: str, scheme: str
) -> None:
    page.set_media(scheme=scheme)
    page.open(files[name])
    page.value("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert page.value(CONTRAST) == []


@pytest.mark.parametrize("width", [320, 375, 1200])
@pytest.mark.parametrize("name", NAMES)
def test_no_page_is_wider_than_its_screen(
    page: Page, files: dict[str, Path], name: str, width: int
) -> None:
    page.set_media(width=width)
    page.open(files[name])
    page.value("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert page.value("document.documentElement.scrollWidth") <= width


def test_the_amount_stands_on_the_first_screen_of_a_phone(
    page: Page, files: dict[str, Path]
) -> None:
    page.set_media(width=375)
    page.open(files["sample"])
    box = "document.querySelector('.amounts td.big').getBoundingClientRect()"
    assert page.value(f"{box}.bottom") < 667
    assert page.value(f"{box}.right") <= 375


@pytest.mark.case("U39")
@pytest.mark.parametrize("name", NAMES)
def test_a_screen_reader_meets_landmarks_headings_and_named_tables(
    page: Page, files: dict[str, Path], name: str
) -> None:
    page.set_media()
    page.open(files[name])
    page.value("document.querySelectorAll('details').forEach(one => { one.open = true })")
    roles = [role for role, _ in page.roles()]
    assert [roles.count(each) for each in ("banner", "main", "contentinfo")] == [1, 1, 1]
    levels = page.value("Array.from(document.querySelectorAll('h1,h2,h3'), one => one.tagName)")
    assert levels[0] == "H1"
    assert all(int(b[1]) - int(a[1]) <= 1 for a, b in pairwise(levels))
    unscoped = "Array.from(document.querySelectorAll('th:not([scope])')).length"
    assert page.value(unscoped) == 0
    unnamed = (
        "Array.from(document.querySelectorAll('input, select'))"
        ".filter(one => !one.labels.length).length"
    )
    assert page.value(unnamed) == 0
    scrolled = "Array.from(document.querySelectorAll('.scroll:not([tabindex])')).length"
    assert page.value(scrolled) == 0


@pytest.mark.case("U46")
@pytest.mark.parametrize("scripts", [True, False])
def test_rows_are_readable_with_and_without_scripts(
    page: Page, files: dict[str, Path], *, scripts: bool
) -> None:
    page.set_media(scripts=scripts)
    page.open(files["trades"])
    cells = page.value(
        "Array.from(document.querySelector('.rows tbody').rows[0].cells, one => one.textContent)"
    )
    assert cells[:3] == ["T-00196", "USD", "amount"]
    assert page.value("document.querySelector('.controls').hidden") is not scripts
    assert "could not be read as decimal(18,2): '1.2.3'" in page.value("document.body.textContent")


def test_rows_are_filtered_by_any_text_by_measure_and_by_kind(
    page: Page, files: dict[str, Path]
) -> None:
    page.set_media()
    page.open(files["trades"])
    _type(page, "jpy")
    shown = page.value(f"{ROWS}.map(one => one.cells[1].textContent)")
    assert set(shown) == {"JPY"}
    assert page.value("document.querySelector('output').textContent").startswith(f"{len(shown)} of")
    _type(page, "")
    _choose(page, 0, "note")
    assert set(page.value(f"{ROWS}.map(one => one.cells[2].textContent)")) == {"note"}
    _choose(page, 0, "")
    _choose(page, 1, "only in ledger")
    assert page.value(f"{ROWS}.length") == 7


def test_rows_are_sorted_as_numbers_and_as_texts(page: Page, files: dict[str, Path]) -> None:
    page.set_media()
    page.open(files["trades"])
    _sort(page, 0)
    keys = page.value(f"{ROWS}.map(one => one.cells[0].textContent)")
    assert keys == sorted(keys)
    _sort(page, 6)
    texts = page.value(f"{ROWS}.map(one => one.cells[6].textContent)")
    deltas = [D(text.replace(",", "")) for text in map(str.strip, texts) if text]
    assert deltas == sorted(deltas)
    assert page.value("document.querySelectorAll('.rows th')[6].ariaSort") == "ascending"
    _sort(page, 6)
    assert page.value("document.querySelectorAll('.rows th')[6].ariaSort") == "descending"


@pytest.mark.case("U46")
def test_ten_thousand_of_a_million_differences_fit_and_filter_in_a_moment(
    page: Page, tmp_path: Path
) -> None:
    made = trades()
    stage = made["proof"]["stages"][1]
    stage["measures"][0]["outside"] += 1_000_000
    stage["measures"][0]["within"] -= 1_000_000
    facts = run_facts(trades())
    (sample,) = [
        row
        for row in facts.stages[1].executed.samples  # type: ignore[union-attr]  # it was executed
        if row.key[0] == "T-00196" and row.measure == "amount"
    ]
    rows = [replace(sample, key=(f"T-{n:07d}", "USD"), break_id=str(n)) for n in range(20_000)]
    made["proof"]["stages"][1]["measures"][0]["within"] = 0
    report = run_report(made, RUN, samples=True, rows={"trades": rows})
    assert len(report) < MAX_BYTES
    (tmp_path / "large.html").write_bytes(report)
    page.set_media()
    page.open(tmp_path / "large.html")
    assert page.value(f"{ROWS}.length") == 10_000
    assert "the largest 10,000 of 1,000,0" in page.value("document.body.textContent")
    assert "datarecs export" in page.value("document.body.textContent")
    _type(page, "T-0010042")
    assert page.value(f"{ROWS}.length") == 1


def test_a_page_is_printed_without_its_controls(
    page: Page, files: dict[str, Path], tmp_path: Path
) -> None:
    page.set_media()
    page.open(files["trades"])
    page.print(tmp_path / "trades.pdf")
    assert (tmp_path / "trades.pdf").read_bytes().startswith(b"%PDF")


def _sort(page: Page, column: int) -> None:
    page.value(f"document.querySelectorAll('.rows thead button')[{column}].click()")


def _type(page: Page, text: str) -> None:
    page.value(
        f"(() => {{ const one = document.querySelector('.controls input'); one.value = {text!r};"
        " one.dispatchEvent(new Event('input')); })()"
    )


def _choose(page: Page, at: int, text: str) -> None:
    page.value(
        f"(() => {{ const one = document.querySelectorAll('.controls select')[{at}];"
        f" one.value = {text!r}; one.dispatchEvent(new Event('change')); }})()"
    )
