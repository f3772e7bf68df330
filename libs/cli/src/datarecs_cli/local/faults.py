"""Errors that end a local comparison: its job does not fit, or results cannot be stored."""

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from datarecs_cli.declared_files import DeclaredFile
from datarecs_cli.error_text import plain
from datarecs_cli.exit_codes import ExitCode
from datarecs_core.errors.base import DatarecsError, ErrorCode
from datarecs_core.errors.run import RunDetail
from datarecs_core.notation import size_text
from datarecs_specs.findings import headline


class QuestionFault(NamedTuple):
    """One fault of the job or of the command line."""

    code: ErrorCode
    where: str
    """A flag as typed, a path in the job file, or a file."""
    message: str
    hint: str


class QuestionRefusedError(DatarecsError):
    """The job does not fit the sources, or is invalid; the message has every fault."""

    exit_code = ExitCode.USAGE

    def __init__(self, faults: Sequence[QuestionFault]) -> None:
        first, *more = faults
        lines = [_line(first), *(f"{fault.code.docs_id} {_line(fault)}" for fault in more)]
        super().__init__("\n".join(lines))
        self.code = first.code
        self.faults = tuple(faults)


class JobRefusedError(DatarecsError):
    """A job file does not fit its sources; each fault has its place in the file."""

    exit_code = ExitCode.USAGE

    def __init__(self, file: DeclaredFile) -> None:
        first, *_ = file.faults
        super().__init__(headline(first, plain(file.name)))
        self.code = first.code
        self.file = file


def _line(fault: QuestionFault) -> str:
    lead = f"{fault.where}: " if fault.where else ""
    return f"{lead}{fault.message}" + (f"; {fault.hint}" if fault.hint else "")


def reason_of(cause: OSError) -> str:
    """Why a file cannot be written, without the words that a library adds."""
    if cause.errno is not None:
        return os.strerror(cause.errno)
    return str(cause) or type(cause).__name__


class OutNotWritableError(DatarecsError):
    """The results cannot be written to their folder."""

    code = RunDetail.RESULT_STORE_FAILED
    fix = "write to another folder (--out), or free space on this disk"

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(f"{folder}: the results cannot be stored: {reason}")
        self.folder = folder


class ScratchNotWritableError(DatarecsError):
    """Rows cannot be stored on this machine for the comparison."""

    code = RunDetail.SPILL_EXHAUSTED
    fix = "free space in this folder, or set TMPDIR to a folder on another disk"

    def __init__(self, folder: Path, reason: str) -> None:
        super().__init__(f"{folder}: temporary files cannot be written: {reason}")
        self.folder = folder


class TooLittleMemoryError(DatarecsError):
    """The comparison needs more memory than available."""

    code = RunDetail.OUT_OF_MEMORY
    fix = (
        "compare with --engine kernel, which spills to disk, and raise execution.memory (--memory)"
    )

    def __init__(self) -> None:
        super().__init__("the comparison needs more memory than this machine has free")


class EngineEndedError(DatarecsError):
    """The kernel lacked memory, or Spark's Java process ended before the comparison."""

    def __init__(
        self, cause: DatarecsError, code: ErrorCode, memory_bytes: int, *, has_java: bool
    ) -> None:
        super().__init__(f"{cause}; the run had {size_text(memory_bytes)} of memory")
        self.code = code
        more = f"{_MORE_MEMORY}; {_SHARES_BESIDE_JAVA if has_java else _SHARES}"
        self.fix = more if code is RunDetail.OUT_OF_MEMORY else _WHO_KILLED


_MORE_MEMORY = "raise execution.memory in the job (--memory on the command line)"
_SHARES = "two thirds of it are for joins"
_SHARES_BESIDE_JAVA = "half of it is for Java's heap, a third for joins"
_WHO_KILLED = (
    "run again; if the operating system killed it for lack of memory (see the system log), lower "
    "execution.memory (--memory) or free memory; if it ended by itself, raise execution.memory"
)


class DeadlineExceededError(DatarecsError):
    """The comparison did not end before its deadline."""

    code = RunDetail.DEADLINE_EXCEEDED
    fix = "raise execution.deadline in the job, or compare fewer rows or columns"

    def __init__(self, limit: timedelta) -> None:
        super().__init__(f"the comparison was ended at its deadline of {limit.total_seconds():g} s")
        self.limit = limit
