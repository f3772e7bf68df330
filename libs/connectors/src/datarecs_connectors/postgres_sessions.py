"""Sessions of readers: how one ends, and how others are ended from outside.

A session that was closed here is gone from the server, too: whoever opens the next one is not
counted twice against a login's connections.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Lock

import psycopg

Session = psycopg.Connection[tuple[object, ...]]
_GONE_WITHIN_S = 5


@contextmanager
def ending(session: Session) -> Iterator[Session]:
    """The session, which is closed afterwards; the server hangs up when nothing of it is left."""
    try:
        yield session
    finally:
        _hang_up(session)


def _hang_up(session: Session) -> None:
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
