"""What a command's exit code says, fixed for ever, and which error leads to which."""

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
    INTERRUPTED = 130
    """Ctrl-C; a run of a server goes on, a local comparison ends."""
    TERMINATED = 143
    """SIGTERM; the same."""


class TerminatedError(KeyboardInterrupt):
    """SIGTERM: whoever cleans up after Ctrl-C does so after this, too."""


class Gate(StrEnum):
    """What else than the verdict may let a pipeline pass."""

    ACCEPTANCE = "acceptance"
    """The limits that the job declares under `accept`."""


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


def exit_code_of(error: DatarecsError) -> ExitCode:
    """The code of a command that ends with this error.

    An error whose family does not say enough names its own, an `ExitCode` called `exit_code`: the
    REST client's, because the HTTP status decides, and a refused flag of the stack.
    """
    code = getattr(error, "exit_code", None)
    if isinstance(code, ExitCode):
        return code
    return _BY_FAMILY[error.code.docs_id[:3]]


def exit_code_of_run(
    status: str, result: str | None, *, acceptance: str | None = None, gate: Gate | None = None
) -> ExitCode:
    """The code of a command that waited for a run's end.

    Args:
        status: terminal.
        result: the verdict, of a completed run.
        acceptance: ACCEPTED lets an UNMATCHED run pass the gate, and nothing else does.
        gate: what the caller asked for.
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
