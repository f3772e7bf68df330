"""Errors of the stack: one class per DR50xx code, each with its values and its fix."""

from collections.abc import Sequence
from pathlib import Path

from datarecs_cli.exit_codes import ExitCode
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.platform import ExposureCode, PlatformCode

SHOWN_NAMES = 3


def shortened(names: Sequence[str]) -> str:
    """The first names, and the number of the others."""
    shown = ", ".join(names[:SHOWN_NAMES])
    more = len(names) - SHOWN_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


class PlatformError(DatarecsError):
    """Something on this machine prevents the platform from starting or running."""

    code: PlatformCode


class JavaMissingError(PlatformError):
    code = PlatformCode.JAVA_MISSING

    def __init__(self, *, searched: Sequence[str]) -> None:
        super().__init__(f"no Java 17 to 23 found; searched: {'; '.join(searched) or 'nothing'}")
        self.searched = tuple(searched)


class JavaUnusableError(PlatformError):
    code = PlatformCode.JAVA_UNUSABLE

    def __init__(self, *, home: Path, output: str) -> None:
        super().__init__(f"{home} does not start with Spark's options: {output.strip()[-400:]}")
        self.home = home


class PostgresMissingError(PlatformError):
    code = PlatformCode.POSTGRES_MISSING

    def __init__(self, *, searched: Sequence[str]) -> None:
        super().__init__(f"no PostgreSQL server found; searched: {'; '.join(searched)}")
        self.searched = tuple(searched)


class PostgresUnreachableFilesError(PlatformError):
    code = PlatformCode.POSTGRES_UNREACHABLE_FILES

    def __init__(self, *, account: str, reason: str) -> None:
        super().__init__(f"the database runs as {account} and cannot reach its files: {reason}")
        self.account, self.reason = account, reason


class DataOfAnotherMajorError(PlatformError):
    code = PlatformCode.DATA_OF_ANOTHER_MAJOR

    def __init__(self, *, directory: Path, made_by: int, servers: Sequence[int]) -> None:
        at_hand = ", ".join(str(major) for major in servers)
        super().__init__(f"{directory} was created by PostgreSQL {made_by}; installed: {at_hand}")
        self.directory, self.made_by, self.servers = directory, made_by, tuple(servers)


class JarUnavailableError(PlatformError):
    code = PlatformCode.JAR_UNAVAILABLE

    def __init__(self, *, names: Sequence[str], reason: str) -> None:
        super().__init__(f"jars cannot be fetched: {shortened(names)}: {reason}")
        self.names, self.reason = tuple(names), reason


class JarAlteredError(PlatformError):
    code = PlatformCode.JAR_ALTERED

    def __init__(self, *, file: Path, expected: str, got: str) -> None:
        super().__init__(f"{file.name}: expected sha256 {expected}, got {got}; {file} is removed")
        self.file, self.expected, self.got = file, expected, got


class PortBusyError(PlatformError):
    code = PlatformCode.PORT_BUSY

    def __init__(self, *, port: int, part: str, owner: str | None) -> None:
        by = f" by {owner}" if owner else ""
        super().__init__(f"port {port} for {part} is in use{by}")
        self.port, self.part, self.owner = port, part, owner


class MachineTooSmallError(PlatformError):
    code = PlatformCode.MACHINE_TOO_SMALL

    def __init__(self, *, what: str) -> None:
        super().__init__(what)


class CrashLoopError(PlatformError):
    code = PlatformCode.PART_KEEPS_DYING

    def __init__(self, *, part: str, died_with: int, log: Path, log_tail: str) -> None:
        super().__init__(
            f"{part} ended five times in 60 s, last with exit code {died_with}; {log}:\n{log_tail}"
        )
        self.part, self.died_with, self.log, self.log_tail = part, died_with, log, log_tail


class PartNotReadyError(PlatformError):
    code = PlatformCode.PART_NOT_READY

    def __init__(
        self, *, part: str, limit_s: float, reason: str, log: Path | None = None, log_tail: str = ""
    ) -> None:
        where = f"; {log}: {'' if log_tail else 'no line since its start'}" if log else ""
        super().__init__(
            f"{part} is not ready and made no progress for {limit_s:.0f} s: {reason}{where}"
            f"\n{log_tail}".rstrip()
        )
        self.part, self.limit_s, self.reason, self.log_tail = part, limit_s, reason, log_tail


class ClusterIdDiffersError(PlatformError):
    code = PlatformCode.CLUSTER_ID_DIFFERS

    def __init__(self, *, directory: Path, actual: str, expected: str) -> None:
        super().__init__(
            f"{directory} belongs to Kafka cluster {actual}, but state.json has {expected}"
        )
        self.directory, self.actual, self.expected = directory, actual, expected


class LockUnavailableError(PlatformError):
    code = PlatformCode.LOCK_UNAVAILABLE

    def __init__(self, *, path: Path, reason: str) -> None:
        super().__init__(f"{path} cannot be locked: {reason}")
        self.path = path


class StateUnreadableError(PlatformError):
    code = PlatformCode.STATE_UNREADABLE

    def __init__(self, *, path: Path, reason: str) -> None:
        super().__init__(f"the platform's state in {path} cannot be used: {reason}")
        self.path, self.reason = path, reason


class NotAPlatformError(PlatformError):
    """A refused folder; the exit code is that of wrong usage."""

    code = PlatformCode.NOT_A_PLATFORM
    exit_code = ExitCode.USAGE

    def __init__(self, *, what: str) -> None:
        super().__init__(what)


class DemoFailedError(PlatformError):
    """A step of the demo failed."""

    code = PlatformCode.DEMO_FAILED

    def __init__(self, *, step: str, reason: str) -> None:
        super().__init__(f"{step}: {reason}")
        self.step, self.reason = step, reason


class PublicBindError(DatarecsError):
    """A refused flag; the exit code is that of wrong usage."""

    code = ExposureCode.PUBLIC_BIND
    exit_code = ExitCode.USAGE

    def __init__(self, *, address: str) -> None:
        super().__init__(f"--bind {address}: the local platform accepts only loopback addresses")
        self.address = address
