import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from datarecs_core.comparison.planning.documents import plan_document, plan_from_document, plan_hash
from datarecs_core.comparison.planning.faults import PlanRefusedError
from datarecs_core.comparison.planning.plan import ComparisonPlan, Cut, Effort, MeasurePlan
from datarecs_core.comparison.planning.planner import PlanRequest, plan_comparison
from datarecs_core.comparison.planning.tolerance import AbsoluteTolerance
from datarecs_core.comparison.proof.stage_json import question_document
from datarecs_core.errors.run import RunDetail
from datarecs_core.errors.spec import SpecCode
from datarecs_core.hashing import JsonValue, canonical_json
from datarecs_core.jobs import types
from datarecs_core.jobs.definition import (
    ALL_COLUMNS,
    Accept,
    Breaks,
    ColumnMapping,
    ColumnRules,
    Confirm,
    Dimension,
    Execution,
    MeasureDefaults,
    Normalize,
    NumberRules,
    Results,
    SchemaPolicy,
    Scope,
    Stage,
    StringRules,
    TimestampRules,
)
from datarecs_core.jobs.spec_hash import spec_hash
from datarecs_core.jobs.vocabulary import (
    CompareTo,
    Float32Rule,
    Function,
    MaskRule,
    NanRule,
    NullAs,
    OnUnmatched,
    ProofMode,
    StageType,
    Strategy,
    TimePrecision,
    Trim,
)
from datarecs_testing.comparisons import (
    a_measure,
    absolute,
    aggregate_by,
    counting,
    lasting,
    rows_by,
)
from datarecs_testing.expressions import REFUSED
from datarecs_testing.tables import JOB_UID, Table, a_job, a_table, pair, plan_of

D = Decimal
DAY = timedelta(days=1)


def two(columns: str, other: str | None = None) -> list[Table]:
    return [a_table("one", columns), a_table("two", other or columns)]


def planned(tables: Sequence[Table], *stages: Stage, **fields: Any) -> ComparisonPlan:  # noqa: ANN401 - any field of the job
    return plan_of(a_job(tables, *stages, **fields), tables)


def refused(tables: Sequence[Table], *stages: Stage, **fields: Any) -> PlanRefusedError:  # noqa: ANN401 - any field of the job
    with pytest.raises(PlanRefusedError) as refusal:
        planned(tables, *stages, **fields)
    return refusal.value


def measure_of(plan: ComparisonPlan) -> MeasurePlan:
    return plan.stages[0].measures[0]


BY_VALUE = rows_by("k", a_measure("v"))


def canonical(document: JsonValue) -> JsonValue:
    """Through bytes, as on a pipe."""
    made: JsonValue = json.loads(canonical_json(document))
    return made


@pytest.mark.case("P44")
def test_an_unknown_column_is_named_with_what_there_is() -> None:
    error = refused(two("k int, amount int"), rows_by("k", a_measure("amout")))
    assert error.code is RunDetail.COLUMN_NOT_FOUND
    assert [fault.code.docs_id for fault in error.faults] == ["DR1060", "DR1060"]
    assert "source one has no column 'amout'; it has amount, k" in str(error)
    assert "did you mean 'amount'?" in str(error)


def test_every_fault_is_reported_at_once_in_the_order_of_the_job() -> None:
    stages = (
        rows_by("k", a_measure("x")),
        aggregate_by("y", a_measure("w"), name="groups"),
    )
    error = refused(two("k int, w text"), *stages)
    assert [fault.code.docs_id for fault in error.faults] == ["DR1060"] * 4 + ["DR1062"]
    assert error.faults[0].path == ("spec", "stages", 0, "measures", 0)


@pytest.mark.case("X41")
@pytest.mark.case("P67")
def test_a_repeated_column_is_ambiguous_once_it_is_used() -> None:
    twice = a_table("one", "k int, v int, v int")
    tables = [twice, a_table("two", "k int, v int")]
    assert refused(tables, BY_VALUE).code is RunDetail.AMBIGUOUS_COLUMN
    assert planned(tables, rows_by("k")).stages


@pytest.mark.case("P39")
@pytest.mark.case("P38")
@pytest.mark.case("P49")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("bool", "int"),
        ("date", "local_timestamp"),
        ("int", "text"),
        ("text", "decimal(10,2)"),
        ("array<int>", "array<text>"),
    ],
)
def test_types_that_do_not_compare_are_refused_before_anything_is_read(
    one: str, other: str
) -> None:
    for stage in (BY_VALUE, rows_by("v")):
        error = refused(two(f"k int, v {one}", f"k int, v {other}"), stage)
        assert error.code is RunDetail.TYPE_MISMATCH
        assert f"v is {one} in one, {other} in two" in str(error)


@pytest.mark.case("P36")
def test_a_naive_time_against_an_aware_one_needs_a_zone() -> None:
    tables = two("k int, v instant", "k int, v local_timestamp")
    error = refused(tables, BY_VALUE)
    assert error.code is RunDetail.ZONE_REQUIRED
    assert "declare `timezone` of source two" in str(error)
    plan = planned(tables, BY_VALUE, sources={"two": {"timezone": "Europe/Paris"}})
    assert [each and each.zone for each in measure_of(plan).inputs] == [None, "Europe/Paris"]


def test_naive_times_compare_as_written_until_one_source_declares_its_zone() -> None:
    tables = two("k int, v local_timestamp")
    assert planned(tables, BY_VALUE).warnings == ()
    zone = {"one": {"timezone": "Europe/Paris"}}
    assert refused(tables, BY_VALUE, sources=zone).code is RunDetail.ZONE_REQUIRED


def test_a_text_cast_to_a_naive_time_needs_the_zone_as_well() -> None:
    tables = two("k int, v text", "k int, v instant")
    cast = {"cast": {"v": types.LOCAL_TIMESTAMP}}
    assert refused(tables, BY_VALUE, sources={"one": cast}).code is RunDetail.ZONE_REQUIRED
    zoned = planned(tables, BY_VALUE, sources={"one": {**cast, "timezone": "Asia/Tokyo"}})
    first = measure_of(zoned).inputs[0]
    assert first is not None
    assert (first.result, first.zone) == (types.INSTANT, "Asia/Tokyo")


def test_casts_that_do_not_exist_are_refused() -> None:
    error = refused(two("k int, v bool"), BY_VALUE, sources={"one": {"cast": {"v": types.INT}}})
    assert "which has no cast to int" in str(error)
    unknown = refused(two("k int, v int"), BY_VALUE, sources={"one": {"cast": {"x": types.INT}}})
    assert unknown.faults[0].path == ("spec", "sources", 0, "cast", "x")


@pytest.mark.case("P40")
def test_text_against_uuid_is_read_as_uuid_with_a_warning() -> None:
    plan = planned(two("k uuid, v int", "k text, v int"), BY_VALUE)
    assert plan.stages[0].dimensions[0].inputs[1].cast == types.UUID
    assert [warning.code for warning in plan.warnings] == ["IMPLICIT_TEXT_UUID"]


@pytest.mark.case("P39")
def test_a_map_reads_as_the_type_of_the_sources_without_one() -> None:
    stage = rows_by("k", a_measure("v", map={"two": {"1": "true"}}))
    plan = planned(two("k int, v bool", "k int, v int"), stage)
    assert [each and each.result for each in measure_of(plan).inputs] == [types.BOOL] * 2
    both = rows_by("k", a_measure("v", map={"one": {"true": "J"}, "two": {"1": "J"}}))
    plan = planned(two("k int, v bool", "k int, v int"), both)
    assert [each and each.result for each in measure_of(plan).inputs] == [types.TEXT] * 2


@pytest.mark.case("P44")
@pytest.mark.case("P40")
def test_star_takes_every_column_and_marks_what_cannot_be_compared() -> None:
    tables = two(
        "k int, a int, b uuid, load_ts int, gone int", "z int, b decimal(5,2), a int, k int"
    )
    stage = Stage(
        name="rows",
        type=StageType.ROW,
        dimensions=(Dimension(name="k"),),
        measures=ALL_COLUMNS,
        except_=("load_ts",),
        measure_defaults={types.INT: MeasureDefaults(tolerances=(absolute("1"),))},
    )
    plan = planned(tables, stage, schema=SchemaPolicy(ignore=("gone",)))
    measures = plan.stages[0].measures
    assert [(each.name, each.comparable) for each in measures] == [
        ("a", True),
        ("b", False),
        ("z", False),
    ]
    assert measures[0].tolerances == (AbsoluteTolerance(limit=D(1)),)
    assert [warning.code for warning in plan.warnings] == ["SCHEMA_DIFFERS"] * 2
    assert [column.name for column in plan.scans[0].columns] == ["a", "k"]  # b is not compared


def test_defaults_of_star_apply_to_the_bare_type_too() -> None:
    stage = Stage(
        name="rows",
        type=StageType.ROW,
        dimensions=(Dimension(name="k"),),
        measures=ALL_COLUMNS,
        measure_defaults={types.NUMERIC: MeasureDefaults(tolerances=(absolute("0.5"),))},
    )
    plan = planned(two("k int, v decimal(10,2), t text"), stage)
    assert [len(each.tolerances) for each in plan.stages[0].measures] == [1, 1]
    assert measure_of(plan).tolerances == (AbsoluteTolerance(limit=D("0.5")),)


@pytest.mark.parametrize(
    ("one", "other", "cut"),
    [
        ("decimal(10,2)", "decimal(10,4)", Cut(scale=2)),
        ("decimal(10,2)", "decimal(12,2)", None),
        ("int", "decimal(10,2)", Cut(scale=0)),
        ("decimal(10,2)", "float64", Cut(scale=2)),
        ("float32", "float64", Cut(float32=True)),
        ("float64", "float64", None),
        ("float64", "decimal", None),
        ("instant(3)", "instant", Cut(second_digits=3)),
        ("text", "text", None),
    ],
)
def test_the_coarsest_declaration_separates_precision_from_outside(
    one: str, other: str, cut: Cut | None
) -> None:
    assert measure_of(planned(two(f"k int, v {one}", f"k int, v {other}"), BY_VALUE)).cut == cut


@pytest.mark.case("P17")
@pytest.mark.parametrize(
    ("one", "other", "places"),
    [("int", "decimal(4,1)", 7), ("decimal(38,15)", "int", 18), ("float64", "int", 18)],
)
def test_averages_have_six_digits_more_than_their_columns(
    one: str, other: str, places: int
) -> None:
    stage = aggregate_by("k", a_measure("v", function=Function.AVG))
    plan = planned(two(f"k int, v {one}", f"k int, v {other}"), stage)
    assert (measure_of(plan).places, measure_of(plan).total_scale) == (places, places)


@pytest.mark.parametrize(
    ("kind", "function", "total"),
    [
        ("decimal(10,2)", Function.SUM, (True, 2)),
        ("decimal", Function.SUM, (True, None)),
        ("float64", Function.SUM, (True, 18)),
        ("float64", Function.MAX, (False, None)),
        ("text", Function.COUNT_DISTINCT, (True, 0)),
        ("text", Function.MIN, (False, None)),
        ("int", Function.MIN, (True, 0)),
    ],
)
def test_exact_numbers_have_totals(
    kind: str, function: Function, total: tuple[bool, int | None]
) -> None:
    stage = aggregate_by("k", a_measure("v", function=function))
    measure = measure_of(planned(two(f"k int, v {kind}"), stage))
    assert (measure.has_total, measure.total_scale) == total


def test_counting_needs_no_types_that_compare() -> None:
    stage = aggregate_by(
        "k",
        a_measure("n", column="v", function=Function.COUNT),
        a_measure("rows", function=Function.COUNT),
    )
    plan = planned(two("k int, v text", "k int, v int"), stage)
    assert plan.stages[0].measures[1].inputs == (None, None)


def test_functions_and_tolerances_must_fit_the_type() -> None:
    text = two("k int, v text")
    assert "sum needs numbers" in str(refused(text, aggregate_by("k", a_measure("v"))))
    for tolerance in (absolute("1"), lasting(DAY)):
        error = refused(text, rows_by("k", a_measure("v", tolerance)))
        assert error.faults[0].code.docs_id == "DR1042"
    lengths = rows_by("k", a_measure("v", lasting(DAY)))
    assert refused(two("k int, v int"), lengths).code is RunDetail.TYPE_MISMATCH
    assert planned(two("k int, v date"), lengths).warnings == ()


def test_rules_are_resolved_by_type_and_column() -> None:
    rules = Normalize(
        strings=StringRules(trim=Trim.BOTH, null=NullAs.EMPTY),
        numbers=NumberRules(round=2, null=NullAs.ZERO, nan=NanRule.UNEQUAL),
        columns={"v": ColumnRules(trim=Trim.NONE), "n": ColumnRules(round="none")},
    )
    stage = rows_by("k", a_measure("v"), a_measure("n"), a_measure("f"), a_measure("b"))
    plan = planned(two("k text, v text, n decimal(9,4), f float64, b bool"), stage, normalize=rules)
    key = plan.stages[0].dimensions[0].rules
    assert key.declared() == (("trim", "both"),)
    assert [each.rules.declared() for each in plan.stages[0].measures] == [
        (("null", "empty"),),
        (("null", "zero"), ("nan", "unequal")),
        (("null", "zero"), ("round", "2"), ("nan", "unequal")),
        (),
    ]
    assert [(each.code, each.column) for each in plan.warnings] == [("PRECISION_REDUCED", "f")]


@pytest.mark.parametrize(
    ("kind", "rules", "warned"),
    [
        ("instant(3)", Normalize(timestamps=TimestampRules(precision=TimePrecision.MICROS)), False),
        ("instant", Normalize(timestamps=TimestampRules(precision=TimePrecision.SECONDS)), True),
        ("decimal(9,2)", Normalize(numbers=NumberRules(round=2)), False),
        ("float32", Normalize(numbers=NumberRules(float32=Float32Rule.SHORTEST)), True),
        ("float64", Normalize(numbers=NumberRules(float32=Float32Rule.SHORTEST)), False),
    ],
)
def test_a_rule_that_can_drop_digits_is_warned_of(
    kind: str, rules: Normalize, *, warned: bool
) -> None:
    plan = planned(two(f"k int, v {kind}"), BY_VALUE, normalize=rules)
    assert bool(plan.warnings) is warned


def test_a_rechecked_stage_stores_the_keys_of_differing_groups() -> None:
    again = Confirm(after=DAY)
    stage = planned(two("k int"), rows_by("k", confirm=again)).stages[0]
    assert (stage.confirm, stage.stores_scope, stage.rechecks) == (again, True, ())


def test_a_proof_of_rows_needs_the_digests_of_every_stage() -> None:
    tables = two("k int")
    job = a_job(tables, rows_by("k"), counting(), execution=Execution(proof=ProofMode.ROWS))
    assert [stage.seal_rows for stage in plan_of(job, tables).stages] == [True, True]
    assert not any(stage.seal_rows for stage in plan_of(a_job(tables, counting()), tables).stages)


@pytest.mark.parametrize(("strategy", "cut"), [("auto", None), (7, 7)])
def test_every_stage_has_the_execution_settings_of_the_job(strategy: Any, cut: int | None) -> None:  # noqa: ANN401  as a job has it
    plan = planned(two("k int"), rows_by("k"), execution=Execution(partitions=strategy, spill=5))
    assert plan.stages[0].effort == Effort(partitions=cut, spill=5)


def test_the_plan_names_the_strategy_of_each_stage_and_why_not_another() -> None:
    plan = planned(two("k int"), rows_by("k"), execution=Execution(strategy=Strategy.FINGERPRINT))
    choice = plan.stages[0].strategy
    assert (choice.chosen, choice.requested) == (Strategy.FULL, Strategy.FINGERPRINT)
    assert all(reason for _, reason in choice.rejected)


def test_escalation_scopes_the_next_stage_that_has_no_scope() -> None:
    stages = (
        counting(on_unmatched=OnUnmatched.ESCALATE),
        aggregate_by("k", a_measure("v"), on_unmatched=OnUnmatched.ESCALATE, where="v > 0"),
        rows_by("k", a_measure("v"), name="own", scope=Scope(from_stage="counts")),
        rows_by("k v", name="escalated"),
        rows_by("k", name="free"),
    )
    plan = planned(two("k int, v int"), *stages)
    scopes = [each.scope and each.scope.from_stage for each in plan.stages]
    assert scopes == [None, "counts", "counts", "groups", None]
    assert [each.stores_scope for each in plan.stages] == [True, True, False, False, False]
    third = plan.stages[3].scope
    assert third is not None
    assert (third.where, [each.name for each in third.dimensions]) == ("v > 0", ["k"])


def test_only_needed_columns_are_read() -> None:
    tables = two("a int, b int, c text, d int")
    plan = planned(tables, aggregate_by("a", a_measure("b"), where="c = 'x'"))
    assert [each.name for each in plan.scans[1].columns] == ["a", "b", "c"]
    assert [each.name for each in planned(tables, counting()).scans[0].columns] == ["a"]
    assert refused(tables, aggregate_by("a", where="nope = 1")).code is RunDetail.COLUMN_NOT_FOUND


def test_a_condition_beyond_comparisons_is_a_column_of_each_source() -> None:
    where = "UPPER(c) = 'X' AND LENGTH(`e``f`) + b > 1"
    tables = [a_table("one", "a int, raw int, c text, e`f text"), a_table("two", COLUMNS)]
    mapped = {"columns": {"b": ColumnMapping(expr="raw * 2"), "e`f": ColumnMapping(column="e`f")}}
    plan = planned(tables, aggregate_by("a", where=where), sources={"one": mapped})
    assert [(each.name, each.expression) for each in plan.scans[0].columns] == [
        ("$where.groups", 'UPPER("c") = \'X\' AND LENGTH("e`f") + (raw * 2) > 1'),
        ("a", None),
    ]
    assert plan.scans[1].columns[0].type == types.BOOL
    (stage,) = plan.stages
    assert (stage.where, stage.written_where) == ('"$where.groups"', where)
    assert question_document(stage)["where"] == where


COLUMNS = "a int, b int, c text, e`f text"


@pytest.mark.parametrize(
    ("where", "code", "message"),
    [
        ("UPPER(b) = 'X'", "DR1062", "UPPER: it takes texts, not int (character 1)"),
        ("b + 1", "DR1062", "it is int and not bool"),
        ("b = 'x'", "DR1062", "source one: number and text are compared"),
        ("b = 'x' OR c IN (1, 2)", "DR1062", "number and text are compared; cast one of them"),
        ("hash(c) > 0", "DR1032", "the function hash is not in the language (character 1)"),
        ("b = 1 b", "DR1031", "'b' does not belong here (character 7)"),
        ("ABS(nope) = 1", "DR1060", "source one has no column 'nope'"),
    ],
)
def test_a_condition_that_no_source_can_compute_is_refused(
    where: str, code: str, message: str
) -> None:
    fault = refused(two(COLUMNS), aggregate_by("a", where=where)).faults[0]
    assert (fault.code.docs_id, fault.path) == (code, ("spec", "stages", 0, "where"))
    assert message in fault.message


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"filter": "LENGTH(b) > 1"}, "DR1062", "LENGTH: it takes texts, not int (character 1)"),
        ({"filter": "b + 1"}, "DR1062", "it is int and not bool"),
        ({"filter": "b = 'x'"}, "DR1062", "number and text are compared; cast one of them"),
        ({"filter": "nope = 1"}, "DR1060", "there is no column 'nope' (character 1)"),
        ({"filter": "b = $where"}, "DR1032", "the sign $ is not in the language (character 5)"),
        ({"columns": {"x": ColumnMapping(expr="c + 1")}}, "DR1062", "+: it takes numbers"),
        ({"columns": {"x": ColumnMapping(expr="NULL")}}, "DR1062", "NULL has no type here"),
    ],
)
def test_an_expression_that_a_source_cannot_compute_is_refused(
    fields: dict[str, object], code: str, message: str
) -> None:
    fault = refused(two(COLUMNS), counting(), sources={"one": fields}).faults[0]
    assert (fault.code.docs_id, fault.path[:3]) == (code, ("spec", "sources", 0))
    assert message in fault.message


@pytest.mark.case("X36")
@pytest.mark.parametrize("text", REFUSED)
def test_no_plan_holds_what_is_not_on_the_allow_list(text: str) -> None:
    where, column = aggregate_by("a", where=text), ColumnMapping(expr=text)
    for stage, fields in (
        (where, {}),
        (counting(), {"filter": text}),
        (counting(), {"columns": {"x": column}}),
    ):
        fault = refused(two(COLUMNS), stage, sources={"one": fields}).faults[0]
        assert fault.code.docs_id in {"DR1031", "DR1032"}
        assert "(character " in fault.message


def test_a_source_delivers_what_its_stages_need_together_and_nothing_else() -> None:
    """Measured columns that are missing in a source are not compared, so they are not read."""
    tables = [
        a_table("one", "k int, v int, w int, z text"),
        a_table("two", "k int, v int, z text"),
    ]
    plan = planned(tables, rows_by("k", a_measure("v"), name="first"), aggregate_by("z"))
    assert [[each.name for each in scan.columns] for scan in plan.scans] == [["k", "v", "z"]] * 2
    star = Stage(
        name="rows",
        type=StageType.ROW,
        dimensions=(Dimension(name="k"),),
        measures=ALL_COLUMNS,
        except_=("z",),
    )
    plan = planned(tables, star)
    assert [[each.name for each in scan.columns] for scan in plan.scans] == [["k", "v"]] * 2


def test_counted_rows_are_read_by_a_small_column() -> None:
    tables = two("a text, c binary, day date, e text")
    assert [each.name for each in planned(tables, counting()).scans[0].columns] == ["day"]


def with_undelivered(
    tables: Sequence[Table],
    *stages: Stage,
    **fields: Any,  # noqa: ANN401 - any field of the job
) -> ComparisonPlan:
    """Over tables of which the first has a column without a type, and `tags`, whose type it has."""
    job, schemas = a_job(tables, *stages, **fields), {each.name: each.schema for each in tables}
    words = (("tags", "list<int>"), ("wide", "decimal256"))
    schemas["one"] = replace(schemas["one"], undelivered=words)
    return plan_comparison(
        PlanRequest(
            job=job,
            job_uid=JOB_UID,
            spec_hash=spec_hash(job),
            schemas=schemas,
            pins={table.name: table.pin for table in tables},
        )
    )


TAGGED = two("tags array<int>, k int, v int")
STAR = Stage(name="rows", type=StageType.ROW, dimensions=(Dimension(name="k"),), measures="*")


@pytest.mark.parametrize("where", ["v > 1", "ABS(v) > 1"])
def test_a_column_that_is_not_delivered_matters_only_if_it_is_named(where: str) -> None:
    sql = rows_by("k", a_measure("v"), where=where)
    plan = with_undelivered(TAGGED, sql, replace(STAR, except_=("tags", "wide"), name="star"))
    names = [each.name for each in plan.scans[0].columns if each.physical is not None]
    assert names == ["k", "v"]
    counted = with_undelivered(two("tags array<int>, v text"), counting())
    assert [each.name for each in counted.scans[0].columns] == ["v"]


@pytest.mark.parametrize("column", ["tags", "wide"])
@pytest.mark.parametrize(
    "stage",
    [
        lambda name: {"stage": rows_by(name)},
        lambda name: {"stage": rows_by("k", a_measure(name))},
        lambda name: {
            "stage": aggregate_by("k", a_measure("n", column=name, function=Function.COUNT))
        },
        lambda name: {"stage": rows_by("k", a_measure("v"), where=f"{name} IS NULL")},
        lambda name: {"stage": BY_VALUE, "filter": f"{name} IS NULL"},
        lambda name: {"stage": BY_VALUE, "cast": {name: types.TEXT}},
        lambda name: {"stage": rows_by("x"), "columns": {"x": ColumnMapping(column=name)}},
    ],
)
def test_a_column_that_no_row_brings_is_refused_where_it_is_named(stage: Any, column: str) -> None:  # noqa: ANN401  as a job has it
    fields = stage(column)
    with pytest.raises(PlanRefusedError, match="of source one has the type") as refusal:
        with_undelivered(TAGGED, fields.pop("stage"), sources={"one": fields})
    assert refusal.value.faults[0].code is SpecCode.TYPE_NOT_SUPPORTED
    assert "installed" not in refusal.value.faults[0].code.entry.meaning


def test_a_column_that_no_row_brings_is_not_comparable_under_star() -> None:
    plan = with_undelivered(TAGGED, STAR)
    comparable_names = [(each.name, each.comparable) for each in plan.stages[0].measures]
    assert comparable_names == [("tags", False), ("v", True), ("wide", False)]


def test_schemas_contain_columns_that_are_not_delivered_where_they_have_a_type() -> None:
    shape = Stage(name="shape", type=StageType.SCHEMA)
    with pytest.raises(PlanRefusedError, match="'wide' of source one") as refusal:
        with_undelivered(TAGGED, shape)
    assert len(refusal.value.faults) == 1
    plan = with_undelivered(TAGGED, shape, schema=SchemaPolicy(ignore=("wide",)))
    catalogue = plan.stages[0].catalogue
    assert catalogue is not None
    assert [each.type for each in catalogue.columns[0]] == ["array<int>", "int", "int"]


def test_mapped_columns_have_their_logical_name_alone() -> None:
    tables = [a_table("one", "id int, amt int, fee int"), a_table("two", "k int, v int")]
    mapping = {"k": ColumnMapping(column="id"), "v": ColumnMapping(column="amt")}
    plan = planned(tables, BY_VALUE, sources={"one": {"columns": mapping}})
    assert [(each.name, each.physical) for each in plan.scans[0].columns] == [
        ("k", "id"),
        ("v", "amt"),
    ]
    error = refused(tables, rows_by("id"), sources={"one": {"columns": mapping}})
    assert "source one has no column 'id'" in str(error)
    lost = {"k": ColumnMapping(column="idd")}
    assert "no column 'idd'" in str(refused(tables, BY_VALUE, sources={"one": {"columns": lost}}))


def test_an_expression_is_a_column_typed_over_those_of_its_source() -> None:
    tables = [a_table("one", "k int, gross decimal(9,2), fee int"), a_table("two", "k int, v int")]
    columns = {"v": ColumnMapping(expr="gross - fee")}
    plan = planned(tables, BY_VALUE, sources={"one": {"columns": columns}})
    column = plan.scans[0].column("v")
    assert (column.expression, column.physical, str(column.type)) == (
        "gross - fee",
        None,
        "decimal(22,2)",
    )
    with pytest.raises(KeyError):
        plan.scans[0].column("fee")


def test_one_column_in_two_measures_is_warned_of_once() -> None:
    rules = Normalize(numbers=NumberRules(round=0))
    stage = aggregate_by("k", a_measure("v"), a_measure("w", column="v", function=Function.MAX))
    plan = planned(two("k int, v decimal(9,2)"), stage, normalize=rules)
    assert [each.column for each in plan.warnings] == ["v"]


def test_masks_name_columns_that_exist() -> None:
    tables = two("k int, v int")
    results = Results(breaks=Breaks(mask={"v": MaskRule.HASH, "x": MaskRule.HASH}))
    assert refused(tables, BY_VALUE, results=results).faults[0].code.docs_id == "DR1072"
    fine = Results(breaks=Breaks(mask={"v": MaskRule.HASH}, max_rows=7))
    stage = planned(tables, BY_VALUE, results=fine).stages[0]
    assert (stage.measures[0].mask, stage.caps.max_rows) == (MaskRule.HASH, 7)


def test_whole_rows_as_keys_take_no_tolerance() -> None:
    stage = rows_by("", a_measure("k"), a_measure("v", absolute("1")))
    assert refused(two("k int, v int"), stage).faults[0].code.docs_id == "DR1042"
    star = Stage(name="rows", type=StageType.ROW, measures=ALL_COLUMNS)
    plan = planned(two("k int, v int"), star)
    assert [each.name for each in plan.stages[0].dimensions] == ["k", "v"]


def test_a_plan_comes_back_from_its_document_and_has_one_hash() -> None:
    accepting = replace(BY_VALUE, accept=Accept(max_gap={"v": D(1)}))
    plan = planned(two("k int, v decimal(9,2)"), accepting, aggregate_by("k", a_measure("v")))
    again = plan_from_document(canonical(plan_document(plan)))
    assert again == plan
    assert (plan_hash(again), hash(again)) == (plan_hash(plan), hash(plan))
    other = planned(two("k int, v decimal(9,3)"), accepting, aggregate_by("k", a_measure("v")))
    assert plan_hash(other) != plan_hash(plan)


def test_pairs_of_sources_share_one_plan_type() -> None:
    tables = pair("k int", [], [])
    assert planned(tables, rows_by("k")).stages[0].sources == ("one", "two")


@pytest.mark.parametrize("stage", [counting, lambda **fields: aggregate_by("", **fields)])
def test_counts_of_rows_are_compared_as_the_stage_declares(stage: Any) -> None:  # noqa: ANN401 - either maker of a stage
    count = a_measure("row_count", absolute("1"), function=Function.COUNT)
    made = replace(stage(compare_to=CompareTo.ALL_PAIRS), measures=(count,))
    (planned_measure,) = planned(two("id int"), made).stages[0].measures
    assert planned_measure.compare_to is CompareTo.ALL_PAIRS


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("k int, v int, v int", "column v stands more than once in a source"),
        (
            "k int, w int",
            "column v is absent in one, so every group differs in it until it is left out",
        ),
        ("k int, v text", "column v has types that do not compare: v is text in one, int in two"),
    ],
)
def test_a_column_under_star_has_the_reason_why_it_is_not_compared(
    columns: str, reason: str
) -> None:
    tables = [a_table("one", columns), a_table("two", "k int, v int, w int")]
    warnings = plan_of(a_job(tables, STAR), tables).warnings
    messages = [each.message for each in warnings if each.column == "v"]
    assert any(reason in message for message in messages), messages


def test_equal_nested_types_are_not_reported_as_different() -> None:
    warnings = with_undelivered(TAGGED, STAR).warnings
    messages = [each.message for each in warnings if each.code == "SCHEMA_DIFFERS"]
    assert any("has a type that cannot be compared yet" in message for message in messages)
    assert not any("do not compare" in message for message in messages)


def test_a_column_that_is_excepted_and_that_no_source_has_is_refused() -> None:
    error = refused(pair("k int, boked int", [], []), replace(STAR, except_=("boked", "bokd")))
    (fault,) = error.faults
    assert (fault.code, fault.path[-2:]) == (SpecCode.UNKNOWN_COLUMN, ("except", 1))
    assert fault.hint is not None
    assert "boked" in fault.hint
