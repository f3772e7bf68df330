"""The engine of one login: transactions with tenant, limits, feed numbers and translated errors.

The only module that opens or ends a transaction. Everything about a session is set inside the
transaction, never on the connection, because pooled connections go to other tenants next.
"""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from typing import Any

from sqlalchemy import Connection, Executable, Row, create_engine, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from datarecs_application.errors import StoreUnavailableError
from datarecs_core.values import TenantId
from datarecs_postgres import border, json_text
from datarecs_postgres.failures import UnsafeLoginError, sqlstate, translated
from datarecs_postgres.releases import application_name, release_number, this_release
from datarecs_postgres.roles import OWNER
from datarecs_postgres.session import Session
from datarecs_postgres.tables.platform import SCHEMA_COMPAT
from datarecs_postgres.urls import engine_url

_NO_SCHEMA = {"3F000", "42P01", "42501"}
"""SQLSTATEs: no schema, no table, or no rights of this role yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Numbers of connections and time limits; one set per process."""

    pool_size: int = 10
    """Connections of this login and process; a transaction uses one."""
    statement_timeout: timedelta = timedelta(seconds=30)
    lock_timeout: timedelta = timedelta(seconds=5)
    """A longer wait for a row raises StoreBusyError, which can be retried."""
    idle_timeout: timedelta = timedelta(seconds=30)
    """The server ends an idle transaction after this time: it blocks the feeds of all tenants."""
    connect_timeout: timedelta = timedelta(seconds=5)


class Database:
    """Connections of one database login."""

    def __init__(
        self,
        url: str,
        *,
        limits: Limits | None = None,
        notify: bool = True,
        application: str = "datarecs",
    ) -> None:
        """Create it without opening a connection.

        Args:
            url: the service's own role; row security does not apply to a superuser or the owner.
            limits: see `Limits`.
            notify: off behind a transaction pooler; loops then find work only by polling.
            application: the program; pg_stat_activity shows it with its release.
        """
        self._limits = limits or Limits()
        self._notify = notify
        self._settings = _settings(self._limits)
        single = f"SELECT set_config('app.tenant_id', %s, true), {self._settings}"
        self._single = single.encode()
        self._drawing = f"{single}, datarecs.draw_rv(%s)".encode()
        self._reading = f"{single}, set_config('transaction_read_only', 'on', true)".encode()
        self._engine = create_engine(
            engine_url(url),
            pool_size=self._limits.pool_size,
            max_overflow=0,
            pool_reset_on_return=None,  # `border` resets connections, and only if necessary
            pool_timeout=5,
            execution_options={"preserve_rowcount": True},  # result of ON CONFLICT DO NOTHING
            json_serializer=json_text.write,
            json_deserializer=json_text.read,
            connect_args={
                **border.AUTOCOMMIT,
                "application_name": application_name(application),
                "connect_timeout": int(self._limits.connect_timeout.total_seconds()),
            },
        )
        border.listen(self._engine)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def transaction(
        self, tenant: TenantId, *, feed: int = 0, read_only: bool = False
    ) -> Iterator[Session]:
        """One transaction in a tenant's scope, in the order of spec run-lifecycle 13.

        Raises the errors of `UnitOfWork.begin`.
        """
        with self._opened(tenant, feed=feed, read_only=read_only) as opened:
            session = Session(opened, tenant_id=tenant, feed=feed)
            yield session
            opened.commit(session.notifications() if self._notify and not read_only else b"")

    @contextmanager
    def platform(self) -> Iterator[Connection]:
        """One transaction without a tenant: platform tables and, for the relay, the outbox."""
        with self._opened(None) as opened:
            yield opened.connection
            opened.commit()

    def call(
        self, statement: Executable, parameters: Mapping[str, object] | None = None
    ) -> list[Row[Any]]:
        """One statement without a tenant, committed by itself: the definer functions."""
        with _translating():
            return border.query(self._engine, (self._single, ("",)), statement, parameters)

    def answer(self, statement: Executable, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """`call` for frequent statements: a module constant that returns rows."""
        with _translating():
            return border.answer(self._engine, (self._single, ("",)), statement, parameters)

    def query(
        self,
        tenant: TenantId | None,
        statement: Executable,
        parameters: Mapping[str, object] | None = None,
    ) -> list[Row[Any]]:
        """One reading statement in a tenant's scope, or in none: one round trip, one snapshot.

        Raises the errors of `UnitOfWork.begin`.
        """
        scope = "" if tenant is None else str(tenant)
        with _translating():
            return border.query(self._engine, (self._reading, (scope,)), statement, parameters)

    def ready(self) -> str | None:
        """None if this release supports the schema, else the reason.

        A newer schema is accepted if it still supports this release, so old processes continue to
        work while a newer release migrates.
        """
        try:
            rows = self.call(select(SCHEMA_COMPAT.c.revision, SCHEMA_COMPAT.c.oldest_release))
        except DBAPIError as failure:
            if sqlstate(failure) not in _NO_SCHEMA:
                raise
            return "the database has no schema yet; run `datarecs admin migrate`"
        revisions = {row.revision for row in rows}
        if newest_revision() not in revisions:
            return f"migration {newest_revision()} is missing; run `datarecs admin migrate`"
        oldest, current = max((r.oldest_release for r in rows), key=release_number), this_release()
        if release_number(oldest) > release_number(current):
            return (
                f"the database needs release {oldest} or newer, this process is {current};"
                " start a newer release"
            )
        return None

    def require_schema(self) -> None:
        """Raise StoreUnavailableError while this release does not support the schema."""
        reason = self.ready()
        if reason is not None:
            raise StoreUnavailableError(cause=reason)

    def refuse_unsafe_login(self) -> None:
        """Raise UnsafeLoginError for a superuser, the owner, its members and BYPASSRLS.

        Checked at start, before anything is served.
        """
        statement = text(
            "SELECT rolname, rolsuper, rolbypassrls,"
            " coalesce(pg_has_role(rolname, to_regrole(:owner)::oid, 'MEMBER'), false) AS owner"
            " FROM pg_roles WHERE rolname = session_user"
        ).bindparams(owner=OWNER)
        (row,) = self.call(statement)
        reasons = {
            "is a superuser": row.rolsuper,
            "bypasses row-level security": row.rolbypassrls,
            f"may act as {OWNER}": row.owner,
        }
        for because, holds in reasons.items():
            if holds:
                raise UnsafeLoginError(login=row.rolname, because=because)

    @contextmanager
    def _opened(
        self, tenant: TenantId | None, *, feed: int = 0, read_only: bool = False
    ) -> Iterator[border.Opened]:
        """A transaction that rolls back unless the block commits; driver errors are translated.

        Tenant and limits come first, then the feed numbers: no row lock may come before them.
        """
        begin = border.READ_ONLY if read_only else border.READ_WRITE
        scope = "" if tenant is None else str(tenant)
        settings = (self._drawing, (scope, feed)) if feed else (self._single, (scope,))
        with _translating(), closing(border.Opened(self._engine, begin, settings)) as opened:
            yield opened


@contextmanager
def _translating() -> Iterator[None]:
    """Translate errors of the driver to those of the ports; other errors are not changed."""
    try:
        yield
    except (DBAPIError, PoolTimeoutError) as failure:
        known = translated(failure)
        if known is None:
            raise
        raise known from failure


def _settings(limits: Limits) -> str:
    """Settings of a transaction, never of its connection, which other transactions use next."""
    local = {
        "statement_timeout": limits.statement_timeout,
        "lock_timeout": limits.lock_timeout,
        "idle_in_transaction_session_timeout": limits.idle_timeout,
    }
    set_all = [f"set_config('{name}', '{_milliseconds(it)}', true)" for name, it in local.items()]
    return ", ".join([*set_all, "now()"])


def newest_revision() -> str:
    """The newest migration of this release, by its file's number; without importing alembic."""
    folder = files("datarecs_postgres") / "migrations" / "versions"
    return max(name[:4] for name in (item.name for item in folder.iterdir()) if name[:4].isdigit())


def _milliseconds(duration: timedelta) -> str:
    return str(int(duration.total_seconds() * 1000))
