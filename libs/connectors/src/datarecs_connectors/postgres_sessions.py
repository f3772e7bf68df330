"""Sessions of readers: how they end, how they are cancelled, and when they time out.

Closing waits until the server has closed the session, so the next session does not count twice
against the login's connection limit.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event, Lock, Thread

import psycopg

from datarecs_application.stopping import Stopping
from datarecs_connectors.errors import SnapshotLostError
from datarecs_core.comparison.planning.scan import ExportedSnapshot

Session = psycopg.Connection[tuple[object, ...]]
_GONE_WITHIN_S = 5
_OBEYS_WITHIN_S = 5
"""Extra time for the server to apply its statement timeout."""
_CANCELS, _CANCEL_S, _CANCEL_AGAIN_S = 6, 1.0, 0.2
"""Requests to cancel after a stop, and the seconds that each may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldSnapshot:
    """Port HeldPin: the transaction that exported the snapshot, kept open."""

    source: str
    pin: ExportedSnapshot
    session: Session
    limit: timedelta
    """Of a statement."""

    def check(self) -> ExportedSnapshot:
        try:
            with deadline(self.session, self.limit):
                self.session.execute("SELECT 1")
        except psycopg.Error as cause:
            raise SnapshotLostError(
                self.source,
                "the session that held the snapshot has ended; run again, and raise "
                "snapshot.max_hold if the run needs more time",
            ) from cause
        return self.pin

    def close(self) -> None:
        hang_up(self.session)


@contextmanager
def ending(session: Session) -> Iterator[Session]:
    """The session, closed afterwards; waits until the server has closed it too."""
    try:
        yield session
    finally:
        hang_up(session)


NEVER_STOPPED = Stopping()
"""Time limit of statements that end immediately."""


@contextmanager
def deadline(session: Session, limit: timedelta, stop: Stopping = NEVER_STOPPED) -> Iterator[Event]:
    """A statement with a time limit in this process; the event is set when the limit ended it.

    After the server's `statement_timeout` and a margin, the statement is cancelled, and then the
    connection is closed: a job's SQL may have changed the timeout, or the server may be lost. A
    stop cancels at once.
    """
    done, late = Event(), Event()

    def watch() -> None:
        if done.wait(limit.total_seconds() + _OBEYS_WITHIN_S):
            return
        late.set()
        with suppress(psycopg.Error):
            session.cancel_safe(timeout=_GONE_WITHIN_S)
        if not done.wait(_GONE_WITHIN_S):
            _cut(session)

    watching = Thread(target=watch, name="deadline", daemon=True)
    watching.start()
    try:
        with stop.interrupting(lambda: _cancel(session, done)):
            yield late
    finally:
        done.set()
        watching.join()


def _cancel(session: Session, done: Event) -> None:
    """Send cancel requests until the work has ended, then close the connection.

    A request between two statements is lost, so it is repeated.
    """
    for _ in range(_CANCELS):
        with suppress(psycopg.Error):
            session.cancel_safe(timeout=_CANCEL_S)
        if done.wait(_CANCEL_AGAIN_S):
            return
    _cut(session)


def _cut(session: Session) -> None:
    with (
        suppress(OSError, psycopg.Error),
        socket.socket(fileno=os.dup(session.fileno())) as line,
    ):
        line.shutdown(socket.SHUT_RDWR)


def hang_up(session: Session) -> None:
    """Close the session and wait until the server has closed it; safe to repeat."""
    if session.closed:
        return
    with socket.socket(fileno=os.dup(session.fileno())) as line, suppress(OSError):
        session.close()
        line.settimeout(_GONE_WITHIN_S)
        while line.recv(65_536):
            pass


@dataclass(slots=True)
class Sessions:
    """Sessions with a read in progress."""

    _open: set[Session] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    @contextmanager
    def holding(self, session: Session) -> Iterator[None]:
        with self._lock:
            self._open.add(session)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(session)

    def interrupt(self) -> None:
        """Cancel their statements; no effect on a session without a statement."""
        with self._lock:
            reading = tuple(self._open)
        for session in reading:
            with suppress(psycopg.Error):
                session.cancel_safe(timeout=_GONE_WITHIN_S)
