"""DR584: why a process of the platform, or a worker's child, does not start; and its exceptions.

A separate family because settings and children exist in every service and in the local stack.
"""

from dataclasses import dataclass

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
    START_INSECURE = Entry(
        docs_id="DR5843",
        meaning="A service does not fulfil the rules of profile `server`; it did not start.",
        causes="No TLS and no declared proxy, no https base URL, no key-encryption key or that of "
        "`datarecs up`, an unencrypted broker or database, a login with too many rights, a default "
        "password, or profile `local` on the database of a server.",
        remedy="Correct every line of the message; `datarecs doctor --security SERVICE` checks the "
        "same rules without a start, and docs/howto/hardening.md explains each of them.",
    )
    SCRATCH_IN_USE = Entry(
        docs_id="DR5844",
        meaning="The scratch folder of a worker belongs to another worker; this one waits.",
        causes="Two workers with the same scratch folder, or a worker that is still ending.",
        remedy="Set another folder for each worker by `DATARECS_WORKER__SCRATCH_DIR`, of "
        "iceberg-sink by `DATARECS_SINK__SCRATCH_DIR`, or stop the other worker.",
        retryable=True,
    )


@dataclass(frozen=True, slots=True)
class RuleFault:
    """A rule of profile `server` that does not hold; names and addresses only, never a secret."""

    rule: str
    """`S2`, as in docs/howto/hardening.md."""
    seen: str
    fix: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.seen}; {self.fix}"


class SettingsError(DatarecsError):
    """All faults of the settings at once; names only, never a value."""

    code = ProcessCode.SETTINGS_INVALID

    def __init__(self, faults: tuple[str, ...]) -> None:
        super().__init__("the settings are not valid:\n" + "\n".join(f"  {f}" for f in faults))
        self.faults = faults


class InsecureStartError(DatarecsError):
    """All rules of profile `server` that do not hold, at once."""

    code = ProcessCode.START_INSECURE

    def __init__(self, faults: tuple[RuleFault, ...]) -> None:
        lines = "\n".join(f"  {fault}" for fault in faults)
        super().__init__(f"the service does not start in this profile:\n{lines}")
        self.faults = faults


class ChildStartError(DatarecsError):
    """Nothing was started."""

    code = ProcessCode.CHILD_NOT_STARTED

    def __init__(self, *, program: str, cause: str) -> None:
        super().__init__(f"{program} cannot be started: {cause}")
        self.program, self.cause = program, cause


class ScratchInUseError(DatarecsError):
    """A live worker holds the lock of the scratch folder; nothing in it was removed."""

    code = ProcessCode.SCRATCH_IN_USE

    def __init__(self, *, folder: str, holder: str, setting: str) -> None:
        super().__init__(
            f"the scratch folder {folder} belongs to another worker ({holder or 'unknown'}); set "
            f"another {setting} for each worker, or stop the other one"
        )
        self.folder, self.holder, self.setting = folder, holder, setting
