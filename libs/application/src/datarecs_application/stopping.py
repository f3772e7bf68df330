"""The request to stop a run's work: checked between batches, with actions for blocked readers.

A flag alone does not end a running query of a database. So readers register an action that does,
for as long as they wait; a stop starts all actions at once.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread

from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail


class StoppedError(DatarecsError):
    """The run was cancelled, its deadline passed, or its worker stops."""

    code = RunDetail.STOPPED

    def __init__(self) -> None:
        super().__init__("the run was stopped on request")


class Stopping:
    """Port Wake, with acts; safe to use from several threads. Not for signal handlers."""

    def __init__(self) -> None:
        self._event, self._lock = Event(), Lock()
        self._acts: dict[int, Callable[[], object]] = {}
        self._next = 0

    def set(self) -> None:
        """Stop: every action runs in a separate thread."""
        with self._lock:
            self._event.set()
            acts = tuple(self._acts.values())
        for act in acts:
            _start(act)

    def clear(self) -> None:
        self._event.clear()

    def is_set(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        return self._event.wait(timeout)

    def check(self) -> None:
        """Raises StoppedError once it is set."""
        if self.is_set():
            raise StoppedError

    @contextmanager
    def interrupting(self, act: Callable[[], object]) -> Iterator[None]:
        """Call the action if a stop arrives, or has arrived already, during the block.

        It may still run after the work has ended, so it must check that.
        """
        with self._lock:
            self._next += 1
            number = self._next
            self._acts[number] = act
        if self.is_set():
            _start(act)
        try:
            yield
        finally:
            with self._lock:
                del self._acts[number]


def _start(act: Callable[[], object]) -> None:
    Thread(target=act, name="stop", daemon=True).start()
