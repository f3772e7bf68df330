"""Handle one record: decode, check, run its handler once in one transaction, or return the reason.

Separate from the loop because re-drive passes the same record to the same handler in the same way;
only the loop polls, pauses and commits offsets. Nothing here waits, and nothing is sent.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from typing import assert_never

import structlog

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.loops import Silent, StepSignals
from datarecs_application.ports.messaging import Delivery, LogRecord, Unreadable
from datarecs_application.ports.outside import Clock, Metrics
from datarecs_application.ports.state import Transaction, UnitOfWork
from datarecs_application.tracing import UNTRACED, Tracing, trace_id_of
from datarecs_core.crashing import crash_point
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.messaging import SubscriptionRefusedError
from datarecs_events.catalogue import BY_TYPE, CATALOGUE, SUBSCRIPTIONS, definitions_of
from datarecs_events.catalogue import Subscription as Grant
from datarecs_events.codec import Received, Refused, Skipped, decode
from datarecs_kafka import steps

log = structlog.get_logger()

FEED_NUMBERS = 8
"""Feed numbers, drawn before the first row lock if handlers may write a feed."""

Headers = tuple[tuple[str, bytes | None], ...]
Handler = Callable[[Transaction, Received], None]
"""Runs inside the transaction of the inbox mark, without effects outside it: mail, HTTP and Spark
never run here. It may be called again for an event after its transaction was rolled back."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Events of a topic and their handler; the catalogue must grant every one."""

    topic: str
    events: tuple[type[object], ...] | None
    """Event classes, or None for all classes that the catalogue grants the group on the topic."""
    handler: Handler
    together: int = 1
    """Number of records of one tenant that may share a transaction, for frequent small handlers."""


@dataclass(frozen=True, slots=True)
class Together:
    """The results of the first records of a batch in one transaction."""

    tried: int = 0
    handled: int = 0
    """Results of all tried records, or none: then each must be handled alone."""


@dataclass(frozen=True, slots=True)
class Handled:
    """The record is complete; the offset may move."""

    how: str
    """`applied`, `duplicate`, `skipped` (unknown type) or `unsubscribed`."""


@dataclass(frozen=True, slots=True)
class TryLater:
    """A retryable failure: never a dead letter, moves no offset."""

    cause: DatarecsError

    @property
    def stops_everything(self) -> bool:
        """The database is unavailable, so all partitions wait."""
        return isinstance(self.cause, StoreUnavailableError)


@dataclass(frozen=True, slots=True)
class Unclassified:
    """An unclassified failure: a few retries are made."""

    error: str


@dataclass(frozen=True, slots=True)
class Poison:
    """The record can never be handled."""

    reason: str
    error: str


Outcome = Handled | TryLater | Unclassified | Poison


def first_line(text: str) -> str:
    """The first line without quoted parts: drivers write values in quotes and in later lines."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|\([^)]*\)", "…", text.partition("\n")[0])[:300]


def routes_of(
    group: str, subscriptions: tuple[Subscription, ...]
) -> Mapping[tuple[str, str], Handler]:
    """(topic, event type) -> handler.

    Raises:
        SubscriptionRefusedError: the catalogue does not subscribe the group to a topic or type.
    """
    routes: dict[tuple[str, str], Handler] = {}
    for wired in subscriptions:
        granted = [s for s in SUBSCRIPTIONS if s.service == group and s.topic == wired.topic]
        types = _all_of(granted) if wired.events is None else _types_of(wired.events)
        refused = tuple(sorted(t for t in types if not any(one.admits(t) for one in granted)))
        if refused or not granted:
            raise SubscriptionRefusedError(group=group, topic=wired.topic, types=refused)
        routes.update({(wired.topic, one): wired.handler for one in types})
    return routes


def _types_of(events: tuple[type[object], ...]) -> set[str]:
    return {definition.type for cls in events for definition in definitions_of(cls)}


def _all_of(granted: list[Grant]) -> set[str]:
    named: set[str] = {one for grant in granted for one in grant.types or ()}
    return named | {
        definition.type
        for grant in granted
        if grant.types is None
        for definition in CATALOGUE
        if definition.topic == grant.topic
    }


@dataclass(slots=True)
class Handling:
    """Passes the records of one group to its handlers."""

    unit_of_work: UnitOfWork
    _: KW_ONLY
    group: str
    subscriptions: tuple[Subscription, ...]
    metrics: Metrics
    clock: Clock
    signals: StepSignals = field(default_factory=Silent)
    redact: Callable[[str], str] = first_line
    """Makes the text of an unclassified error safe for a dead letter."""
    feed: int = FEED_NUMBERS
    """Feed numbers drawn per record; 0 for a service that writes no feed and may draw none."""
    tracing: Tracing = UNTRACED
    _routes: Mapping[tuple[str, str], Handler] = field(init=False)
    _together: Mapping[str, Mapping[str, int]] = field(init=False)
    """Topic -> event type -> number of records that may share a transaction, if more than one."""

    def __post_init__(self) -> None:
        self._routes = routes_of(self.group, self.subscriptions)
        self._together = {
            wired.topic: {
                event_type: wired.together for _, event_type in routes_of(self.group, (wired,))
            }
            for wired in self.subscriptions
            if wired.together > 1
        }

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({topic for topic, _ in self._routes}))

    def types_of(self, topic: str) -> frozenset[str]:
        """Event types of the topic that have a handler."""
        return frozenset(event_type for where, event_type in self._routes if where == topic)

    def handle_together(self, records: Iterable[LogRecord | Unreadable]) -> Together:
        """Handle the first records in one transaction, if they are of one tenant and may share it.

        Safe to repeat: on any failure nothing was done, and each record must be handled alone.
        """
        batch, passed = self._batch(records)
        if len(batch) < 2:  # noqa: PLR2004  one alone is no batch
            return Together()
        started, fresh = self.clock.monotonic(), 0
        crash_point(steps.CONSUME_BEFORE_TX)
        try:
            with self.unit_of_work.begin(
                batch[0][1].envelope.tenant_id, feed=self.feed * len(batch)
            ) as tx:
                marks = [(one.envelope.source, one.envelope.id) for _, one in batch]
                first = tx.inbox.first_of(self.group, marks)
                for mark, (handler, received) in zip(marks, batch, strict=True):
                    if mark in first:
                        first.remove(mark)
                        with self._bind_event(received):
                            handler(tx, received)
                        fresh += 1
                crash_point(steps.CONSUME_IN_TX)
        except Exception as cause:  # noqa: BLE001 - each alone raises its own error
            log.info("batch_falls_back", records=len(batch), error=type(cause).__name__)
            return Together(tried=passed)
        crash_point(steps.CONSUME_AFTER_COMMIT)
        self._report_batch(batch, self.clock.monotonic() - started, duplicates=len(batch) - fresh)
        return Together(tried=passed, handled=passed)

    def _batch(
        self, records: Iterable[LogRecord | Unreadable]
    ) -> tuple[list[tuple[Handler, Received]], int]:
        """The first records of one tenant with handlers that accept several.

        Also returns their number, with records in between that have no handler.
        """
        batch: list[tuple[Handler, Received]] = []
        passed = 0
        for record in records:
            if isinstance(record, Unreadable) or not self._together.get(record.topic):
                break
            received = decode(record.topic, record.key, record.value, record.headers)
            if not isinstance(received, Received):
                break
            envelope = received.envelope
            if (record.topic, envelope.type) not in self._routes:
                passed += 1
                continue
            most = self._together[record.topic].get(envelope.type, 0)
            of_another = batch and batch[0][1].envelope.tenant_id != envelope.tenant_id
            if of_another or len(batch) >= most:
                break
            batch.append((self._routes[record.topic, envelope.type], received))
            passed += 1
        return batch, passed

    def _report_batch(
        self, batch: list[tuple[Handler, Received]], seconds: float, *, duplicates: int
    ) -> None:
        for _, received in batch:
            for note in received.notes:
                self.metrics.count("codec_notes_total", group=self.group, note=note.name)
            self.metrics.observe(
                "consumer_handle_seconds",
                seconds / len(batch),
                group=self.group,
                type=received.envelope.type,
                outcome="handled",
            )
        if duplicates:
            self.metrics.count("inbox_duplicates_total", duplicates, group=self.group)
        for _ in batch:
            self.signals.reached(steps.CONSUME_AFTER_COMMIT)

    def handle(self, record: LogRecord) -> Outcome:
        """Decode and handle one record; always safe to repeat, because of the inbox."""
        match decode(record.topic, record.key, record.value, record.headers):
            case Skipped():
                self.metrics.count("codec_notes_total", group=self.group, note="SKIPPED")
                return Handled("skipped")
            case Refused() as refused:
                self._report_refusal(
                    refused, topic=record.topic, partition=record.partition, offset=record.offset
                )
                return Poison(refused.reason.name, refused.detail)
            case Received() as received:
                return self._count_and_route(record.topic, received)

    @contextmanager
    def _bind_event(self, received: Received) -> Iterator[None]:
        """Bind logs and traces inside the block to this event."""
        envelope = received.envelope
        ids = {"group": self.group, "event_id": str(envelope.id), "subject": envelope.subject or ""}
        parent, tenant = envelope.traceparent, envelope.tenant_id
        with (
            structlog.contextvars.bound_contextvars(
                **ids, tenant_id=str(tenant), trace_id=trace_id_of(parent)
            ),
            self.tracing.span("event.handle", parent=parent, type=envelope.type, **ids),
        ):
            yield

    def take(self, value: bytes, headers: Headers) -> Delivery:
        """Handle one event that a broker delivers over HTTP, without a topic.

        The catalogue names the topic of its type, so that subscriptions and checks stay the same.
        """
        match decode(None, None, value, headers):
            case Skipped():
                self.metrics.count("codec_notes_total", group=self.group, note="SKIPPED")
                return Delivery.DONE
            case Refused() as refused:
                self._report_refusal(refused)
                return Delivery.NEVER
            case Received() as received:
                return self._delivered(received)

    def _delivered(self, received: Received) -> Delivery:
        topic = BY_TYPE[received.envelope.type].topic
        outcome = self._count_and_route(
            topic or "", received
        )  # a type without topic has no handler
        match outcome:
            case Handled():
                return Delivery.DONE
            case Poison(reason=reason, error=error):
                event_id = str(received.envelope.id)
                log.error(
                    "event_refused", group=self.group, reason=reason, error=error, event_id=event_id
                )
                return Delivery.NEVER
            case TryLater() | Unclassified():
                return Delivery.LATER
        assert_never(outcome)

    def _count_and_route(self, topic: str, received: Received) -> Outcome:
        for note in received.notes:
            self.metrics.count("codec_notes_total", group=self.group, note=note.name)
        return self._route(topic, received)

    def _report_refusal(self, refused: Refused, **place: object) -> None:
        """`place` is where a log has the record; a delivery over HTTP has none."""
        self.metrics.count("codec_refused_total", group=self.group, reason=refused.reason.name)
        if refused.reason.name == "TENANT_MISMATCH":
            self.metrics.count("tenant_mismatch_total")
        log_refusal = log.error if refused.alarm else log.warning
        log_refusal(
            "event_refused",
            group=self.group,
            reason=refused.reason.name,
            alarm=refused.alarm,
            **place,
        )

    def _route(self, topic: str, received: Received) -> Outcome:
        event_type = received.envelope.type
        handler = self._routes.get((topic, event_type))
        if handler is None:
            return Handled("unsubscribed")
        started = self.clock.monotonic()
        with self._bind_event(received):
            outcome = self._apply(handler, received)
        self.metrics.observe(
            "consumer_handle_seconds",
            self.clock.monotonic() - started,
            group=self.group,
            type=event_type,
            outcome=type(outcome).__name__.lower(),
        )
        return outcome

    def _apply(self, handler: Handler, received: Received) -> Outcome:
        envelope = received.envelope
        self.signals.reached(steps.CONSUME_BEFORE_TX)
        crash_point(steps.CONSUME_BEFORE_TX)
        try:
            with self.unit_of_work.begin(envelope.tenant_id, feed=self.feed) as tx:
                fresh = tx.inbox.first_time(self.group, envelope.source, envelope.id)
                if fresh:
                    handler(tx, received)
                self.signals.reached(steps.CONSUME_IN_TX)
                crash_point(steps.CONSUME_IN_TX)
        except DatarecsError as cause:
            if cause.retryable:
                return TryLater(cause)
            return Poison(cause.code.name, str(cause))
        except Exception as cause:  # noqa: BLE001 - the loop's border: becomes a decision
            log.warning("event_handler_failed", error=type(cause).__name__)
            return Unclassified(f"{type(cause).__name__}: {self.redact(str(cause))}")
        self.signals.reached(steps.CONSUME_AFTER_COMMIT)
        crash_point(steps.CONSUME_AFTER_COMMIT)
        if not fresh:
            self.metrics.count("inbox_duplicates_total", group=self.group)
        return Handled("applied" if fresh else "duplicate")
