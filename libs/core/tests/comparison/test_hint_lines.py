"""What a hint recommends is accepted: its line is put into the job, validated and planned.

Every rule meets every kind of source. A line that no kind of source and no type of column takes is
not recommended; one that is recommended changes the plan.
"""

import copy
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from ruamel.yaml import YAML

from datarecs_core.comparison.insight.hint_stage import EXPRESSION_KINDS, hint_stage
from datarecs_core.comparison.insight.hints import Hint, hints
from datarecs_core.comparison.insight.patterns import HintRule
from datarecs_core.comparison.planning.documents import plan_document
from datarecs_core.comparison.planning.faults import PlanRefusedError
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.planning.planner import PlanRequest, plan_comparison
from datarecs_core.comparison.proof.sealed import sealed_run
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_specs.documents import decode_yaml
from datarecs_testing.comparisons import compare
from datarecs_testing.finished_runs import MemoryBench, document_of
from datarecs_testing.tables import JOB_UID, NOON, Table, a_table

D = Decimal
LOCAL = NOON.replace(tzinfo=None)
AMOUNTS = [D(at) + D("0.37") * at for at in range(1, 11)]


class Case(NamedTuple):
    """Data that follows a rule: the columns of both sources, and their values."""

    rule: HintRule
    columns: str
    ledger: Sequence[tuple[Any, ...]]
    lake: Sequence[tuple[Any, ...]]
    type: str = "row"
    has_line: bool = True
    """Some kind of source accepts a line."""


def side_by_side(rule: HintRule, kind: str, pairs: Sequence[tuple[Any, Any]], **more: Any) -> Case:  # noqa: ANN401  any field
    """Values `amount`, by key."""
    ledger = [(f"k{at}", one) for at, (one, _) in enumerate(pairs)]
    lake = [(f"k{at}", two) for at, (_, two) in enumerate(pairs)]
    return Case(rule, f"k text, amount {kind}", ledger, lake, **more)


def keys(ledger: str, lake: str, kind: str = "text") -> Case:
    numbers = range(1, 8)
    one, two = ([(form.format(at), D(at)) for at in numbers] for form in (ledger, lake))
    return Case(HintRule.KEYS_MEET, f"k {kind}, amount decimal(12,4)", one, two)


FACTORS = [(value, value.scaleb(2)) for value in AMOUNTS]
DAYS = [(NOON.date() + timedelta(at), NOON.date() + timedelta(at + 1)) for at in range(8)]
CASES = (
    side_by_side(HintRule.CONSTANT_FACTOR, "decimal(12,4)", FACTORS),
    side_by_side(HintRule.CONSTANT_FACTOR, "decimal(12,4)", FACTORS, type="aggregate"),
    side_by_side(HintRule.SIGN_FLIP, "decimal(12,4)", [(one, -one) for one in AMOUNTS]),
    side_by_side(
        HintRule.CONSTANT_OFFSET, "decimal(12,4)", [(one, one - D("2.5")) for one in AMOUNTS]
    ),
    side_by_side(
        HintRule.CONSTANT_OFFSET,
        "decimal(12,4)",
        [(one, one - D("2.5")) for one in AMOUNTS],
        type="aggregate",
        has_line=False,
    ),
    side_by_side(HintRule.CONSTANT_OFFSET, "date", DAYS),
    side_by_side(
        HintRule.CONSTANT_OFFSET,
        "date",
        [(one, one + timedelta(9_999)) for one, _ in DAYS],
        has_line=False,
    ),
    side_by_side(HintRule.CONSTANT_OFFSET, "time", [(time(at), time(at + 1)) for at in range(6)]),
    side_by_side(
        HintRule.CONSTANT_OFFSET,
        "instant",
        [(NOON + timedelta(at), NOON + timedelta(at, microseconds=7)) for at in range(6)],
    ),
    side_by_side(
        HintRule.ZONE_SHIFT,
        "instant",
        [(NOON + timedelta(at), NOON + timedelta(at, hours=2)) for at in range(6)],
        has_line=False,
    ),
    side_by_side(
        HintRule.ZONE_SHIFT,
        "local_timestamp",
        [(LOCAL + timedelta(at), LOCAL + timedelta(at, hours=2)) for at in range(6)],
    ),
    side_by_side(
        HintRule.ROUNDED,
        "decimal(12,4)",
        [(one + D("0.0001"), one) for one in AMOUNTS] + [(D("1.2399"), D("1.24"))] * 3,
    ),
    side_by_side(HintRule.CUT, "decimal(12,4)", [(one, one + D("0.0099")) for one in AMOUNTS]),
    side_by_side(HintRule.NULL_FOR_ZERO, "decimal(12,4)", [(None, D(0))] * 6),
    side_by_side(HintRule.NULL_FOR_ZERO, "text", [(None, "0")] * 6, has_line=False),
    side_by_side(HintRule.NULL_FOR_EMPTY, "text", [(None, "")] * 6),
    side_by_side(
        HintRule.CUT_TEXT, "text", [(f"customer number {at}", "customer n") for at in range(6)]
    ),
    keys(" {}", "{}"),
    keys("AB{}", "ab{}"),
    keys("e\u0301{}", "\u00e9{}"),
    keys("00{}", "{}"),
    keys("00{}12345678901234567890", "{}12345678901234567890"),
    Case(
        HintRule.SWAPPED_MEASURES,
        "k text, amount int, tax int",
        [(f"k{at}", at, 7 * at) for at in range(1, 8)],
        [(f"k{at}", 7 * at, at) for at in range(1, 8)],
    ),
    Case(
        HintRule.DUPLICATED_LOAD,
        "k text, amount int",
        [(f"k{at}", at) for at in range(6)],
        [(f"k{at}", at) for at in range(6)] * 2,
    ),
    Case(
        HintRule.LATE_WINDOW,
        "k instant, amount int",
        [(NOON + timedelta(hours=at), 1) for at in range(-59, 12)],
        [(NOON + timedelta(hours=at), 1) for at in range(-60, 0)],
    ),
)
ORIGINS: dict[SourceKind, dict[str, Any]] = {
    SourceKind.POSTGRES: {"connection": "bank", "relation": "t"},
    SourceKind.JDBC: {"connection": "bank", "relation": "t"},
    SourceKind.ICEBERG: {"connection": "bank", "relation": "t"},
    SourceKind.DELTA: {"connection": "bank", "relation": "t"},
    SourceKind.KAFKA: {"connection": "bank", "topic": "t"},
    SourceKind.EXTRACT: {"extract": {"run": "latest", "source": "t"}},
}


def job_of(case: Case, kind: SourceKind) -> dict[str, Any]:
    """The job as it is written, with every measure under another name than its column."""
    origin = ORIGINS.get(kind, {"path": f"t.{kind}"})
    numeric = {"name": "rows", "type": case.type, "dimensions": [{"name": "key", "column": "k"}]}
    columns = [part.split()[0] for part in case.columns.split(", ")][1:]
    measures = [{"name": f"the_{column}", "column": column} for column in columns]
    return {
        "apiVersion": "datarecs.io/v1",
        "kind": "ReconciliationJob",
        "metadata": {"name": "job"},
        "spec": {
            "sources": [{"name": name, "kind": str(kind), **origin} for name in ("ledger", "lake")],
            "stages": [{**numeric, "measures": measures}],
        },
    }


def decoded(job: dict[str, Any]) -> tuple[ReconciliationJob | None, set[str]]:
    """The job, and its faults as text."""
    written = io.BytesIO()
    YAML(typ="safe").dump(job, written)
    (made,) = decode_yaml(written.getvalue())
    faults = {f"{one.code.docs_id} {one.path}" for one in made.faults}
    read = None if faults else made.require()[1]
    assert read is None or isinstance(read, ReconciliationJob)
    return read, faults


def planned(job: ReconciliationJob, tables: Sequence[Table]) -> ComparisonPlan:
    schemas = {table.name: table.schema for table in tables}
    return plan_comparison(
        PlanRequest(
            job=job,
            job_uid=JOB_UID,
            spec_hash="sha256:" + "0" * 64,
            schemas=schemas,
            pins={table.name: table.pin for table in tables},
        )
    )


def with_line(job: dict[str, Any], line: str) -> dict[str, Any]:
    """The job with a recommended line in it; the text in `< >` is filled in."""
    made = copy.deepcopy(job)
    for part in re.split(r"[;,] (?=sources\[|stages\[|normalize\.)", line):
        place, _, written = part.partition(": ")
        filled = written.replace("<zone>", "Europe/Paris").replace(
            "<one load of lake>", "amount = 1"
        )
        value = YAML(typ="safe").load(filled)
        at: Any = made["spec"]
        *steps, last = place.replace("[", ".[").split(".")
        for step in steps:
            if step.startswith("["):
                at = next(each for each in at if each["name"] == step.strip("[]"))
            else:
                at = at.setdefault(step, {})
        if isinstance(value, dict):
            at.setdefault(last, {}).update(value)
        else:
            at[last] = value
    return made


def hint_of(case: Case, kind: SourceKind, tables: Sequence[Table]) -> list[Hint]:
    """The hints of the case's rule, of sources of a kind."""
    job, _ = decoded(job_of(case, SourceKind.PARQUET))
    assert job is not None
    sources = tuple(replace(source, kind=kind) for source in job.sources)
    comparison = compare(MemoryBench(), replace(job, sources=sources), tables)
    run = sealed_run(document_of(comparison))
    hints_shown = hints(comparison.differences(), hint_stage(run, run.stages[0]))
    return [hint for hint in hints_shown if hint.rule is case.rule]


def tables_of(case: Case) -> list[Table]:
    sides = zip(("ledger", "lake"), (case.ledger, case.lake), strict=True)
    return [a_table(name, case.columns, *rows) for name, rows in sides]


@pytest.mark.parametrize("kind", list(SourceKind))
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}-{case.columns[-14:]}")
def test_a_recommended_line_is_accepted_and_changes_the_plan(case: Case, kind: SourceKind) -> None:
    tables = tables_of(case)
    hint_list = hint_of(case, kind, tables)
    assert hint_list, "the data follows the rule"
    assert all(not hint.declare for hint in hint_list) or case.has_line
    plain = job_of(case, kind)
    before, refused = decoded(plain)
    for hint in hint_list:
        if not hint.declare:
            continue
        after, faults = decoded(with_line(plain, hint.declare))
        assert faults - refused == set(), hint.declare
        if before is None or after is None:
            continue  # this kind of source is refused with every hint
        try:
            changed = planned(after, tables)
        except PlanRefusedError as cause:
            pytest.fail(f"{hint.declare}: {cause}")
        assert plan_document(changed) != plan_document(planned(before, tables)), hint.declare


def test_every_rule_has_a_case_and_a_line_that_some_kind_accepts() -> None:
    lines: dict[HintRule, bool] = {}
    for case in CASES:
        hints_shown = hint_of(case, SourceKind.POSTGRES, tables_of(case))
        lines[case.rule] = lines.get(case.rule, False) or any(hint.declare for hint in hints_shown)
        assert any(hint.declare for hint in hints_shown) is case.has_line, case.rule
    assert lines == dict.fromkeys(HintRule, True)


def test_an_expression_is_recommended_where_it_is_computed() -> None:
    case = CASES[0]
    lines = {
        kind: [hint.declare for hint in hint_of(case, kind, tables_of(case))] for kind in SourceKind
    }
    assert {kind for kind, (line,) in lines.items() if "expr" in line} == EXPRESSION_KINDS
