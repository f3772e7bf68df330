"""The number of rows of a source: equal to the pin, with rows that it filtered or grouped."""

from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.errors.run import RunDetail
from datarecs_kernel.refusals import SourceFailedError


def check_pinned(scan: Scan, pinned: int | None, rows: int) -> None:
    """Check that exactly the pinned rows were read; None means no check.

    Raises:
        SourceFailedError: the numbers differ.
    """
    if pinned is not None and rows != pinned:
        raise SourceFailedError(
            RunDetail.SNAPSHOT_LOST,
            scan.source,
            f"{rows} rows were read, but {pinned} were pinned; a file changed while it was read",
        )


def all_rows(scan: Scan, rows: int) -> int:
    """Rows of a source, with those that it filtered out or grouped."""
    if scan.extract is None or scan.extract.source_rows is None:
        return rows
    return scan.extract.source_rows
