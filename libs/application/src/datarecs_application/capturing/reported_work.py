"""What the child of a capture reports, read by the worker: nothing in it is trusted.

A child reads the data of strangers. Sizes and names are checked before anything is used, texts are
one line without secrets, and whether the content fits the work is decided by the control plane.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from datarecs_application.capturing.source_work import (
    OUTCOME,
    SourceOutcome,
    WorkReport,
    sidecar_file,
)
from datarecs_application.child_frames import BadFrameError, Reader
from datarecs_application.ports.supervising import ChildEnd, ChildFolder
from datarecs_application.source_secrets import masked, one_line
from datarecs_core.captures.items import RetryClass
from datarecs_core.captures.outcomes import GroupCaptured, WorkFailed
from datarecs_core.captures.source_facts import CapturedFile
from datarecs_core.document_types import strict_document
from datarecs_core.errors.base import ErrorCode
from datarecs_core.errors.captures import CaptureCode
from datarecs_core.hashing import sha256_hex
from datarecs_core.resources.checks import FAMILIES

MOST_BYTES = 64 * 1024 * 1024
"""Of an outcome, and of an index."""
MOST_TEXT = 2_000
LONGEST_DELAY = timedelta(minutes=15)
"""What a source may demand with Retry-After."""
_FAMILIES: tuple[type[ErrorCode], ...] = (*FAMILIES, CaptureCode)
_CODES: Mapping[str, ErrorCode] = {code.name: code for family in _FAMILIES for code in family}
_HASH = re.compile("[0-9a-f]{64}")
_RETRIES = (RetryClass.TRANSIENT, RetryClass.TERMINAL)
"""Those that a child may report."""


class BadReportError(Exception):
    """The files of a child are not those of a correct one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedSidecar:
    path: str
    sha256: str
    content: bytes


def read_outcome(folder: ChildFolder) -> SourceOutcome:
    """The outcome that the child left.

    Raises:
        BadReportError: it is missing, too long, no document, or an index beside it does not fit.
    """
    content = folder.read(OUTCOME, most=MOST_BYTES)
    if content is None:
        raise BadReportError(
            f"the process of the capture left no outcome of at most {MOST_BYTES >> 20} MiB; the"
            " list of a table with several 100,000 files is larger: merge its small files"
        )
    try:
        return strict_document(WorkReport, json.loads(content)).outcome
    except (ValueError, RecursionError) as cause:
        raise BadReportError(
            "the outcome that the process of the capture left is no valid document"
        ) from cause


def read_sidecars(folder: ChildFolder, outcome: SourceOutcome) -> Iterator[ReportedSidecar]:
    """The indexes that the outcome names, one at a time.

    Raises:
        BadReportError: one is missing, too long, or another one.
    """
    if isinstance(outcome, GroupCaptured):
        for file in outcome.files:
            if file.sidecar is not None:
                yield _sidecar(folder, file, file.sidecar.sha256)


def _sidecar(folder: ChildFolder, file: CapturedFile, sha256: str) -> ReportedSidecar:
    is_hash = _HASH.fullmatch(sha256) is not None
    content = folder.read(sidecar_file(sha256), most=MOST_BYTES) if is_hash else None
    if content is None or sha256_hex(content) != sha256:
        raise BadReportError(
            "of the process of the capture, an index of a file is missing, too long or damaged"
        )
    return ReportedSidecar(path=file.path, sha256=sha256, content=content)


def read_failure(frame: Mapping[str, object], secrets: Collection[str]) -> WorkFailed:
    """The failure of a frame.

    Raises:
        BadFrameError: a correct child never sends it.
    """
    reader = Reader(frame)
    try:
        retry = RetryClass(reader.of("retry", str))
    except ValueError as cause:
        raise BadFrameError("an unknown class of failures") from cause
    if retry not in _RETRIES:
        raise BadFrameError("a class of failures that a child does not decide")
    code = _CODES.get(reader.of("code", str), CaptureCode.WORK_CRASHED)
    message = one_line(masked(reader.of("message", str), secrets), MOST_TEXT)
    return WorkFailed(code=code.name, message=message, retry=retry, retry_after=_delay(frame))


def _delay(frame: Mapping[str, object]) -> timedelta | None:
    seconds = frame.get("retry_after")
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float | Decimal):
        raise BadFrameError("retry_after is not a number")
    longest = int(LONGEST_DELAY.total_seconds())
    if not 0 <= seconds <= longest:  # NaN is neither
        return LONGEST_DELAY
    return timedelta(seconds=float(seconds))


def crashed(why: str) -> WorkFailed:
    """A child that ended without a result says nothing about its source."""
    return WorkFailed(code=CaptureCode.WORK_CRASHED.name, message=why, retry=RetryClass.TRANSIENT)


def end_text(end: ChildEnd) -> str:
    """How a child ended that did not report."""
    if end.oom_kill:
        return "the system ended the process of the capture: out of memory"
    if end.signal is not None:
        return f"signal {end.signal} ended the process of the capture"
    return f"the process of the capture ended with exit code {end.exit_code} and no result"
