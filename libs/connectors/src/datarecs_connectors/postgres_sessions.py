"""Sessions of readers: how one ends, how others are ended from outside, and when by themselves.

A session that was closed here is gone from the server, too: whoever opens the next one is not
counted twice against a login's connections.
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
"""The server a timeout of its own."""
_CANCELS, _CANCEL_S, _CANCEL_AGAIN_S = 6, 1.0, 0.2
"""Requests to cancel after a stop, and the seconds that each may take and is waited for."""


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
                "the session that held the snapshot was cut; run again, and raise "
                "snapshot.max_hold where it was held for longer",
            ) from cause
        return self.pin

    def close(self) -> None:
        hang_up(self.session)


@contextmanager
def ending(session: Session) -> Iterator[Session]:
    """The session, which is closed afterwards; the server hangs up when nothing of it is left."""
    try:
        yield session
    finally:
        hang_up(session)


NEVER_STOPPED = Stopping()
"""For statements that are over at once."""


@contextmanager
def deadline(session: Session, limit: timedelta, stop: Stopping = NEVER_STOPPED) -> Iterator[Event]:
    """A statement that this process ends by its own clock; the event is set once it had to.

    The server has its own `statement_timeout` and is given the time to obey it, then asked to
    cancel, and then the line is cut: it may have been told to forget the time, or be lost. A stop
    asks it to cancel at once.
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
    """Ask the server to cancel until the work is done, and cut the line when that does not help.

    A request that comes between two statements is lost, so it is repeated.
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
    """Close the session and wait until the server has; safe to repeat."""
    if session.closed:
        return
    with socket.socket(fileno=os.dup(session.fileno())) as line, suppress(OSError):
        session.close()
        line.settimeout(_GONE_WITHIN_S)
        while line.recv(65_536):
            pass


@dataclass(slots=True)
class Sessions:
    """Sessions that read at the moment."""

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
        """Cancel what they wait for; one that waits for nothing does not notice."""
        with self._lock:
            reading = tuple(self._open)
        for session in reading:
            with suppress(psycopg.Error):
                session.cancel_safe(timeout=_GONE_WITHIN_S)
