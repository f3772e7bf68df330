"""Ends the process when a call to the broker does not return in time.

Calls of a transaction have no time limit in the library, and a thread that waits in one cannot be
stopped. An end is safe at any time: what was not committed is aborted by the broker.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from threading import Timer

import structlog

from datarecs_core.errors.sink import SinkCode

EXIT_BROKER_TIMEOUT = 79
"""Of the process; its supervisor starts another one."""
CALL_LIMIT = timedelta(seconds=30)
log = structlog.get_logger(__name__)


def end_process(call: str) -> None:
    """At once, without any clean-up: each could wait for the same broker."""
    log.critical(
        "broker_timeout", code=SinkCode.BROKER_TIMEOUT.docs_id, call=call, remedy="none needed"
    )
    os._exit(EXIT_BROKER_TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watchdog:
    limit: timedelta = CALL_LIMIT
    expire: Callable[[str], None] = end_process
    """Called in a thread of its own with the name of the call."""

    @contextmanager
    def watch(self, call: str) -> Iterator[None]:
        """Run the block under the limit."""
        timer = Timer(self.limit.total_seconds(), self.expire, (call,))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
