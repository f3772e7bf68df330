"""The services that use the database now, by their open sessions.

There is no table of processes: a session is open as long as its process lives, and it names its
program and release (`releases.application_name`). Every login can read these columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ARRAY, Connection, Text, bindparam, text

from datarecs_core.errors.store import ServicesRunningError
from datarecs_postgres.releases import release_number, release_of
from datarecs_postgres.roles import RELAY, SERVICES

_SESSIONS = text(
    "SELECT usename AS role, application_name AS application, count(*) AS sessions"
    " FROM pg_stat_activity WHERE datname = current_database() AND usename = ANY(:roles)"
    " GROUP BY 1, 2 ORDER BY 2, 1"
).bindparams(bindparam("roles", [*SERVICES, RELAY], type_=ARRAY(Text)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSessions:
    """The sessions of one program, release and role."""

    application: str
    role: str
    sessions: int

    @property
    def release(self) -> str | None:
        return release_of(self.application)

    def __str__(self) -> str:
        program = self.application or "a program without a name"
        return f"{program} (role {self.role}, sessions: {self.sessions})"


def service_sessions(connection: Connection) -> list[ServiceSessions]:
    """Open sessions of the services' roles in this database."""
    return [
        ServiceSessions(application=row.application, role=row.role, sessions=row.sessions)
        for row in connection.execute(_SESSIONS)
    ]


def refuse_running_services(connection: Connection, *, purpose: str) -> None:
    """Raise ServicesRunningError if a service is connected."""
    _refuse(service_sessions(connection), purpose=purpose)


def refuse_older_services(connection: Connection, *, oldest: str, purpose: str) -> None:
    """Raise ServicesRunningError if a service of a release before `oldest` is connected.

    A session that names no release is of a program that is not known to support the change.
    """
    least = release_number(oldest)
    older = [
        one
        for one in service_sessions(connection)
        if one.release is None or release_number(one.release) < least
    ]
    _refuse(older, purpose=purpose)


def _refuse(running: Sequence[ServiceSessions], *, purpose: str) -> None:
    if running:
        raise ServicesRunningError(running=[str(one) for one in running], purpose=purpose)
