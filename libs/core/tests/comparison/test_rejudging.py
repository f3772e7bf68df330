"""Judging a finished run again has the verdict of a real run, or refuses."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datarecs_core.comparison.insight.rejudging import (
    MeasureChange,
    NotRejudgeableError,
    RunAgain,
    StageChange,
    StoredRow,
    rejudge,
)
from datarecs_core.comparison.planning.tolerance import tolerance_of
from datarecs_core.comparison.proof.sealed import SealedRun, SealedStage, sealed_run
from datarecs_core.comparison.results.results import Difference, Outcome
from datarecs_core.documents import decimal_text
from datarecs_core.errors.run import RunFault
from datarecs_core.jobs.definition import (
    Accept,
    Breaks,
    Confirm,
    Measure,
    ReconciliationJob,
    Results,
    Tolerance,
)
from datarecs_core.jobs.vocabulary import (
    Bound,
    Combine,
    CompareTo,
    MaskRule,
    OnUnmatched,
    ToleranceBase,
    ToleranceType,
)
from datarecs_testing.comparisons import (
    Compared,
    a_measure,
    absolute,
    aggregate_by,
    compare,
    lasting,
    percentage,
    rows_by,
)
from datarecs_testing.finished_runs import MemoryBench, document
from datarecs_testing.tables import NOON, Table, a_job, a_table

D = Decimal
LEDGER = a_table(
    "ledger", "k int, v decimal(9,3)", *((at, D(100 * at)) for at in range(1, 9)), (20, None)
)
LAKE = a_table(
    "lake",
    "k int, v decimal(9,3)",
    *((at, D(100 * at) + D("0.01") * at) for at in range(1, 8)),
    (9, D(1)),
    (20, D(2)),
)


def stored(rows: Iterable[Difference]) -> list[StoredRow]:
    return [
        StoredRow(
            measure=row.measure,
            difference_class=row.difference_class.value,
            within=row.outcome is Outcome.WITHIN,
            key_hash=row.key_hash,
            values=dict(row.values),
            deltas={name: decimal_text(delta) for name, delta in row.deltas},
        )
        for row in rows
    ]


Later = Sequence[Sequence[Table]]


def finished(
    job: ReconciliationJob, tables: Sequence[Table], later: Later = ()
) -> tuple[SealedRun, Compared]:
    comparison = compare(MemoryBench(), job, tables, later=later)
    return sealed_run(document(job, tables, later=later)), comparison


def again(
    job: ReconciliationJob,
    tables: Sequence[Table],
    change: MeasureChange | StageChange,
    *,
    later: Later = (),
) -> RunAgain:
    """The first stage's measure `v` judged again."""
    run, result = finished(job, tables, later)
    if isinstance(change, MeasureChange):
        change = StageChange(measures={"v": change})

    def rows(stage: SealedStage) -> list[StoredRow]:
        return stored(result.stored[stage.name])

    return rejudge(run, {run.stages[0].name: change}, rows)


def numbers(run: SealedRun | RunAgain) -> list[Any]:
    """All that a verdict rests on, comparable between a real run and one judged again."""
    values: list[Any] = [run.verdict, run.acceptance]
    for stage in run.stages:
        results = stage.results
        assert results is not None
        values += [stage.verdict, stage.acceptance, results.counts.rows_matched]
        values += [
            (
                each.name,
                each.within,
                each.outside,
                each.equal,
                each.within_not_equal,
                [measure.alone_within for measure in each.tolerances],
            )
            for each in results.all_measures
        ]
    return values


def change_of(*tolerances: Tolerance, **fields: Any) -> MeasureChange:  # noqa: ANN401  any field of the change
    return MeasureChange(tolerances=tuple(map(tolerance_of, tolerances)), **fields)


@pytest.mark.case("P62")
@pytest.mark.case("F10")
@pytest.mark.parametrize("limit", ["0.05", "0.001", "0", "0.01", "1000"])
def test_another_limit_leads_to_the_numbers_of_a_real_run(limit: str) -> None:
    tables = [LEDGER, LAKE]
    was = a_job(tables, rows_by("k", a_measure("v", absolute("0.01"))))
    would = a_job(tables, rows_by("k", a_measure("v", absolute(limit))))
    judged = again(was, tables, change_of(absolute(limit)))
    assert numbers(judged) == numbers(finished(would, tables)[0])


BY_NUMBER = st.sampled_from(
    [
        absolute("0.01"),
        absolute("0"),
        absolute("5"),
        percentage("1"),
        percentage("0.5", ToleranceBase.MAX_ABS),
        percentage("100", ToleranceBase.MIN_ABS),
        Tolerance(type=ToleranceType.EXACT),
    ]
)
AMOUNTS = st.sampled_from(
    [None, D(0), D(1), D("1.01"), D("0.99"), D(-1), D(100), D(101), D("100.01"), D(95)]
)
SHAPES = st.fixed_dictionaries(
    {
        "tolerances": st.lists(BY_NUMBER, min_size=1, max_size=2, unique_by=repr).map(tuple),
        "combine": st.sampled_from(Combine),
        "bound": st.sampled_from(Bound),
    }
)


@pytest.mark.case("P62")
@pytest.mark.case("F10")
@settings(deadline=None)  # two whole comparisons an example, on machines that do other things too
@given(
    rows=st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=1, max_size=12),
    sources=st.sampled_from([2, 3]),
    was=SHAPES,
    would=SHAPES,
    compared_to=st.tuples(st.sampled_from(CompareTo), st.sampled_from(CompareTo)),
)
def test_any_question_judged_again_equals_the_real_run(
    rows: list[tuple[Any, ...]],
    sources: int,
    was: dict[str, Any],
    would: dict[str, Any],
    compared_to: tuple[CompareTo, CompareTo],
) -> None:
    tables = [
        a_table(name, "k int, v decimal(9,2)", *((at, row[index]) for at, row in enumerate(rows)))
        for index, name in enumerate(("s0", "s1", "s2")[:sources])
    ]
    first, other = (
        a_job(tables, rows_by("k", Measure(name="v", **shape), compare_to=compared))
        for shape, compared in zip((was, would), compared_to, strict=True)
    )
    change = StageChange(
        measures={
            "v": change_of(*would["tolerances"], combine=would["combine"], bound=would["bound"])
        },
        compare_to=compared_to[1],
    )
    assert numbers(again(first, tables, change)) == numbers(finished(other, tables)[0])


def test_times_are_judged_again_by_duration() -> None:
    tables = [
        a_table("ledger", "k int, v instant", (1, NOON), (2, NOON)),
        a_table(
            "lake",
            "k int, v instant",
            (1, NOON + timedelta(seconds=1)),
            (2, NOON + timedelta(seconds=3)),
        ),
    ]
    was = a_job(tables, rows_by("k", a_measure("v")))
    one_second = lasting(timedelta(seconds=1))
    would = a_job(tables, rows_by("k", a_measure("v", one_second)))
    judged = again(was, tables, change_of(one_second))
    assert numbers(judged) == numbers(finished(would, tables)[0])
    with pytest.raises(NotRejudgeableError, match="v holds times, which take DURATION or EXACT"):
        again(was, tables, change_of(absolute("1")))


def test_limits_of_acceptance_are_judged_again() -> None:
    tables = [LEDGER, LAKE]
    job = a_job(tables, rows_by("k", a_measure("v", absolute("0.01"))))
    accept = Accept(max_outside=7, max_unmatched=2)
    judged = again(job, tables, StageChange(accept=accept))
    would = a_job(tables, rows_by("k", a_measure("v", absolute("0.01")), accept=accept))
    assert numbers(judged) == numbers(finished(would, tables)[0])
    assert judged.acceptance == "ACCEPTED"


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(NotRejudgeableError) as caught:
        act()
    assert caught.value.code is RunFault.NOT_REJUDGEABLE
    return caught.value.reason


@pytest.mark.case("P62")
@pytest.mark.parametrize(
    ("breaks", "reason"),
    [
        (Breaks(max_rows=3), "not every difference was stored"),
        (Breaks(deltas=False), "differences of v are stored, the run counted"),
        (Breaks(mask={"v": MaskRule.REDACT}), "masked"),
    ],
)
def test_rows_that_are_not_all_there_in_clear_are_not_judged_again(
    breaks: Breaks, reason: str
) -> None:
    tables = [LEDGER, LAKE]
    stage = rows_by("k", a_measure("v", absolute("0.01")))
    job = a_job(tables, stage, results=Results(breaks=breaks))
    assert reason in refusal(lambda: again(job, tables, change_of(absolute("1"))))


def sixths(*values: str, more: int = 0) -> Table:
    """Keys from 0 on with these values, and more rows that every table has."""
    rows = [(key, D(value)) for key, value in enumerate(values)]
    return a_table("lake", "k int, v decimal(9,3)", *rows, *((90 + at, D(0)) for at in range(more)))


SETTLED = replace(sixths("0", "0", "0"), name="ledger")
CENTS = sixths("0.01", "0.5", "0.02")
"""Against SETTLED, `1` lets all of it pass, `0.1` all but key 1, `0.01` key 0 alone."""


def confirming(limit: str, **fields: Any) -> ReconciliationJob:  # noqa: ANN401  fields of Confirm
    confirm = Confirm(after=timedelta(0), attempts=1, **fields)
    return a_job([SETTLED, CENTS], rows_by("k", a_measure("v", absolute(limit)), confirm=confirm))


@pytest.mark.case("P62")
def test_a_stage_whose_differing_groups_were_read_again_is_not_judged_again() -> None:
    """Its first values are not stored: under `1` key 1 would never have been read again."""
    moved = [[SETTLED, sixths("0.01", "3", "0.02", more=1)]]
    message = refusal(
        lambda: again(confirming("0.1"), [SETTLED, CENTS], change_of(absolute("1")), later=moved)
    )
    assert message.startswith("`confirm` read 1 differing groups again at newer pins")
    assert message.endswith("run the job with these tolerances, or judge a stage without `confirm`")


@pytest.mark.case("P62")
@pytest.mark.parametrize("limit", ["1", "0.01", "0"])
def test_a_recheck_of_unchanged_files_changes_no_answer(limit: str) -> None:
    tables = [SETTLED, CENTS]
    judged = again(confirming("0.1"), tables, change_of(absolute(limit)), later=[tables])
    would, _ = finished(confirming(limit), tables, [tables])
    assert numbers(judged) == numbers(would)


TABLE = {"kind": "table_snapshot", "table": "t", "snapshot_id": "1", "taken_at": "12:00"}
CUT = {"kind": "exported_snapshot", "snapshot": "1:1:", "taken_at": "12:00"}


@pytest.mark.case("P62")
@pytest.mark.parametrize(
    ("first", "then", "same"),
    [
        (TABLE, {**TABLE, "taken_at": "12:05"}, True),
        (TABLE, {**TABLE, "snapshot_id": "2"}, False),
        (CUT, CUT, False),
    ],
)
def test_a_table_is_as_it_was_by_its_snapshot_and_a_database_never(
    first: dict[str, object], then: dict[str, object], *, same: bool
) -> None:
    tables = [SETTLED, CENTS]
    run, result = finished(confirming("0.1"), tables, [tables])
    (stage,) = run.stages
    assert stage.confirmed is not None
    rechecks = tuple(replace(each, pins=(then, then)) for each in stage.confirmed.rechecks)
    moved = replace(
        run,
        inputs=tuple(replace(each, pin=first) for each in run.inputs),
        stages=(replace(stage, confirmed=replace(stage.confirmed, rechecks=rechecks)),),
    )

    def judge_again() -> RunAgain:
        change = StageChange(measures={"v": change_of(absolute("1"))})
        return rejudge(moved, {"rows": change}, lambda _: stored(result.stored["rows"]))

    if same:
        assert judge_again().verdict == "MATCHED"
    else:
        assert "newer pins" in refusal(judge_again)


@pytest.mark.case("P62")
def test_groups_without_a_recheck_are_judged_again() -> None:
    """None differs before and after, or more than `max_keys` before and after."""
    tables = [SETTLED, CENTS]
    for job, would in (
        (confirming("2"), confirming("1")),
        (confirming("0.01", max_keys=1), confirming("0", max_keys=1)),
        (confirming("0.01", max_keys=1), confirming("1", max_keys=1)),
    ):
        (tolerance,) = would.stages[0].measures[0].tolerances  # type: ignore[union-attr]  # listed
        judged = again(job, tables, change_of(tolerance))
        assert numbers(judged) == numbers(finished(would, tables)[0])


@pytest.mark.case("P62")
@pytest.mark.parametrize(
    ("job", "limit"), [(confirming("1"), "0.1"), (confirming("0.01", max_keys=1), "0.1")]
)
def test_groups_that_would_have_been_read_again_are_not_guessed(
    job: ReconciliationJob, limit: str
) -> None:
    message = refusal(lambda: again(job, [SETTLED, CENTS], change_of(absolute(limit))))
    assert message.startswith("1 groups differ under these tolerances, and `confirm` would")


def test_limits_of_acceptance_and_the_same_job_need_no_recheck() -> None:
    tables, moved = [SETTLED, CENTS], [[SETTLED, sixths("0.01", "3", "0.02", more=1)]]
    job = confirming("0.1")
    for change in (StageChange(accept=Accept(max_outside=9)), change_of(absolute("0.1"))):
        assert again(job, tables, change, later=moved).verdict == "UNMATCHED"


def test_a_key_with_many_rows_everywhere_hides_rows() -> None:
    tables = [
        a_table("ledger", "k int, v int", (1, 1), (1, 5), (2, 1)),
        a_table("lake", "k int, v int", (1, 2), (1, 9), (2, 2)),
    ]
    job = a_job(tables, rows_by("k", a_measure("v", absolute("1"))))
    message = refusal(lambda: again(job, tables, change_of(absolute("2"))))
    assert "1 keys have several rows in every source" in message


def test_copies_that_cannot_be_paired_stay_outside_and_hide_nothing() -> None:
    tables = [
        a_table("ledger", "k int, v int", (1, 1), (1, 5), (2, 1), (3, 1), (3, 2)),
        a_table("lake", "k int, v int", (1, 2), (2, 2)),
    ]
    job = a_job(tables, rows_by("k", a_measure("v")))
    would = a_job(tables, rows_by("k", a_measure("v", absolute("1"))))
    judged = again(job, tables, change_of(absolute("1")))
    assert numbers(judged) == numbers(finished(would, tables)[0])


def test_texts_have_no_distance() -> None:
    tables = [
        a_table("ledger", "k int, v text", (1, "a")),
        a_table("lake", "k int, v text", (1, "b")),
    ]
    job = a_job(tables, rows_by("k", a_measure("v")))
    assert "cannot be subtracted" in refusal(lambda: again(job, tables, change_of(absolute("1"))))


def test_a_number_takes_no_duration() -> None:
    tables = [LEDGER, LAKE]
    job = a_job(tables, rows_by("k", a_measure("v")))
    message = refusal(lambda: again(job, tables, change_of(lasting(timedelta(seconds=1)))))
    assert message == "v holds numbers, which take ABSOLUTE, PERCENTAGE or EXACT"


def test_the_input_of_a_later_stage_is_not_guessed() -> None:
    tables = [
        LEDGER.__class__(name=t.name, columns=t.columns, rows=t.rows[:7]) for t in (LEDGER, LAKE)
    ]
    stopping = aggregate_by("k", a_measure("v", absolute("1")), on_unmatched=OnUnmatched.STOP)
    job = a_job(tables, stopping, rows_by("k", a_measure("v", absolute("1"))))
    message = refusal(lambda: again(job, tables, change_of(absolute("0.001"))))
    assert message == "`on_unmatched: stop` decides here whether rows is executed"
    widening = aggregate_by("k", a_measure("v", absolute("1")), on_unmatched=OnUnmatched.ESCALATE)
    job = a_job(tables, widening, rows_by("k", a_measure("v")))
    message = refusal(lambda: again(job, tables, change_of(absolute("0.001"))))
    assert message == "the rows that rows reads depend on which groups differ here"


def test_as_many_other_groups_are_other_rows_for_a_later_stage() -> None:
    columns = "k int, v int, w int"
    tables = [
        a_table("ledger", columns, (1, 0, 0), (2, 0, 0)),
        a_table("lake", columns, (1, 5, 0), (2, 0, 5)),
    ]
    widening = aggregate_by(
        "k",
        a_measure("v"),
        a_measure("w", absolute("9")),
        on_unmatched=OnUnmatched.ESCALATE,
    )
    job = a_job(tables, widening, rows_by("k", a_measure("v")))
    swapped = {"v": change_of(absolute("9")), "w": change_of(absolute("0"))}
    message = refusal(lambda: again(job, tables, StageChange(measures=swapped)))
    assert message == "the rows that rows reads depend on which groups differ here"


def test_stages_without_changes_preserve_their_numbers() -> None:
    tables = [LEDGER, LAKE]
    stopped = rows_by("k", a_measure("v"), name="last")
    job = a_job(
        tables,
        rows_by("k", a_measure("v", absolute("1"))),
        rows_by("k", a_measure("v", absolute("1")), name="again", on_unmatched=OnUnmatched.STOP),
        stopped,
    )
    judged = again(job, tables, change_of(absolute("0.001")))
    first, second = judged.stages
    assert first.results.measures[0].outside > second.results.measures[0].outside
    assert second.results is second.was.results
    assert [stage.was.name for stage in judged.stages] == ["rows", "again"]


def test_one_measure_judged_again_leaves_the_other_as_it_was() -> None:
    columns = "k int, v int, w int, n int"
    tables = [
        a_table("ledger", columns, (1, 1, 1, None), (2, 1, 1, 1)),
        a_table("lake", columns, (1, 2, 3, 1), (2, 2, 1, 1)),
    ]
    measures = (a_measure("v"), a_measure("w"), a_measure("n"))
    would = (a_measure("v", absolute("1")), *measures[1:])
    judged = again(a_job(tables, rows_by("k", *measures)), tables, change_of(absolute("1")))
    assert numbers(judged) == numbers(finished(a_job(tables, rows_by("k", *would)), tables)[0])


def test_infinite_values_have_no_distance_and_stay_outside() -> None:
    tables = [
        a_table("ledger", "k int, v float64", (1, 1.5), (2, 2.5)),
        a_table("lake", "k int, v float64", (1, float("inf")), (2, 3.5)),
    ]
    would = a_job(tables, rows_by("k", a_measure("v", absolute("1"))))
    judged = again(a_job(tables, rows_by("k", a_measure("v"))), tables, change_of(absolute("1")))
    assert numbers(judged) == numbers(finished(would, tables)[0])


def test_a_stage_that_was_not_executed_has_nothing_to_judge() -> None:
    tables = [LEDGER, LAKE]
    first = rows_by("k", a_measure("v"), on_unmatched=OnUnmatched.STOP)
    run, _ = finished(a_job(tables, first, rows_by("k", a_measure("v"), name="last")), tables)
    change = {"last": StageChange(compare_to=CompareTo.SPREAD)}
    assert [stage.was.name for stage in rejudge(run, change, lambda _: []).stages] == ["rows"]
