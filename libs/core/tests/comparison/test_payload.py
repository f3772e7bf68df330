from decimal import Decimal

import pytest

from datarecs_core.comparison.oracle.grouping import Outside
from datarecs_core.comparison.oracle.reference import compare_stage
from datarecs_core.comparison.results.differences import COMPARE_KEY
from datarecs_core.comparison.results.payload import ComparisonPayload, comparison_payload
from datarecs_core.comparison.results.verdict import StageOutcome, judge_stage
from datarecs_core.jobs.definition import Stage
from datarecs_core.jobs.vocabulary import Combine
from datarecs_core.runs.events import ToleranceCount
from datarecs_testing.comparisons import a_measure, absolute, percentage, rows_by
from datarecs_testing.tables import Row, a_job, pair, plan_of

D = Decimal


def judged(stage: Stage, one: list[Row], two: list[Row]) -> StageOutcome:
    tables = pair("k int, v decimal(9,2)", one, two)
    plan = plan_of(a_job(tables, stage), tables).stages[0]
    rows = [table.delivered(scan) for table, scan in zip(tables, plan.scans, strict=True)]
    return judge_stage(plan, compare_stage(plan, rows, Outside(key=COMPARE_KEY)).results)


def payload_of(outcome: StageOutcome) -> ComparisonPayload:
    assert outcome.results is not None
    assert outcome.verdict is not None
    return comparison_payload(outcome.plan, outcome.results, outcome.verdict)


def test_every_source_has_its_place_in_the_maps() -> None:
    outcome = judged(rows_by("k", a_measure("v")), [(1, D(1))], [(2, D(1)), (3, D(1))])
    assert payload_of(outcome) == {
        "stage_name": "rows",
        "source_row_counts": {"source_0": 1, "source_1": 2},
        "matched_groups": 0,
        "unmatched_by_source": {"source_0": 1, "source_1": 2},
        "tolerances": [
            {
                "measure_name": "v",
                "tolerance_type": "EXACT",
                "tolerance_value": D(0),
                "tolerance_value_exact": "0",
                "within_tolerance_count": 0,
                "outside_tolerance_count": 0,
                "passed": True,
            }
        ],
        "result": "UNMATCHED",
        "rows_compared": 3,
        "rows_matched": 0,
        "rows_unmatched": 3,
        "source_names": {"source_0": "one", "source_1": "two"},
        "missing_by_source": {"source_0": 2, "source_1": 1},
        "unmatched_groups": 3,
    }


@pytest.mark.case("P10")
@pytest.mark.parametrize(("combine", "within"), [(Combine.ANY, 1), (Combine.ALL, 0)])
def test_tolerances_show_the_result_of_each_alone(combine: Combine, within: int) -> None:
    measure = a_measure("v", absolute("0.01"), percentage("1"), combine=combine)
    outcome = judged(rows_by("k", measure), [(1, D(100))], [(1, D("100.50"))])
    entries = [ToleranceCount(**entry) for entry in payload_of(outcome)["tolerances"]]
    assert [(each.within_tolerance_count, each.own_within_count) for each in entries] == [
        (within, 0),
        (within, 1),
    ]
    assert {each.combine for each in entries} == {combine.value}
    assert {each.passed for each in entries} == {bool(within)}


def test_multiplicity_is_reported_when_it_differs() -> None:
    stage = rows_by("k", a_measure("v"))
    outcome = judged(stage, [(1, D(1)), (1, D(1))], [(1, D(1))])
    names = [each["measure_name"] for each in payload_of(outcome)["tolerances"]]
    assert names == ["v", "$rows"]
    same = judged(stage, [(1, D(1))], [(1, D(1))])
    assert [each["measure_name"] for each in payload_of(same)["tolerances"]] == ["v"]


def test_a_tolerance_is_written_digit_for_digit() -> None:
    measure = a_measure("v", absolute("0.000000000000000001"))
    outcome = judged(rows_by("k", measure), [(1, D(1))], [(1, D(1))])
    (entry,) = payload_of(outcome)["tolerances"]
    assert entry["tolerance_value"] == D("1e-18")
    assert entry["tolerance_value_exact"] == "0.000000000000000001"
