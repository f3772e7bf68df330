"""What a failure of Spark means, and whether another way of reading would end as badly."""

import pytest
from pyspark.errors import PySparkException, PythonException

from datarecs_core.errors.run import RunDetail
from datarecs_spark.errors import translated

ROOTS = {"/data/ledger": "ledger"}


class Told(PySparkException):
    """A failure with one of Spark's conditions."""

    def __init__(self, condition: str, message: str) -> None:
        super().__init__(message)
        self.condition = condition

    def getCondition(self) -> str:  # noqa: N802  Spark's name
        return self.condition


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (PythonException("OSError: [Errno 28] No space left on device"), "SPILL_EXHAUSTED"),
        (Told("ARITHMETIC_OVERFLOW", "too large"), "OVERFLOW"),
        (ConnectionRefusedError(), "DRIVER_LOST"),
        (Told("FAILED_READ_FILE.FILE_NOT_EXIST", "file:/data/ledger/a.parquet "), "SNAPSHOT_LOST"),
        (Told("FAILED_READ_FILE.NO_HINT", "file:/data/ledger/a.parquet "), "CORRUPT_SOURCE"),
    ],
)
def test_a_failure_of_spark_has_the_code_of_its_cause(failure: Exception, code: str) -> None:
    found = translated(failure, "rows", ROOTS)
    assert found.code is RunDetail[code]
