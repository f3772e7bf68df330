"""How statements travel: the first and the last word of a transaction, and what goes with others.

Its own module because it alone speaks to the driver: several statements in one message, which
SQLAlchemy cannot send. BEGIN and the settings travel with the first question, COMMIT with the
notifications, so that a transaction costs one round trip besides its own statements, two where the
first one is SQLAlchemy's; a single question travels with its settings, as one implicit transaction,
and costs one. A write whose answer nobody needs waits for the next question or for COMMIT, keeps
its place before it, and costs none.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from select import POLLIN, poll
from typing import Any, Literal

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import (
    Connection,
    CursorResult,
    Engine,
    Executable,
    PoolProxiedConnection,
    Row,
    event,
)
from sqlalchemy.exc import DBAPIError, InvalidatePoolError

from datarecs_postgres.compiled import compiled
from datarecs_postgres.one_message import Driver, OneMessage

AUTOCOMMIT = {"autocommit": True}
"""How a driver's connection is opened for this: it adds no BEGIN of its own."""
READ_WRITE = b"BEGIN"
READ_ONLY = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_COMMIT = b"COMMIT"
_IDLE = TransactionStatus.IDLE
_MADE = "datarecs_made"
"""Whether a connection of the pool has not been used yet."""
Settings = tuple[bytes, Sequence[object]]
"""A statement that sets what holds for one transaction, and its values."""
_SETTINGS = "datarecs_settings"
"""Option of a statement that travels with its `Settings`."""
Parameters = Mapping[str, Any]
RowOrRows = Parameters | Sequence[Parameters] | None
Answer = psycopg.Cursor[tuple[Any, ...]]
"""Rows as tuples, and how many a write has changed."""
_Said = tuple[bytes, Parameters | Sequence[object] | None]
"""Words for the driver, and their values."""


class Opened:
    """A transaction for which a connection is held; it begins with the first question."""

    def __init__(self, engine: Engine, begin: bytes, settings: Settings) -> None:
        """Take a connection and say nothing yet.

        Raises:
            DBAPIError, sqlalchemy.exc.TimeoutError: there is none.
        """
        self._engine, self._begin, self._settings = engine, begin, settings
        self._row: tuple[Any, ...] | None = None
        self._waiting: list[tuple[Executable, Parameters]] = []
        self._connection: Connection | None = None
        self._failure: Exception | None = None
        """Why it could not begin: told again to whoever goes on, so that no COMMIT is believed."""
        self._take()

    @property
    def row(self) -> tuple[Any, ...]:
        """What the settings have answered; the transaction begins here if it has not.

        Raises:
            DBAPIError, sqlalchemy.exc.TimeoutError: nothing has begun.
        """
        if self._row is None:
            self._say()
        return self._row or ()

    @property
    def connection(self) -> Connection:
        """SQLAlchemy's connection, inside the transaction. Raises as `row`."""
        if self._waiting or not self._is_open:
            self._say()
        if self._connection is None:
            self._connection = Connection(self._engine, self._held)
        return self._connection

    def later(self, statement: Executable, parameters: Parameters) -> None:
        """Run it before whatever is asked next, or before COMMIT; its failure is told then."""
        self._waiting.append((statement, parameters))

    def waits(self, parameters: Parameters) -> bool:
        """Whether the write with this very mapping is still to be sent, and so may still grow."""
        return any(mine is parameters for _, mine in self._waiting)

    def answer(self, statement: Executable, parameters: Parameters) -> Answer:
        """Run what waits, then this, without SQLAlchemy in between.

        Raises:
            DBAPIError: of the first of them that fails.
        """
        known = compiled(statement, parameters)
        words, values = known.text, known.values(parameters)
        if self._waiting or not self._is_open:
            return self._say((words, values))
        try:
            return self._driver.execute(words, values)
        except psycopg.Error as cause:
            raise _wrapped(words, cause, is_gone=self._driver.closed) from cause

    def execute(self, statement: Executable, parameters: RowOrRows = None) -> CursorResult[Any]:
        """Run what waits, then this. Raises DBAPIError for the first of them that fails."""
        return self.connection.execute(statement, parameters)

    def commit(self, last: bytes = b"") -> None:
        """Run what waits, then this statement, if any, and commit; nothing where nothing was said.

        Raises:
            DBAPIError: the outcome may be unknown.
        """
        words = list(filter(None, (last, _COMMIT)))
        if not (self._is_open or self._failure or self._waiting or last):
            return
        if not self._is_open:
            self._begin_alone()
        if self._waiting:
            self._say(*((word, None) for word in words))
            return
        try:
            self._cursor.execute(b"; ".join(words), prepare=False)
        except psycopg.Error as cause:
            raise _wrapped(words[-1], cause, is_gone=self._driver.closed) from cause

    def close(self) -> None:
        """Give the connection back; whatever was not committed is rolled back."""
        (self._connection or self._held).close()

    @property
    def _is_open(self) -> bool:
        return self._row is not None

    def _take(self) -> None:
        self._held = _taken(self._engine)
        driver: Any = self._held.driver_connection
        # Kept, since SQLAlchemy might offer another one in place of a connection that broke.
        self._driver: Driver = driver
        self._cursor = driver.cursor()

    def _begin_alone(self) -> None:
        """Before a COMMIT: a message that ends with it must never be sent a second time."""
        waiting, self._waiting = self._waiting, []
        self._say()
        self._waiting = waiting

    def _say(self, *said: _Said) -> Answer:
        """All in one message: BEGIN where nothing was said yet, what waits, and these."""
        if self._failure is not None:
            raise self._failure
        waiting = [(compiled(*one), one[1]) for one in self._waiting]
        self._waiting = []
        all_said = [*((known.text, known.values(values)) for known, values in waiting), *said]
        if self._is_open:
            return self._sent(all_said)
        try:
            return self._begun_somewhere(all_said)
        except Exception as failure:
            if not self._is_open:
                self._failure = failure
            raise

    def _begun_somewhere(self, said: Sequence[_Said]) -> Answer:
        """A connection that turns out to be dead at BEGIN is replaced: nothing has happened yet.

        The pool is emptied, because the others have most likely died with it.
        """
        try:
            return self._begun(said)
        except DBAPIError as failure:
            if self._is_open or not failure.connection_invalidated:
                raise
        self._held.close()
        self._engine.dispose()
        self._take()
        return self._begun(said)

    def _begun(self, said: Sequence[_Said]) -> Answer:
        first = self._cursor
        try:
            answer = self._sent(said, begins=True)
        finally:
            if first.rowcount == 1:
                self._row = first.fetchone()
            else:
                # The lock of the draw belongs to the session: a broken one must not keep it.
                self._held.invalidate()
        return answer

    def _sent(self, said: Sequence[_Said], *, begins: bool = False) -> Answer:
        words = said[0][0] if said else self._settings[0]
        try:
            with OneMessage(self._driver):
                if begins:
                    self._cursor.execute(self._begin, prepare=False)
                    self._cursor.execute(*self._settings)
                answer = self._driver.cursor()
                for word, values in said:
                    answer.execute(word, values)
        except psycopg.Error as cause:
            raise _wrapped(words, cause, is_gone=self._driver.closed) from cause
        return answer


def listen(engine: Engine) -> None:
    """Once for each engine, before it is used."""
    event.listen(engine, "checkout", _refuse_dead)
    event.listen(engine, "reset", _roll_back)
    event.listen(engine, "do_execute", _with_settings)


def query(
    engine: Engine,
    settings: Settings,
    statement: Executable,
    parameters: Mapping[str, object] | None,
) -> list[Row[Any]]:
    """One statement as a transaction of its own, committed with its answer.

    Raises:
        DBAPIError, sqlalchemy.exc.TimeoutError: there is no answer; its outcome may be unknown.
    """
    with engine.connect() as connection:
        options = {_SETTINGS: settings}
        return list(connection.execute(statement, parameters, execution_options=options).all())


def answer(
    engine: Engine, settings: Settings, statement: Executable, parameters: Parameters
) -> list[tuple[Any, ...]]:
    """`query` for a statement of a module: compiled once, without SQLAlchemy in between.

    Raises:
        DBAPIError, sqlalchemy.exc.TimeoutError: there is no answer; its outcome may be unknown.
    """
    known = compiled(statement, parameters)
    with closing(_taken(engine)) as held:
        driver: Any = held.driver_connection
        try:
            with OneMessage(driver):
                driver.execute(*settings)
                cursor = driver.execute(known.text, known.values(parameters))
            return list(cursor.fetchall())
        except psycopg.Error as cause:
            raise _wrapped(known.text, cause, is_gone=driver.closed) from cause


def _taken(engine: Engine) -> PoolProxiedConnection:
    """A connection of the pool, without what SQLAlchemy needs to run its own statements on it."""
    try:
        return engine.raw_connection()
    except psycopg.Error as cause:
        raise _wrapped(b"connect", cause, is_gone=True) from cause


def _refuse_dead(driver: Any, record: Any, proxy: object) -> None:  # noqa: ANN401  the driver's
    """A server says nothing unasked but farewell: then the whole pool is as old as its server.

    Costs no round trip, unlike a ping. A connection that was just made is believed, so that a
    server which ends each at once is told by its own error.
    """
    del proxy
    if record.info.setdefault(_MADE, True):
        record.info[_MADE] = False
        return
    unasked = poll()
    unasked.register(driver.fileno(), POLLIN)
    if unasked.poll(0):
        raise InvalidatePoolError


def _roll_back(driver: Any, record: object, state: object) -> None:  # noqa: ANN401  the driver's
    """A connection comes back to the pool: asks nobody when it is in no transaction."""
    del record, state
    if driver.info.transaction_status is not _IDLE:
        driver.rollback()


def _with_settings(
    cursor: Any,  # noqa: ANN401  the driver's
    statement: str,
    parameters: Mapping[str, object],
    context: Any,  # noqa: ANN401  SQLAlchemy's
) -> Literal[True] | None:
    """Send both at once: until the end of a pipeline all is one transaction, settings and all."""
    settings = context.execution_options.get(_SETTINGS)
    if settings is None:
        return None
    with OneMessage(cursor.connection):
        cursor.connection.execute(*settings)
        cursor.execute(statement, parameters)
    return True


def _wrapped(words: bytes, cause: psycopg.Error, *, is_gone: bool) -> DBAPIError:
    """The driver's error as SQLAlchemy would raise it."""
    return DBAPIError(words.decode(), None, cause, connection_invalidated=is_gone)
