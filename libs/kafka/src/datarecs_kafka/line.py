"""The state of a membership for one line of records: its position and its failures.

Separate from the session because events of a refill are handled by the same rules as those of a
partition, but have no partition.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Line:
    """Discarded with the partition, or with the refill."""

    committed: int | None = None
    owed: int | None = None
    """An offset that was not committed because of an outage."""
    failures: int = 0
    """Retryable failures in a row."""
    offset: int = -1
    tries: int = 0
    """Unclassified failures of the record at `offset`."""
    resume_at: float | None = None
    """Monotonic time before which no record of it is handled."""
    single_until: int = 0
    """Records below this offset are handled one by one, because their common transaction failed."""

    def tried(self, offset: int) -> int:
        self.tries = self.tries + 1 if offset == self.offset else 1
        self.offset = offset
        return self.tries

    def settled(self) -> None:
        self.failures, self.offset, self.tries = 0, -1, 0
