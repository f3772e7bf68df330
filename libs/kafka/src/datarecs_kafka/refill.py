"""Handle events of a topic that the log has removed.

Separate from the session because it only tracks state: the waiting partitions, the next event, and
the time of the next try after a failure. The same handler and inbox process the events, so an event
that was already handled has no effect.
"""

from collections.abc import Collection, Iterator
from dataclasses import KW_ONLY, dataclass, field

from datarecs_application.ports.messaging import EventArchive, LogRecord, Partition
from datarecs_kafka.line import Line


@dataclass(slots=True)
class Refill:
    """The refill of one topic; partitions with a gap are paused until it ends."""

    archive: EventArchive
    _: KW_ONLY
    group: str
    topic: str
    types: Collection[str]
    starts: dict[Partition, int] = field(default_factory=dict)
    """Partitions with a gap, and the first offset that the log still has."""
    certain: bool = False
    """Whether records at a committed offset are removed. Else the group has no offset: either it is
    new and has lost nothing, or the broker removed its offsets during its absence."""
    line: Line = field(default_factory=Line)
    handled: int = 0
    _records: Iterator[LogRecord] | None = None
    _next: LogRecord | None = None

    def next(self) -> LogRecord | None:
        """The next event to handle, the same until `done`; None at the end.

        Raises StoreUnavailableError, StoreBusyError: call again later.
        """
        if self._next is None:
            if self._records is None:
                if not self.certain and not self.archive.memory(self.group).has_marks:
                    return None
                self._records = self.archive.unheard(self.group, self.topic, self.types)
            try:
                self._next = next(self._records, None)
            except Exception:
                self._records = None  # handled events are marked, so a new pass skips them
                raise
        return self._next

    def done(self) -> None:
        self._next = None
        self.handled += 1
        self.line.settled()
