"""Driver errors at the border: which ones mean wait, which mean repeat, and our own exceptions.

Everything unknown passes unchanged, since it is a defect and not a state of the database.
"""

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.platform import PlatformCode
from datarecs_core.errors.store import StoreCode

_BUSY = {
    "40001": "serialization conflict",
    "40P01": "deadlock",
    "55P03": "a lock was not free in time",
    "57014": "a statement took too long",
}
_UNAVAILABLE = ("08", "53", "57P")
"""Connection exceptions, resources used up, server shutting down or starting."""


def sqlstate(failure: BaseException) -> str | None:
    """The five characters PostgreSQL gave, or None when it gave none."""
    driver = failure.orig if isinstance(failure, DBAPIError) else failure
    state = getattr(driver, "sqlstate", None)
    return state if isinstance(state, str) else None


def translated(failure: DBAPIError | PoolTimeoutError) -> DatarecsError | None:
    """What the ports promise for this failure; None when it is a defect."""
    if isinstance(failure, PoolTimeoutError):
        return StoreUnavailableError(cause="every connection of the pool is in use")
    state = sqlstate(failure)
    if state in _BUSY:
        return StoreBusyError(cause=_BUSY[state])
    if failure.connection_invalidated or state is None or state.startswith(_UNAVAILABLE):
        return StoreUnavailableError(cause=_first_line(failure))
    return None


def _first_line(failure: DBAPIError) -> str:
    """The driver's first line: it names host and port, never the password."""
    lines = str(failure.orig).strip().splitlines()
    return lines[0][:200] if lines else type(failure.orig).__name__


class UnsafeLoginError(DatarecsError):
    """A service was given a login that row-level security does not bind; start-up ends here."""

    code = StoreCode.UNSAFE_LOGIN

    def __init__(self, *, login: str, because: str) -> None:
        super().__init__(
            f"database login {login} {because}; give the service its own role, made by"
            " `datarecs admin bootstrap-db`"
        )
        self.login, self.because = login, because


class TenantExistsError(DatarecsError):
    code = StoreCode.TENANT_EXISTS

    def __init__(self, *, name: str) -> None:
        super().__init__(f"a tenant named {name} exists already; choose another name")
        self.name = name


class RolesMissingError(DatarecsError):
    code = StoreCode.ROLES_MISSING

    def __init__(self, *, login: str) -> None:
        super().__init__(
            f"login {login} may not act as datarecs_owner, or that role does not exist;"
            " run `datarecs admin bootstrap-db`, then use the login datarecs_migrate"
        )
        self.login = login


class MigrationBlockedError(DatarecsError):
    code = StoreCode.MIGRATION_BLOCKED

    def __init__(self, *, tries: int) -> None:
        super().__init__(
            f"a migration did not get its lock in {tries} tries; look for long transactions in"
            " pg_stat_activity, end them, and migrate again"
        )
        self.tries = tries


class SchemaTooNewError(DatarecsError):
    code = PlatformCode.DATABASE_NEWER

    def __init__(self, *, revision: str) -> None:
        super().__init__(
            f"the database is at revision {revision}, which this release does not know;"
            " use a newer release"
        )
        self.revision = revision


class ServerTooOldError(DatarecsError):
    code = StoreCode.SERVER_TOO_OLD

    def __init__(self, *, version: str) -> None:
        super().__init__(f"the server is PostgreSQL {version}; datarecs needs 15 or newer")
        self.version = version
