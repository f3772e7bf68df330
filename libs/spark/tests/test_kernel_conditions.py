"""Conditions in both languages of the kernel keep the rows that the oracle keeps."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_core.comparison.planning.plan import StagePlan
from datarecs_core.comparison.planning.scan import Extract, Scan
from datarecs_spark.frame_columns import scan
from datarecs_spark.frame_conditions import frame_condition
from datarecs_spark.kernel_conditions import Conditions
from datarecs_spark.kernel_work import KernelSource
from datarecs_spark.native_errors import NotNativeError
from datarecs_testing.comparisons import a_measure, rows_by
from datarecs_testing.exact_conditions import EXACT, ROWS, TABLE, kept
from datarecs_testing.tables import a_job, plan_of

ZERO = pl.lit(Decimal(0), pl.Decimal(20, 0))
KINDS = (
    pa.int64(),
    pa.int64(),
    pa.decimal128(12, 2),
    pa.string(),
    pa.bool_(),
    pa.date32(),
    pa.timestamp("us", tz="UTC"),
    pa.timestamp("us"),
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("conditions") / "rows.parquet"
    columns = zip(*ROWS, strict=True)
    arrays = [pa.array(list(each), kind) for each, kind in zip(columns, KINDS, strict=True)]
    pq.write_table(pa.table(arrays, [name for name, _ in TABLE.columns]), path)
    return path


def stage() -> StagePlan:
    measures = [a_measure(name) for name, _ in TABLE.columns[1:]]
    tables = [TABLE, replace(TABLE, name="others")]
    return plan_of(a_job(tables, rows_by("id", *measures)), tables).stages[0]


def by_frames(source: KernelSource) -> list[object]:
    found: list[object] = scan(source).select("id").sort("id").collect()["id"].to_list()
    return found


def by_sql(source: KernelSource) -> list[object]:
    with duckdb.connect() as connection:
        rows = connection.execute(f"SELECT id FROM {source.relation} ORDER BY id").fetchall()  # noqa: S608 - the kernel's own SQL
    return [row[0] for row in rows]


@pytest.mark.parametrize("ids", [by_frames, by_sql])
@pytest.mark.parametrize("condition", EXACT)
def test_where_and_filter_keep_what_the_oracle_keeps(
    file: Path, condition: str, ids: Callable[[KernelSource], list[object]]
) -> None:
    plan = replace(stage(), where=condition)
    found = Conditions.of(plan, replace(plan.scans[0], filter=condition))
    source = KernelSource(files=(str(file),), rows=len(ROWS), keys=(), values=())
    assert ids(replace(source, where=found.where)) == kept(condition)
    assert ids(replace(source, filter=found.filter)) == kept(condition)
    assert found.types


def test_of_an_extract_the_filter_is_done_and_columns_have_logical_names() -> None:
    plan = replace(stage(), where="n > 0")
    given: Scan = replace(plan.scans[0], filter="anything()")
    columns = tuple(
        replace(each, physical=f"x_{each.name}", name=each.name) for each in given.columns
    )
    extract = Extract(root="/", files=(), rows=0, decoded_bytes=0)
    renamed = replace(given, columns=columns)
    found = Conditions.of(plan, replace(renamed, extract=extract))
    assert found.filter is None
    assert found.where is not None
    assert found.where.sql == "(CAST(\"n\" AS DECIMAL(20,0)) > CAST('0' AS DECIMAL(20,0)))"
    assert found.where.names == {"n": "n"}
    assert found.types == {"n": given.column("n").type}
    found = Conditions.of(plan, replace(renamed, filter=None))
    assert found.types == {"x_n": given.column("n").type}
    assert found.where is not None
    assert found.where.names == {"n": "x_n"}
    assert str(frame_condition(found.where)) == str(pl.col("x_n").cast(pl.Decimal(20, 0)) > ZERO)


def test_what_may_mean_something_else_keeps_the_stage_whole() -> None:
    plan = stage()
    with pytest.raises(NotNativeError, match="Spark's SQL"):
        Conditions.of(plan, replace(plan.scans[0], filter="t LIKE 'a%'"))
