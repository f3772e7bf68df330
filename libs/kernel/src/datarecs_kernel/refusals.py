"""Errors of the kernel: unsupported plans, unreadable sources, stages that cannot end."""

from datarecs_core.errors.base import DatarecsError, ErrorCode
from datarecs_core.errors.run import RunDetail


class NotCoveredError(DatarecsError):
    """The engine does not support a field of the plan; raised before anything is read."""

    code = RunDetail.COMPARISON_FAILED

    def __init__(self, *, stage: str, field: str, what: str) -> None:
        super().__init__(f"stage {stage}: {field}: {what} is not part of this release")
        self.stage, self.field, self.what = stage, field, what


class SourceFailedError(DatarecsError):
    """A source cannot be read at its pin, or not by this engine."""

    def __init__(self, code: RunDetail, source: str, message: str) -> None:
        super().__init__(f"source {source}: {message}")
        self.code: ErrorCode = code
        self.source = source


class ComparisonFailedError(DatarecsError):
    """A stage ended inside the engine."""

    def __init__(self, code: RunDetail, stage: str, message: str) -> None:
        super().__init__(f"stage {stage}: {message}")
        self.code: ErrorCode = code
        self.stage = stage
