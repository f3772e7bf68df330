"""Receive NOTIFY: one session connection per process that wakes loops and live views early.

Only a hint: every receiver also polls, so a lost notification costs at most one second.
"""

from collections.abc import Callable, Sequence

import psycopg
from psycopg import sql

from datarecs_application.ports.outside import Wake
from datarecs_postgres.releases import application_name
from datarecs_postgres.session import RUN_CHANNEL, WAKE_CHANNEL
from datarecs_postgres.urls import conninfo

STOP_CHECK_S = 0.5
RECONNECT_S = 1.0


class Listener:
    """A loop: listens until `stop` is set, and reconnects when the connection breaks."""

    def __init__(
        self,
        url: str,
        on_notice: Callable[[str, str], None],
        *,
        channels: Sequence[str] = (WAKE_CHANNEL, RUN_CHANNEL),
    ) -> None:
        """Create it without a connection.

        Args:
            url: any service login; the connection must reach the server directly, without a pooler.
            on_notice: called on the loop's thread with channel and payload; must not block. Called
                with an empty payload for each channel after every (re)connect, because earlier
                notifications are lost.
            channels: the payload of `datarecs_run` is a run id, or empty if several runs changed;
                that of `datarecs_wake` is empty.
        """
        self._conninfo, self._on_notice, self._channels = conninfo(url), on_notice, tuple(channels)

    @property
    def name(self) -> str:
        return "listener"

    def run(self, stop: Wake) -> None:
        while not stop.is_set():
            try:
                self._listen(stop)
            except psycopg.OperationalError:
                stop.wait(RECONNECT_S)

    def _listen(self, stop: Wake) -> None:
        with psycopg.connect(
            self._conninfo,
            autocommit=True,
            connect_timeout=5,
            application_name=application_name(self.name),
        ) as connection:
            for channel in self._channels:
                connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            for channel in self._channels:
                self._on_notice(channel, "")
            while not stop.is_set():
                for notice in connection.notifies(timeout=STOP_CHECK_S):
                    self._on_notice(notice.channel, notice.payload)
