"""What becomes of one record: decoded, checked, handled once in one transaction, or why not.

Apart from the loop because re-drive gives the same record to the same handler in the same way; the
loop alone knows about polling, pausing and offsets. Nothing here waits, and nothing is sent.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field

import structlog

from datarecs_application.errors import StoreUnavailableError
from datarecs_application.loops import Silent, StepSignals
from datarecs_application.ports.messaging import LogRecord
from datarecs_application.ports.outside import Clock, Metrics
from datarecs_application.ports.state import Transaction, UnitOfWork
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.messaging import SubscriptionRefusedError
from datarecs_events.catalogue import CATALOGUE, SUBSCRIPTIONS, definitions_of
from datarecs_events.catalogue import Subscription as Grant
from datarecs_events.codec import Received, Refused, Skipped, decode
from datarecs_kafka import steps

log = structlog.get_logger()

FEED_NUMBERS = 8
"""Drawn before the first row lock, where handlers may write a feed."""

Handler = Callable[[Transaction, Received], None]
"""Runs inside the transaction that holds the inbox mark, and does nothing outside it: mail, HTTP
and Spark never run here. It may be called again for an event whose transaction was rolled back."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which events of a topic go to which handler; every one must be granted by the catalogue."""

    topic: str
    events: tuple[type[object], ...] | None
    """Event classes, or None for all that the catalogue grants the group on the topic."""
    handler: Handler


@dataclass(frozen=True, slots=True)
class Handled:
    """Nothing more is to be done; the offset may move."""

    how: str
    """`applied`, `duplicate`, `skipped` (unknown type) or `unsubscribed`."""


@dataclass(frozen=True, slots=True)
class TryLater:
    """A retryable failure: never poison, moves no offset."""

    cause: DatarecsError

    @property
    def stops_everything(self) -> bool:
        """The database is away, so no other partition can do better."""
        return isinstance(self.cause, StoreUnavailableError)


@dataclass(frozen=True, slots=True)
class Unclassified:
    """Nobody has said whether another try may help, so a few are made."""

    error: str


@dataclass(frozen=True, slots=True)
class Poison:
    """The record can never be handled as it is."""

    reason: str
    error: str


Outcome = Handled | TryLater | Unclassified | Poison


def first_line(text: str) -> str:
    """The first line without quoted parts: drivers put values into quotes and later lines."""
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
    """Gives the records of one group to its handlers."""

    unit_of_work: UnitOfWork
    _: KW_ONLY
    group: str
    subscriptions: tuple[Subscription, ...]
    metrics: Metrics
    clock: Clock
    signals: StepSignals = field(default_factory=Silent)
    redact: Callable[[str], str] = first_line
    """Makes the text of an unclassified error fit to be kept in a dead letter."""
    feed: int = FEED_NUMBERS
    """Feed numbers drawn per record; 0 for a service that writes no feed and may draw none."""
    _routes: Mapping[tuple[str, str], Handler] = field(init=False)

    def __post_init__(self) -> None:
        self._routes = routes_of(self.group, self.subscriptions)

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted({topic for topic, _ in self._routes}))

    def handle(self, record: LogRecord) -> Outcome:
        """Decode and handle one record; safe to repeat for ever, the inbox absorbs it."""
        match decode(record.topic, record.key, record.value, record.headers):
            case Skipped():
                self.metrics.count("codec_notes_total", group=self.group, note="SKIPPED")
                return Handled("skipped")
            case Refused() as refused:
                self._tell_refusal(record, refused)
                return Poison(refused.reason.name, refused.detail)
            case Received() as received:
                for note in received.notes:
                    self.metrics.count("codec_notes_total", group=self.group, note=note.name)
                return self._route(record.topic, received)

    def _tell_refusal(self, record: LogRecord, refused: Refused) -> None:
        self.metrics.count("codec_refused_total", group=self.group, reason=refused.reason.name)
        if refused.reason.name == "TENANT_MISMATCH":
            self.metrics.count("tenant_mismatch_total")
        tell = log.error if refused.alarm else log.warning
        tell(
            "event_refused",
            group=self.group,
            reason=refused.reason.name,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            alarm=refused.alarm,
        )

    def _route(self, topic: str, received: Received) -> Outcome:
        event_type = received.envelope.type
        handler = self._routes.get((topic, event_type))
        if handler is None:
            return Handled("unsubscribed")
        started = self.clock.monotonic()
        with structlog.contextvars.bound_contextvars(
            group=self.group,
            event_id=str(received.envelope.id),
            tenant_id=str(received.envelope.tenant_id),
            subject=received.envelope.subject,
        ):
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
        try:
            with self.unit_of_work.begin(envelope.tenant_id, feed=self.feed) as tx:
                fresh = tx.inbox.first_time(self.group, envelope.source, envelope.id)
                if fresh:
                    handler(tx, received)
                self.signals.reached(steps.CONSUME_IN_TX)
        except DatarecsError as cause:
            if cause.retryable:
                return TryLater(cause)
            return Poison(cause.code.name, str(cause))
        except Exception as cause:  # noqa: BLE001 - the loop's border: becomes a decision
            log.warning("event_handler_failed", error=type(cause).__name__)
            return Unclassified(f"{type(cause).__name__}: {self.redact(str(cause))}")
        self.signals.reached(steps.CONSUME_AFTER_COMMIT)
        if not fresh:
            self.metrics.count("inbox_duplicates_total", group=self.group)
        return Handled("applied" if fresh else "duplicate")
