"""What the kernel refuses before it reads."""

from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail


class NotCoveredError(DatarecsError):
    """A plan asks for what this engine does not do; said before anything is read."""

    code = RunDetail.COMPARISON_FAILED

    def __init__(self, *, stage: str, field: str, what: str) -> None:
        super().__init__(f"stage {stage}: {field}: {what} is not part of this release on Spark")
        self.stage, self.field, self.what = stage, field, what
