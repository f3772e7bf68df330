"""What a condition of a job may not do inside Spark."""

import pytest

from datarecs_spark.conditions import ConditionRefusedError, check


@pytest.mark.parametrize(
    "condition",
    [
        "id IN (SELECT id FROM parquet.`/etc/passwd`)",
        "EXISTS (TABLE parquet.`/tmp/x`)",
        "java_method('java.lang.System', 'exit', 1) IS NULL",
        "reflect('java.lang.System', 'getenv') = ''",
        "id = 1 -- and more",
        "id = 1 /* and more */",
    ],
)
def test_subqueries_comments_and_java_are_refused(condition: str) -> None:
    with pytest.raises(ConditionRefusedError):
        check(condition)


@pytest.mark.parametrize(
    "condition",
    ["status <> 'select -- it'", "`values` > 1", "extract(YEAR FROM day) = 2026", 'a = "table"'],
)
def test_the_same_words_inside_quotes_are_harmless(condition: str) -> None:
    check(condition)
