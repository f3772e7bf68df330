"""Send statements to the server: begin and end of a transaction, and statements sent together.

A separate module because only it calls the driver directly: several statements in one message,
which SQLAlchemy cannot send. BEGIN and the settings are sent with the first query, COMMIT with the
notifications. So a transaction costs one round trip in addition to its statements, or two if the
first statement uses SQLAlchemy. A single query is sent with its settings, as one implicit
transaction, and costs one round trip. A write without a result waits for the next query or for
COMMIT, is executed before it, and costs no round trip.
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
"""Option of the driver's connection: the driver adds no BEGIN."""
READ_WRITE = b"BEGIN"
READ_ONLY = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_COMMIT = b"COMMIT"
_IDLE = TransactionStatus.IDLE
_MADE = "datarecs_made"
"""Marks a connection of the pool that has not been used yet."""
Settings = tuple[bytes, Sequence[object]]
"""A statement that sets the settings of one transaction, and its values."""
_SETTINGS = "datarecs_settings"
"""Option of a statement that is sent with its `Settings`."""
Parameters = Mapping[str, Any]
RowOrRows = Parameters | Sequence[Parameters] | None
Answer = psycopg.Cursor[tuple[Any, ...]]
"""Rows as tuples, and the number of rows that a write changed."""
_Said = tuple[bytes, Parameters | Sequence[object] | None]
"""SQL for the driver, and its values."""


class Opened:
    """A transaction with a connection; it begins with the first query."""

    def __init__(self, engine: Engine, begin: bytes, settings: Settings) -> None:
        """Take a connection and send nothing yet.

        Raises:
            DBAPIError, sqlalchemy.exc.TimeoutError: no connection is available.
        """
        self._engine, self._begin, self._settings = engine, begin, settings
        self._row: tuple[Any, ...] | None = None
        self._waiting: list[tuple[Executable, Parameters]] = []
        self._connection: Connection | None = None
        self._failure: Exception | None = None
        """Why it could not begin: raised again by later calls, so no COMMIT seems to succeed."""
        self._take()

    @property
    def row(self) -> tuple[Any, ...]:
        """The result of the settings; the transaction begins here if it has not yet.

        Raises:
            DBAPIError, sqlalchemy.exc.TimeoutError: the transaction has not begun.
        """
        if self._row is None:
            self._say()
        return self._row or ()

    @property
    def connection(self) -> Connection:
        """SQLAlchemy's connection, inside the transaction. Raises the errors of `row`."""
        if self._waiting or not self._is_open:
            self._say()
        if self._connection is None:
            self._connection = Connection(self._engine, self._held)
        return self._connection

    def later(self, statement: Executable, parameters: Parameters) -> None:
        """Run it before the next query or before COMMIT; its failure is raised then."""
        self._waiting.append((statement, parameters))

    def waits(self, parameters: Parameters) -> bool:
        """Whether the write with this mapping object is not sent yet and may still be extended."""
        return any(mine is parameters for _, mine in self._waiting)

    def answer(self, statement: Executable, parameters: Parameters) -> Answer:
        """Run the waiting writes, then this statement, without SQLAlchemy.

        Raises:
            DBAPIError: of the first statement that fails.
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
        """Run the waiting writes, then this. Raises DBAPIError of the first that fails."""
        return self.connection.execute(statement, parameters)

    def commit(self, last: bytes = b"") -> None:
        """Run the waiting writes, then this statement, if any, and commit; no effect before BEGIN.

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
        """Return the connection; uncommitted changes are rolled back."""
        (self._connection or self._held).close()

    @property
    def _is_open(self) -> bool:
        return self._row is not None

    def _take(self) -> None:
        self._held = _taken(self._engine)
        driver: Any = self._held.driver_connection
        # Stored, because SQLAlchemy might replace a broken connection by another one.
        self._driver: Driver = driver
        self._cursor = driver.cursor()

    def _begin_alone(self) -> None:
        """Call before a COMMIT: a message that ends with it must never be sent twice."""
        waiting, self._waiting = self._waiting, []
        self._say()
        self._waiting = waiting

    def _say(self, *said: _Said) -> Answer:
        """Send in one message: BEGIN if not sent yet, the waiting writes, and these."""
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
        """Replace a connection that fails at BEGIN: nothing has happened yet.

        The pool is emptied, because its other connections have most likely failed as well.
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
                # The lock of the feed numbers belongs to the session: a broken one must release it.
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
    """Set up an engine; once for each, before its use."""
    event.listen(engine, "checkout", _refuse_dead)
    event.listen(engine, "reset", _roll_back)
    event.listen(engine, "do_execute", _with_settings)


def query(
    engine: Engine,
    settings: Settings,
    statement: Executable,
    parameters: Mapping[str, object] | None,
) -> list[Row[Any]]:
    """Run one statement as its own transaction, committed with its answer.

    Raises:
        DBAPIError, sqlalchemy.exc.TimeoutError: there is no answer; its outcome may be unknown.
    """
    with engine.connect() as connection:
        options = {_SETTINGS: settings}
        return list(connection.execute(statement, parameters, execution_options=options).all())


def answer(
    engine: Engine, settings: Settings, statement: Executable, parameters: Parameters
) -> list[tuple[Any, ...]]:
    """`query` for a statement of a module: compiled once, executed without SQLAlchemy.

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
    """A connection of the pool, without the objects for statements of SQLAlchemy."""
    try:
        return engine.raw_connection()
    except psycopg.Error as cause:
        raise _wrapped(b"connect", cause, is_gone=True) from cause


def _refuse_dead(driver: Any, record: Any, proxy: object) -> None:  # noqa: ANN401  the driver's
    """Check for an unsolicited message: the server sends one only when it ends its connections.

    Then the whole pool is outdated. Costs no round trip, unlike a ping. A new connection is not
    checked, so that a server which ends each connection at once is reported with its error.
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
    """Return a connection to the pool; without a round trip if it has no open transaction."""
    del record, state
    if driver.info.transaction_status is not _IDLE:
        driver.rollback()


def _with_settings(
    cursor: Any,  # noqa: ANN401  the driver's
    statement: str,
    parameters: Mapping[str, object],
    context: Any,  # noqa: ANN401  SQLAlchemy's
) -> Literal[True] | None:
    """Send both at once: all statements of a pipeline are one transaction, with the settings."""
    settings = context.execution_options.get(_SETTINGS)
    if settings is None:
        return None
    with OneMessage(cursor.connection):
        cursor.connection.execute(*settings)
        cursor.execute(statement, parameters)
    return True


def _wrapped(words: bytes, cause: psycopg.Error, *, is_gone: bool) -> DBAPIError:
    """The driver's error in the form that SQLAlchemy raises."""
    return DBAPIError(words.decode(), None, cause, connection_invalidated=is_gone)
