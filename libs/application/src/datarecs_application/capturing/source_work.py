"""The work of one item at its source: runs in the child, over a CaptureSource, and ends in a file.

The child has no access to the platform. What it reports is one document and the indexes beside it;
a failure is a frame that says whether another attempt can succeed.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from datarecs_application.child_frames import BadFrameError, Reader
from datarecs_application.ports.capturing import CaptureSource, FileRequest
from datarecs_core.captures.items import RetryClass, WorkKind
from datarecs_core.captures.outcomes import (
    ConnectorPlanned,
    GroupCaptured,
    SnapshotCaptured,
    SnapshotPlanned,
    TablePlanned,
    ViewPlanned,
)
from datarecs_core.captures.request import CapturePolicy, CaptureScope, ObjectName
from datarecs_core.captures.source_facts import SourceFile
from datarecs_core.catalog.records import TableColumn
from datarecs_core.documents import from_document, to_document
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.captures import CaptureCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.hashing import canonical_json

FAILED = "failed"
"""Type of the child's frame about a failure, besides FINISHED."""
OUTCOME = "outcome.json"
_MOST_TEXT = 100_000
"""Characters of a frame; the worker masks secrets before it shortens the text further."""
SourceOutcome = (
    ConnectorPlanned
    | TablePlanned
    | ViewPlanned
    | SnapshotPlanned
    | SnapshotCaptured
    | GroupCaptured
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkReport:
    """The document of a child; the class of its outcome is part of it."""

    outcome: SourceOutcome


def sidecar_file(sha256: str) -> str:
    """Name of an index in the folder of the child."""
    return f"{sha256}.parquet"


def write_report(outcome: SourceOutcome, directory: str) -> None:
    """Leave the outcome for the worker: whole, or not at all."""
    partial = Path(directory) / f"{OUTCOME}.partial"
    partial.write_bytes(canonical_json(to_document(WorkReport(outcome=outcome))))
    partial.rename(partial.with_name(OUTCOME))


def source_outcome(frame: Reader, source: CaptureSource, directory: str) -> SourceOutcome:
    """Do the work of an assignment.

    Args:
        frame: of the worker; see `CaptureControl.begin`.
        source: the opened connection.
        directory: for indexes.

    Raises DatarecsError for everything that the source refuses.
    """
    kind = WorkKind(frame.of("kind", str))
    if kind is WorkKind.PLAN_CONNECTOR:
        scope = from_document(CaptureScope, frame.of("scope", dict))
        return ConnectorPlanned(objects=source.objects(scope))
    name = from_document(ObjectName, frame.of("object", dict))
    match kind:
        case WorkKind.PLAN_TABLE:
            return TablePlanned(table=source.table(name, known=frame.of("known", list)))
        case WorkKind.PLAN_VIEW:
            return ViewPlanned(view=source.view(name))
        case WorkKind.PLAN_SNAPSHOT:
            return _planned_snapshot(frame, source, name)
        case WorkKind.EXEC_FILE_GROUP:
            files = [from_document(SourceFile, one) for one in frame.of("files", list)]
            columns = [from_document(TableColumn, one) for one in frame.of("columns", list)]
            request = FileRequest(policy=_policy(frame), columns=columns, directory=directory)
            captured = source.capture_files(name, frame.of("native_id", str), files, request)
            return GroupCaptured(files=tuple(captured))
        case _:
            raise BadFrameError(f"{kind} is not done by a child")


def _planned_snapshot(
    frame: Reader, source: CaptureSource, name: ObjectName
) -> SnapshotPlanned | SnapshotCaptured:
    native_id = frame.maybe("native_id", str)
    if native_id is None:
        return SnapshotCaptured(table=source.capture_table(name, _policy(frame)))
    return SnapshotPlanned(files=tuple(source.files(name, native_id)))


def _policy(frame: Reader) -> CapturePolicy:
    return from_document(CapturePolicy, frame.of("policy", dict))


def failure_frame(error: Exception) -> Mapping[str, object]:
    """The failure of a child, as it is sent to the worker."""
    code, message = CaptureCode.WORK_CRASHED.name, f"unexpected {type(error).__name__}"
    if isinstance(error, DatarecsError):
        code, message = error.code.name, str(error)
    elif isinstance(error, MemoryError):
        code, message = RunDetail.OUT_OF_MEMORY.name, "Python ran out of memory"
    elif isinstance(error, UnicodeError):
        message = f"unexpected {type(error).__name__}: {_text_fault(error)}"
    elif isinstance(error, OSError) and error.errno is not None:
        message = f"unexpected {type(error).__name__}: {os.strerror(error.errno)}"
    delay = getattr(error, "retry_after", None)
    return {
        "type": FAILED,
        "code": code,
        "message": message.encode(errors="backslashreplace").decode()[:_MOST_TEXT],
        "retry": retry_class(error).value,
        "retry_after": delay.total_seconds() if isinstance(delay, timedelta) else None,
    }


def _text_fault(error: UnicodeError) -> str:
    """The cause, without the text itself: it may be a value of the source."""
    reason = getattr(error, "reason", None) or "no valid text"
    return (
        f"a name or a value of the source cannot be written as text ({reason}); rename what has "
        "such a name"
    )


def retry_class(error: Exception) -> RetryClass:
    """Whether another attempt may succeed.

    A refused login stays refused until somebody changes it, although a lost connection does not. A
    lost snapshot does not come back: the next capture reads the present one. A text that cannot be
    written is the same in the next attempt.
    """
    if isinstance(error, MemoryError | UnicodeError):
        return RetryClass.TERMINAL
    if not isinstance(error, DatarecsError):
        return RetryClass.TRANSIENT
    is_final = (
        not error.code.entry.retryable
        or getattr(error, "login_refused", False)
        or error.code is RunDetail.SNAPSHOT_LOST
    )
    return RetryClass.TERMINAL if is_final else RetryClass.TRANSIENT
