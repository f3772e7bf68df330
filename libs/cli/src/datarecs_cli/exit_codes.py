"""What a command's exit code says, fixed for ever, and which error leads to which."""

from enum import IntEnum

from datarecs_core.errors.base import DatarecsError


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
    """Ctrl-C; a run itself goes on."""


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
    own = getattr(error, "exit_code", None)
    if isinstance(own, ExitCode):
        return own
    return _BY_FAMILY[error.code.docs_id[:3]]
