"""Requests, files and statistics of captures for tests."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from datarecs_core.captures.aggregates import ColumnMerge
from datarecs_core.captures.request import (
    CaptureMode,
    CapturePolicy,
    CaptureRequest,
    CaptureScope,
    ExecutionPolicy,
    Output,
    SnapshotChoice,
    SnapshotSelection,
)
from datarecs_core.captures.source_facts import SourceFile
from datarecs_core.catalog.records import Completeness, FileStats, Producer, ScalarStats
from datarecs_core.values import ResourceUid

CONNECTION = ResourceUid(UUID("019b0000-0000-7000-8000-00000000c001"))
CAPTURED_AT = datetime(2026, 1, 15, 12, tzinfo=UTC)


def capture_request(**changes: Any) -> CaptureRequest:  # noqa: ANN401  fields
    """All tables of a connection at their current snapshots."""
    request = CaptureRequest(
        connection_uid=CONNECTION,
        mode=CaptureMode.METADATA_AND_CAPTURE,
        scope=CaptureScope(),
        policy=CapturePolicy(outputs=(Output.TABLE_STATS, Output.COLUMN_STATS, Output.FILE_STATS)),
        selection=SnapshotSelection(kind=SnapshotChoice.CURRENT),
        execution=ExecutionPolicy(),
    )
    return replace(request, **changes)


def source_file(path: str, **changes: Any) -> SourceFile:  # noqa: ANN401  fields
    file = SourceFile(path=path, size_bytes=4096, etag="e1", format="parquet")
    return replace(file, **changes)


def file_stats_of(file: SourceFile, *columns: str) -> FileStats:
    """Statistics of a file with integer columns."""
    return FileStats(
        table_id=UUID("019b0000-0000-7000-8000-000000000021"),
        snapshot_id=1,
        path=file.path,
        format=file.format,
        producer=Producer.ENGINE_COMPUTED,
        completeness=Completeness.COMPLETE,
        captured_at=CAPTURED_AT,
        rows=10,
        size_bytes=file.size_bytes,
        columns=tuple(ScalarStats(name=name, type="bigint", rows=10, nulls=0) for name in columns),
        etag=file.etag,
        stored_rows=10,
        deletes=file.deletes,
    )


def merged_columns(files: Iterable[FileStats]) -> tuple[ScalarStats, ...]:
    """The figures of columns over all files, without the types of a snapshot."""
    merge = ColumnMerge({})
    for file in files:
        merge.add(file)
    return merge.merged()
