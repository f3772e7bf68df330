"""Find the source that caused a failure of DuckDB.

DuckDB's messages quote values and paths; user-visible messages name only source and file.
"""

from collections.abc import Sequence

import duckdb

from datarecs_core.comparison.planning.scan import PinnedFile
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail
from datarecs_kernel.checked_files import REFUSED_TEXT
from datarecs_kernel.database import Connection
from datarecs_kernel.delivered import Delivered
from datarecs_kernel.layout import Layout
from datarecs_kernel.refusals import SourceFailedError
from datarecs_kernel.size_limits import too_large
from datarecs_kernel.stored_files import StoredFiles, reader_of

DatabaseError = duckdb.Error
"""Errors of DuckDB."""
_GONE = ("No files found", "No such file", "Cannot open file", "Could not read")
_NAMELESS = ("don't know what type", "likely corrupted", "TProtocolException", "Invalid data")
"""Parts of DuckDB's messages about a damaged file that do not name it."""


def has_invalid_text(failure: duckdb.Error) -> bool:
    """Whether a text is not UTF-8: `delivered` with `check_texts` reads such a source."""
    return REFUSED_TEXT in str(failure)


def reading_failure(
    connection: Connection, failure: duckdb.Error, layout: Layout, sources: Sequence[Delivered]
) -> DatarecsError | None:
    """The error of a source; None if the failure has another cause.

    Args:
        connection: with the relations.
        failure: of reading them.
        layout: of the relations.
        sources: in the order of the plan.
    """
    message = str(failure)
    large = too_large(failure, layout)
    if large is not None:
        return large
    files = [(each.files, file) for each in sources if each.files for file in each.files.files]
    for stored, file in files:
        if str(stored.root / file.path) in message:
            return _of_file(message, stored, file)
    if any(sign in message for sign in _NAMELESS):
        for stored, file in files:
            if not _is_readable(connection, stored, file):
                return _of_file(message, stored, file)
    return None


def _is_readable(connection: Connection, stored: StoredFiles, file: PinnedFile) -> bool:
    """Read every page of the file; only after a failure."""
    reader = reader_of(stored, [file])
    try:
        connection.execute(f"FROM {reader} SELECT bit_xor(hash(COLUMNS(*)))")
    except duckdb.Error:
        return False
    return True


def _of_file(message: str, stored: StoredFiles, file: PinnedFile) -> SourceFailedError:
    code, what = RunDetail.CORRUPT_SOURCE, "is not a readable Parquet file; deliver it again"
    if any(sign in message for sign in _GONE):
        code, what = RunDetail.SNAPSHOT_LOST, "was removed after it was pinned"
    return SourceFailedError(code, stored.source, f"{file.path} {what}")
