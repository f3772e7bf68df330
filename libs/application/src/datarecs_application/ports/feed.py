"""Run events, and changes of declared objects, of all tenants in commit order, for live views.

Separate from `state`, because a reader of the feed is outside all transactions: it reads what
others have committed, in the order of their commits.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol, TypeVar

from datarecs_application.ports.state import HistoryEntry
from datarecs_core.resources.change_feed import ResourceChange, WatchFilter
from datarecs_core.values import JobId, RunId, TenantId

LineT = TypeVar("LineT")
WhereT_contra = TypeVar("WhereT_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedEntry:
    """A line of some run's history; its place in the feed is `entry.rv`."""

    run_id: RunId
    job_id: JobId
    entry: HistoryEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events a reader gets; empty means any."""

    types: frozenset[str] = frozenset()
    """Wire types with prefix, or names of synthesised facts."""
    job_id: JobId | None = None

    def admits(self, line: FeedEntry) -> bool:
        return (not self.types or line.entry.type in self.types) and (
            self.job_id is None or line.job_id == self.job_id
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedBatch:
    """Numbers read from the feed, and how far back older transactions may still delay it."""

    entries: tuple[tuple[TenantId, int], ...]
    """(tenant, rv) in commit order. No lower number can appear later."""
    ended: int
    """Every transaction numbered below this one has ended, and is in the feed if it committed."""
    begun: int
    """Every transaction that had begun is numbered below this one."""


class CommitFeed(Protocol[LineT, WhereT_contra]):
    """Lines after a cursor in commit order: it skips no slower writer, and waits for it.

    Numbers are drawn in the order of transaction ids, and a line is shown when every older
    transaction has ended. A reader that waits for an announced line reads again until `ended`
    reaches the `begun` of that time.
    """

    def head(self) -> int:
        """The newest number that is shown, over all tenants; 0 when there is none."""

    def read_after(self, *, after: int, limit: int) -> FeedBatch:
        """At most `limit` numbers above `after`, of all tenants and without their contents."""

    def entries(
        self, tenant: TenantId, where: WhereT_contra, *, after: int, upto: int, limit: int
    ) -> list[LineT]:
        """The tenant's lines with a number in (after, upto], in order.

        `upto` is a number that `head` or `read_after` has shown, else a slower writer is skipped.
        """


class ChangeFeed(CommitFeed[FeedEntry, EventFilter], Protocol):
    """Events of runs."""

    def is_expired(self, tenant: TenantId, after: int, *, age: timedelta) -> bool:
        """Whether a reader that has read up to `after` may have missed events older than `age`.

        Judged by the tenant's events around the cursor, since numbers have no times: also True
        where the events before it are deleted, and for a number that is not visible yet.
        """


class ResourceFeed(CommitFeed[ResourceChange, WatchFilter | None], Protocol):
    """Changes of declared objects; `entries` covers kind and namespace, not the selector."""

    def lacks_objects(self, tenant: TenantId, after: int) -> bool:
        """Whether a change after this number was recorded by an older release, without its object.

        Also True for a number that is not visible yet.
        """
