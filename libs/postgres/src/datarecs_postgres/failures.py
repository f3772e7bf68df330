"""Translate driver errors: which ones mean wait, which mean repeat, and the exceptions raised.

Unknown errors are not changed, because they are defects and not states of the database.
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
_UNAVAILABLE = ("08", "28", "53", "57P")
"""Connection exceptions, refused logins, resources used up, server shutting down or starting."""


def sqlstate(failure: BaseException) -> str | None:
    """The five characters of SQLSTATE from PostgreSQL, or None without one."""
    driver = failure.orig if isinstance(failure, DBAPIError) else failure
    state = getattr(driver, "sqlstate", None)
    return state if isinstance(state, str) else None


def translated(failure: DBAPIError | PoolTimeoutError) -> DatarecsError | None:
    """The exception of the ports for this failure; None if it is a defect."""
    if isinstance(failure, PoolTimeoutError):
        return StoreUnavailableError(cause="every connection of the pool is in use")
    state = sqlstate(failure)
    if state in _BUSY:
        return StoreBusyError(cause=_BUSY[state])
    if failure.connection_invalidated or state is None or state.startswith(_UNAVAILABLE):
        return StoreUnavailableError(cause=_first_line(failure))
    return None


def _first_line(failure: DBAPIError) -> str:
    """The first line of the driver's message: it names host and port, never the password."""
    lines = str(failure.orig).strip().splitlines()
    return lines[0][:200] if lines else type(failure.orig).__name__


class UnsafeLoginError(DatarecsError):
    """The login of a service is not subject to row-level security; start-up ends here."""

    code = StoreCode.UNSAFE_LOGIN

    def __init__(self, *, login: str, because: str) -> None:
        super().__init__(
            f"database login {login} {because}; set the service's own role, created by"
            " `datarecs admin bootstrap-db`"
        )
        self.login, self.because = login, because


class TenantExistsError(DatarecsError):
    code = StoreCode.TENANT_EXISTS

    def __init__(self, *, name: str) -> None:
        super().__init__(f"a tenant named {name} already exists; choose another name")
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
            f"a migration did not get its lock in {tries} tries; find long transactions in"
            " pg_stat_activity, end them, and migrate again"
        )
        self.tries = tries


class SchemaTooNewError(DatarecsError):
    code = PlatformCode.DATABASE_NEWER

    def __init__(self, *, revision: str) -> None:
        super().__init__(
            f"the database is at revision {revision}, which this release does not support;"
            " use a newer release"
        )
        self.revision = revision


class ServerTooOldError(DatarecsError):
    code = StoreCode.SERVER_TOO_OLD

    def __init__(self, *, version: str) -> None:
        super().__init__(f"the server is PostgreSQL {version}; datarecs needs 15 or newer")
        self.version = version
