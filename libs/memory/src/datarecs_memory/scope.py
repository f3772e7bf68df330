"""One open transaction of the twin: the tenant's copy, its time, its feed numbers, its wake-ups."""

from collections.abc import Iterator, Sequence

from datarecs_application.errors import FeedNotDrawnError
from datarecs_core.values import RunId, TenantId
from datarecs_memory.store import MemoryStore, TenantState

RUN_CHANNEL = "datarecs_run"
WAKE_CHANNEL = "datarecs_wake"


class Scope:
    """The shared state of the repositories of one transaction."""

    def __init__(
        self, store: MemoryStore, tenant_id: TenantId, state: TenantState, numbers: Sequence[int]
    ) -> None:
        self.store, self.tenant_id, self.state = store, tenant_id, state
        self.now = store.clock.now()
        self._drawn = len(numbers)
        self._numbers: Iterator[int] = iter(numbers)
        self._touched: dict[RunId, None] = {}
        self._wake = False

    def next_rv(self) -> int:
        number = next(self._numbers, None)
        if number is None:
            raise FeedNotDrawnError(drawn=self._drawn)
        return number

    def touch_run(self, run_id: RunId) -> None:
        self._touched[run_id] = None

    def wake(self) -> None:
        self._wake = True

    def notify(self) -> None:
        """Send notifications after the commit, outside the lock."""
        if self._touched:
            only = next(iter(self._touched)) if len(self._touched) == 1 else None
            self.store.notify(RUN_CHANNEL, "" if only is None else str(only))
        if self._wake:
            self.store.notify(WAKE_CHANNEL, "")
