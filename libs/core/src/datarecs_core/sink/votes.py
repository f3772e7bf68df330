"""The messages of one vote: files by table, cut into chunks, then the vote itself."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from datarecs_core.sink.control import (
    ControlHeaders,
    DataComplete,
    DataWritten,
    FileContent,
    FileEntry,
    KeyFile,
    Outgoing,
    PartitionField,
    Position,
    SourceRange,
    TableReference,
)

CHUNK_BYTES = 512 * 1024
"""Most bytes of a message with files."""
_SCHEMA_BYTES = 24 * 1024
"""Room for the schema that every message carries, and its envelope."""
_ENTRY_BYTES = 96
"""Fields of fixed length, and the counts of collections."""
_NUMBER_BYTES = 10
"""Longest encoding of a long."""
_TEXT_FACTOR = 4
"""Longest UTF-8 encoding of a character."""


def entry_bytes(entry: FileEntry) -> int:
    """Bytes of a file in a message; estimated, never too low."""
    counts = (
        entry.column_sizes,
        entry.value_counts,
        entry.null_value_counts,
        entry.nan_value_counts,
    )
    numbers = 2 * sum(len(count) for count in counts)
    numbers += len(entry.split_offsets) + len(entry.equality_ids)
    bounds = (*entry.lower_bounds.values(), *entry.upper_bounds.values())
    return (
        _ENTRY_BYTES
        + _TEXT_FACTOR * len(entry.path)
        + sum(_value_bytes(field) for field in entry.partition)
        + numbers * _NUMBER_BYTES
        + sum(len(bound) + 2 * _NUMBER_BYTES for bound in bounds)
    )


def _value_bytes(field: PartitionField) -> int:
    value = field.value
    size = len(value) if isinstance(value, str | bytes) else 2 * _NUMBER_BYTES
    return _TEXT_FACTOR * (size + len(field.name) + len(field.type)) + 2 * _NUMBER_BYTES


def vote_messages(
    commit_id: UUID,
    epoch: int,
    files: Mapping[TableReference, Sequence[FileEntry]],
    *,
    ranges: tuple[SourceRange, ...],
    positions: tuple[Position, ...],
) -> tuple[Outgoing, ...]:
    """DataWritten of every table, also of one without files, then the vote that covers them."""
    parts = tuple(
        Outgoing(message=message, headers=ControlHeaders(epoch=epoch))
        for table, entries in files.items()
        for message in _written(commit_id, table, entries)
    )
    vote = Outgoing(
        message=DataComplete(commit_id=commit_id, positions=positions),
        headers=ControlHeaders(epoch=epoch, ranges=ranges, parts=len(parts)),
    )
    return (*parts, vote)


def with_keys(
    messages: Sequence[Outgoing], keys: Mapping[TableReference, KeyFile]
) -> tuple[Outgoing, ...]:
    """The same messages; the first of each table names its key file."""
    waiting = dict(keys)
    return tuple(_with_key_file(outgoing, waiting) for outgoing in messages)


def _with_key_file(outgoing: Outgoing, waiting: dict[TableReference, KeyFile]) -> Outgoing:
    message = outgoing.message
    if not isinstance(message, DataWritten) or message.table not in waiting:
        return outgoing
    headers = replace(outgoing.headers, keys=waiting.pop(message.table))
    return replace(outgoing, headers=headers)


def _written(
    commit_id: UUID, table: TableReference, entries: Sequence[FileEntry]
) -> Iterator[DataWritten]:
    for chunk in _chunks(entries):
        yield DataWritten(
            commit_id=commit_id,
            table=table,
            data_files=tuple(entry for entry in chunk if entry.content is FileContent.DATA),
            delete_files=tuple(entry for entry in chunk if entry.content is not FileContent.DATA),
        )


def _chunks(entries: Sequence[FileEntry]) -> Iterator[list[FileEntry]]:
    """The partition struct is part of a message's schema, so each spec has its own messages."""
    by_spec: dict[int, list[FileEntry]] = {}
    for entry in entries:
        by_spec.setdefault(entry.spec_id, []).append(_fitted(entry))
    if not by_spec:
        yield []
    for same in by_spec.values():
        yield from _cut(same)


def _cut(entries: Iterable[FileEntry]) -> Iterator[list[FileEntry]]:
    chunk: list[FileEntry] = []
    room = CHUNK_BYTES - _SCHEMA_BYTES
    for entry in entries:
        size = entry_bytes(entry)
        if chunk and size > room:
            yield chunk
            chunk, room = [], CHUNK_BYTES - _SCHEMA_BYTES
        chunk.append(entry)
        room -= size
    yield chunk


def _fitted(entry: FileEntry) -> FileEntry:
    """Without statistics where one file fills a message; they help readers and decide nothing."""
    room = CHUNK_BYTES - _SCHEMA_BYTES
    if entry_bytes(entry) > room:
        entry = replace(entry, lower_bounds={}, upper_bounds={})
    if entry_bytes(entry) > room:
        entry = replace(
            entry, column_sizes={}, value_counts={}, null_value_counts={}, nan_value_counts={}
        )
    return entry
