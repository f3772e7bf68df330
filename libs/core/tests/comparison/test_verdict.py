from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from datarecs_core.comparison.planning.faults import (
    ClosureFailedError,
    EmptySourceError,
    InconsistentCountsError,
    NothingExecutedError,
    NullKeysError,
)
from datarecs_core.comparison.planning.plan import StagePlan, Warn
from datarecs_core.comparison.planning.tolerance import ExactTolerance
from datarecs_core.comparison.results.results import (
    Closure,
    Confirmed,
    DifferenceSet,
    MeasureResult,
    Recheck,
    StageCounts,
    StageResults,
    ToleranceResult,
    Verdict,
    Waterfall,
)
from datarecs_core.comparison.results.verdict import (
    Acceptance,
    SkipReason,
    StageOutcome,
    broken_rule,
    judge_run,
    judge_stage,
    largest_gap,
    skip_of,
    stage_acceptance,
)
from datarecs_core.jobs.definition import Accept, WarnAt
from datarecs_core.jobs.vocabulary import EmptyPolicy, NullKeys, OnUnmatched, StageType
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.tables import a_job, pair, plan_of

D = Decimal
MATCHED, UNMATCHED = Verdict.MATCHED, Verdict.UNMATCHED


def a_stage(**changes: Any) -> StagePlan:  # noqa: ANN401 - any field of a plan
    tables = pair("k int, v int", [], [])
    plan = plan_of(a_job(tables, rows_by("k", a_measure("v"))), tables).stages[0]
    return replace(plan, **changes)


def a_result(**changes: Any) -> MeasureResult:  # noqa: ANN401 - any field of a measure
    plain = MeasureResult(
        name="v",
        tolerances=(ToleranceResult(tolerance=ExactTolerance(), alone_within=980),),
        within=975,
        outside=5,
        equal=970,
        within_not_equal=5,
        total_by_source=(D(1), D(3)),
        gap_by_source=(D(0), D(2)),
    )
    return replace(plain, **changes)


WITHIN = a_result(within=980, outside=0, equal=980, within_not_equal=0)
SAMPLE = StageCounts(
    source_row_counts=(1000, 1005),
    groups_by_source=(985, 1000),
    matched_groups=980,
    unmatched_by_source=(5, 20),
    missing_by_source=(20, 5),
    presence=((3, 980), (2, 20), (1, 5)),
    rows_compared=1005,
    rows_matched=975,
    rows_unmatched=30,
    duplicate_keys_by_source=(0, 0),
    null_keys_by_source=(0, 0),
    invalid_values_by_source=(0, 0),
    excluded_rows_by_source=(0, 0),
    odd_one_out=(0, 0),
)
ALL_IN_BOTH = replace(
    SAMPLE,
    groups_by_source=(980, 980),
    unmatched_by_source=(0, 0),
    missing_by_source=(0, 0),
    presence=((3, 980),),
    rows_compared=980,
    rows_matched=980,
    rows_unmatched=0,
)


def results(
    counts: StageCounts = SAMPLE,
    measure: MeasureResult | None = None,
    **changes: Any,  # noqa: ANN401 - any field of results
) -> StageResults:
    plain = StageResults(
        stage="rows",
        counts=counts,
        measures=(measure or a_result(),),
        differences=DifferenceSet(rows=0, digest="sha256:0"),
        closure=tuple(
            Closure(extracted=rows, grouped=rows, excluded=0, out_of_scope=0)
            for rows in counts.source_row_counts
        ),
    )
    return replace(plain, **changes)


PERFECT = results(ALL_IN_BOTH, WITHIN)


@pytest.mark.case("F06")
def test_a_stage_is_matched_when_nothing_is_unmatched_or_outside() -> None:
    assert judge_stage(a_stage(), PERFECT).verdict is MATCHED
    assert judge_stage(a_stage(), results()).verdict is UNMATCHED
    one_outside = replace(ALL_IN_BOTH, rows_matched=975, rows_unmatched=5)
    assert judge_stage(a_stage(), results(one_outside)).verdict is UNMATCHED
    only_missing = replace(SAMPLE, rows_matched=980, rows_unmatched=25)
    assert judge_stage(a_stage(), results(only_missing, WITHIN)).verdict is UNMATCHED


@pytest.mark.case("X63")
@pytest.mark.case("E9")
def test_rows_that_do_not_add_up_have_no_verdict() -> None:
    lost = Closure(extracted=1005, grouped=1000, excluded=2, out_of_scope=2)
    with pytest.raises(ClosureFailedError, match="stage rows: the rows of source two"):
        judge_stage(a_stage(), results(closure=(results().closure[0], lost)))


@pytest.mark.case("F14")
def test_every_row_is_grouped_excluded_or_out_of_scope() -> None:
    whole = Closure(extracted=10, grouped=5, excluded=2, out_of_scope=3)
    assert whole.closed
    assert not replace(whole, extracted=9).closed
    assert not replace(whole, grouped=6).closed
    assert not replace(whole, excluded=1).closed
    assert not replace(whole, out_of_scope=4).closed


@pytest.mark.parametrize(
    ("rule", "counts"),
    [
        ("F01", {"presence": ((3, 980), (2, 20))}),
        ("F01", {"presence_other": 1}),
        ("F02", {"groups_by_source": (986, 1000)}),
        ("F02", {"missing_by_source": (20, 6)}),
        ("F05", {"rows_matched": 974}),
        ("F05", {"rows_matched": 976, "rows_unmatched": 29}),
        ("F05", {"rows_matched": 974, "rows_unmatched": 31}),
        ("F07", {"source_row_counts": (984, 1005)}),
    ],
)
def test_counts_that_contradict_each_other_have_no_verdict(
    rule: str, counts: dict[str, Any]
) -> None:
    broken = replace(SAMPLE, **counts)
    assert broken_rule(a_stage(), results(broken)) == rule
    with pytest.raises(InconsistentCountsError, match=f"stage rows: .* rule {rule},"):
        judge_stage(a_stage(), results(broken))


@pytest.mark.case("F03")
def test_two_sources_have_no_group_that_is_in_two_and_missing_in_one() -> None:
    counts = replace(
        SAMPLE,
        groups_by_source=(985, 999),
        unmatched_by_source=(5, 19),
        missing_by_source=(20, 6),
    )
    assert broken_rule(a_stage(), results(counts)) == "F03"
    twice = replace(
        SAMPLE,
        groups_by_source=(986, 1000),
        unmatched_by_source=(6, 20),
        missing_by_source=(19, 5),
    )
    assert broken_rule(a_stage(), results(twice)) == "F03"


@pytest.mark.case("F15")
def test_the_steps_of_a_gap_add_up_to_it() -> None:
    steps = Waterfall(missing_here=D(1), missing_in_reference=D(4), changed=D(-1))
    right = a_result(waterfall_by_source=(None, steps))
    assert broken_rule(a_stage(), results(measure=right)) is None
    wrong = a_result(waterfall_by_source=(None, replace(steps, changed=D(0))))
    assert broken_rule(a_stage(), results(measure=wrong)) == "F15"


@pytest.mark.case("F01")
def test_rare_patterns_count_as_well() -> None:
    counts = replace(SAMPLE, presence=((3, 980), (2, 20)), presence_other=5)
    assert broken_rule(a_stage(), results(counts)) is None


@pytest.mark.case("F03")
def test_of_three_sources_a_group_may_be_unmatched_in_two() -> None:
    counts = replace(
        SAMPLE,
        source_row_counts=(98, 96, 100),
        groups_by_source=(98, 96, 100),
        matched_groups=90,
        unmatched_by_source=(8, 6, 10),
        missing_by_source=(7, 9, 5),
        presence=((7, 90), (4, 5), (3, 4), (5, 3), (6, 2), (1, 1)),
        rows_compared=105,
        rows_matched=87,
        rows_unmatched=18,
    )
    measure = a_result(within=87, outside=3, equal=87, within_not_equal=0)
    assert broken_rule(a_stage(), results(counts, measure)) is None
    alone = replace(
        counts,
        groups_by_source=(95, 96, 94),
        unmatched_by_source=(5, 6, 4),
        missing_by_source=(10, 9, 11),
    )
    assert broken_rule(a_stage(), results(alone, measure)) is None
    fewer = replace(
        alone,
        groups_by_source=(94, 96, 94),
        unmatched_by_source=(4, 6, 4),
        missing_by_source=(11, 9, 11),
    )
    assert broken_rule(a_stage(), results(fewer, measure)) == "F03"


@pytest.mark.case("F07")
def test_only_a_grand_total_may_have_more_groups_than_rows() -> None:
    one = replace(
        ALL_IN_BOTH,
        source_row_counts=(0, 1),
        groups_by_source=(1, 1),
        matched_groups=1,
        presence=((3, 1),),
        rows_compared=1,
        rows_matched=1,
    )
    equal = a_result(within=1, outside=0, equal=1, within_not_equal=0)
    total = a_stage(type=StageType.AGGREGATE, dimensions=())
    assert broken_rule(total, results(one, equal)) is None
    assert broken_rule(a_stage(type=StageType.AGGREGATE), results(one, equal)) == "F07"
    assert broken_rule(a_stage(dimensions=()), results(one, equal)) == "F07"
    outcome = judge_stage(total, results(one, equal))
    assert [each.message for each in outcome.warnings] == ["one has no rows"]


def test_one_measure_outside_is_enough() -> None:
    measures = (WITHIN, a_result(name="w"))
    counts = replace(ALL_IN_BOTH, rows_matched=975, rows_unmatched=5)
    assert judge_stage(a_stage(), results(counts, measures=measures)).verdict is UNMATCHED
    broken = (WITHIN, a_result(name="w", outside=4))
    assert broken_rule(a_stage(), results(counts, measures=broken)) == "F04"


@pytest.mark.case("F04")
@pytest.mark.parametrize("measure", [a_result(outside=4), a_result(equal=969)])
def test_measures_cover_the_matched_groups(measure: MeasureResult) -> None:
    assert broken_rule(a_stage(), results(measure=measure)) == "F04"


def test_null_keys_and_empty_sources_end_a_run_that_forbids_them() -> None:
    with_nulls = results(replace(SAMPLE, null_keys_by_source=(0, 3)))
    with pytest.raises(NullKeysError, match="stage rows: 3 rows of source two"):
        judge_stage(a_stage(null_keys=NullKeys.REJECT), with_nulls)
    assert judge_stage(a_stage(null_keys=NullKeys.REJECT), results()).executed
    empty = results(EMPTY, NOTHING)
    with pytest.raises(EmptySourceError, match="stage rows: no rows in one, two;"):
        judge_stage(a_stage(empty=EmptyPolicy.ERROR), empty)
    assert judge_stage(a_stage(empty=EmptyPolicy.ERROR), results()).executed


NOTHING = a_result(within=0, outside=0, equal=0, within_not_equal=0)
EMPTY = replace(
    ALL_IN_BOTH,
    source_row_counts=(0, 0),
    groups_by_source=(0, 0),
    matched_groups=0,
    presence=(),
    rows_compared=0,
    rows_matched=0,
)


@pytest.mark.case("P28")
def test_empty_sources_match_with_a_warning() -> None:
    outcome = judge_stage(a_stage(), results(EMPTY, NOTHING))
    assert outcome.verdict is MATCHED
    assert outcome.warnings == (warned("EMPTY_SOURCES", "every source is empty"),)
    quiet = judge_stage(a_stage(empty=EmptyPolicy.OK), results(EMPTY, NOTHING))
    assert quiet.warnings == ()


@pytest.mark.case("P28")
@pytest.mark.parametrize(
    ("extracted", "condition", "message"),
    [
        (0, None, "two has no rows"),
        (0, "v > 3", "two has no rows that pass its `filter`"),
        (40, None, "none of the 40 rows of two passes `where`"),
    ],
    ids=["empty", "filtered", "outside-where"],
)
def test_a_source_without_rows_beside_others_is_named_in_a_warning(
    extracted: int, condition: str | None, message: str
) -> None:
    counts = replace(
        EMPTY,
        source_row_counts=(3, 0),
        groups_by_source=(3, 0),
        unmatched_by_source=(3, 0),
        missing_by_source=(0, 3),
        presence=((1, 3),),
        rows_compared=3,
        rows_unmatched=3,
    )
    closure = (
        Closure(extracted=3, grouped=3, excluded=0, out_of_scope=0),
        Closure(extracted=extracted, grouped=0, excluded=0, out_of_scope=extracted),
    )
    stage = a_stage()
    stage = replace(stage, scans=(stage.scans[0], replace(stage.scans[1], filter=condition)))
    warnings = results(counts, NOTHING, closure=closure)
    outcome = judge_stage(stage, warnings)
    assert outcome.verdict is UNMATCHED
    assert outcome.warnings == (warned("EMPTY_SOURCES", message, source="two"),)
    quiet = judge_stage(replace(stage, empty=EmptyPolicy.OK), warnings)
    assert quiet.warnings == ()


def test_warnings_follow_from_the_counts() -> None:
    counts = replace(
        SAMPLE,
        invalid_values_by_source=(1, 0),
        null_keys_by_source=(0, 2),
        duplicate_keys_by_source=(3, 0),
    )
    stored = DifferenceSet(rows=1, digest="sha256:0", truncated=True)
    engine = Warn(code="FLOAT_SUM_ROUNDED", message="1")
    limits = WarnAt(outside_percent=D("0.4"), unmatched_percent=D("3"), gap={"v": D("1.9")})
    outcome = judge_stage(
        a_stage(warn_at=limits), results(counts, differences=stored, warnings=(engine,))
    )
    assert outcome.warnings == (
        engine,
        warned("INVALID_VALUES", "1 values without a canonical form", "one"),
        warned("NULL_KEYS_PRESENT", "2 rows with NULL in a dimension", "two"),
        warned("DUPLICATE_KEYS_PRESENT", "3 keys with several rows", "one"),
        warned("BREAKS_TRUNCATED", "1 of 35 differences are stored"),
        warned("WARN_AT", "outside_percent is above its limit"),
        warned("WARN_AT", "gap of v is above its limit"),
    )


def warned(code: str, message: str, source: str | None = None) -> Warn:
    return Warn(code=code, message=message, stage="rows", source=source)


def test_groups_that_agreed_at_a_recheck_are_reported() -> None:
    before = replace(SAMPLE, rows_matched=970, rows_unmatched=35)
    confirmed = Confirmed(first=before, rechecks=(Recheck(pins=(), counts=SAMPLE),))
    resolved = "5 groups agreed when they were read again"
    warnings = judge_stage(a_stage(), results(confirmed=confirmed)).warnings
    assert warnings == (warned("IN_FLIGHT_RESOLVED", resolved),)
    same = Confirmed(first=SAMPLE, rechecks=(Recheck(pins=(), counts=SAMPLE),))
    assert judge_stage(a_stage(), results(confirmed=same)).warnings == ()


@pytest.mark.parametrize(
    "field", ["groups_by_source", "unmatched_by_source", "missing_by_source", "source_row_counts"]
)
def test_counts_of_fewer_sources_are_no_counts_of_this_stage(field: str) -> None:
    fewer = replace(SAMPLE, **{field: getattr(SAMPLE, field)[:1]})
    with pytest.raises(ValueError, match="zip"):
        broken_rule(a_stage(), results(fewer, closure=results().closure))


@pytest.mark.parametrize(
    ("field", "policy"),
    [
        ("null_keys_by_source", {"null_keys": NullKeys.REJECT}),
        ("source_row_counts", {"empty": EmptyPolicy.ERROR}),
        ("invalid_values_by_source", {}),
    ],
)
def test_policies_and_warnings_check_every_source(field: str, policy: dict[str, Any]) -> None:
    one = replace(SAMPLE, **{field: getattr(SAMPLE, field)[:1]})
    total = a_stage(type=StageType.AGGREGATE, dimensions=(), **policy)
    with pytest.raises(ValueError, match="zip"):
        judge_stage(total, results(one, closure=results().closure))


def test_closure_is_checked_for_every_source() -> None:
    with pytest.raises(ValueError, match="zip"):
        judge_stage(a_stage(), results(closure=results().closure[:1]))


@pytest.mark.case("P58")
@pytest.mark.parametrize(
    ("accept", "acceptance"),
    [
        (None, Acceptance.NOT_CONFIGURED),
        (Accept(max_outside=5), Acceptance.ACCEPTED),
        (Accept(max_outside=4), Acceptance.REJECTED),
        (Accept(max_unmatched=25), Acceptance.ACCEPTED),
        (Accept(max_unmatched=24), Acceptance.REJECTED),
        (Accept(max_outside_percent=D("0.498")), Acceptance.ACCEPTED),
        (Accept(max_outside_percent=D("0.497")), Acceptance.REJECTED),
        (Accept(max_unmatched_percent=D("2.488")), Acceptance.ACCEPTED),
        (Accept(max_unmatched_percent=D("2.487")), Acceptance.REJECTED),
        (Accept(max_gap={"v": D(2)}), Acceptance.ACCEPTED),
        (Accept(max_gap={"v": D(2), "w": D(0)}), Acceptance.ACCEPTED),
        (Accept(max_gap={"v": D("1.99")}), Acceptance.REJECTED),
        (Accept(max_outside=5, max_unmatched=0), Acceptance.REJECTED),
    ],
)
def test_every_declared_limit_must_hold_and_the_verdict_stays(
    accept: Accept | None, acceptance: Acceptance
) -> None:
    outcome = judge_stage(a_stage(accept=accept), results())
    assert (outcome.acceptance, outcome.verdict) == (acceptance, UNMATCHED)


def test_a_percentage_of_acceptance_includes_its_edge() -> None:
    counts = replace(
        ALL_IN_BOTH,
        groups_by_source=(1000, 1000),
        matched_groups=1000,
        presence=((3, 1000),),
        rows_compared=1000,
        rows_matched=995,
        rows_unmatched=5,
    )
    measure = a_result(within=995, outside=5, equal=995, within_not_equal=0)
    exactly = a_stage(accept=Accept(max_outside_percent=D("0.5")))
    assert stage_acceptance(exactly, results(counts, measure)) is Acceptance.ACCEPTED


def test_only_declared_limits_warn() -> None:
    gap = a_stage(warn_at=WarnAt(gap={"v": D(1)}))
    expected = (warned("WARN_AT", "gap of v is above its limit"),)
    assert judge_stage(gap, results()).warnings == expected
    unmatched = a_stage(warn_at=WarnAt(unmatched_percent=D("2.487")))
    expected = (warned("WARN_AT", "unmatched_percent is above its limit"),)
    assert judge_stage(unmatched, results()).warnings == expected


def test_a_gap_that_is_unknown_is_not_accepted() -> None:
    unknown = a_result(gap_by_source=(D(0), None))
    assert largest_gap(unknown) is None
    limited = a_stage(accept=Accept(max_gap={"v": D(10**9)}))
    assert stage_acceptance(limited, results(measure=unknown)) is Acceptance.REJECTED


def test_a_run_is_matched_when_every_executed_stage_is() -> None:
    good, bad = judge_stage(a_stage(), PERFECT), judge_stage(a_stage(), results())
    skipped = StageOutcome(plan=a_stage(), skipped=SkipReason.NOTHING_IN_SCOPE)
    assert judge_run([good, skipped]).verdict is MATCHED
    assert judge_run([good, bad]).verdict is UNMATCHED
    warned = judge_run([good], [Warn(code="X", message="x")])
    assert [each.code for each in warned.warnings] == ["X"]


@pytest.mark.case("F20")
def test_a_run_without_an_executed_stage_is_no_match() -> None:
    with pytest.raises(NothingExecutedError):
        judge_run([StageOutcome(plan=a_stage(), skipped=SkipReason.NOTHING_IN_SCOPE)])


def test_a_run_is_accepted_when_each_stage_is_matched_or_accepted() -> None:
    good = judge_stage(a_stage(), PERFECT)
    accepted = judge_stage(a_stage(accept=Accept(max_outside=5)), results())
    plain = judge_stage(a_stage(), results())
    assert judge_run([good]).acceptance is Acceptance.NOT_CONFIGURED
    assert judge_run([good, accepted]).acceptance is Acceptance.ACCEPTED
    assert judge_run([plain, accepted]).acceptance is Acceptance.REJECTED


def test_a_stage_is_skipped_by_a_stop_or_an_empty_scope() -> None:
    stop = a_stage(name="first", on_unmatched=OnUnmatched.STOP)
    bad = judge_stage(stop, results())
    skipped = skip_of(a_stage(), [bad])
    assert skipped is not None
    assert (skipped.skipped, skipped.stopped_by) == (SkipReason.STOPPED_BY, "first")
    assert skip_of(a_stage(), [judge_stage(stop, PERFECT)]) is None

    tables = pair("k int, v int", [], [])
    stages = (rows_by("k", name="first", on_unmatched=OnUnmatched.ESCALATE), rows_by("k"))
    first, scoped = plan_of(a_job(tables, *stages), tables).stages
    one = replace(ALL_IN_BOTH, rows_matched=979, rows_unmatched=1)
    measure = a_result(within=979, outside=1, equal=979, within_not_equal=0)
    assert skip_of(scoped, [judge_stage(first, results(one, measure))]) is None
    nothing = skip_of(scoped, [judge_stage(first, PERFECT)])
    assert nothing is not None
    assert nothing.skipped is SkipReason.NOTHING_IN_SCOPE
    chained = skip_of(scoped, [replace(nothing, plan=first)])
    assert chained is not None
    assert chained.skipped is SkipReason.NOTHING_IN_SCOPE
