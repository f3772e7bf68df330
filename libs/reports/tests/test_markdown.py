"""The report as Markdown: what it says, that it stays small, and that it stays text."""

import re
from datetime import date
from decimal import Decimal

import pytest

from datarecs_core.jobs.definition import Accept, Breaks, Results
from datarecs_core.jobs.vocabulary import MaskRule
from datarecs_reports.markdown import MAX_BYTES, run_markdown
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.finished_runs import (
    Json,
    balance_check,
    books,
    document,
    document_with_recheck,
)
from datarecs_testing.tables import a_job, a_table


def text(made: Json, *, samples: bool = True) -> str:
    return run_markdown(made, samples=samples).decode()


def test_the_sample_of_source_001_reads_as_everywhere_else() -> None:
    tables = books()
    markdown = text(document(balance_check(tables), tables))
    assert markdown.startswith("# ▲ UNMATCHED: ledger-vs-exports")
    assert "975 of 1,005 groups agree (97.014 %), 5 only in ledger, 20 only in exports." in markdown
    assert "| `total_amount` | `ABSOLUTE 0.01` | 975 | 0 | **5** | -1,234.56 |" in markdown
    assert "| 4711 | `total_amount` | outside | 1,677.75 | 677.75 | -1,000 |" in markdown
    assert re.search(r"^Proof `sha256:[0-9a-f]{64}`$", markdown, re.MULTILINE)


def test_at_most_twenty_differences_are_shown() -> None:
    rows = [(at, Decimal(at)) for at in range(50)]
    tables = [
        a_table("ledger", "k int, v decimal(9,2)", *rows),
        a_table("lake", "k int, v decimal(9,2)", *((k, v + 1 + k) for k, v in rows)),
    ]
    markdown = text(document(a_job(tables, rows_by("k", a_measure("v"))), tables))
    assert len(re.findall(r"^\| \d+ \| v \|", markdown, re.MULTILINE)) == 20
    assert "| 49 | v | outside | 49 | 99 | 50 |" in markdown


def test_a_difference_of_times_is_a_length_of_time() -> None:
    tables = [
        a_table("ledger", "k int, v date", (1, date(2026, 1, 3))),
        a_table("lake", "k int, v date", (1, date(2026, 1, 28))),
    ]
    markdown = text(document(a_job(tables, rows_by("k", a_measure("v"))), tables))
    assert "| 1 | v | outside | 2026-01-03 | 2026-01-28 | 25 d |" in markdown


def test_without_samples_no_value_is_shown() -> None:
    tables = books()
    markdown = text(document(balance_check(tables), tables), samples=False)
    assert "4711" not in markdown
    assert "-1,234.56" in markdown


def test_limits_and_warnings_are_reported() -> None:
    tables = [a_table("ledger", "k int, v int", (1, 1)), a_table("lake", "k int, v int", (None, 1))]
    job = a_job(tables, rows_by("k", a_measure("v"), accept=Accept(max_unmatched=5)))
    markdown = text(document(job, tables))
    assert "Declared limits of acceptance: ACCEPTED." in markdown
    assert "## Warnings" in markdown
    assert "NULL\\_KEYS\\_PRESENT" in markdown


@pytest.mark.case("P57")
def test_a_recheck_is_reported_with_both_counts() -> None:
    markdown = text(document_with_recheck())
    assert "3 groups differed at first and, rechecked once, 1 agreed (in flight); " in markdown
    assert "2 still differ." in markdown


@pytest.mark.case("X86")
@pytest.mark.case("P64")
def test_a_masked_column_shows_no_clear_value() -> None:
    tables = [
        a_table("ledger", "k text, v text", ("key-secret", "one-secret")),
        a_table("lake", "k text, v text", ("key-secret", "other-secret"), ("alone-secret", "x")),
    ]
    breaks = Breaks(mask={"k": MaskRule.HASH, "v": MaskRule.REDACT})
    job = a_job(tables, rows_by("k", a_measure("v")), results=Results(breaks=breaks))
    markdown = text(document(job, tables))
    assert "secret" not in markdown
    assert "`***`" in markdown


def test_foreign_text_is_no_markup() -> None:
    hostile = "a|b [x](http://y) @team <img src=x> `c` #1\n# head\u202e"
    tables = [
        a_table("ledger", "k text, v text", (hostile, "1")),
        a_table("lake", "k text, v text", (hostile, "2")),
    ]
    markdown = text(document(a_job(tables, rows_by("k", a_measure("v"))), tables))
    row = next(line for line in markdown.splitlines() if "team" in line)
    assert row.startswith("| ``a\\|b [x](http://y)")
    assert row.count(" | ") == 5
    assert "\u202e" not in markdown


def test_it_never_grows_beyond_a_comment() -> None:
    wide = "x" * 2_000
    columns = ", ".join(f"c{at:03} text" for at in range(400))
    row = (wide,) * 400
    tables = [
        a_table("ledger", f"k text, {columns}", (wide, *row)),
        a_table("lake", f"k text, {columns}", (wide, *(each + "y" for each in row))),
    ]
    job = a_job(tables, rows_by("k", *(a_measure(f"c{at:03}") for at in range(400))))
    written = run_markdown(document(job, tables), samples=True)
    assert len(written) <= MAX_BYTES
    assert "more measures" in written.decode()
