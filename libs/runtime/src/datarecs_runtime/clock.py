"""Time, ids and random bytes of a real process: the only module that reads them from the machine.

All other code gets them as arguments or through the ports Clock and Ids.
"""

import secrets
import threading
import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

import uuid_utils

from datarecs_application.ports.outside import Wake

Latch = threading.Event
"""The Wake port in production."""


class SystemClock:
    """The Clock port with the machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, duration: timedelta, *, until: Wake | None = None) -> bool:
        latch = Latch() if until is None else until
        return latch.wait(max(duration.total_seconds(), 0.0))


class UuidV7Ids:
    """The Ids port: UUIDv7, increasing within the process, also within one millisecond."""

    def new(self) -> UUID:
        return UUID(int=uuid_utils.uuid7().int)


def random_bytes(count: int) -> bytes:
    """Unpredictable bytes for keys, secrets and nonces."""
    return secrets.token_bytes(count)


def random_fraction() -> float:
    """Uniform in [0, 1), for jitter."""
    return secrets.randbelow(2**53) / 2**53
