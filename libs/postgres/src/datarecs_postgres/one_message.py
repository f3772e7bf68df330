"""Several statements in one message to the server: one send, one wait, one answer.

A separate module because the driver's pipeline sends each statement immediately, which wakes the
server for each one and costs time on both sides; here all statements are sent together. It is the
only place that depends on the queues of the driver, and a test checks its sends.
"""

from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg.abc import PQGen
from psycopg.generators import send

Driver = psycopg.Connection[tuple[Any, ...]]


class OneMessage(psycopg.Pipeline):
    """Send the statements of this block at its end; their answers are available after it.

    The first failure is raised at the end; later statements were not run. Several statements
    outside a transaction are one transaction, committed at the end unless they begin one.
    """

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self._driver: Any = driver

    def __enter__(self) -> Self:
        self.pgconn.enter_pipeline_mode()
        self.level += 1
        self._driver._pipeline = self  # noqa: SLF001  where the driver's cursors look for it
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(kind, failure, trace)
        finally:
            self._driver._pipeline = None  # noqa: SLF001  as above

    def _communicate_gen(self) -> PQGen[None]:
        """The driver calls this after each statement; statements stay in libpq's buffer."""
        while self.command_queue:
            self.command_queue.popleft()()
        yield from ()  # a generator, as the driver requires

    def _exit_gen(self) -> PQGen[None]:
        self._enqueue_sync()
        yield from self._communicate_gen()
        yield from send(self.pgconn)
        yield from self._fetch_gen(flush=False)
