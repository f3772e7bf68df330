"""Captures of an Iceberg table in the process of a test: its snapshots, files and figures."""

from pathlib import Path

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    IcebergType,
    LongType,
    NestedField,
    StringType,
)

from datarecs_application.ports.capturing import CaptureSource, FileRequest
from datarecs_connectors.capturing.opening import open_capture_source
from datarecs_core.captures.request import (
    CapturePolicy,
    ColumnChoice,
    ObjectName,
    Output,
)
from datarecs_core.captures.source_facts import CapturedFile, SourceSnapshot
from datarecs_core.resources.connection import (
    Connection,
)
from datarecs_testing.lake import (
    NAMESPACE,
    Lake,
)
from datarecs_testing.lake_server import CLIENT, SECRET

ALL = CapturePolicy(
    outputs=(Output.TABLE_STATS, Output.COLUMN_STATS), column_choice=ColumnChoice.ALL
)
ROWS_ONLY = CapturePolicy(outputs=(Output.TABLE_STATS, Output.FILE_STATS))


def schema_of(**columns: IcebergType) -> Schema:
    return Schema(
        *(
            NestedField(number, name, kind, required=False)
            for number, (name, kind) in enumerate(columns.items(), 1)
        )
    )


ENTRIES = schema_of(id=LongType(), word=StringType())
ONE = pa.table({"id": [1, 2, 3], "word": ["a", "b", None]})
TWO = pa.table({"id": [4, 5], "word": ["b", "e"]})
NAME = ObjectName(namespace=(NAMESPACE,), name="entries")


def named(*parts: str) -> ObjectName:
    return ObjectName(namespace=parts[:-1], name=parts[-1])


def opened(lake: Lake, connection: Connection | None = None) -> CaptureSource:
    secrets = {"credential": f"{CLIENT}:{SECRET}"}
    return open_capture_source("lake", connection or lake.connection, secrets, lake.surroundings)


def snapshots(lake: Lake, known: tuple[str, ...] = ()) -> tuple[SourceSnapshot, ...]:
    return opened(lake).table(NAME, known=known).snapshots


def captured(
    lake: Lake,
    directory: Path,
    *,
    policy: CapturePolicy = ALL,
    at: int = 0,
    only: slice = slice(None),
) -> list[CapturedFile]:
    """The files of a snapshot, counted from the newest one, by path."""
    source = opened(lake)
    snapshot = source.table(NAME, known=()).snapshots[at]
    files = source.files(NAME, snapshot.native_id)[only]
    request = FileRequest(policy=policy, columns=snapshot.columns, directory=str(directory))
    made = list(source.capture_files(NAME, snapshot.native_id, files, request))
    assert source.opened_files == len(files)
    return made
