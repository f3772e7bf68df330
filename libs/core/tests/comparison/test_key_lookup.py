"""The meanings of a typed key, by the casts and rules in run.json.

That it finds what engines store is part of their conformance suite.
"""

from dataclasses import fields

import pytest

from datarecs_core.comparison.insight.key_lookup import KeyReading, rules_of
from datarecs_core.comparison.planning.rules import Rules
from datarecs_core.comparison.proof.sealed import sealed_run
from datarecs_core.jobs.definition import Dimension, Normalize, Stage, StringRules
from datarecs_core.jobs.types import parse_type
from datarecs_core.jobs.vocabulary import (
    ArrayRule,
    Case,
    EmptyText,
    Float32Rule,
    NullAs,
    Rounding,
    StageType,
    Trim,
    UnicodeForm,
)
from datarecs_testing.comparisons import a_measure, compare, rows_by
from datarecs_testing.finished_runs import MemoryBench, document_of
from datarecs_testing.tables import a_job, pair


@pytest.mark.parametrize(
    ("typed", "stored"), [("0x7", "0x7"), ("007", "INVALID(0x303037)"), ("7", "7")]
)
def test_a_cast_key_is_read_as_its_source_casts_it(typed: str, stored: str) -> None:
    tables = pair("k text, v int", [("7", 1)], [("7", 2)])
    declared = {"cast": {"k": parse_type("int")}}
    job = a_job(tables, rows_by("k", a_measure("v")), sources={"one": declared, "two": declared})
    run = sealed_run(document_of(compare(MemoryBench(), job, tables)))
    assert (stored,) in KeyReading(run=run, stage=run.stages[0], zones={}).meant([typed])


def test_a_column_under_another_name_is_read_by_its_rules() -> None:
    tables = pair("k text, v int", [("A", 1)], [("a", 2)])
    stage = Stage(
        name="rows",
        type=StageType.ROW,
        dimensions=(Dimension(name="account", column="k"),),
        measures=(a_measure("v"),),
    )
    folded = Normalize(strings=StringRules(case=Case.FOLD))
    job = a_job(tables, stage, normalize=folded)
    run = sealed_run(document_of(compare(MemoryBench(), job, tables)))
    meant = KeyReading(run=run, stage=run.stages[0], zones={}).meant(["A"])
    assert meant == (("A",), ("a",))


def test_rules_are_read_back_as_they_were_declared() -> None:
    every = Rules(
        trim=Trim.LEFT,
        case=Case.FOLD,
        unicode=UnicodeForm.NFC,
        empty=EmptyText.NULL,
        null=NullAs.ZERO,
        round=3,
        precision=6,
        rounding=Rounding.HALF_EVEN,
        float32=Float32Rule.SHORTEST,
        arrays=ArrayRule.SET,
    )
    assert rules_of(dict(every.declared())) == every
    named = {name for name, _ in every.declared()} | {"nan"}
    assert named == {each.name for each in fields(Rules)}, "a new rule is read back as well"
