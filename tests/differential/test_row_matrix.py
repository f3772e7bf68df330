"""No share of differences, order, key, number of files or duplicates breaks a row stage.

Twenty combinations in one warm session; `tests/bench/matrix.py` has all of them at a million rows.
"""

from pathlib import Path

import pytest

from datarecs_spark.session import SparkRuntime
from datarecs_testing.row_matrix.checks import faults_of
from datarecs_testing.row_matrix.combinations import Combination, first_combinations
from datarecs_testing.row_matrix.comparing import compare_data
from datarecs_testing.row_matrix.files import write_data
from datarecs_testing.row_matrix.truth import truth_of

pytestmark = pytest.mark.spark

COMBINATIONS, ROWS = 20, 100_000


@pytest.mark.case("F01", "F02", "F03", "F04", "F05", "F07")
@pytest.mark.parametrize(
    "combination", first_combinations(COMBINATIONS), ids=lambda each: each.name
)
def test_a_combination_ends_with_the_true_answer(
    spark_runtime: SparkRuntime, combination: Combination, tmp_path: Path
) -> None:
    data = write_data(combination, tmp_path, rows=ROWS)
    plan, results = compare_data(spark_runtime, data, tmp_path / "differences")
    with truth_of(data, tmp_path) as truth:
        assert faults_of(truth, plan, results) == []
