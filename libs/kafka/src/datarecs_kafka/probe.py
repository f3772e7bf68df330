"""Check that a broker answers a login: the first step of the local stack and of tests."""

import logging
import socket

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from datarecs_core.errors.messaging import LogUnavailableError
from datarecs_kafka.access import BrokerAccess, connecting


def silence(bootstrap: str, *, username: str, password: str, timeout_s: float = 5) -> str | None:
    """Why there is no answer yet; None if metadata names a broker.

    Args:
        bootstrap: one `host:port`.
        username: SCRAM-SHA-512 over plain TCP, as on loopback.
        password: of that user.
        timeout_s: for the whole check, after the port is open.
    """
    nobody = refusal(bootstrap)
    if nobody is not None:
        return nobody
    access = BrokerAccess(bootstrap=bootstrap, username=username, password=password)
    limits = {"bootstrap_timeout_ms": int(timeout_s * 1000), "request_timeout_ms": 5_000}
    library = logging.getLogger("kafka")
    spreads, library.propagate = library.propagate, False  # do not log the start of a broker
    try:
        with connecting(access), KafkaAdminClient(**access.settings() | limits) as admin:
            known = admin.describe_cluster()["brokers"]
    except (KafkaError, LogUnavailableError) as failure:
        return str(failure)
    finally:
        library.propagate = spreads
    return None if known else "no broker has registered"


def refusal(bootstrap: str) -> str | None:
    """Why the port is not open; None if it is.

    Checked first, because a client of the library that cannot connect leaves its socket open.
    """
    host, _, port = bootstrap.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError as failure:
        return str(failure)
    return None
