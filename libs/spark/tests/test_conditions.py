"""Conditions in Spark's SQL: written from their tree, over every type and every tricky text."""

import pyarrow as pa
import pytest

from datarecs_connectors.typed_text import arrow_type
from datarecs_spark.conditions import ConditionRefusedError, condition_sql, filtered
from datarecs_spark.session import SparkRuntime
from datarecs_testing.exact_conditions import EXACT, TABLE, kept
from datarecs_testing.expressions import REFUSED


@pytest.mark.parametrize("condition", REFUSED)
def test_what_the_language_does_not_have_never_reaches_spark(condition: str) -> None:
    with pytest.raises(ConditionRefusedError):
        condition_sql(condition)


def test_names_and_texts_of_a_job_are_data_in_the_text_of_spark() -> None:
    condition = "\"a`b\" = '${env:HOME}' OR NOT e IN (1, -2.5) OR f = 'x' AND g"
    written = condition_sql(condition)
    assert "HOME" not in written
    assert "`a``b` = " in written
    assert "`e` = -2.5BD" in written


@pytest.mark.spark
def test_spark_keeps_the_rows_that_the_oracle_keeps(spark_runtime: SparkRuntime) -> None:
    columns = zip(TABLE.columns, zip(*TABLE.rows, strict=True), strict=True)
    table = pa.table({name: pa.array(values, arrow_type(kind)) for (name, kind), values in columns})
    rows = spark_runtime.session().createDataFrame(table)
    for condition in EXACT:
        found = filtered(rows, condition).select("id").toArrow().column("id").to_pylist()
        assert set(found) == set(kept(condition)), condition


@pytest.mark.spark
@pytest.mark.case("X36")
def test_spark_replaces_no_variable_in_a_text(spark_runtime: SparkRuntime) -> None:
    rows = spark_runtime.session().sql("SELECT '${env:HOME}' AS a, '${system:user.home}' AS b")
    assert [tuple(row) for row in rows.collect()] == [("${env:HOME}", "${system:user.home}")]
