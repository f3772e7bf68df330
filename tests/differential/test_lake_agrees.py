"""A Parquet export against an Iceberg table: oracle and Spark have one verdict with one count."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import (
    DateType,
    DecimalType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from datarecs_application.comparison import Answer
from datarecs_application.ports.comparing import Connector
from datarecs_connectors.registry import open_connector
from datarecs_core.comparison.planning.faults import PlanRefusedError
from datarecs_core.comparison.results.results import Verdict
from datarecs_core.errors.spec import SpecCode
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import Strategy
from datarecs_specs.documents import job_of
from datarecs_testing.lake import Lake, a_lake, data_files, delete_equal, delete_positions

pytestmark = pytest.mark.spark
COLUMNS = {
    "id": (LongType(), pa.int64()),
    "day": (DateType(), pa.date32()),
    "amount": (DecimalType(18, 2), pa.decimal128(18, 2)),
    "word": (StringType(), pa.string()),
    "uid": (UUIDType(), pa.binary(16)),
}
TAGS = ListType(element_id=20, element_type=LongType(), element_required=False)
PLACE = StructType(NestedField(21, "town", StringType(), required=False))
NESTED = {
    "tags": (TAGS, pa.list_(pa.int64()), [1, None]),
    "place": (PLACE, pa.struct([("town", pa.string())]), {"town": "Ulm"}),
}
"""Columns that only the table has; no stage names them."""
ROWS = 500
SPEC: dict[str, Any] = {
    "sources": [
        {"name": "export", "kind": "parquet", "connection": "files", "path": "export.parquet"},
        {"name": "table", "kind": "iceberg", "connection": "lake", "relation": "books.entries"},
    ],
    "stages": [
        {"name": "how-many", "type": "counts"},
        {
            "name": "days",
            "type": "aggregate",
            "dimensions": ["day"],
            "measures": [{"name": "total", "function": "sum", "column": "amount"}],
        },
        {
            "name": "rows",
            "type": "row",
            "dimensions": ["id"],
            "measures": "*",
            "except": list(NESTED),
        },
    ],
}
RunJob = Callable[..., Answer]


def entries(first: int, *, uid_as_text: bool = False) -> pa.Table:
    numbers = range(first, first + ROWS)
    uids = [UUID(int=n) for n in numbers]
    values = {
        "id": list(numbers),
        "day": [date(2026, 1, 1 + n % 28) for n in numbers],
        "amount": [Decimal(n) / 100 for n in numbers],
        "word": [None if n % 7 == 0 else f"zwei \u20ac {n}" for n in numbers],
        "uid": [str(uid) if uid_as_text else uid.bytes for uid in uids],
    }
    kinds = {name: kind for name, (_, kind) in COLUMNS.items()}
    if uid_as_text:
        kinds["uid"] = pa.string()
    return pa.table({name: pa.array(values[name], kind) for name, kind in kinds.items()})


def with_nested(rows: pa.Table) -> pa.Table:
    for name, (_, kind, value) in NESTED.items():
        rows = rows.append_column(name, pa.array([value] * rows.num_rows, kind))
    return rows


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with ExitStack() as closing:
        yield a_lake(tmp_path / "lake", closing)


@pytest.fixture
def table(lake: Lake) -> Table:
    """1,000 rows, of which three kinds of deletes take 13, exported without them."""
    kinds = {name: kind for name, (kind, *_) in (COLUMNS | NESTED).items()}
    fields = (
        NestedField(number, name, kind, required=False)
        for number, (name, kind) in enumerate(kinds.items(), 1)
    )
    held = [with_nested(entries(first)) for first in (0, ROWS)]
    made = lake.table("entries", Schema(*fields), *held)
    first = data_files(made)[0]
    dead = pq.read_table(first.file_path.removeprefix("file://")).column("id").to_pylist()[:3]
    delete_positions(made, {first.file_path: [0, 1, 2]}, like=first)
    keys = pa.table({"id": list(range(100, 110))})
    delete_equal(made, keys)
    with made.update_schema() as change:
        change.rename_column("word", "label")
    both = pa.concat_tables([entries(0, uid_as_text=True), entries(ROWS, uid_as_text=True)])
    gone = pa.array([*dead, *range(100, 110)])
    living = both.filter(pa.compute.invert(pa.compute.is_in(both.column("id"), gone)))
    pq.write_table(living.rename_columns(["id", "day", "amount", "label", "uid"]), export(lake))
    return made


def export(lake: Lake) -> Path:
    return lake.folder / "export.parquet"


@pytest.fixture
def run_job(lake: Lake, table: Table, by: Callable[..., Answer]) -> RunJob:
    """The verdict of the job by a strategy of Spark, or by the oracle."""
    assert table.metadata.current_schema_id == 1

    def opened(source: Source) -> Connector:
        around = replace(lake.surroundings, any_path=True)
        connection = lake.connection if source.connection == "lake" else None
        return open_connector(source, connection, {}, surroundings=around)

    def run(strategy: Strategy | None, spec: Mapping[str, object] = SPEC) -> Answer:
        return by(strategy, job_of("lake", spec), opened)

    return run


def facts_of(result: Answer) -> list[object]:
    return [
        (stage.plan.name, stage.verdict, stage.results.counts)
        for stage in result.outcome.stages
        if stage.results is not None
    ]


def test_a_table_without_its_deleted_rows_is_its_export(run_job: RunJob) -> None:
    oracle = run_job(None)
    assert oracle.outcome.verdict is Verdict.MATCHED
    for strategy in (Strategy.FULL, Strategy.NARROW):
        result = run_job(strategy)
        assert result.outcome.verdict is Verdict.MATCHED
        assert facts_of(result) == facts_of(oracle)
    counts = oracle.outcome.stages[2].results
    assert counts is not None
    assert counts.counts.source_row_counts == (2 * ROWS - 13, 2 * ROWS - 13)


def test_an_expression_of_a_table_changes_what_is_compared(run_job: RunJob) -> None:
    export, table = SPEC["sources"]
    some = {"filter": "LENGTH(label) > 8 AND amount * 3 > 6"}
    doubled = {"columns": {"amount": {"expr": "amount * 2"}}}
    where = {"where": "UPPER(label) LIKE 'ZWEI%' AND MONTH(day) = 1"}
    stages = [{**stage, **where} for stage in SPEC["stages"][1:]]
    for changed, verdict in (({}, Verdict.MATCHED), (doubled, Verdict.UNMATCHED)):
        sources = [{**export, **some}, {**table, **some, **changed}]
        spec = {"sources": sources, "stages": stages}
        oracle, spark = run_job(None, spec), run_job(Strategy.FULL, spec)
        assert oracle.outcome.verdict is verdict
        assert (spark.outcome.verdict, facts_of(spark)) == (verdict, facts_of(oracle))


def test_one_row_too_many_and_one_other_value_are_detected(
    run_job: RunJob, lake: Lake, table: Table
) -> None:
    late = entries(3 * ROWS).slice(0, 1).rename_columns(["id", "day", "amount", "label", "uid"])
    table.append(with_nested(late))
    exported = pq.read_table(export(lake))
    amounts = exported.column("amount").to_pylist()
    amounts[0] += Decimal("0.01")
    other = pa.array(amounts, pa.decimal128(18, 2))
    pq.write_table(exported.set_column(2, "amount", other), export(lake))
    oracle = run_job(None)
    assert oracle.outcome.verdict is Verdict.UNMATCHED
    for strategy in (Strategy.FULL, Strategy.NARROW):
        assert facts_of(run_job(strategy)) == facts_of(oracle)
    rows = oracle.outcome.stages[2].results
    assert rows is not None
    assert (rows.counts.unmatched_by_source, rows.counts.rows_unmatched) == ((0, 1), 2)


@pytest.mark.parametrize("column", ["tags", "place"])
def test_a_stage_that_names_a_nested_column_is_refused_with_it(
    run_job: RunJob, column: str
) -> None:
    counted = [{"name": "n", "function": "count", "column": column}]
    stage = {"name": "s", "type": "aggregate", "dimensions": ["day"], "measures": counted}
    with pytest.raises(
        PlanRefusedError, match=f"'{column}' of source table has the type"
    ) as result:
        run_job(None, {**SPEC, "stages": [stage]})
    codes = {fault.code for fault in result.value.faults}
    assert SpecCode.TYPE_NOT_SUPPORTED in codes
