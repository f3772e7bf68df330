from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.results.results import (
    DifferenceSet,
    MeasureResult,
    StageCounts,
    StageResults,
    UnitAmounts,
    UnitResult,
    Verdict,
    Waterfall,
)
from datarecs_core.comparison.results.verdict import (
    Acceptance,
    RunOutcome,
    SkipReason,
    StageOutcome,
)
from datarecs_core.documents import to_document
from datarecs_core.hashing import JsonValue
from datarecs_core.runs.events import RunCompleted
from datarecs_core.runs.model import LikelyCause, MeasureGap, MissingGroups, RunSummary
from datarecs_core.runs.summary import likely_cause, read_summary, summary_of, with_report_url
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.run_facts import a_completion, an_errored, the_run
from datarecs_testing.tables import a_job, pair, plan_of

TABLES = pair("k int, amount int", [], [])
PLAN = plan_of(a_job(TABLES, rows_by("k", a_measure("amount"))), TABLES).stages[0]


def a_result(
    *, outside: int = 0, gap: str | None = "0", steps: tuple[str, str, str] | None = None
) -> MeasureResult:
    """Of the measure `amount`: the second source against the first."""
    waterfall = None
    if steps is not None:
        lost, extra, changed = map(Decimal, steps)
        waterfall = Waterfall(missing_here=lost, missing_in_reference=extra, changed=changed)
    return MeasureResult(
        name="amount",
        tolerances=(),
        within=0,
        outside=outside,
        equal=0,
        within_not_equal=0,
        total_by_source=(None, None),
        gap_by_source=(Decimal(0), None if gap is None else Decimal(gap)),
        waterfall_by_source=(None, waterfall),
    )


def executed(
    *,
    compared: int,
    matched: int,
    rows: int = 1,
    missing: tuple[int, int] = (0, 0),
    measure: MeasureResult | None = None,
) -> StageOutcome:
    counts = StageCounts(
        source_row_counts=(rows, rows),
        groups_by_source=(compared, compared),
        matched_groups=compared,
        unmatched_by_source=(0, 0),
        missing_by_source=missing,
        presence=((3, compared),),
        rows_compared=compared,
        rows_matched=matched,
        rows_unmatched=compared - matched,
        duplicate_keys_by_source=(0, 0),
        null_keys_by_source=(0, 0),
        invalid_values_by_source=(0, 0),
        excluded_rows_by_source=(0, 0),
        odd_one_out=(0, 0),
    )
    differences = DifferenceSet(rows=0, digest="sha256:0")
    results = StageResults(
        stage=PLAN.name,
        counts=counts,
        measures=(measure,) if measure else (),
        differences=differences,
        closure=(),
    )
    verdict = Verdict.MATCHED if matched == compared else Verdict.UNMATCHED
    return StageOutcome(plan=PLAN, results=results, verdict=verdict)


def gaps_of(plan: StagePlan, measure: MeasureResult, *units: UnitResult) -> tuple[MeasureGap, ...]:
    """What the summary lists of two groups outside tolerance."""
    stage = executed(compared=9, matched=7, measure=measure)
    assert stage.results is not None
    results = replace(stage.results, units=units)
    return summed(replace(stage, plan=plan, results=results)).measures or ()


SKIPPED = StageOutcome(plan=PLAN, skipped=SkipReason.STOPPED_BY, stopped_by="rows")


def summed(*stages: StageOutcome, acceptance: Acceptance = Acceptance.NOT_CONFIGURED) -> RunSummary:
    outcome = RunOutcome(stages=stages, verdict=Verdict.UNMATCHED, acceptance=acceptance)
    return summary_of(outcome, duration=timedelta(seconds=1.25), report_path="/runs/report.html")


def test_the_numbers_are_those_of_the_widest_stage_and_no_key_counts_twice() -> None:
    summary = summed(
        executed(compared=1, matched=1),
        executed(compared=1005, matched=975),
        executed(compared=30, matched=0),
        SKIPPED,
    )
    rows = (summary.rows_compared, summary.rows_matched, summary.rows_unmatched)
    assert rows == (1005, 975, 30)
    assert (summary.stages_total, summary.stages_matched) == (4, 1)
    assert (summary.duration_ms, summary.report_path) == (1250, "/runs/report.html")


def test_of_stages_of_one_width_the_later_one_counts() -> None:
    summary = summed(executed(compared=10, matched=10), executed(compared=10, matched=7))
    assert (summary.rows_matched, summary.rows_unmatched) == (7, 3)


def test_a_run_without_any_row_has_a_warning() -> None:
    assert summed(executed(compared=0, matched=0, rows=0)).empty
    assert not summed(
        executed(compared=0, matched=0, rows=0), executed(compared=1, matched=1)
    ).empty


def test_acceptance_is_reported_where_it_is_declared() -> None:
    stage = executed(compared=1, matched=1)
    assert summed(stage).acceptance is None
    assert summed(stage, acceptance=Acceptance.ACCEPTED).acceptance == "ACCEPTED"


def test_a_measure_with_a_gap_states_its_amounts_exactly() -> None:
    steps = ("1300.00", "0", "49.60")
    measure = a_result(outside=18, gap="-1250.40", steps=steps)
    first, second = PLAN.sources
    assert summed(executed(compared=9, matched=1, measure=measure)).measures == (
        MeasureGap(
            stage_name=PLAN.name,
            measure_name="amount",
            source=second,
            reference=first,
            gap="-1250.4",
            missing_in_source="1300",
            missing_in_reference="0",
            changed="49.6",
            outside_tolerance_count=18,
        ),
    )


def test_a_measure_that_agrees_is_left_out() -> None:
    assert summed(executed(compared=9, matched=9, measure=a_result())).measures is None


def test_a_measure_without_total_still_counts_the_groups_outside() -> None:
    gaps = summed(executed(compared=9, matched=1, measure=a_result(outside=2, gap=None))).measures
    assert gaps is not None
    assert (gaps[0].gap, gaps[0].outside_tolerance_count) == (None, 2)


def planned(columns: str, dimensions: str, *measures: str) -> StagePlan:
    tables = pair(columns, [], [])
    stage = rows_by(dimensions, *map(a_measure, measures))
    return plan_of(a_job(tables, stage), tables).stages[0]


def test_a_price_has_no_total_and_its_groups_outside_are_counted() -> None:
    plan = planned("k int, price int", "k", "price")
    measure = replace(a_result(outside=2, gap="7", steps=("0", "0", "7")), name="price")
    (gap,) = gaps_of(plan, measure)
    assert (gap.gap, gap.changed, gap.outside_tolerance_count) == (None, None, 2)


def test_amounts_of_two_currencies_have_an_entry_each_and_no_common_total() -> None:
    plan = planned("k int, ccy text, amount int", "k ccy", "amount")
    steps = {
        unit: Waterfall(
            missing_here=Decimal(0), missing_in_reference=Decimal(0), changed=Decimal(changed)
        )
        for unit, changed in (("EUR", "3"), ("USD", "-1.5"))
    }
    units = tuple(
        UnitResult(
            unit=unit,
            differing=1,
            missing_here=(0, 0),
            missing_in_reference=(0, 0),
            measures=(UnitAmounts(measure="amount", waterfall_by_source=(None, changed)),),
        )
        for unit, changed in steps.items()
    )
    measure = a_result(outside=2, gap="1.5", steps=("0", "0", "1.5"))
    assert [
        (gap.unit, gap.gap, gap.outside_tolerance_count) for gap in gaps_of(plan, measure, *units)
    ] == [
        (None, None, 2),
        ("EUR", "3", None),
        ("USD", "-1.5", None),
    ]


def test_amounts_beside_a_currency_that_is_compared_have_no_total() -> None:
    plan = planned("k int, ccy text, amount int", "k", "amount", "ccy")
    measure = a_result(outside=2, gap="7", steps=("0", "0", "7"))
    (gap,) = gaps_of(plan, measure)
    assert gap.gap is None


def test_groups_missing_in_a_source_are_counted_per_stage() -> None:
    missing = summed(executed(compared=9, matched=1, missing=(0, 12))).missing
    assert missing == (MissingGroups(stage_name=PLAN.name, source=PLAN.sources[1], groups=12),)


def test_of_very_many_measures_the_first_are_listed_and_all_are_counted() -> None:
    stages = [executed(compared=1, matched=0, measure=a_result(outside=1)) for _ in range(25)]
    summary = summed(*stages)
    assert (len(summary.measures or ()), summary.measures_total) == (20, 25)


def test_the_likely_cause_is_the_pattern_with_the_most_differences_and_has_no_value() -> None:
    def hint(rule: str, explained: int) -> dict[str, JsonValue]:
        what = "amount is 100 times as large"
        return {
            "rule": rule,
            "measure": "amount",
            "source": "b",
            "what": what,
            "explained": explained,
            "of": 9,
        }

    cause = likely_cause({"s": [hint("CUT", 5), hint("ROUNDED", 8)]})
    assert cause == LikelyCause(
        stage_name="s", measure_name="amount", source="b", pattern="ROUNDED", explained=8, of=9
    )
    assert likely_cause({}) is None


def test_a_summary_survives_its_json_form_and_fields_of_a_later_release_are_left_aside() -> None:
    measure = a_result(outside=1, gap="3", steps=("1", "2", "2"))
    summary = summed(executed(compared=9, matched=1, missing=(0, 2), measure=measure))
    stored = to_document(summary)
    assert isinstance(stored, dict)
    assert read_summary({**stored, "later": 1}) == summary


def test_the_url_of_the_report_needs_a_base_url() -> None:
    end = a_completion(the_run())
    with_path = replace(end, summary=summed(executed(compared=1, matched=1)))
    finished = with_report_url(with_path, "https://recs.example.com/")
    assert isinstance(finished, RunCompleted)
    assert finished.summary is not None
    assert finished.summary.report_url == "https://recs.example.com/runs/report.html"
    assert with_report_url(with_path, None) == with_path
    error = an_errored(the_run())
    assert with_report_url(error, "https://recs.example.com") == error
