"""The exit codes of commands, which never change, and the exit code of each error."""

from enum import IntEnum, StrEnum

from datarecs_core.errors.base import DatarecsError
from datarecs_core.runs.model import RunResult, RunStatus


class ExitCode(IntEnum):
    DONE = 0
    """MATCHED, or the command did its work."""
    DIFFERENT = 1
    """UNMATCHED, or differences exist. Never a failure."""
    USAGE = 2
    """Usage, unknown name, invalid spec."""
    ERRORED = 3
    """A run that errored, a failed check, a part of the platform that failed."""
    CANCELLED = 4
    SERVER = 5
    """Server or authentication."""
    HUNG_UP = 129
    """SIGHUP, as when the terminal is closed; as for Ctrl-C."""
    INTERRUPTED = 130
    """Ctrl-C; a run of a server continues, a local comparison ends."""
    TERMINATED = 143
    """SIGTERM; as for Ctrl-C."""


class TerminatedError(KeyboardInterrupt):
    """SIGTERM: code that cleans up after Ctrl-C also cleans up after this."""

    exit_code = ExitCode.TERMINATED


class HungUpError(TerminatedError):
    """SIGHUP."""

    exit_code = ExitCode.HUNG_UP


class Gate(StrEnum):
    """What may let a pipeline pass instead of the verdict."""

    ACCEPTANCE = "acceptance"
    """The `accept` limits of the job."""


_BY_FAMILY = {
    "DR1": ExitCode.USAGE,
    "DR2": ExitCode.ERRORED,
    "DR3": ExitCode.ERRORED,
    "DR4": ExitCode.SERVER,
    "DR5": ExitCode.ERRORED,
    "DR6": ExitCode.SERVER,
    "DR7": ExitCode.ERRORED,
}
"""By the first three characters of the docs id."""
_INVALID_INPUT = "DR4020"
"""A value that the user typed; a refusal of a server has its exit code."""


def exit_code_of(error: DatarecsError) -> ExitCode:
    """The code of a command that ends with this error.

    An error may have an attribute `exit_code` that overrides the code of its family: errors of the
    REST client, because the HTTP status decides, and a refused flag of the stack. A part that is
    not installed is the same error for a source as for a flag.
    """
    code = getattr(error, "exit_code", None)
    if isinstance(code, ExitCode):
        return code
    if getattr(error, "missing_extra", None) is not None:
        return ExitCode.USAGE
    if error.code.docs_id == _INVALID_INPUT:
        return ExitCode.USAGE
    return _BY_FAMILY[error.code.docs_id[:3]]


def exit_code_of_run(
    status: str, result: str | None, *, acceptance: str | None = None, gate: Gate | None = None
) -> ExitCode:
    """The code of a command that waited for a run's end.

    Args:
        status: terminal.
        result: the verdict, of a completed run.
        acceptance: only ACCEPTED lets an UNMATCHED run pass the gate.
        gate: the gate of the command line.
    """
    match RunStatus(status):
        case RunStatus.COMPLETED:
            passes = gate is Gate.ACCEPTANCE and acceptance == "ACCEPTED"
            same = result == RunResult.MATCHED or passes
            return ExitCode.DONE if same else ExitCode.DIFFERENT
        case RunStatus.CANCELLED:
            return ExitCode.CANCELLED
        case _:
            return ExitCode.ERRORED
