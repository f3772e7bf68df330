"""What a membership remembers of one line of records: where it stands, how often it failed.

Apart from the session because the events of a refill are handled under the same rules as those of a
partition, and have no partition.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Line:
    """Forgotten with the partition, or with the refill."""

    committed: int | None = None
    owed: int | None = None
    """An offset whose commit was cut off by an outage."""
    failures: int = 0
    """Retryable failures in a row."""
    offset: int = -1
    tries: int = 0
    """Unclassified failures of the record at `offset`."""
    resume_at: float | None = None
    """Monotonic time before which nothing of it is handled."""
    single_until: int = 0
    """Records below this offset are handled one by one: together they failed."""

    def tried(self, offset: int) -> int:
        self.tries = self.tries + 1 if offset == self.offset else 1
        self.offset = offset
        return self.tries

    def settled(self) -> None:
        self.failures, self.offset, self.tries = 0, -1, 0
