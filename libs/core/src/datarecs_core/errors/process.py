"""DR584: why a process of the platform, or a worker's child, does not start; and its exceptions.

A separate family because settings and children exist in every service and in the local stack.
"""

from datarecs_core.errors.base import DatarecsError, Entry, ErrorCode


class ProcessCode(ErrorCode):
    SETTINGS_INVALID = Entry(
        docs_id="DR5841",
        meaning="The settings of a process are incomplete or wrong; it did not start.",
        causes="A name that does not exist, a missing or malformed value, a file that a `_FILE` "
        "setting names and that cannot be read.",
        remedy="Correct every name in the message; `datarecs config show --defaults` prints "
        "all names.",
    )
    CHILD_NOT_STARTED = Entry(
        docs_id="DR5842",
        meaning="The worker cannot start the program that does its work.",
        causes="The program is missing or not executable, the machine cannot start another "
        "process, or the process ended before it was ready.",
        remedy="Read the cause in the message and the worker's log; the run is retried "
        "automatically until its attempts are used up.",
        retryable=True,
    )


class SettingsError(DatarecsError):
    """All faults of the settings at once; names only, never a value."""

    code = ProcessCode.SETTINGS_INVALID

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__("the settings are not valid:\n" + "\n".join(f"  {f}" for f in faults))
        self.faults = faults


class ChildStartError(DatarecsError):
    """Nothing was started."""

    code = ProcessCode.CHILD_NOT_STARTED

    def __init__(self, *, program: str, cause: str) -> None:
        super().__init__(f"{program} cannot be started: {cause}")
        self.program, self.cause = program, cause
