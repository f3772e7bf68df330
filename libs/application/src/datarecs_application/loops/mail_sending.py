"""The loop that sends mail: take a due one, send it to the relay, record the reply.

One instance per connection to the relay, each on its own thread; they share the relay's health, so
all of them pause while the relay is down.
"""

import threading
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import timedelta
from uuid import UUID

import structlog

from datarecs_application.loops import Silent, StepSignals
from datarecs_application.mailing import LeasedMail, Sending
from datarecs_application.ports.delivery import (
    MailAttempt,
    Mailer,
    RelayLost,
    RelayReplied,
    SendOutcome,
    SmtpUtf8Missing,
    Withheld,
)
from datarecs_application.ports.outside import Clock, Metrics, Wake
from datarecs_application.ports.state import UnitOfWork, WorkFinder
from datarecs_application.tracing import UNTRACED, Tracing
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.delivery import DeliveryCode
from datarecs_core.notifications.mail import (
    LEASE_TTL,
    Fact,
    Mail,
    MailState,
    NeedsSmtpUtf8,
    Replied,
    TransportLost,
)
from datarecs_core.notifications.relay import relay_pause
from datarecs_core.notifications.replies import ReplyClass, classify
from datarecs_core.values import TenantId

log = structlog.get_logger()

POLL = timedelta(seconds=1)
AFTER_FAILURE = timedelta(seconds=1)
LEASED, SAID, RECORDED = "mail_leased", "mail_said", "mail_recorded"

_ROUNDING_S = 1e-6
"""Sums of seconds are floats: a wait below this is none."""
_RELAY_TROUBLE = frozenset({ReplyClass.TRANSPORT, ReplyClass.CONFIGURATION})


@dataclass(slots=True)
class RelayHealth:
    """How the relay fares and how fast it is used, shared by the loops of one process.

    Safe between threads.
    """

    clock: Clock
    rate: float | None = None
    """Mails per second, with at most one second's worth at once; None: as fast as they come."""
    _faults: int = field(default=0, init=False)
    _rest_until: float = field(default=0.0, init=False)
    _paid_until: float = field(default=0.0, init=False)
    """The theoretical arrival time of the rate (GCRA)."""
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def take_turn(self) -> timedelta:
        """Take the next mail's place in the rate; zero, or how long there is none to take."""
        if self.rate is None:
            return timedelta()
        interval = 1 / self.rate
        with self._lock:
            now = self.clock.monotonic()
            early = self._paid_until - max(0.0, 1 - interval) - now
            if early > _ROUNDING_S:
                return timedelta(seconds=early)
            self._paid_until = max(self._paid_until, now) + interval
            return timedelta()

    def return_turn(self) -> None:
        """Give a place back that no mail has used."""
        if self.rate is not None:
            with self._lock:
                self._paid_until -= 1 / self.rate

    def rest(self) -> timedelta:
        """How long sending still pauses; zero when the relay may be used."""
        with self._lock:
            return timedelta(seconds=max(0.0, self._rest_until - self.clock.monotonic()))

    def failed(self, why: ReplyClass) -> timedelta:
        """A fault of the relay; returns the pause that follows, longer with each fault in a row.

        Faults in several loops at the same time count as one.
        """
        with self._lock:
            now = self.clock.monotonic()
            if now < self._rest_until:
                return timedelta(seconds=self._rest_until - now)
            pause = relay_pause(self._faults, why)
            self._faults += 1
            self._rest_until = now + pause.total_seconds()
            return pause

    def worked(self) -> None:
        """The relay replied to a mail, with any result."""
        with self._lock:
            self._faults = 0


@dataclass(slots=True)
class MailSending:
    """A loop. `run` may be on several threads only as several instances."""

    finder: WorkFinder
    unit_of_work: UnitOfWork
    mailer: Mailer
    _: KW_ONLY
    sending: Sending
    health: RelayHealth
    jitter: Callable[[], float]
    metrics: Metrics
    clock: Clock
    wake: Wake
    name: str = "mail_sending"
    signals: StepSignals = field(default_factory=Silent)
    tracing: Tracing = UNTRACED

    def run(self, stop: Wake) -> None:
        """Send until `stop`; the mail in progress is finished first."""
        while not stop.is_set():
            rest = self.health.rest()
            self.metrics.gauge("mail_transport_paused", 1 if rest else 0)
            if pause := rest or self.health.take_turn():
                self.clock.wait(pause, until=stop)
                continue
            try:
                if not self.turn():
                    self.health.return_turn()
                    self.wake.clear()
                    self.clock.wait(POLL, until=self.wake)
            except DatarecsError as cause:
                if not cause.retryable:
                    raise
                log.warning("mail_sending_waits", code=cause.code.name, cause=str(cause))
                self.clock.wait(AFTER_FAILURE, until=stop)
        self.mailer.close()

    def turn(self) -> bool:
        """Take at most one mail from lease to record; False when none was due."""
        claimed = self.finder.claim_mails(1)
        for tenant, delivery_id in claimed:
            self._send(tenant, delivery_id)
        return bool(claimed)

    def _send(self, tenant: TenantId, delivery_id: UUID) -> None:
        try:
            with self.unit_of_work.begin(tenant) as tx:
                leased = self.sending.lease_mail(tx, delivery_id)
        except Exception as cause:
            if isinstance(cause, DatarecsError) and cause.retryable:
                raise
            # Checked again every 30 s, so it is sent when the cause is removed, or expires.
            log.exception("mail_not_sendable", delivery_id=str(delivery_id))
            return
        self.signals.reached(LEASED)
        if isinstance(leased, Mail):
            self._ended(leased, None)
        elif leased is not None:
            self._say(leased)

    def _say(self, leased: LeasedMail) -> None:
        ids = {"run_id": str(leased.run_id), "delivery_id": str(leased.delivery_id)}
        with self.tracing.span("mail.send", parent=leased.traceparent, **ids):
            outcome = self.mailer.send(
                leased.outgoing, may_send_data=lambda: self._may_send_data(leased)
            )
        self.signals.reached(SAID)
        crash_point(CrashPoint.DELIVER_AFTER_SEND)
        if isinstance(outcome, Withheld):
            log.warning("mail_lease_lost", delivery_id=str(leased.delivery_id))
        fact = self._fact(outcome)
        mail = self._recorded(leased, fact, self._attempt(leased, outcome))
        self.signals.reached(RECORDED)
        crash_point(CrashPoint.DELIVER_AFTER_MARK)
        if mail is not None:
            self._ended(mail, leased)

    def _recorded(self, leased: LeasedMail, fact: Fact, attempt: MailAttempt) -> Mail | None:
        """Record the reply; while the lease lives, a busy database is tried again.

        Otherwise an accepted mail would be unknown and sent twice.
        """
        deadline = self.clock.monotonic() + LEASE_TTL.total_seconds() / 2
        while True:
            try:
                with self.unit_of_work.begin(leased.tenant_id) as tx:
                    return self.sending.record(tx, leased, fact, attempt)
            except DatarecsError as cause:
                if not cause.retryable or self.clock.monotonic() > deadline:
                    raise
                self.clock.wait(AFTER_FAILURE)

    def _may_send_data(self, leased: LeasedMail) -> bool:
        """Commit the phase; when that cannot be known, nothing is sent."""
        try:
            with self.unit_of_work.begin(leased.tenant_id) as tx:
                return self.sending.enter_data(tx, leased)
        except DatarecsError as cause:
            log.warning("mail_phase_not_committed", code=cause.code.name)
            return False

    def _fact(self, outcome: SendOutcome) -> Fact:
        match outcome:
            case RelayReplied(reply=reply):
                why = classify(reply)
                self.metrics.count("mail_attempts_total", 1, **{"class": why})
                pause = self._after_reply(why, f"{reply.code} {reply.text}")
                return Replied(reply=reply, pause=pause, u=self.jitter())
            case RelayLost(reason=reason):
                self.metrics.count("mail_attempts_total", 1, **{"class": ReplyClass.TRANSPORT})
                pause = self._after_reply(ReplyClass.TRANSPORT, reason)
                return TransportLost(reason=reason, pause=pause)
            case SmtpUtf8Missing():
                return NeedsSmtpUtf8()
            case Withheld():
                return TransportLost(reason="the phase could not be committed", pause=POLL)

    def _after_reply(self, why: ReplyClass, said: str) -> timedelta:
        if why not in _RELAY_TROUBLE:
            self.health.worked()
            return timedelta()
        pause = self.health.failed(why)
        refused = why is ReplyClass.CONFIGURATION
        code = DeliveryCode.MAIL_RELAY_REFUSES_US if refused else DeliveryCode.MAIL_RELAY_AWAY
        log.error(
            "mail_relay_trouble",
            code=code.docs_id,
            relay=self.mailer.relay,
            said=said,
            pause_s=pause.total_seconds(),
        )
        return pause

    def _attempt(self, leased: LeasedMail, outcome: SendOutcome) -> MailAttempt:
        replied = outcome if isinstance(outcome, RelayReplied) else None
        return MailAttempt(
            delivery_id=leased.delivery_id,
            attempt_no=leased.lease_epoch,
            started_at=leased.leased_at,
            reply=replied.reply if replied else None,
            error=outcome.reason if isinstance(outcome, RelayLost) else "",
            relay=self.mailer.relay,
            tls_version=replied.tls_version if replied else "",
        )

    def _ended(self, mail: Mail, leased: LeasedMail | None) -> None:
        if mail.state is MailState.UNKNOWN:
            self.metrics.count("mail_unknown_total")
        if not mail.is_terminal:
            return
        self.metrics.count("emails_total", outcome=mail.state.lower())
        if mail.state is MailState.SKIPPED:
            self.metrics.count("mail_skipped_total", reason=str(mail.reason))
        if mail.state is MailState.SENT and leased is not None:
            seconds = leased.finalised_age.total_seconds()
            self.metrics.observe("mail_finalised_to_accepted_seconds", seconds)
        log.info(
            "mail_closed",
            tenant_id=str(mail.tenant_id),
            run_id=str(mail.run_id),
            delivery_id=str(mail.delivery_id),
            state=mail.state.value,
            reason=mail.reason,
        )
