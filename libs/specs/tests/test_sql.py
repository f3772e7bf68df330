"""SQL of jobs: one SELECT or one scalar expression, nothing that writes."""

import logging
import re
from dataclasses import replace
from time import perf_counter

import pytest

from datarecs_core.jobs.definition import (
    ColumnMapping,
    Parameter,
    ReconciliationJob,
    Source,
    Stage,
)
from datarecs_core.jobs.vocabulary import ParameterType, SourceKind, StageType
from datarecs_specs.sql import sql_faults
from datarecs_testing.expressions import REFUSED

LEDGER = Source(name="ledger", kind=SourceKind.POSTGRES, connection="pg", relation="entries")
JOB = ReconciliationJob(
    name="orders",
    sources=(LEDGER,),
    stages=(),
    parameters={"day": Parameter(type=ParameterType.DATE)},
)


def faults_of(job: ReconciliationJob) -> list[str]:
    return [fault.code.docs_id for fault in sql_faults(job) if not fault.warning]


def filtered(text: str, kind: SourceKind = SourceKind.POSTGRES) -> list[str]:
    return faults_of(replace(JOB, sources=(replace(LEDGER, kind=kind, filter=text),)))


def queried(text: str) -> list[str]:
    return faults_of(replace(JOB, sources=(replace(LEDGER, relation=None, query=text),)))


@pytest.mark.parametrize(
    "text",
    [
        "booked_on = :day AND ccy IN ('EUR', 'USD')",
        "CAST(x AS int) > 3 or y is null",
        "note = ':nobody' and a",
        "case when a then b end",
        "active",
        "lower(name) like 'x%'",
    ],
)
def test_one_scalar_expression_is_fine(text: str) -> None:
    assert filtered(text) == []


@pytest.mark.case("X36")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("1=1; drop table t", "DR1031"),
        ("1) q; drop table t --", "DR1031"),
        ("a = 1;", "DR1031"),
        ("", "DR1031"),
        ("   ", "DR1031"),
        ("a, b", "DR1031"),
        ("a as b", "DR1031"),
        ("*", "DR1031"),
        ("a =", "DR1031"),
        ("delete from t", "DR1031"),
        ("set x = 1", "DR1031"),
        ("id in (select id from t)", "DR1032"),
        ("select 1", "DR1032"),
        ("day = :daj", "DR1033"),
        ("day = $1", "DR1032"),
        ("(" * 5_000 + "1" + ")" * 5_000, "DR1031"),
    ],
)
def test_anything_else_in_a_filter_is_reported(text: str, code: str) -> None:
    faults = filtered(text) if text else faults_of(_with_column(" "))
    assert faults == [code]


def _with_column(expr: str) -> ReconciliationJob:
    column = ColumnMapping(expr=expr)
    return replace(JOB, sources=(replace(LEDGER, columns={"net": column}),))


def test_column_expressions_are_read_too() -> None:
    assert (faults_of(_with_column("a - b")), faults_of(_with_column("a; b"))) == ([], ["DR1031"])


@pytest.mark.parametrize(
    "text",
    [
        "select id, sum(amount) from entries where day = :day group by 1",
        "with x as (select 1 a) select a from x",
        "select 1 union all select 2",
        "(select 1)",
    ],
)
def test_one_select_is_fine(text: str) -> None:
    assert queried(text) == []


@pytest.mark.case("X35")
@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("delete from t", "DR1032"),
        ("with x as (delete from t returning *) select * from x", "DR1032"),
        ("select a into b from c", "DR1032"),
        ("select * from a for update", "DR1032"),
        ("select * from a for share", "DR1032"),
        ("copy t to 'x'", "DR1032"),
        ("do $$ begin end $$", "DR1032"),
        ("call f()", "DR1032"),
        ("explain analyze delete from t", "DR1032"),
        ("insert into t select 1", "DR1032"),
        ("update t set a = 1", "DR1032"),
        ("merge into t using s on true when matched then delete", "DR1032"),
        ("create table t as select 1", "DR1032"),
        ("drop table t", "DR1032"),
        ("alter table t add column a int", "DR1032"),
        ("truncate t", "DR1032"),
        ("begin", "DR1032"),
        ("grant all on t to u", "DR1031"),
        ("lock table t", "DR1032"),
        ("set statement_timeout = 0", "DR1032"),
        ("select 1; select 2", "DR1031"),
        ("select 1; drop table t", "DR1031"),
        ("1 + 1", "DR1031"),
        ("selec 1", "DR1031"),
        ("select * from t where a = :b", "DR1033"),
    ],
)
def test_a_query_that_is_not_a_single_select_is_reported(text: str, code: str) -> None:
    assert queried(text) == [code]


@pytest.mark.case("X40")
@pytest.mark.parametrize(
    "text",
    ["select pg_terminate_backend(1)", "select lo_export(1, 'x')", "select nextval('s')"],
)
def test_a_function_with_side_effects_is_a_warning(text: str) -> None:
    job = replace(JOB, sources=(replace(LEDGER, relation=None, query=text),))
    assert [(fault.code.docs_id, fault.warning) for fault in sql_faults(job)] == [("DR1032", True)]


@pytest.mark.parametrize("text", ["java_method('a', 'b')", "reflect('a', 'b') = 1"])
def test_reflection_is_refused(text: str) -> None:
    assert filtered(text, SourceKind.PARQUET) == ["DR1032"]


def test_queries_of_stages_are_read_in_the_dialect_of_their_source() -> None:
    stages = (
        Stage(name="a", type=StageType.ROW, where="status <> 'VOID' and day = :day"),
        Stage(
            name="b",
            type=StageType.CUSTOM_SQL,
            queries={"ledger": "select 1::int k", "gone": "select 1 k; x"},
        ),
    )
    assert faults_of(replace(JOB, stages=stages)) == ["DR1031"]


@pytest.mark.parametrize("driver", ["mysql", "mariadb", "sqlserver", "oracle", "snowflake"])
def test_every_jdbc_driver_has_a_dialect(driver: str) -> None:
    source = replace(
        LEDGER, kind=SourceKind.JDBC, options={"driver": driver}, filter="a = 1 and b < 2"
    )
    assert faults_of(replace(JOB, sources=(source,))) == []


def test_a_hostile_text_ends_soon() -> None:
    filtered("a")
    started = perf_counter()
    for text in ("a AND " * 10_000 + "a", "[" * 60_000, "'" * 60_001, "a " * 30_000):
        filtered(text)
    assert perf_counter() - started < 10


def test_the_parser_logs_nothing_of_the_text(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        queried("call secret_function('hunter2')")
    assert caplog.text == ""


@pytest.mark.parametrize("kind", list(SourceKind))
def test_every_kind_of_source_has_one_language(kind: SourceKind) -> None:
    for text in ("lower(a) = 'x'", "a LIKE 'x%'", "a + 1 = 2", "CASE WHEN a THEN b END"):
        assert filtered(text, kind) == []
    assert filtered("a / 2 = 1", kind) == ["DR1032"]


@pytest.mark.case("X36")
@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_on_the_allow_list_is_refused_with_its_position(text: str) -> None:
    """In filters, columns and conditions alike, before anything reads the expression."""
    where = Stage(name="a", type=StageType.ROW, where=text)
    for job in (
        replace(JOB, sources=(replace(LEDGER, filter=text),)),
        _with_column(text),
        replace(JOB, stages=(where,)),
    ):
        (fault,) = sql_faults(job)
        assert fault.code.docs_id in {"DR1031", "DR1032"}
        assert re.search(r"\(character \d+\)$", fault.message)
