from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.scan import FileList, PinnedFile
from datarecs_core.comparison.planning.strategies import NARROW_FROM, NARROW_VALUES, strategy_of
from datarecs_core.jobs.definition import (
    ALL_COLUMNS,
    ColumnMapping,
    Normalize,
    NullRules,
    NumberRules,
    Scope,
    Stage,
    StringRules,
    TimestampRules,
)
from datarecs_core.jobs.types import INT
from datarecs_core.jobs.vocabulary import (
    DuplicatePolicy,
    EmptyText,
    Float32Rule,
    Function,
    NanRule,
    NullAs,
    NullKeys,
    StageType,
    Strategy,
    TimePrecision,
    Trim,
)
from datarecs_testing.comparisons import a_measure, aggregate_by, counting, digest_by, rows_by
from datarecs_testing.tables import NOON, a_job, a_table, plan_of

BY_VALUE = rows_by("k", a_measure("v"))
SUM = a_measure("v", function=Function.SUM)
STRING_RULE = Normalize(strings=StringRules(trim=Trim.BOTH))
ROUND_RULE = Normalize(numbers=NumberRules(round=0))
EXCLUDED = Normalize(nulls=NullRules(keys=NullKeys.EXCLUDE))


def stage_of(
    first: str,
    second: str | None = None,
    *,
    stage: Stage = BY_VALUE,
    **fields: Any,  # noqa: ANN401 - any field of the job
) -> StagePlan:
    """The last stage over two empty sources of these columns."""
    tables = [a_table("one", first), a_table("two", second or first)]
    stages = fields.pop("stages", (stage,))
    return plan_of(a_job(tables, *stages, **fields), tables).stages[-1]


def reason(plan: StagePlan) -> str | None:
    """Why `narrow` is impossible although it is asked for."""
    choice = strategy_of(plan, Strategy.NARROW)
    if choice.chosen is Strategy.NARROW:
        return None
    (strategy, told), *_ = choice.rejected
    assert (choice.chosen, choice.requested, strategy) == (
        Strategy.FULL,
        Strategy.NARROW,
        Strategy.NARROW,
    )
    return told


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("k int, v int", "k int, v decimal(10,2)"),
        ("k text, v text", None),
        ("k date, v instant", None),
        ("k bool, v binary", None),
        ("k uuid, v local_timestamp", None),
        ("k decimal(20,4), v float32", "k decimal(38,2), v float64"),
    ],
)
def test_scalars_with_one_injective_form_are_narrowed(first: str, second: str | None) -> None:
    assert reason(stage_of(first, second)) is None


def test_whole_rows_are_narrowed() -> None:
    whole = Stage(name="stage", type=StageType.ROW, dimensions=(), measures=ALL_COLUMNS)
    assert reason(stage_of("k int, v int", stage=whole)) is None


@pytest.mark.parametrize(
    ("columns", "stage", "fields"),
    [
        ("k int, v int", counting(), {}),
        ("k int, v int", counting(where="v > 1"), {}),
        (
            "k int, v decimal(10,2)",
            aggregate_by("k", SUM),
            {"sources": {"one": {"filter": "v > 1"}}},
        ),
        ("k text, v int", aggregate_by("k", SUM), {"normalize": STRING_RULE}),
        ("k int, v decimal(10,2)", aggregate_by("k", SUM), {"normalize": ROUND_RULE}),
        ("k int, v int", aggregate_by("", a_measure("v", function=Function.AVG)), {}),
        ("k int, v text", aggregate_by("k", a_measure("v", function=Function.MAX)), {}),
        (
            "k int, v float64",
            aggregate_by("k", a_measure("v", function=Function.COUNT, column="v")),
            {},
        ),
        (
            "k int, v int",
            aggregate_by("k", SUM),
            {"normalize": EXCLUDED, "duplicates": DuplicatePolicy.ERROR},
        ),
    ],
)
def test_groups_are_added_up_first_whatever_rules_say_of_keys_and_results(
    columns: str, stage: Stage, fields: Mapping[str, Any]
) -> None:
    assert reason(stage_of(columns, stage=stage, **fields)) is None


REFUSED: Mapping[str, tuple[StagePlan, str]] = {
    "digests": (stage_of("k int, v int", stage=digest_by("k")), "only row, aggregate and counts"),
    "repeated keys must be shown": (
        stage_of("k int, v int", duplicates=DuplicatePolicy.ERROR),
        "`duplicates: error`",
    ),
    "repeated keys collapse": (
        stage_of(
            "k int, v int",
            stage=rows_by("k", a_measure("v", function=Function.SUM)),
            duplicates=DuplicatePolicy.AGGREGATE,
        ),
        "`duplicates: aggregate`",
    ),
    "null keys must be shown": (
        stage_of("k int, v int", normalize=Normalize(nulls=NullRules(keys=NullKeys.REJECT))),
        "`nulls.keys: reject`",
    ),
    "null keys are left out": (
        stage_of("k int, v int", normalize=Normalize(nulls=NullRules(keys=NullKeys.EXCLUDE))),
        "`nulls.keys: exclude`",
    ),
    "a condition of more than 38 digits": (
        stage_of("k int, v decimal(38,0)", stage=replace(BY_VALUE, where="v = 0.5")),
        "`where`",
    ),
    "a filter of more than 38 digits": (
        stage_of("k int, v decimal(38,0)", sources={"two": {"filter": "v = 0.5"}}),
        "filter of two",
    ),
    "scope": (
        stage_of(
            "k int, v int",
            stages=(
                replace(BY_VALUE, name="first"),
                replace(BY_VALUE, name="second", scope=Scope(from_stage="first")),
            ),
        ),
        "scoped",
    ),
    "keys that meet after trim": (
        stage_of("k text, v int", normalize=STRING_RULE),
        "rules on the key column k",
    ),
    "casts lose ' 7 ' and 0x10": (
        stage_of("k int, v int", "k int, v text", sources={"two": {"cast": {"v": INT}}}),
        "v is mapped or cast",
    ),
    "json": (stage_of("k int, v json"), "v has the type json"),
    "exact against float": (stage_of("k int, v int", "k int, v float64"), "float64 and int"),
    "text against uuid": (stage_of("k text, v int", "k uuid, v int"), "k is mapped or cast"),
    "no declared digits": (stage_of("k int, v decimal"), "without declared digits"),
    "NULL, [] and [NULL] hash alike": (
        stage_of("k int, v array<int>"),
        "v has the type array",
    ),
    "1 month hashes like 30 days": (stage_of("k int, v interval"), "v has the type interval"),
    "times of day": (stage_of("k int, v time"), "v has the type time"),
    "nanoseconds": (stage_of("k int, v instant(9)", "k int, v instant"), "v has times finer"),
    "a column that one source lacks": (
        stage_of(
            "k int, v int, w int",
            "k int, v int",
            stage=replace(rows_by("k"), measures=ALL_COLUMNS),
        ),
        "w is not comparable",
    ),
    "NaN that equals nothing": (
        stage_of("k int, v float64", normalize=Normalize(numbers=NumberRules(nan=NanRule.UNEQUAL))),
        "`nan: unequal` of v",
    ),
    "rounded values have other totals": (
        stage_of("k text, v decimal(10,2)", normalize=Normalize(numbers=NumberRules(round=0))),
        "change its totals",
    ),
    "groups of floats": (
        stage_of("k float64, v int", stage=aggregate_by("k", SUM)),
        "k is a float",
    ),
    "groups of a cast": (
        stage_of(
            "k int, v int",
            "k text, v int",
            stage=aggregate_by("k", SUM),
            sources={"two": {"cast": {"k": INT}}},
        ),
        "k is mapped or cast",
    ),
    "sums of floats": (
        stage_of("k int, v float64", stage=aggregate_by("k", SUM)),
        "v is sum of float64",
    ),
    "sums beyond 38 digits": (
        stage_of("k int, v decimal(38,0)", "k int, v decimal(38,2)", stage=aggregate_by("k", SUM)),
        "v is sum of decimal(38,0)",
    ),
    "distinct values": (
        stage_of(
            "k int, v int",
            stage=aggregate_by("k", a_measure("v", function=Function.COUNT_DISTINCT)),
        ),
        "v is count_distinct of int",
    ),
    "least of a uuid": (
        stage_of("k int, v uuid", stage=aggregate_by("k", a_measure("v", function=Function.MIN))),
        "v is min of uuid",
    ),
    "values that become NULL before they are counted": (
        stage_of(
            "k int, v text",
            stage=aggregate_by("k", a_measure("v", function=Function.COUNT, column="v")),
            normalize=Normalize(strings=StringRules(empty=EmptyText.NULL)),
        ),
        "rules on the values of v",
    ),
    "groups of a scope": (
        stage_of(
            "k int, v int",
            stages=(
                replace(BY_VALUE, name="first"),
                aggregate_by("k", SUM, scope=Scope(from_stage="first")),
            ),
        ),
        "scoped",
    ),
    "float32 shortest rounds one side": (
        stage_of(
            "k int, v float64",
            "k int, v float32",
            normalize=Normalize(numbers=NumberRules(float32=Float32Rule.SHORTEST)),
        ),
        "meet different types",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_narrowing_could_get_wrong_runs_full_and_says_why(why: str) -> None:
    plan, told = REFUSED[why]
    assert told in (reason(plan) or "narrowed")


@pytest.mark.parametrize(
    ("columns", "normalize"),
    [
        ("k int, v text", STRING_RULE),
        ("k int, v text", Normalize(strings=StringRules(null=NullAs.EMPTY))),
        ("k int, v instant", Normalize(timestamps=TimestampRules(precision=TimePrecision.SECONDS))),
        ("k text, v float64", Normalize(numbers=NumberRules(round=2))),
    ],
)
def test_a_rule_on_a_measure_of_one_type_stays_out_of_the_hash(
    columns: str, normalize: Normalize
) -> None:
    assert reason(stage_of(columns, normalize=normalize)) is None


def test_what_a_source_of_files_computes_is_a_column_like_others() -> None:
    computed = {"columns": {"v": ColumnMapping(expr="v + 1")}, "filter": "ABS(v) > 1"}
    stage = replace(BY_VALUE, where="v + k > 0")
    assert reason(stage_of("k int, v int", stage=stage, sources={"two": computed})) is None


def with_rows(plan: StagePlan, *rows: int) -> StagePlan:
    scans = tuple(
        replace(
            scan,
            pin=FileList(
                root="",
                files=(PinnedFile(path="part.parquet", size_bytes=1, rows=count),),
                taken_at=NOON,
            ),
        )
        for scan, count in zip(plan.scans, rows, strict=True)
    )
    return replace(plan, scans=scans)


@pytest.mark.parametrize(
    ("rows", "chosen"),
    [
        ((NARROW_FROM // 2, NARROW_FROM // 2), Strategy.NARROW),
        ((NARROW_FROM // 2, NARROW_FROM // 2 - 1), Strategy.FULL),
    ],
)
def test_auto_narrows_from_so_many_rows_of_all_sources_on(
    rows: tuple[int, int], chosen: Strategy
) -> None:
    plan = with_rows(stage_of("k int, v int"), *rows)
    assert strategy_of(plan, Strategy.AUTO).chosen is chosen


@pytest.mark.parametrize(("fewer", "chosen"), [(0, Strategy.NARROW), (1, Strategy.FULL)])
def test_auto_narrows_few_rows_of_many_columns(fewer: int, chosen: Strategy) -> None:
    measures = tuple(a_measure(f"v{at}") for at in range(99))
    stage = rows_by("k", *measures)
    plan = stage_of(", ".join(["k int", *(f"v{at} int" for at in range(99))]), stage=stage)
    half = NARROW_VALUES // 100 // 2
    assert strategy_of(with_rows(plan, half, half - fewer), Strategy.AUTO).chosen is chosen


def test_estimates_stand_for_sources_that_are_not_counted() -> None:
    plan = stage_of("k int, v int")
    scans = tuple(
        replace(
            scan,
            pin=FileList(root="", files=(), taken_at=NOON),
            schema=replace(scan.schema, estimated_rows=NARROW_FROM),
        )
        for scan in plan.scans
    )
    assert strategy_of(replace(plan, scans=scans), Strategy.AUTO).chosen is Strategy.NARROW


def test_other_strategies_become_full_with_a_reason_for_each() -> None:
    choice = strategy_of(stage_of("k int, v int"), Strategy.FULL)
    assert choice.chosen is Strategy.FULL
    assert dict(choice.rejected)[Strategy.NARROW] == "full was asked for"
    assert Strategy.FINGERPRINT in dict(choice.rejected)


def test_comparisons_of_one_type_may_be_narrowed() -> None:
    stage = replace(BY_VALUE, where="v > 1 AND k IS NOT NULL")
    assert reason(stage_of("k int, v int", stage=stage)) is None
    assert reason(stage_of("k int, v int", sources={"two": {"filter": "v IN (1, 2)"}})) is None
