"""Errors of reading a source: one class per cause, each with its detail code.

Connectors translate the errors of drivers to these. A message names source, object and remedy, and
contains no connection string and no value of a row.
"""

from collections.abc import Sequence

from datarecs_core.comparison.planning.header_names import names_for_messages
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail

_SHOWN_COLUMNS = 20
_DIFFERENT_COLUMNS = 4


class SourceError(DatarecsError):
    """Base class of the errors of a source."""

    code: RunDetail
    login_refused = False
    """Whether the server was reached and refused the credentials."""

    def __init__(self, source: str, message: str) -> None:
        super().__init__(f"source {source}: {message}")
        self.source = source


class ConnectionFailedError(SourceError):
    code = RunDetail.CONNECTION_FAILED


class LoginRefusedError(ConnectionFailedError):
    """A database refused the login."""

    login_refused = True


class PermissionDeniedError(SourceError):
    code = RunDetail.PERMISSION_DENIED


class CredentialsRefusedError(PermissionDeniedError):
    """A server over HTTP does not know the credentials, or they have expired."""

    login_refused = True


class PathRefusedError(SourceError):
    """The tenant may not read the path; the message does not reveal what exists there."""

    code = RunDetail.PATH_REFUSED

    def __init__(self, source: str, rule: str) -> None:
        super().__init__(source, f"its path is refused: {rule}")


class QueryFailedError(SourceError):
    code = RunDetail.QUERY_ERROR


class ColumnMissingError(SourceError):
    """The job names a column that a source does not have."""

    code = RunDetail.COLUMN_NOT_FOUND

    def __init__(self, source: str, column: str, known: Sequence[str]) -> None:
        shown = ", ".join(known[:_SHOWN_COLUMNS])
        more = f" and {len(known) - _SHOWN_COLUMNS} more" if len(known) > _SHOWN_COLUMNS else ""
        super().__init__(source, f"it has no column {column!r}; it has {shown}{more}")
        self.column = column


class StatementTimeoutError(SourceError):
    code = RunDetail.STATEMENT_TIMEOUT


class SnapshotLostError(SourceError):
    code = RunDetail.SNAPSHOT_LOST


class OffsetsGoneError(SourceError):
    """A topic does not have the offsets of a pin or of a bound."""

    code = RunDetail.OFFSET_OUT_OF_RANGE


class CorruptSourceError(SourceError):
    code = RunDetail.CORRUPT_SOURCE
    encoding: str | None = None
    """The encoding of the file, if it must be declared."""


class SourceLimitError(SourceError):
    code = RunDetail.SOURCE_LIMIT


class QuerySpillError(SourceError):
    """A query over files needs more disk for intermediate data than its run may use."""

    code = RunDetail.SPILL_EXHAUSTED

    def __init__(self, source: str, limit_bytes: int) -> None:
        super().__init__(
            source,
            f"its query needs more than {limit_bytes} bytes of disk for intermediate data "
            "(execution.spill; on a worker at most DATARECS_WORKER__MAX_SPILL_MB)",
        )
        self.limit_bytes = limit_bytes


class SourceUnsupportedError(SourceError):
    code = RunDetail.SOURCE_UNSUPPORTED


class PartMissingError(SourceUnsupportedError):
    """The source needs an extra of the distribution that is not installed."""

    fix = "install the extra that the message names, where the comparison runs"

    def __init__(self, source: str, what: str, extra: str) -> None:
        super().__init__(
            source,
            f"{what} need parts that are not installed; install them with: "
            f"pip install 'datarecs[{extra}]'",
        )
        self.missing_extra = extra


class NoFilesError(SourceError):
    code = RunDetail.NO_FILES

    def __init__(self, source: str, path: str, *, place: str = "") -> None:
        """`place` is the folder, or the store and its server."""
        where = f" in {place}" if place else ""
        super().__init__(source, f"no file matches {path!r}{where}; check the path and its folder")
        self.path = path


def column_difference(names: Sequence[str], others: Sequence[str]) -> str:
    """The columns that are missing in the second of two files, and its additional columns."""
    missing = _listed([name for name in names if name not in others])
    added = _listed([name for name in others if name not in names])
    parts = [f"{word} {names}" for word, names in (("missing", missing), ("added", added)) if names]
    return "; ".join(parts) or "a name is repeated in one of them"


def header_difference(names: Sequence[str], others: Sequence[str]) -> str:
    """As `column_difference`, for CSV: a first line that is not a header contains values."""
    if names_for_messages([*names, *others]):
        return column_difference(names, others)
    return "names that look like values; does each file begin with a header line?"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _DIFFERENT_COLUMNS
    shown = ", ".join(map(repr, names[:_DIFFERENT_COLUMNS]))
    return f"{shown} and {more} more" if more > 0 else shown


class SchemaChangedError(SourceError):
    """Files of one source do not have the same columns."""

    code = RunDetail.SCHEMA_CHANGED

    def __init__(
        self,
        source: str,
        files: Sequence[str],
        difference: str,
        *,
        remedy: str = "declare options.merge_schema",
    ) -> None:
        super().__init__(
            source,
            f"{files[0]} and {files[1]} have different columns ({difference}); write them with "
            f"the same columns, or {remedy}",
        )
        self.files = tuple(files)
