"""The only reader of a feed in this process, and its followers by tenant.

One read serves every follower: a notification wakes it, a poll each second is the fallback, and
without followers it reads nothing. Two feeds have this reader: events of runs, and changes of
declared objects; a `FeedForm` states how they differ. Separate from `feed_stream`, which decides
what one client gets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock
from typing import Generic, Protocol, TypeVar

import structlog

from datarecs_application.errors import StoreBusyError, StoreUnavailableError
from datarecs_application.ports.feed import CommitFeed, FeedBatch
from datarecs_application.ports.outside import Clock, Metrics, Wake
from datarecs_core.values import TenantId
from datarecs_core_api.following import LoopWake
from datarecs_core_api.frames import Frame
from datarecs_runtime.clock import Latch

log = structlog.get_logger()

BUFFER = 256
"""Frames one client may be behind; then its stream ends and it reconnects at its place."""
PAGE = 200
"""Below BUFFER, so that one burst does not make a client too slow."""
POLL = timedelta(seconds=1)
PAUSE = timedelta(milliseconds=20)
"""Between two reads, however many notifications come."""
LineT = TypeVar("LineT")
WhereT = TypeVar("WhereT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item(Generic[LineT]):
    """A line of the feed and its frame, encoded once for all clients."""

    rv: int
    time: datetime
    line: LineT
    frame: Frame | None
    """None: the line cannot be shown, and its followers' streams end."""


class FeedForm(Protocol[LineT, WhereT]):
    """How one feed is shown."""

    name: str
    """Of its loop."""
    lag_metric: str
    is_counted: bool
    """Whether its reads are in the figures of watches."""
    everything: WhereT

    def item(self, tenant: TenantId, line: LineT) -> Item[LineT]: ...

    def frame_for(self, item: Item[LineT], where: WhereT) -> Frame | None:
        """What a client with this filter gets of the item."""

    def place(self, tenant: TenantId, number: int) -> str:
        """The opaque text of a number that the feed has shown by now."""


class Buffer(Generic[LineT, WhereT]):
    """What the feed has read and one client has not taken yet."""

    def __init__(
        self, form: FeedForm[LineT, WhereT], tenant: TenantId, where: WhereT, wake: LoopWake
    ) -> None:
        self._form, self.tenant, self._where, self._wake = form, tenant, where, wake
        self.since = 0
        """Everything above this number is delivered here; set when it joins the feed."""
        self.is_lost = False
        """More arrived than it holds: its events are incomplete."""
        self._seen = 0
        self._frames: list[tuple[int, Frame]] = []
        self._lock = Lock()

    def begin(self, since: int) -> None:
        """Empty, and complete from this number on."""
        with self._lock:
            self.since = self._seen = since
            self._frames, self.is_lost = [], False

    def put(self, items: Sequence[Item[LineT]]) -> None:
        """Called from the feed's thread; earlier events are left out."""
        with self._lock:
            new = [one for one in items if one.rv > self._seen]
            if not new:
                return
            self._seen = new[-1].rv
            for item in new:
                frame = self._form.frame_for(item, self._where)
                if frame is not None:
                    self._frames.append((item.rv, frame))
            if len(self._frames) > BUFFER or any(item.frame is None for item in new):
                self.is_lost = True
                self._frames = []
        self._wake.set()

    def taken(self) -> tuple[list[tuple[int, Frame]], int]:
        """Numbers and frames that are there, and the number up to which that is all."""
        with self._lock:
            frames, self._frames = self._frames, []
            return frames, self._seen


class Feed(Generic[LineT, WhereT]):
    """A loop. Safe from several threads."""

    def __init__(
        self,
        source: CommitFeed[LineT, WhereT],
        clock: Clock,
        metrics: Metrics,
        *,
        form: FeedForm[LineT, WhereT],
    ) -> None:
        self.source, self._clock, self._metrics = source, clock, metrics
        self.form = form
        self.name = form.name
        self.wake: Wake = Latch()
        """Set by `hint`, by a new follower and at the end of the process."""
        self._reading = Lock()
        self._joining = Lock()
        self._buffers: tuple[Buffer[LineT, WhereT], ...] = ()
        self._head = 0
        self._is_hinted = False
        self._awaited = 0
        """Below this number was every transaction that had begun at the last notification."""
        self._rest = POLL
        """Until the next read without a notification."""

    def hint(self) -> None:
        """Something was committed: read now. From any thread."""
        self._is_hinted = True
        self.wake.set()

    def join(self, buffer: Buffer[LineT, WhereT]) -> None:
        """Fill the buffer from here on; again, when it was lost.

        Waits for the database, so it is not called on an event loop.
        """
        with self._reading:
            if not self._buffers:
                self._head = self.source.head()
            buffer.begin(self._head)
            with self._joining:
                others = (one for one in self._buffers if one is not buffer)
                self._buffers = (*others, buffer)
        self.wake.set()

    def leave(self, buffer: Buffer[LineT, WhereT]) -> None:
        """Safe to repeat, and for one that never joined."""
        with self._joining:
            self._buffers = tuple(one for one in self._buffers if one is not buffer)

    def run(self, stop: Wake) -> None:
        """Read after each notification, but not more often than PAUSE allows, and each second.

        The process sets `wake` together with `stop`.
        """
        while not stop.is_set():
            self.wake.clear()
            try:
                count = self.read()
            except (StoreUnavailableError, StoreBusyError) as cause:
                log.warning("feed_waits", code=cause.code.name)
                self._clock.wait(POLL, until=stop)
                continue
            if count < PAGE:
                self._clock.wait(PAUSE, until=stop)
                self._clock.wait(self._rest, until=self.wake)

    def read(self) -> int:
        """One read: how many numbers it returned, of all tenants.

        Raises:
            StoreUnavailableError, StoreBusyError: no event was delivered twice; repeat it.
        """
        with self._reading:
            buffers = self._buffers
            if not buffers:
                return 0
            hinted, self._is_hinted = self._is_hinted, False
            began = self._clock.monotonic()
            batch = self.source.read_after(after=self._head, limit=PAGE)
            self._count(batch, self._clock.monotonic() - began)
            self._rest = self._rest_after(batch, hinted=hinted)
            if batch.entries:
                self._pass_on(batch, buffers)
                self._head = batch.entries[-1][1]
            return len(batch.entries)

    def _count(self, batch: FeedBatch, seconds: float) -> None:
        if self.form.is_counted:
            self._metrics.count("watch_polls_total")
            self._metrics.count("watch_changes_total", len(batch.entries))
            self._metrics.observe("watch_poll_seconds", seconds)

    def _rest_after(self, batch: FeedBatch, *, hinted: bool) -> timedelta:
        """How long until the next read without a notification.

        An older transaction without an announced end may delay an announced event: the wait
        grows in steps with the time already waited.
        """
        if hinted:
            self._awaited = batch.begun
        if batch.ended >= self._awaited:
            return POLL
        return PAUSE if hinted or batch.entries else min(self._rest * 2, POLL)

    def _pass_on(self, batch: FeedBatch, buffers: Sequence[Buffer[LineT, WhereT]]) -> None:
        last = batch.entries[-1][1]
        changed = {tenant for tenant, _ in batch.entries}
        items: Mapping[TenantId, list[Item[LineT]]] = {
            tenant: self._items(tenant, upto=last)
            for tenant in {buffer.tenant for buffer in buffers} & changed
        }
        for buffer in buffers:
            buffer.put(items.get(buffer.tenant, []))

    def _items(self, tenant: TenantId, *, upto: int) -> list[Item[LineT]]:
        lines = self.source.entries(
            tenant, self.form.everything, after=self._head, upto=upto, limit=PAGE
        )
        items = [self.form.item(tenant, one) for one in lines]
        if items:
            behind = self._clock.now() - items[0].time
            self._metrics.gauge(self.form.lag_metric, max(0.0, behind.total_seconds()))
        return items
