"""How many rows a source had: as many as were pinned, and with those that it kept or grouped."""

from datarecs_core.comparison.planning.scan import Scan
from datarecs_core.errors.run import RunDetail
from datarecs_kernel.refusals import SourceFailedError


def check_pinned(scan: Scan, pinned: int | None, rows: int) -> None:
    """Exactly the rows that were pinned have been read; None promises nothing.

    Raises:
        SourceFailedError: others.
    """
    if pinned is not None and rows != pinned:
        raise SourceFailedError(
            RunDetail.SNAPSHOT_LOST,
            scan.source,
            f"{rows} rows were read, {pinned} were pinned; a file changed while it was read",
        )


def all_rows(scan: Scan, rows: int) -> int:
    """Rows of a source, also those that it kept or grouped."""
    if scan.extract is None or scan.extract.source_rows is None:
        return rows
    return scan.extract.source_rows
