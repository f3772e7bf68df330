"""Errors of the engine, and the translation of Spark's errors.

Java's exceptions are translated here: a message names source, file and stage, and never a value of
a row; Spark's messages often contain values.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail
from datarecs_core.runs.deaths import Exits, cause_of_death
from datarecs_kernel.database import FULL_MEMORY, SpillLimitError
from datarecs_kernel.refusals import ComparisonFailedError

SparkFailure = (PySparkException, Py4JError, ConnectionError)
"""All errors that a Spark action may raise."""


class SparkStartError(DatarecsError):
    """The Java process did not start."""

    def __init__(self, java_home: str | None, reason: str, java_exit: int | None = None) -> None:
        self.code: RunDetail = cause_of_death(Exits(java_exit=java_exit)) or RunDetail.DRIVER_LOST
        place = java_home or "JAVA_HOME or `java` of the path"
        super().__init__(
            f"signal {-java_exit} ended Java ({place}) while Spark started; start again"
            if java_exit is not None and java_exit < 0
            else f"Spark did not start with {place}: {reason.rstrip('.')}; it needs Java 17 to 23 "
            "(21 preferred) and the memory of its setting"
        )
        self.java_home, self.reason, self.java_exit = java_home, reason, java_exit


class ClusterUnfitError(DatarecsError):
    """The executors of a cluster cannot be used; no run was started."""

    code = RunDetail.DRIVER_LOST

    def __init__(self, reason: str) -> None:
        super().__init__(f"the Spark cluster cannot be used: {reason}")
        self.reason = reason


class CancelledError(DatarecsError):
    """The run was cancelled."""

    code = RunDetail.STOPPED

    def __init__(self) -> None:
        super().__init__("the comparison was stopped on request")


@dataclass(frozen=True, slots=True)
class _Cause:
    """One exception of Java's chain."""

    java_class: str
    condition: str
    """Spark's error class, such as FAILED_READ_FILE.FILE_NOT_EXIST; empty for other exceptions."""
    message: str


_KERNEL_MEMORY = (FULL_MEMORY, "ArrowMemoryError", "MemoryError")
"""Part of Spark's message about a task that needs more memory than its kernel has."""
_SPILL_LIMIT = str(SpillLimitError())
FULL_DISK = "No space left on device"
_OVERFLOWS = ("ARITHMETIC_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE", "NUMERIC_OUT_OF_SUPPORTED_RANGE")
_MEMORY = ("java.lang.OutOfMemoryError", "org.apache.spark.memory.SparkOutOfMemoryError")
"""Java classes; Java exits on the first, unless Java code throws it."""


def translated(failure: Exception, stage: str) -> DatarecsError:
    """The detail code and message of a Spark failure.

    Args:
        failure: the error of an action.
        stage: the name of the stage.
    """
    code, message = _of_stage(list(_causes(failure)), failure)
    return ComparisonFailedError(code, stage, message)


def _of_stage(causes: list[_Cause], failure: Exception) -> tuple[RunDetail, str]:
    text = " ".join(cause.message for cause in causes)
    if any(cause.condition.startswith(_OVERFLOWS) for cause in causes):
        return RunDetail.OVERFLOW, "a number has more than 38 digits; cast the column to fewer"
    missing = _missing_room(causes, text)
    if missing is not None:
        return missing
    if isinstance(failure, ConnectionError) or (isinstance(failure, Py4JError) and not causes):
        return RunDetail.DRIVER_LOST, "the Java process ended"
    conditions = [cause.condition for cause in causes if cause.condition]
    named = conditions[-1] if conditions else (causes[-1].java_class if causes else "Spark")
    return RunDetail.COMPARISON_FAILED, f"Spark could not compare it ({named})"


def _missing_room(causes: list[_Cause], text: str) -> tuple[RunDetail, str] | None:
    """The error for missing memory or disk; None for other failures."""
    if any(cause.java_class in _MEMORY for cause in causes):
        return RunDetail.OUT_OF_MEMORY, "Java's heap ran out of memory"
    if any(sign in text for sign in _KERNEL_MEMORY):
        return RunDetail.OUT_OF_MEMORY, "the rows need more memory at once than a task has"
    if _SPILL_LIMIT in text:
        return RunDetail.SPILL_EXHAUSTED, _SPILL_LIMIT
    if FULL_DISK in text:
        return RunDetail.SPILL_EXHAUSTED, "the disk for intermediate data is full"
    return None


def messages_of(failure: Exception) -> Iterator[str]:
    """Messages of every exception in the chain; they contain the documents of tasks."""
    return (each.message for each in _causes(failure))


def cause_name(failure: Exception) -> str:
    """The class of the innermost exception; messages quote values of rows."""
    *_, innermost = [type(failure).__name__, *(each.java_class for each in _causes(failure))]
    return innermost.rpartition(".")[2]


def _causes(failure: Exception) -> Iterator[_Cause]:
    """Outermost first."""
    if isinstance(failure, Py4JJavaError):
        java = failure.java_exception
        while java is not None:
            yield _Cause(java.getClass().getName(), _java_condition(java), str(java.getMessage()))
            java = java.getCause()
    elif isinstance(failure, PySparkException):
        yield _Cause(type(failure).__name__, failure.getCondition() or "", str(failure))


def _java_condition(java: Any) -> str:  # noqa: ANN401 - py4j has no types
    try:
        return str(java.getCondition() or "")
    except Py4JError:
        return ""
