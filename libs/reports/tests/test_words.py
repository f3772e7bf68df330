"""Tolerances, policies, relaxations and patterns, in the words that every surface uses."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from datarecs_core.jobs.definition import (
    Accept,
    Normalize,
    NullRules,
    NumberRules,
    StringRules,
    Tolerance,
)
from datarecs_core.jobs.types import parse_type
from datarecs_core.jobs.vocabulary import (
    Bound,
    Case,
    Combine,
    CompareTo,
    NullKeys,
    OnUnmatched,
    ToleranceBase,
    Trim,
)
from datarecs_reports.decoding import run_facts
from datarecs_reports.model import Executed, RunFacts
from datarecs_reports.tables import delta_text, difference_tables, measure_rows
from datarecs_reports.words import (
    policies,
    presence_words,
    reason,
    relaxations,
    short_tolerance,
    skipped_words,
    tolerance_words,
)
from datarecs_testing.comparisons import (
    a_measure,
    absolute,
    counting,
    lasting,
    percentage,
    rows_by,
)
from datarecs_testing.finished_runs import document
from datarecs_testing.tables import Table, a_job, a_table

MORNING = datetime(2026, 1, 31, 6, tzinfo=UTC)


def two(columns: str, first: tuple[object, ...], second: tuple[object, ...]) -> list[Table]:
    return [a_table("ledger", columns, first), a_table("exports", columns, second)]


def amounts() -> list[Table]:
    return two("id int, amount decimal(10,2)", (1, Decimal(1)), (1, Decimal(2)))


def executed(facts: RunFacts) -> Executed:
    stage = facts.stages[0].executed
    assert stage is not None
    return stage


@pytest.mark.parametrize(
    ("tolerances", "fields", "words", "short"),
    [
        ((), {}, "exactly equal", "EXACT"),
        ((absolute("0.01"),), {}, "at most 0.01 apart", "ABSOLUTE 0.01"),
        (
            (absolute("1000"),),
            {"bound": Bound.EXCLUSIVE},
            "less than 1,000 apart",
            "ABSOLUTE 1,000",
        ),
        (
            (percentage("0.1"),),
            {},
            "at most 0.1 % of the value in ledger apart",
            "PERCENTAGE 0.1 %",
        ),
        (
            (percentage("1", ToleranceBase.MAX_ABS),),
            {},
            "at most 1 % of the larger value apart",
            "PERCENTAGE 1 %",
        ),
        (
            (absolute("5"), percentage("1")),
            {"combine": Combine.ANY},
            "at most 5 apart or at most 1 % of the value in ledger apart",
            "ABSOLUTE 5 or PERCENTAGE 1 %",
        ),
    ],
)
def test_tolerances_are_sentences(
    tolerances: tuple[Tolerance, ...], fields: dict[str, object], words: str, short: str
) -> None:
    tables = amounts()
    job = a_job(tables, rows_by("id", a_measure("amount", *tolerances, **fields)))
    measure = executed(run_facts(document(job, tables))).measures[0]
    assert tolerance_words(measure, "ledger") == words
    assert short_tolerance(measure) == short


def test_a_spread_says_what_is_compared_with_what() -> None:
    tables = amounts()
    stage = replace(rows_by("id", a_measure("amount")), compare_to=CompareTo.SPREAD)
    measure = executed(run_facts(document(a_job(tables, stage), tables))).measures[0]
    assert tolerance_words(measure, "ledger") == (
        "exactly equal; the largest value is compared with the smallest"
    )


def test_times_are_compared_and_shown_as_lengths() -> None:
    later = MORNING + timedelta(minutes=90)
    tables = two("id int, at instant", (1, MORNING), (1, later))
    job = a_job(tables, rows_by("id", a_measure("at", lasting(timedelta(seconds=90)))))
    stage = executed(run_facts(document(job, tables)))
    measure = stage.measures[0]
    assert tolerance_words(measure, "ledger") == "at most 1 min 30 s apart"
    assert short_tolerance(measure) == "DURATION 1 min 30 s"
    assert measure_rows(stage, ("ledger", "exports"), most=5)[0].largest == "1 h 30 min"
    table = difference_tables(stage, ("ledger", "exports"), most=5)[0]
    assert table.columns == ("ledger", "exports", "Δ")
    assert [cell.text for cell in table.rows[0]][-1] == "1 h 30 min"
    assert delta_text("-1000000", places=2, is_time=True) == "-1 s"


def test_every_relaxation_is_named_with_its_column() -> None:
    tables = two("id text, amount decimal(10,2)", ("a", Decimal(1)), ("A ", None))
    rules = Normalize(
        strings=StringRules(trim=Trim.BOTH, case=Case.FOLD), numbers=NumberRules(round=1)
    )
    sources = {"exports": {"cast": {"amount": parse_type("decimal(12,2)")}}}
    job = a_job(tables, rows_by("id", a_measure("amount")), normalize=rules, sources=sources)
    assert relaxations(run_facts(document(job, tables))) == [
        "id: upper and lower case are the same",
        "id: white space at both ends is ignored",
        "amount: numbers are rounded half-even to 1 place",
        "exports.amount: read as decimal(12,2)",
    ]


def test_no_relaxation_is_reported_where_none_is_declared() -> None:
    tables = amounts()
    job = a_job(tables, rows_by("id", a_measure("amount")))
    assert relaxations(run_facts(document(job, tables))) == []


def test_policies_and_limits_of_a_stage_are_reported() -> None:
    tables = [
        a_table("ledger", "id int, v int", (1, 1), (None, 2)),
        a_table("exports", "id int, v int", (1, 1)),
    ]
    stage = replace(
        rows_by("id", a_measure("v")), where="v > 0", accept=Accept(max_outside=5, max_unmatched=1)
    )
    job = a_job(tables, stage, normalize=Normalize(nulls=NullRules(keys=NullKeys.EXCLUDE)))
    words_shown = " ".join(policies(executed(run_facts(document(job, tables))), "row"))
    assert "compared as a multiset" in words_shown
    assert "Rows with NULL in a key are left out and counted." in words_shown
    assert "Only rows with v > 0." in words_shown
    assert "1 row left out for a NULL in the key." in words_shown
    assert "Accepted within max outside 5, max unmatched 1: " in words_shown


@pytest.mark.parametrize(
    ("mask", "sources", "words"),
    [
        (0b11, ("a", "b"), "in both"),
        (0b01, ("a", "b"), "only in a"),
        (0b111, ("a", "b", "c"), "in all 3"),
        (0b100, ("a", "b", "c"), "only in c"),
        (0b101, ("a", "b", "c"), "missing in b"),
        (0b0011, ("a", "b", "c", "d"), "missing in c, d"),
    ],
)
def test_patterns_have_words(mask: int, sources: tuple[str, ...], words: str) -> None:
    assert presence_words(mask, sources) == words


def test_the_reason_names_the_widest_stage_that_differs() -> None:
    tables = amounts()
    stages = (
        counting(),
        rows_by("id", a_measure("amount"), name="rows", on_unmatched=OnUnmatched.STOP),
        rows_by("id", name="again"),
    )
    facts = run_facts(document(a_job(tables, *stages), tables))
    assert reason(facts) == "Stage rows: 1 of 1 group does not agree: 1 outside tolerance."
    assert skipped_words(facts.stages[2]) == (
        "Not executed, because rows is unmatched and stops the run."
    )


def test_empty_sources_are_no_agreement_about_anything() -> None:
    tables = [a_table("ledger", "id int"), a_table("exports", "id int")]
    facts = run_facts(document(a_job(tables, rows_by("id")), tables))
    assert reason(facts) == "All sources are empty, so nothing differs."
