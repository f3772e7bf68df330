"""Which captured table a source of files names, and the time at which it reads it.

A separate module because a run of the platform and a comparison on a user's machine must choose
the same files: the first reads the catalogue in its store, the second over REST.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from datarecs_core.comparison.values.canonical import Tag
from datarecs_core.comparison.values.forms import read_moment
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind

FILE_KINDS = frozenset({SourceKind.PARQUET, SourceKind.CSV, SourceKind.JSON})
_FILES = ("default",)
"""Namespace of the tables of folders and buckets."""


class SnapshotNotCapturedError(DatarecsError):
    """A source asks for the state of a time that no capture has stored."""

    code = RunDetail.QUERY_ERROR

    def __init__(self, *, source: str, reason: str) -> None:
        super().__init__(f"source {source}: {reason}")
        self.source = source


def names_a_time(source: Source) -> bool:
    """Whether the catalogue decides which files are read; tables of a lake know their past."""
    return source.kind in FILE_KINDS and source.snapshot.as_of is not None


def moment_of(source: Source) -> datetime:
    """The time of `snapshot.as_of`. Raises SnapshotNotCapturedError for any other text."""
    moment = read_moment(source.snapshot.as_of or "")
    if moment is None or moment.tag is not Tag.INSTANT or not isinstance(moment.content, Decimal):
        reason = "snapshot.as_of is not a time with its offset, such as 2026-01-31T12:00:00Z"
        raise SnapshotNotCapturedError(source=source.name, reason=reason)
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(moment.content))


def table_names(source: Source) -> Iterator[tuple[tuple[str, ...], str, str | None]]:
    """Namespace, name and entry of the tables that a source may read."""
    if source.kind is SourceKind.ICEBERG and source.relation is not None:
        *namespace, name = source.relation.split(".")
        if namespace and all((*namespace, name)):
            yield tuple(namespace), name, None
    if source.kind not in FILE_KINDS or source.path is None or "://" in source.path:
        return
    entry, *below = [part for part in source.path.split("/") if part not in {"", "."}] or [""]
    if not entry or any(sign in entry for sign in "*?["):
        return
    yield _FILES, entry, f"{entry}/"
    stem = entry
    while not below and "." in stem.strip("."):
        stem = stem.rpartition(".")[0]
        yield _FILES, stem, entry


def is_entry(uri: str, entry: str) -> bool:
    """Whether a table with this address is the entry of a root."""
    return uri.endswith(f"/{entry}")


def not_captured(source: Source) -> SnapshotNotCapturedError:
    reason = (
        f"no capture of connection {source.connection!r} has a snapshot of {source.path!r} at "
        f"{source.snapshot.as_of}; use a later time, or capture the connection more often. "
        "The path is the folder or file of one table, below the root of its connection"
    )
    return SnapshotNotCapturedError(source=source.name, reason=reason)


def files_not_captured(source: Source, snapshot_id: int) -> SnapshotNotCapturedError:
    reason = (
        f"snapshot {snapshot_id} is the one at {source.snapshot.as_of}, but its files were not "
        "captured; capture the connection with --capture stats"
    )
    return SnapshotNotCapturedError(source=source.name, reason=reason)
