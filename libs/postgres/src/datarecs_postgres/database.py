"""The engine of one login: transactions with tenant, limits, feed numbers and translated errors.

The only module that opens or ends a transaction. Everything about a session is set inside the
transaction, never on the connection, because pooled connections go to other tenants next.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import version
from importlib.resources import files
from typing import Any

from sqlalchemy import Connection, Executable, Row, create_engine, func, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from datarecs_core.values import TenantId, aware
from datarecs_postgres import json_text
from datarecs_postgres.failures import UnsafeLoginError, sqlstate, translated
from datarecs_postgres.roles import OWNER
from datarecs_postgres.session import Session
from datarecs_postgres.tables.platform import SCHEMA_COMPAT
from datarecs_postgres.urls import engine_url

_NO_SCHEMA = {"3F000", "42P01", "42501"}
"""No schema, no table, or not yet opened to this role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much and how long; one set per process."""

    pool_size: int = 10
    """Connections of this login and process; a transaction uses one."""
    statement_timeout: timedelta = timedelta(seconds=30)
    lock_timeout: timedelta = timedelta(seconds=5)
    """Waiting longer for a row means trouble elsewhere: StoreBusyError, try again."""
    idle_timeout: timedelta = timedelta(seconds=30)
    """A transaction left open stalls the feeds of everybody; the server ends it."""
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
        """Open nothing yet.

        Args:
            url: the service's own role; a superuser or the owner would see past row security.
            limits: see `Limits`.
            notify: off behind a transaction pooler; loops then find work by polling alone.
            application: shown in pg_stat_activity.
        """
        self._limits = limits or Limits()
        self._notify = notify
        self._engine = create_engine(
            engine_url(url),
            pool_size=self._limits.pool_size,
            max_overflow=0,
            pool_timeout=5,
            pool_pre_ping=True,
            execution_options={"preserve_rowcount": True},  # ON CONFLICT DO NOTHING tells by it
            json_serializer=json_text.write,
            json_deserializer=json_text.read,
            connect_args={
                "application_name": application,
                "connect_timeout": int(self._limits.connect_timeout.total_seconds()),
            },
        )

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def transaction(
        self, tenant: TenantId, *, feed: int = 0, read_only: bool = False
    ) -> Iterator[Session]:
        """One transaction in a tenant's scope, in the order of spec run-lifecycle 13.

        Raises what `UnitOfWork.begin` promises.
        """
        with self._connection(read_only=read_only) as connection:
            session = self._begin(connection, tenant, feed)
            yield session
            if self._notify and not read_only:
                session.notify()

    @contextmanager
    def platform(self) -> Iterator[Connection]:
        """One transaction without a tenant: platform tables and, for the relay, the outbox."""
        with self._connection(read_only=False) as connection:
            connection.execute(self._settings(""))
            yield connection

    def call(self, statement: Executable) -> list[Row[Any]]:
        """One statement without a tenant, committed by itself: the definer functions."""
        with self.platform() as connection:
            return list(connection.execute(statement).all())

    def ready(self) -> str | None:
        """None when the schema is one this release can work on, else the reason in a few words.

        A database that is ahead is fine as long as it still carries this release, so that old
        processes stay in service while a newer release migrates.
        """
        try:
            found = self.call(select(SCHEMA_COMPAT.c.revision, SCHEMA_COMPAT.c.oldest_release))
        except DBAPIError as failure:
            if sqlstate(failure) not in _NO_SCHEMA:
                raise
            return "the database has no schema yet; run `datarecs admin migrate`"
        revisions = {row.revision for row in found}
        if own_revision() not in revisions:
            return f"the database lacks migration {own_revision()}"
        oldest = max((row.oldest_release for row in found), key=_release)
        if _release(oldest) > _release(version("datarecs-postgres")):
            return f"the database needs release {oldest} or newer"
        return None

    def refuse_unsafe_login(self) -> None:
        """Raise UnsafeLoginError for a superuser, the owner, its members and BYPASSRLS.

        Called once at start, before anything is served.
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
    def _connection(self, *, read_only: bool) -> Iterator[Connection]:
        """A connection whose transaction commits when the block ends; driver errors translated."""
        try:
            with self._engine.connect() as connection:
                if read_only:
                    connection.execution_options(
                        isolation_level="REPEATABLE READ", postgresql_readonly=True
                    )
                with connection.begin():
                    yield connection
        except (DBAPIError, PoolTimeoutError) as failure:
            known = translated(failure)
            if known is None:
                raise
            raise known from failure

    def _begin(self, connection: Connection, tenant: TenantId, feed: int) -> Session:
        """Tenant and limits first, then the feed numbers: no row lock may come before them."""
        begin = self._settings(str(tenant))
        if feed:
            begin = begin.add_columns(func.datarecs.draw_rv(feed).label("first_rv"))
        try:
            row = connection.execute(begin).one()
        except DBAPIError:
            # The lock of the draw belongs to the session: a broken one must not keep it.
            connection.invalidate()
            raise
        now: datetime = row.now
        numbers = range(row.first_rv, row.first_rv + feed) if feed else ()
        return Session(connection, tenant_id=tenant, now=aware(now), numbers=numbers)

    def _settings(self, tenant: str) -> Any:  # noqa: ANN401  a Select of four settings and a time
        limits = self._limits
        local = {
            "app.tenant_id": tenant,
            "statement_timeout": _milliseconds(limits.statement_timeout),
            "lock_timeout": _milliseconds(limits.lock_timeout),
            "idle_in_transaction_session_timeout": _milliseconds(limits.idle_timeout),
        }
        return select(
            *(func.set_config(name, value, True) for name, value in local.items()),  # noqa: FBT003  is_local
            func.now().label("now"),
        )


def own_revision() -> str:
    """The newest migration of this release, by its file's number; alembic itself stays unloaded."""
    folder = files("datarecs_postgres") / "migrations" / "versions"
    return max(name[:4] for name in (item.name for item in folder.iterdir()) if name[:4].isdigit())


def _milliseconds(duration: timedelta) -> str:
    return str(int(duration.total_seconds() * 1000))


def _release(text_of_version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text_of_version)[:3])
