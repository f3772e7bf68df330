"""The newest bad records of one partition: when there are too many for dead letters.

Pure. Counted by records instead of time, so that the same records stop the sink wherever polls and
commits divide them.
"""

from dataclasses import dataclass, replace

from datarecs_core.sink.definition import ErrorPolicy

WINDOW = 1_000
"""Records of a partition that `max_per_thousand` is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentBadRecords:
    """Of one partition, since a task began to read it."""

    records: int = 0
    """Good and bad ones, of complete batches."""
    in_a_row: int = 0
    """Up to the newest bad one."""
    numbers: tuple[int, ...] = ()
    """Of the bad ones among the last 1,000 records, ascending; the first record is 0."""

    def with_bad(self, index: int) -> "RecentBadRecords":
        """One more, at an index of the next batch; in ascending order."""
        number = self.records + index
        is_next = self.numbers[-1:] == (number - 1,)
        recent = (one for one in self.numbers if one > number - WINDOW)
        return replace(
            self, in_a_row=self.in_a_row + 1 if is_next else 1, numbers=(*recent, number)
        )

    def after(self, records: int) -> "RecentBadRecords":
        """At the end of a batch of so many records."""
        return replace(self, records=self.records + records)

    def excess(self, policy: ErrorPolicy) -> str:
        """Why the newest bad record is one too many; empty: it is not."""
        if self.in_a_row > policy.max_in_a_row:
            return (
                f"it is bad record {self.in_a_row:,} in a row, and errors.max_in_a_row is"
                f" {policy.max_in_a_row:,}"
            )
        if len(self.numbers) > policy.max_per_thousand:
            return (
                f"it is bad record {len(self.numbers):,} among the last {WINDOW:,} of its"
                f" partition, and errors.max_per_thousand is {policy.max_per_thousand:,}"
            )
        return ""
