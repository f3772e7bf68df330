"""Counts that agree, and each way in which they may not."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.events import (
    JoinStats,
    RunComparisonCompleted,
    RunStageCompleted,
    ToleranceCount,
)
from datarecs_core.runs.model import RunResult
from datarecs_core.runs.numbers import InconsistentCountsError, check_numbers, inconsistencies
from datarecs_testing.run_facts import JOB, RUN, TENANT


def a_tolerance(name: str, within: int, outside: int) -> ToleranceCount:
    return ToleranceCount(
        measure_name=name,
        tolerance_type="ABSOLUTE",
        tolerance_value=Decimal("0.01"),
        within_tolerance_count=within,
        outside_tolerance_count=outside,
        passed=outside == 0,
    )


SAMPLE = RunComparisonCompleted(
    run_id=RUN,
    job_id=JOB,
    tenant_id=TENANT,
    stage_name="balance-check",
    source_row_counts={"source_0": 1000, "source_1": 1005},
    join_stats=JoinStats(matched_groups=980, unmatched_by_source={"source_0": 5, "source_1": 20}),
    tolerances=(a_tolerance("total_amount", 975, 5),),
    result=RunResult.UNMATCHED,
    rows_compared=1005,
    rows_matched=975,
    rows_unmatched=30,
)
"""Source 001's own numbers."""

THREE = replace(
    SAMPLE,
    source_row_counts={"source_0": 400, "source_1": 410, "source_2": 398},
    join_stats=JoinStats(
        matched_groups=90, unmatched_by_source={"source_0": 8, "source_1": 6, "source_2": 10}
    ),
    tolerances=(a_tolerance("amount", 87, 3),),
    rows_compared=105,
    rows_matched=87,
    rows_unmatched=18,
    unmatched_groups=15,
    missing_by_source={"source_0": 7, "source_1": 9, "source_2": 5},
)
"""The three sources of the specification, with presence patterns of every kind."""


def test_the_numbers_of_source_001_agree() -> None:
    assert inconsistencies(SAMPLE) == ()


def test_the_numbers_of_three_sources_agree() -> None:
    assert inconsistencies(THREE) == ()


@pytest.mark.case("L38")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows_compared": 1006}, "rows_matched + rows_unmatched"),
        ({"rows_matched": 974, "rows_unmatched": 31}, "leaves out"),
        ({"rows_matched": 976, "rows_unmatched": 29}, "counts groups"),
        ({"result": RunResult.MATCHED}, "result does not follow"),
        ({"unmatched_groups": 24}, "unmatched_groups is not"),
        ({"missing_by_source": {"source_0": 20, "source_1": 6}}, "present and missing in"),
        ({"source_row_counts": {"source_0": 984, "source_1": 1005}}, "more groups than rows"),
        ({"source_row_counts": {"source_0": 1000}}, "different sources"),
        ({"tolerances": (a_tolerance("total_amount", 974, 5),)}, "are not the matched groups"),
        (
            {"tolerances": (replace(a_tolerance("total_amount", 975, 5), passed=True),)},
            "contradicts the count",
        ),
        (
            {
                "join_stats": JoinStats(
                    matched_groups=980, unmatched_by_source={"source_0": 5, "source_1": 21}
                )
            },
            "with two sources",
        ),
    ],
)
def test_each_broken_rule_is_named(changes: dict[str, Any], words: str) -> None:
    broken = replace(SAMPLE, **changes)
    assert any(words in one for one in inconsistencies(broken))
    with pytest.raises(InconsistentCountsError) as caught:
        check_numbers(broken)
    assert caught.value.code is RunDetail.INCONSISTENT_COUNTS
    assert caught.value.stage == "balance-check"


@pytest.mark.case("L38")
def test_with_three_sources_the_sum_may_exceed_the_unmatched_groups_but_never_fall_short() -> None:
    stats = JoinStats(
        matched_groups=90, unmatched_by_source={"source_0": 4, "source_1": 4, "source_2": 4}
    )
    broken = replace(THREE, join_stats=stats, missing_by_source=None)
    assert any("is not between" in one for one in inconsistencies(broken))


def test_many_tolerances_of_a_measure_count_its_outside_groups_once() -> None:
    twice = replace(SAMPLE, tolerances=(*SAMPLE.tolerances, *SAMPLE.tolerances))
    assert inconsistencies(twice) == ()


def test_a_grand_total_is_a_group_of_no_row() -> None:
    total = replace(
        SAMPLE,
        source_row_counts={"source_0": 0, "source_1": 0},
        join_stats=JoinStats(matched_groups=1, unmatched_by_source={"source_0": 0, "source_1": 0}),
        tolerances=(a_tolerance("row_count", 1, 0),),
        result=RunResult.MATCHED,
        rows_compared=1,
        rows_matched=1,
        rows_unmatched=0,
    )
    assert inconsistencies(total) == ()


def test_a_cut_list_of_tolerances_is_judged_by_what_is_left_of_it() -> None:
    cut = replace(THREE, tolerances=(a_tolerance("amount", 89, 1),), tolerances_truncated=True)
    assert inconsistencies(cut) == ()


def test_a_stage_is_judged_by_its_tolerances() -> None:
    stage = RunStageCompleted(
        run_id=RUN,
        job_id=JOB,
        tenant_id=TENANT,
        stage_name="presence",
        result=RunResult.UNMATCHED,
        tolerances=(a_tolerance("a", 9, 1), a_tolerance("b", 10, 0)),
    )
    assert inconsistencies(stage) == ()
    check_numbers(stage)
    assert inconsistencies(replace(stage, result=RunResult.MATCHED)) != ()
    assert inconsistencies(replace(stage, tolerances=(*stage.tolerances, a_tolerance("c", 9, 0))))


@given(
    st.lists(
        st.tuples(st.integers(1, 7), st.lists(st.booleans(), min_size=2, max_size=2)),
        max_size=20,
    )
)
def test_counts_taken_from_real_groups_always_agree(groups: list[tuple[int, list[bool]]]) -> None:
    """Groups of three sources by presence bitmask, with two measures each; one row per group."""
    matched = [within for mask, within in groups if mask == 7]
    outside = [sum(not within[m] for within in matched) for m in range(2)]
    per_source = [sum(bool(mask & 1 << s) for mask, _ in groups) for s in range(3)]
    good = sum(all(within) for within in matched)
    event = replace(
        SAMPLE,
        source_row_counts={f"source_{s}": rows for s, rows in enumerate(per_source)},
        join_stats=JoinStats(
            matched_groups=len(matched),
            unmatched_by_source={
                f"source_{s}": rows - len(matched) for s, rows in enumerate(per_source)
            },
        ),
        tolerances=tuple(
            a_tolerance(f"m{m}", len(matched) - outside[m], outside[m]) for m in range(2)
        ),
        result=RunResult.MATCHED if good == len(groups) else RunResult.UNMATCHED,
        rows_compared=len(groups),
        rows_matched=good,
        rows_unmatched=len(groups) - good,
        missing_by_source={f"source_{s}": len(groups) - rows for s, rows in enumerate(per_source)},
        unmatched_groups=len(groups) - len(matched),
    )
    assert inconsistencies(event) == ()
