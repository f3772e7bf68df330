"""Why a comparison cannot be planned, or ends without numbers.

The exceptions of the planner, of the oracle and of every engine, which all stop for the same
reasons; messages name no measured value.
"""

from collections.abc import Sequence

from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.faults import Fault, dotted
from datarecs_core.errors.run import RunDetail
from datarecs_core.errors.spec import SpecCode

_RUN_CODES = {
    SpecCode.UNKNOWN_COLUMN: RunDetail.COLUMN_NOT_FOUND,
    SpecCode.AMBIGUOUS_COLUMN: RunDetail.AMBIGUOUS_COLUMN,
    SpecCode.INCOMPATIBLE_TYPES: RunDetail.TYPE_MISMATCH,
    SpecCode.TOLERANCE_KIND_MISMATCH: RunDetail.TYPE_MISMATCH,
    SpecCode.ZONE_REQUIRED: RunDetail.ZONE_REQUIRED,
    SpecCode.TYPE_NOT_SUPPORTED: RunDetail.SOURCE_UNSUPPORTED,
    SpecCode.FEATURE_NOT_INSTALLED: RunDetail.SOURCE_UNSUPPORTED,
}


class PlanRefusedError(DatarecsError):
    """The job does not fit its sources, or uses a feature that this release does not have.

    `faults` holds every one, in the order of the job; `code` is the run's detail code of the
    first.
    """

    def __init__(self, faults: Sequence[Fault]) -> None:
        lines = [
            f"{fault.code.docs_id} {dotted(fault.path)}: {fault.message}"
            + (f"; {fault.hint}" if fault.hint else "")
            for fault in faults
        ]
        super().__init__("\n".join(lines))
        self.faults = tuple(faults)
        self.code = _RUN_CODES.get(faults[0].code, RunDetail.COMPARISON_FAILED)


class SumOverflowError(DatarecsError):
    """A sum needs more than 38 digits, or a float sum reaches 10^20."""

    code = RunDetail.OVERFLOW

    def __init__(self, *, stage: str, measure: str, source: str) -> None:
        super().__init__(
            f"stage {stage}: {measure} of source {source} needs more than 38 digits in one group "
            "(floats: 20 before the point); compare by more dimensions, or cast to fewer digits"
        )
        self.stage, self.measure, self.source = stage, measure, source


class DuplicateKeysError(DatarecsError):
    """`duplicates: error`, or a custom query that returns a key twice."""

    code = RunDetail.DUPLICATE_KEYS

    def __init__(self, *, stage: str, source: str, keys: int, examples: Sequence[str]) -> None:
        super().__init__(
            f"stage {stage}: source {source} has {keys} keys with more than one row, such as "
            f"{', '.join(examples)}; add a dimension, or compare with `duplicates: multiset`"
        )
        self.stage, self.source, self.keys, self.examples = stage, source, keys, tuple(examples)


class NullKeysError(DatarecsError):
    """`normalize.nulls.keys: reject` and a source has a NULL in a dimension."""

    code = RunDetail.NULL_KEYS

    def __init__(self, *, stage: str, source: str, rows: int) -> None:
        super().__init__(
            f"stage {stage}: {rows} rows of source {source} have NULL in a dimension; filter them, "
            "or declare `normalize.nulls.keys: group` or `exclude`"
        )
        self.stage, self.source, self.rows = stage, source, rows


class EmptySourceError(DatarecsError):
    """`empty: error` and a source delivered no row."""

    code = RunDetail.EMPTY_SOURCE

    def __init__(self, *, stage: str, sources: Sequence[str]) -> None:
        super().__init__(
            f"stage {stage}: no rows in {', '.join(sources)}; check the filter and the pinned "
            "data, or declare `empty: warn`"
        )
        self.stage, self.sources = stage, tuple(sources)


class ClosureFailedError(DatarecsError):
    """Rows were read that were neither grouped nor excluded nor out of scope."""

    code = RunDetail.CLOSURE_FAILED

    def __init__(self, *, stage: str, source: str) -> None:
        super().__init__(
            f"stage {stage}: the rows of source {source} do not add up, so there is no verdict; "
            "this is a defect of the engine; please report it"
        )
        self.stage, self.source = stage, source


class InconsistentCountsError(DatarecsError):
    """Counts of a stage contradict each other."""

    code = RunDetail.INCONSISTENT_COUNTS

    def __init__(self, *, stage: str, rule: str) -> None:
        super().__init__(
            f"stage {stage}: the counts break the rule {rule}, so there is no verdict; this is a "
            "defect of the engine; please report it"
        )
        self.stage, self.rule = stage, rule


class ConditionNotSupportedError(DatarecsError):
    """A `where` has more than the engine can evaluate."""

    code = RunDetail.COMPARISON_FAILED

    def __init__(self, *, stage: str, reason: str) -> None:
        super().__init__(
            f"stage {stage}: `where` cannot be evaluated here: {reason}; this engine supports "
            "comparisons, IN, BETWEEN, IS NULL, AND, OR and NOT"
        )
        self.stage, self.reason = stage, reason


class TooManyRowsError(DatarecsError):
    """More rows than the engine supports."""

    code = RunDetail.SOURCE_LIMIT

    def __init__(self, *, source: str, limit: int) -> None:
        super().__init__(
            f"source {source} has more than {limit} rows, the most this engine takes; use Spark"
        )
        self.source, self.limit = source, limit


class OracleMemoryError(DatarecsError):
    """The rows need more memory than the oracle may take."""

    code = RunDetail.OUT_OF_MEMORY
    fix = "compare with --engine spark, which spills to disk, or raise execution.memory (--memory)"

    def __init__(self, *, source: str, limit_bytes: int) -> None:
        super().__init__(
            f"source {source}: the rows that are compared in memory need more than"
            f" {limit_bytes} bytes"
        )
        self.source, self.limit_bytes = source, limit_bytes


class ValueTooLargeError(DatarecsError):
    """A single value that no task should have to hold."""

    code = RunDetail.SOURCE_LIMIT
    fix = "leave the column out (except), filter the row, or compare a hash of the value"

    def __init__(self, *, source: str, column: str, limit: int) -> None:
        super().__init__(
            f"source {source}: a value of {column!r} has more than the allowed {limit:,} bytes; "
            f"{self.fix}"
        )
        self.source, self.column, self.limit = source, column, limit


class KeyTooLargeError(DatarecsError):
    """Keys are carried, sorted and stored whole."""

    code = RunDetail.SOURCE_LIMIT
    fix = "take shorter columns as the key, or a hash of long ones"

    def __init__(self, *, source: str, limit: int) -> None:
        super().__init__(
            f"source {source}: a key has more than the allowed {limit:,} bytes of text and binary "
            f"values; {self.fix}"
        )
        self.source, self.limit = source, limit


class NothingExecutedError(DatarecsError):
    """A run without an executed stage has no verdict."""

    code = RunDetail.COMPARISON_FAILED

    def __init__(self) -> None:
        super().__init__("no stage was executed, so nothing was compared")
