"""Which captured table a source of files names, and the time at which it reads it.

A separate module because a run of the platform and a comparison on a user's machine must choose
the same files: the first reads the catalogue in its store, the second over REST.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from datarecs_core.comparison.values.moments import as_of_fault, micros_of
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail
from datarecs_core.jobs.definition import Source
from datarecs_core.jobs.vocabulary import SourceKind
from datarecs_core.resources.object_urls import ObjectUrl, is_object_url

FILE_KINDS = frozenset({SourceKind.PARQUET, SourceKind.CSV, SourceKind.JSON})
_FILES = ("default",)
"""Namespace of the tables of folders and buckets."""
_LETTER = re.compile(r"\[([*?\[%:])\]")
"""A letter that has a meaning in paths, written so that it has none."""


class SnapshotNotCapturedError(DatarecsError):
    """A source asks for the state of a time that no capture has stored."""

    code = RunDetail.QUERY_ERROR

    def __init__(self, *, source: str, reason: str) -> None:
        super().__init__(f"source {source}: {reason}")
        self.source = source


def names_a_time(source: Source) -> bool:
    """Whether the catalogue decides which files are read; tables of a lake know their past."""
    return source.kind in FILE_KINDS and source.snapshot.as_of is not None


def moment_of(source: Source, now: datetime) -> datetime:
    """The time of `snapshot.as_of`; of an earlier one than 1970 the first moment of this year.

    Raises:
        SnapshotNotCapturedError: it is no time with an offset, or is still to come.
    """
    text = source.snapshot.as_of or ""
    micros, fault = micros_of(text), as_of_fault(text, now)
    if micros is None or fault is not None:
        raise SnapshotNotCapturedError(source=source.name, reason=f"snapshot.as_of {fault}")
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=max(micros, 0))


def table_names(source: Source) -> Iterator[tuple[tuple[str, ...], str, str | None]]:
    """Namespace, name and entry of the tables that a source may read."""
    if source.kind is SourceKind.ICEBERG and source.relation is not None:
        *namespace, name = source.relation.split(".")
        if namespace and all((*namespace, name)):
            yield tuple(namespace), name, None
    if source.kind not in FILE_KINDS or source.path is None:
        return
    if is_object_url(source.path):
        yield from _addressed(source.path)
        return
    parts = [part for part in source.path.split("/") if part not in {"", "."}]
    if parts:
        yield from _entries(parts[0], is_last=len(parts) == 1)


Entry = tuple[tuple[str, ...], str, str]


def _addressed(path: str) -> Iterator[Entry]:
    """Of a whole address, which does not say where the root of its connection ends."""
    try:
        address = ObjectUrl.parse(path)
    except ValueError:
        return
    parts = address.prefix.split("/")
    for at, part in enumerate(parts):
        above = replace(address, prefix="/".join(map(_literal, parts[:at])))
        yield from _entries(part, f"{above}/", is_last=at == len(parts) - 1)


def _entries(part: str, above: str = "", *, is_last: bool) -> Iterator[Entry]:
    """What a part of a path may be: a folder of the root, and as the last part also a file."""
    entry = _literal(part)
    if not entry or any(sign in _LETTER.sub("", part) for sign in "*?["):
        return
    yield _FILES, entry, f"{above}{entry}/"
    stem = entry
    while is_last and "." in stem.strip("."):
        stem = stem.rpartition(".")[0]
        yield _FILES, stem, f"{above}{entry}"


def _literal(part: str) -> str:
    return _LETTER.sub(r"\1", part)


def is_entry(uri: str, entry: str) -> bool:
    """Whether a table with this address is the entry of a root, or has this whole address."""
    return uri == entry if is_object_url(entry) else uri.endswith(f"/{entry}")


def not_captured(source: Source) -> SnapshotNotCapturedError:
    reason = (
        f"no capture of connection {source.connection!r} has a snapshot of {source.path!r} at "
        f"{source.snapshot.as_of}; use a later time, or capture the connection more often. "
        "Write the path of the folder or file of one table, below the root of its connection, such "
        "as orders/ or orders.parquet"
    )
    return SnapshotNotCapturedError(source=source.name, reason=reason)


def files_not_captured(source: Source, snapshot_id: int) -> SnapshotNotCapturedError:
    reason = (
        f"snapshot {snapshot_id} is the one at {source.snapshot.as_of}, but its files were not "
        "captured: its capture did not end, or was one of metadata alone. Capture the connection "
        "with --capture stats while the files are unchanged, or use an earlier time"
    )
    return SnapshotNotCapturedError(source=source.name, reason=reason)
