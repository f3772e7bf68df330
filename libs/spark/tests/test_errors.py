"""What a failure of Spark means, and what a task has said in it."""

import pytest
from pyspark.errors import PySparkException, PythonException

from datarecs_core.errors.run import RunDetail
from datarecs_kernel.database import FULL_MEMORY, SpillLimitError
from datarecs_kernel.layout import Layout
from datarecs_kernel.refusals import SourceFailedError
from datarecs_kernel.task_failures import InvalidTextsError, TaskFailureError
from datarecs_spark.errors import translated
from datarecs_spark.task_failures import translate_failures
from datarecs_testing.comparisons import rows_by
from datarecs_testing.tables import a_job, pair, plan_of


class ReportedError(PySparkException):
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
        (PythonException(f"SpillLimitError: {SpillLimitError()}"), "SPILL_EXHAUSTED"),
        (PythonException(f"MemoryError: {FULL_MEMORY}"), "OUT_OF_MEMORY"),
        (PythonException("pyarrow.lib.ArrowMemoryError: malloc failed"), "OUT_OF_MEMORY"),
        (ReportedError("ARITHMETIC_OVERFLOW", "too large"), "OVERFLOW"),
        (ConnectionRefusedError(), "DRIVER_LOST"),
    ],
)
def test_a_failure_of_spark_has_the_code_of_its_cause(failure: Exception, code: str) -> None:
    assert translated(failure, "rows").code is RunDetail[code]


def of_a_task(document: dict[str, str]) -> PythonException:
    """As Spark repeats what Python has raised: behind a trace, and before more text."""
    raised = TaskFailureError(document)
    name = f"{TaskFailureError.__module__}.{TaskFailureError.__name__}"
    return PythonException(f"Traceback (most recent call last):\n{name}: {raised}\n\tat java")


def a_layout() -> Layout:
    tables = pair("k int", [(1,)], [(1,)])
    stage = plan_of(a_job(tables, rows_by("k")), tables).stages[0]
    return Layout(stage=stage, keys=(), measures=())


def test_a_source_that_a_task_cannot_read_is_named_with_its_code() -> None:
    reason = "2026-'é\".parquet is gone"
    document = {"outcome": "failed", "code": "SNAPSHOT_LOST", "source": "one", "reason": reason}
    with pytest.raises(SourceFailedError) as caught, translate_failures(a_layout()):
        raise of_a_task(document)
    assert (caught.value.code, caught.value.source) == (RunDetail.SNAPSHOT_LOST, "one")
    assert str(caught.value) == f"source one: {reason}"


def test_a_text_that_is_no_text_makes_the_stage_begin_again() -> None:
    with pytest.raises(InvalidTextsError), translate_failures(a_layout()):
        raise of_a_task({"outcome": "texts"})


def test_other_failures_of_tasks_stay_what_they_are() -> None:
    with pytest.raises(PythonException, match="KeyError"), translate_failures(a_layout()):
        raise PythonException("Traceback: KeyError: 7")
