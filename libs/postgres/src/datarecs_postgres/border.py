"""How statements travel: the first and the last word of a transaction, and what goes with others.

Its own module because it alone speaks to the driver: several statements in one message, which
SQLAlchemy cannot send. BEGIN travels with the settings, COMMIT with the notifications, so that
a transaction costs two round trips besides its own statements; a single question travels with its
settings, as one implicit transaction, and costs one. A write whose answer nobody needs waits for
the next question or for COMMIT, keeps its place before it, and costs none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from select import POLLIN, poll
from typing import Any, Literal

import psycopg
from sqlalchemy import Connection, CursorResult, Engine, Executable, Row, event
from sqlalchemy.exc import DBAPIError, InvalidatePoolError

from datarecs_postgres.compiled import compiled

AUTOCOMMIT = {"autocommit": True}
"""How a driver's connection is opened for this: it adds no BEGIN of its own."""
READ_WRITE = b"BEGIN; "
READ_ONLY = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
_COMMIT = b"COMMIT"
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


@dataclass(slots=True)
class Opened:
    """A transaction under way."""

    connection: Connection
    row: tuple[Any, ...]
    """What the statement behind BEGIN has answered."""
    _driver: "psycopg.Connection[tuple[Any, ...]]"
    """Kept, since SQLAlchemy might offer another one in place of a connection that broke."""
    _waiting: list[tuple[Executable, Parameters]] = field(default_factory=list)

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
        try:
            if not self._waiting:
                return self._driver.execute(words, values)
            with self._driver.pipeline():
                self._send_waiting()
                answer = self._driver.execute(words, values)
        except psycopg.Error as cause:
            raise _wrapped(words, cause, is_gone=self._driver.closed) from cause
        return answer

    def execute(self, statement: Executable, parameters: RowOrRows = None) -> CursorResult[Any]:
        """Run what waits, then this. Raises DBAPIError for the first of them that fails."""
        if self._waiting:
            self._catch_up()
        return self.connection.execute(statement, parameters)

    def commit(self, last: bytes = b"") -> None:
        """Run what waits, then this statement, if any, and commit.

        Raises:
            DBAPIError: the outcome may be unknown.
        """
        words = list(filter(None, (last, _COMMIT)))
        try:
            if self._waiting:
                with self._driver.pipeline():
                    self._send_waiting()
                    for word in words:
                        self._driver.execute(word, prepare=False)
            else:
                self._driver.execute(b"; ".join(words), prepare=False)
        except psycopg.Error as cause:
            raise _wrapped(words[-1], cause, is_gone=self._driver.closed) from cause

    def _catch_up(self) -> None:
        words = compiled(*self._waiting[0]).text
        try:
            with self._driver.pipeline():
                self._send_waiting()
        except psycopg.Error as cause:
            raise _wrapped(words, cause, is_gone=self._driver.closed) from cause

    def _send_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        cursor = self._driver.cursor()
        for statement, parameters in waiting:
            known = compiled(statement, parameters)
            cursor.execute(known.text, known.values(parameters))


def begin(engine: Engine, words: bytes) -> Opened:
    """Open a transaction with `BEGIN…; SELECT …` in one message. The caller closes the connection.

    A connection that turns out to be dead here is replaced, since nothing has happened yet; the
    pool is emptied, because the others have most likely died with it.

    Raises:
        DBAPIError, sqlalchemy.exc.TimeoutError: nothing has begun.
    """
    try:
        return _begun(engine, words)
    except DBAPIError as failure:
        if not failure.connection_invalidated:
            raise
    engine.dispose()
    return _begun(engine, words)


def _begun(engine: Engine, words: bytes) -> Opened:
    connection = engine.connect()
    driver: Any = connection.connection.driver_connection
    try:
        cursor = driver.execute(words, prepare=False)
        cursor.nextset()  # behind the answer to BEGIN
        return Opened(connection, cursor.fetchone(), driver)
    except BaseException as cause:
        is_gone = driver.closed
        # The lock of the draw belongs to the session: a broken one must not keep it.
        connection.invalidate()
        connection.close()
        if isinstance(cause, psycopg.Error):
            raise _wrapped(words, cause, is_gone=is_gone) from cause
        raise


def listen(engine: Engine) -> None:
    """Once for each engine, before it is used."""
    event.listen(engine, "checkout", _refuse_dead)
    event.listen(engine, "do_execute", _with_settings)


def ask(
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
    """`ask` for a statement that stands in a module: compiled once, without SQLAlchemy in between.

    Raises:
        DBAPIError, sqlalchemy.exc.TimeoutError: there is no answer; its outcome may be unknown.
    """
    known = compiled(statement, parameters)
    with engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        try:
            with driver.pipeline():
                driver.execute(*settings)
                found = driver.execute(known.text, known.values(parameters))
            return list(found.fetchall())
        except psycopg.Error as cause:
            raise _wrapped(known.text, cause, is_gone=driver.closed) from cause


def through(
    engine: Engine, settings: bytes, statement: Executable, parameters: Parameters
) -> list[tuple[Any, ...]]:
    """`answer` for a function: settings and call in one message, with the values in its text.

    The server plans such a call in no time, and so is spared the five messages of a pipeline.

    Raises:
        DBAPIError, sqlalchemy.exc.TimeoutError: there is no answer; its outcome may be unknown.
    """
    known = compiled(statement, parameters)
    with engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        cursor = psycopg.ClientCursor(driver)
        try:
            cursor.execute(settings + known.text, known.values(parameters))
            cursor.nextset()  # behind the answer to the settings
            return list(cursor.fetchall())
        except psycopg.Error as cause:
            raise _wrapped(known.text, cause, is_gone=driver.closed) from cause


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
    with cursor.connection.pipeline():
        cursor.connection.execute(*settings)
        cursor.execute(statement, parameters)
    return True


def _wrapped(words: bytes, cause: psycopg.Error, *, is_gone: bool) -> DBAPIError:
    """The driver's error as SQLAlchemy would raise it."""
    return DBAPIError(words.decode(), None, cause, connection_invalidated=is_gone)
