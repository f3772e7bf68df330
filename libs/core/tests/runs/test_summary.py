from datetime import timedelta

from datarecs_core.comparison.results.results import (
    DifferenceSet,
    StageCounts,
    StageResults,
    Verdict,
)
from datarecs_core.comparison.results.verdict import (
    Acceptance,
    RunOutcome,
    SkipReason,
    StageOutcome,
)
from datarecs_core.runs.model import RunSummary
from datarecs_core.runs.summary import summary_of
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.tables import a_job, pair, plan_of

TABLES = pair("k int, v int", [], [])
PLAN = plan_of(a_job(TABLES, rows_by("k", a_measure("v"))), TABLES).stages[0]


def executed(*, compared: int, matched: int, rows: int = 1) -> StageOutcome:
    counts = StageCounts(
        source_row_counts=(rows, rows),
        groups_by_source=(compared, compared),
        matched_groups=compared,
        unmatched_by_source=(0, 0),
        missing_by_source=(0, 0),
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
        stage=PLAN.name, counts=counts, measures=(), differences=differences, closure=()
    )
    verdict = Verdict.MATCHED if matched == compared else Verdict.UNMATCHED
    return StageOutcome(plan=PLAN, results=results, verdict=verdict)


SKIPPED = StageOutcome(plan=PLAN, skipped=SkipReason.STOPPED_BY, stopped_by="rows")


def summed(*stages: StageOutcome, acceptance: Acceptance = Acceptance.NOT_CONFIGURED) -> RunSummary:
    outcome = RunOutcome(stages=stages, verdict=Verdict.UNMATCHED, acceptance=acceptance)
    return summary_of(outcome, duration=timedelta(seconds=1.25), report_path="runs/report.html")


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
    assert (summary.duration_ms, summary.report_path) == (1250, "runs/report.html")


def test_of_stages_of_one_width_the_later_one_counts() -> None:
    summary = summed(executed(compared=10, matched=10), executed(compared=10, matched=7))
    assert (summary.rows_matched, summary.rows_unmatched) == (7, 3)


def test_a_run_without_any_row_says_so() -> None:
    assert summed(executed(compared=0, matched=0, rows=0)).empty
    assert not summed(
        executed(compared=0, matched=0, rows=0), executed(compared=1, matched=1)
    ).empty


def test_acceptance_is_told_where_it_was_asked_for() -> None:
    stage = executed(compared=1, matched=1)
    assert summed(stage).acceptance is None
    assert summed(stage, acceptance=Acceptance.ACCEPTED).acceptance == "ACCEPTED"
