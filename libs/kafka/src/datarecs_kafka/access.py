"""The broker's address, the principal, and the errors of connections.

Separate from the clients because consumer, producer and administration share it: one place builds
the connection settings, and one place translates the library's errors.
"""

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient

from datarecs_core.errors.messaging import LogUnavailableError

# It warns at each connection about unencrypted credentials; SCRAM never sends the password, and
# only connections to the loopback have no TLS.
logging.getLogger("kafka.net.sasl.scram").setLevel(logging.ERROR)
BOOTSTRAP_TIMEOUT_MS = 5_000
"""Also the maximum delay of a stop for a loop that is connecting."""


class Access(Protocol):
    """What the clients of a cluster need of it."""

    def unavailable(self, cause: str) -> LogUnavailableError:
        """The error of a connection that failed with this cause."""

    @property
    def bootstrap(self) -> str:
        """`host:port`, several separated by commas."""

    def settings(self) -> dict[str, object]:
        """Common settings of consumer, producer and administration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAccess:
    """One principal's connection to the broker: SCRAM-SHA-512, over TLS except on loopback."""

    bootstrap: str
    """`host:port`, several separated by commas."""
    username: str
    password: str = field(repr=False)
    security: str = "SASL_PLAINTEXT"
    """`SASL_SSL` or, for `datarecs up` on loopback, `SASL_PLAINTEXT`."""
    ca_file: str | None = None

    def unavailable(self, cause: str) -> LogUnavailableError:
        return LogUnavailableError(where=self.bootstrap, cause=cause)

    def settings(self) -> dict[str, object]:
        """Common settings of consumer, producer and administration."""
        return {
            "bootstrap_servers": [part.strip() for part in self.bootstrap.split(",")],
            "client_id": f"datarecs-{self.username}",
            "security_protocol": self.security,
            "ssl_cafile": self.ca_file,
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
            "bootstrap_timeout_ms": BOOTSTRAP_TIMEOUT_MS,
            # The defaults of 30,000 and 100 delay recovery after a restart by 10 to 40 s.
            "reconnect_backoff_max_ms": 1_000,
            "retry_backoff_ms": 20,
        }


_CAUSES = ("authentication", "certif", "is not dialled")


class _LastWords(logging.Handler):
    """Stores the newest log messages of the library: it raises a timeout and logs the reason."""

    def __init__(self) -> None:
        super().__init__(level=logging.WARNING)
        self.messages: deque[str] = deque(maxlen=20)

    def emit(self, record: logging.LogRecord) -> None:
        if "in the clear" not in record.getMessage():  # logged for every login without TLS
            self.messages.append(record.getMessage())

    def reason(self, otherwise: str) -> str:
        causes = [m for m in self.messages if any(sign in m.lower() for sign in _CAUSES)]
        reason = (causes or list(self.messages) or [otherwise])[-1][:300]
        if not causes and any("socket disconnected" in m for m in self.messages):
            # The library discards an answer that it reads together with the end of the socket.
            reason += " (a broker hangs up after a failed authentication)"
        return reason


class _Network:
    """Creates the library's network client, and stores it so that it can always be closed."""

    def __init__(self) -> None:
        self._made: list[KafkaNetClient] = []

    def __call__(self, **settings: Any) -> KafkaNetClient:  # noqa: ANN401 - the library's settings
        self._made.append(KafkaNetClient(**settings))
        return self._made[-1]

    def discard(self) -> None:
        for client in self._made:
            client.close()


@contextmanager
def connecting(access: Access) -> Iterator[_Network]:
    """Build a client of the library with the yielded `kafka_client`; it connects at once.

    A wrong password and an unknown CA both appear as a bootstrap timeout; only the library's log
    contains the cause. A constructor that fails leaves its network thread running.

    Raises:
        LogUnavailableError: with the real cause; the thread is ended.
    """
    listener, logger, network = _LastWords(), logging.getLogger("kafka"), _Network()
    logger.addHandler(listener)
    try:
        yield network
    except KafkaError as cause:
        network.discard()
        raise access.unavailable(listener.reason(str(cause))) from cause
    finally:
        logger.removeHandler(listener)
