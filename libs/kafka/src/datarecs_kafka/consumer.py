"""The consumer loop: every service that consumes events runs it with its handlers.

The loop handles decoding, deduplication, retries, dead letters and offsets; a service only adds a
list of subscriptions. The loop joins, works, and joins again after an outage of the broker; it
stops itself if its code seems to be the cause of failures.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta

import structlog

from datarecs_application.loops import Silent, StepSignals
from datarecs_application.ports.messaging import Delivery, EventArchive, LogClient
from datarecs_application.ports.outside import Clock, Metrics, Wake
from datarecs_application.ports.state import UnitOfWork
from datarecs_application.tracing import UNTRACED, Tracing
from datarecs_core.errors.messaging import (
    LogAccessDeniedError,
    LogUnavailableError,
    MessagingCode,
)
from datarecs_kafka.backoff import Backoff
from datarecs_kafka.dead_letter import DeadLetters
from datarecs_kafka.handling import FEED_NUMBERS, Handling, Headers, Subscription, first_line
from datarecs_kafka.poison import PoisonGauge
from datarecs_kafka.redrive import Redrive
from datarecs_kafka.session import ConsumerLimits, Session

log = structlog.get_logger()

LONG = timedelta(hours=1)
NOT_ASSIGNED = "has no partition of its topics yet"


@dataclass(slots=True)
class Consumer:
    """A loop. Construction refuses subscriptions that the catalogue does not grant."""

    log_client: LogClient
    unit_of_work: UnitOfWork
    _: KW_ONLY
    group: str
    """The service's name: group, principal and owner of `<group>.dlq`."""
    subscriptions: tuple[Subscription, ...]
    metrics: Metrics
    clock: Clock
    signals: StepSignals = field(default_factory=Silent)
    redact: Callable[[str], str] = first_line
    feed: int = FEED_NUMBERS
    """Feed numbers drawn per record; 0 for a service that writes no feed and may draw none."""
    archive: EventArchive | None = None
    """Source of events that the log removed before this group had read them."""
    limits: ConsumerLimits = field(default_factory=ConsumerLimits)
    backoff: Backoff = field(default_factory=Backoff)
    tracing: Tracing = UNTRACED
    _handling: Handling = field(init=False)
    _gauge: PoisonGauge = field(default_factory=PoisonGauge, init=False)
    _lagging: set[str] = field(default_factory=set, init=False)
    _not_ready: str | None = field(default=NOT_ASSIGNED, init=False)
    _stopped: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._handling = Handling(
            self.unit_of_work,
            group=self.group,
            subscriptions=self.subscriptions,
            metrics=self.metrics,
            clock=self.clock,
            signals=self.signals,
            redact=self.redact,
            feed=self.feed,
            tracing=self.tracing,
        )

    @property
    def name(self) -> str:
        return "consumer"

    @property
    def stopped_because(self) -> str | None:
        """Why it has stopped itself; None while it works. Only a restart resumes it."""
        return self._stopped

    def ready(self) -> str | None:
        """None while it has partitions, else the reason; for `Process.ready_when`."""
        return self._stopped or self._not_ready

    def redrive(self) -> Redrive:
        """The dead letters of this group, for the same handlers; needs no running consumer."""
        return Redrive(log_client=self.log_client, handling=self._handling)

    def take(self, value: bytes, headers: Headers) -> Delivery:
        """One event that another broker delivers over HTTP; needs no running consumer."""
        return self._handling.take(value, headers)

    def run(self, stop: Wake) -> None:
        """Consume until `stop`; finish the current record, commit, leave the group.

        A consumer that stopped itself stays idle here: the end of the process would restart it, and
        each restart would produce another eleven dead letters.
        """
        failures = 0
        while not stop.is_set() and self._stopped is None:
            try:
                session = self._join()
            except (LogUnavailableError, LogAccessDeniedError) as cause:
                failures += 1
                self._wait(cause, failures, stop)
                continue
            failures = 0
            try:
                self._work(session, stop)
            finally:
                session.close()
        while not stop.is_set():
            self.clock.wait(LONG, until=stop)

    def _join(self) -> Session:
        return Session(
            self.log_client.consumer(group=self.group, topics=self._handling.topics),
            self._handling,
            letters=DeadLetters(client=self.log_client, group=self.group, clock=self.clock),
            gauge=self._gauge,
            limits=self.limits,
            backoff=self.backoff,
            archive=self.archive,
            lagging=self._lagging,
        )

    def _work(self, session: Session, stop: Wake) -> None:
        """One membership; it outlives outages of the broker, up to a limit.

        To leave and join again at once would cost more: a member that disappears during an outage
        blocks the group until its session times out.
        """
        failing_since: float | None = None
        failures = 0
        while not stop.is_set() and self._stopped is None:
            try:
                session.turn(stop)
            except (LogUnavailableError, LogAccessDeniedError) as cause:
                now = self.clock.monotonic()
                failing_since = now if failing_since is None else failing_since
                if now - failing_since > self.limits.join_anew.total_seconds():
                    return
                failures += 1
                self._wait(cause, failures, stop)
                continue
            failing_since, failures = None, 0
            self._not_ready = None if session.assigned else NOT_ASSIGNED
            self._stop_if(session.verdict)

    def _wait(
        self, cause: LogUnavailableError | LogAccessDeniedError, failures: int, stop: Wake
    ) -> None:
        self._not_ready = str(cause)
        code = cause.code.name
        log.warning("consumer_waits", group=self.group, code=code, cause=str(cause))
        self.clock.wait(self.backoff.after(failures), until=stop)

    def _stop_if(self, verdict: str | None) -> None:
        if verdict is None:
            return
        self._stopped = f"stopped itself: {verdict}"
        log.error(
            "consumer_stopped",
            code=MessagingCode.CONSUMER_STOPPED.name,
            group=self.group,
            cause=verdict,
        )
