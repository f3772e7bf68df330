"""Events of a topic that the log has forgotten, on their way to the handler once more.

Apart from the session because it only keeps the account: which partitions wait for it, which event
is next, and when it may go on after a failure. The same handler and inbox take the events, so one
that was heard after all changes nothing.
"""

from collections.abc import Collection, Iterator
from dataclasses import KW_ONLY, dataclass, field

from datarecs_application.ports.messaging import EventArchive, LogRecord, Partition
from datarecs_kafka.line import Line


@dataclass(slots=True)
class Refill:
    """One topic's; partitions with a gap are paused until it has ended."""

    archive: EventArchive
    _: KW_ONLY
    group: str
    topic: str
    types: Collection[str]
    starts: dict[Partition, int] = field(default_factory=dict)
    """Partitions with a gap, and the first offset that the log still holds."""
    certain: bool = False
    """A committed offset is gone. Else the group has none: either it is new and has lost nothing,
    or the broker forgot its offsets while it was away."""
    line: Line = field(default_factory=Line)
    handled: int = 0
    _records: Iterator[LogRecord] | None = None
    _next: LogRecord | None = None

    def next(self) -> LogRecord | None:
        """The event that is to be handled now, the same until `done`; None at the end.

        Raises StoreUnavailableError, StoreBusyError: ask again later.
        """
        if self._next is None:
            if self._records is None:
                if not self.certain and not self.archive.memory(self.group).has_marks:
                    return None
                self._records = self.archive.unheard(self.group, self.topic, self.types)
            try:
                self._next = next(self._records, None)
            except Exception:
                self._records = None  # what was handled is marked, so a new pass leaves it out
                raise
        return self._next

    def done(self) -> None:
        self._next = None
        self.handled += 1
        self.line.settled()
