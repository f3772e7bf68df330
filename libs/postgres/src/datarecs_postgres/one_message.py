"""Several statements in one message to the server: one send, one wait, one answer.

Its own module because the driver's pipeline sends each statement as soon as it is given, so that
the server is woken for every single one and both sides pay for it; here nothing leaves before all
is said. It is the one place that knows how the driver queues, and a test watches its sends.
"""

from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg.abc import PQGen
from psycopg.generators import send

Driver = psycopg.Connection[tuple[Any, ...]]


class OneMessage(psycopg.Pipeline):
    """What is executed in this block travels at its end; answers are there behind it.

    The first failure is raised at the end; what stood behind it was not run. Several statements
    outside a transaction are one, committed at the end unless they begin one themselves.
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
        """The driver asks for this behind each statement: keep them in libpq's buffer."""
        while self.command_queue:
            self.command_queue.popleft()()
        yield from ()  # a generator, as the driver wants it

    def _exit_gen(self) -> PQGen[None]:
        self._enqueue_sync()
        yield from self._communicate_gen()
        yield from send(self.pgconn)
        yield from self._fetch_gen(flush=False)
