"""Mails of a finished run: from event to rows, from a due row to bytes, from a reply to its end.

Each step is one transaction of one tenant; SMTP itself happens between them, outside
(`loops.mail_sending`).
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from datarecs_application.ports.delivery import MailAttempt, MailRenderer, OutgoingMail
from datarecs_application.ports.outside import Ids
from datarecs_application.ports.state import Transaction
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.errors.delivery import RunNotFinishedError
from datarecs_core.notifications.address import wire_address
from datarecs_core.notifications.content import Recorded, mail_content
from datarecs_core.notifications.evaluation import (
    Evaluation,
    Intent,
    RunFacts,
    SkipReason,
    StoredRule,
    evaluate_rules,
    outcome_of,
)
from datarecs_core.notifications.identity import dedupe_key, message_id, thread_root
from datarecs_core.notifications.mail import (
    EXPIRES_AFTER,
    SENDER_LOST,
    Expired,
    Fact,
    Mail,
    MailState,
    OnUnknown,
    RecipientAccepted,
    decide_email,
    lease,
)
from datarecs_core.notifications.rule import NotificationRule
from datarecs_core.notifications.skipping import skipped_events
from datarecs_core.resources.resource import Kind
from datarecs_core.runs.model import Run
from datarecs_core.values import EventId, RunId, TenantId

MAX_RULES = 1000
_ONCE_PER_RUN = "run"
"""Source of the inbox mark that makes a run, and not only an event, take effect once."""
_HISTORY_PAGE = 1000
_HISTORY_PAGES = 20
_NEWEST = 50
"""Lines of a run's history among which its end stands; what comes after it is late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailPolicy:
    """What the operator decided about mail."""

    mail_domain: str
    """Right side of every Message-ID; never changes, else copies no longer join."""
    domains: Mapping[TenantId, Collection[str]]
    """Domains a tenant may write to, lower-case A-labels; a tenant without entry writes to none."""
    on_unknown: OnUnknown = OnUnknown.RESEND_ONCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """From `run.finalised` to rows of the mail queue."""

    consumer: str
    specs: StoredSpecs[NotificationRule]
    policy: MailPolicy
    ids: Ids

    def plan_mails(self, tx: Transaction, run_id: RunId) -> Evaluation | None:
        """One row per recipient, skipped ones included, and an event per reason for silence.

        Safe to repeat, also under another event id: a run is evaluated once.

        Raises:
            RunNotFinishedError: the row has no outcome, which the row's own event would not say.
        """
        if not tx.inbox.first_time(f"{self.consumer}:runs", _ONCE_PER_RUN, EventId(run_id)):
            return None
        run = tx.runs.get(run_id)
        facts = _facts(run) if run else None
        if facts is None:
            raise RunNotFinishedError(run_id=run_id)
        evaluation = evaluate_rules(
            self._rules(tx),
            facts,
            tx.rule_states.of_job(facts.job_id),
            domains=self.policy.domains.get(tx.tenant_id, ()),
            now=tx.now,
        )
        tx.rule_states.save(evaluation.states)
        for intent in evaluation.intents:
            tx.mails.add(self._mail(tx, facts, intent))
        if skipped := skipped_events(evaluation, facts):
            story = _story(tx, run_id)
            tx.outbox.append(*skipped, caused_by=story.cause, traceparent=story.traceparent)
        tx.wake()
        crash_point(CrashPoint.DELIVER_AFTER_INSERT)
        return evaluation

    def _rules(self, tx: Transaction) -> Iterator[StoredRule]:
        for resource in tx.resources.page(Kind.NOTIFICATION_RULE, limit=MAX_RULES):
            spec = self.specs.of(resource)
            if spec is not None and resource.deletion_at is None:
                yield StoredRule(uid=resource.uid, name=resource.name, spec=spec)

    def _mail(self, tx: Transaction, run: RunFacts, intent: Intent) -> Mail:
        skipped = intent.skipped is not None
        return Mail(
            tenant_id=tx.tenant_id,
            delivery_id=self.ids.new(),
            dedupe_key=dedupe_key(run.run_id, intent.key),
            run_id=run.run_id,
            job_id=run.job_id,
            recipient=intent.address,
            recipient_key=intent.key,
            rules=intent.rules,
            kind=intent.kind,
            detail=intent.detail,
            background=intent.background,
            outcome=run.outcome,
            state=MailState.SKIPPED if skipped else MailState.PENDING,
            reason=intent.skipped,
            due_at=None if skipped else tx.now,
            expires_at=run.finalised_at + EXPIRES_AFTER,
            finalised_at=run.finalised_at,
            message_id=message_id(
                tx.tenant_id, run.run_id, intent.key, mail_domain=self.policy.mail_domain
            ),
            created_at=tx.now,
        )


def _facts(run: Run) -> RunFacts | None:
    outcome = outcome_of(run)
    if outcome is None or run.closed_at is None:
        return None
    return RunFacts(
        tenant_id=run.tenant_id,
        run_id=run.run_id,
        job_id=run.job_id,
        job_name=run.job_name,
        mode=run.mode,
        outcome=outcome,
        finalised_at=run.closed_at,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedMail:
    """A mail on its way: its bytes, and the epoch under which its end is reported."""

    tenant_id: TenantId
    delivery_id: UUID
    lease_epoch: int
    leased_at: datetime
    finalised_age: timedelta
    """Since the run's end, at the lease."""
    outgoing: OutgoingMail
    run_id: RunId
    traceparent: str | None
    """Of the run that it tells about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """The steps around one SMTP transaction."""

    renderer: MailRenderer
    policy: MailPolicy
    owner: str
    relay: str
    """As the attempt log names it."""

    def lease_mail(self, tx: Transaction, delivery_id: UUID) -> LeasedMail | Mail | None:
        """Take a due mail; its bytes are made at the first lease and kept.

        Returns:
            The leased mail; or the mail itself when it ended here, expired; or None when it is not
            due, held by somebody else, or gone.
        """
        mail = tx.mails.get(delivery_id)
        if mail is None or mail.due_at is None or mail.due_at > tx.now:
            return None
        if mail.state is MailState.SENDING:
            tx.mails.close_attempt(_lost_attempt(mail, tx))
            mail = self._apply(tx, mail, SENDER_LOST)
            if mail.due_at is None or mail.due_at > tx.now:
                return mail if mail.is_terminal else None
        if tx.now >= mail.expires_at:
            return self._apply(tx, mail, Expired())
        mime = tx.mails.mime(delivery_id)
        if mime is None:
            mime = self._rendered(tx, mail)
            tx.mails.keep_mime(delivery_id, mime)
        leased = lease(mail, owner=self.owner, now=tx.now)
        tx.mails.save(leased)
        tx.mails.open_attempt(
            MailAttempt(
                delivery_id=delivery_id,
                attempt_no=leased.lease_epoch,
                started_at=tx.now,
                relay=self.relay,
            )
        )
        return LeasedMail(
            tenant_id=tx.tenant_id,
            delivery_id=delivery_id,
            lease_epoch=leased.lease_epoch,
            leased_at=tx.now,
            finalised_age=tx.now - leased.finalised_at,
            outgoing=OutgoingMail(
                recipient=wire_address(leased.recipient), message_id=leased.message_id, mime=mime
            ),
            run_id=mail.run_id,
            traceparent=_story(tx, mail.run_id).traceparent,
        )

    def enter_data(self, tx: Transaction, leased: LeasedMail) -> bool:
        """Commit phase DATA; False when the lease is gone, and then nothing may be sent."""
        mail = self._held(tx, leased)
        if mail is None:
            return False
        self._apply(tx, mail, RecipientAccepted())
        return True

    def record(
        self, tx: Transaction, leased: LeasedMail, fact: Fact, attempt: MailAttempt
    ) -> Mail | None:
        """Close the attempt and decide what follows; None when the lease was gone."""
        mail = self._held(tx, leased)
        phase = mail.phase.value if mail and mail.phase else attempt.phase
        tx.mails.close_attempt(replace(attempt, phase=phase, finished_at=tx.now))
        return None if mail is None else self._apply(tx, mail, fact)

    def _held(self, tx: Transaction, leased: LeasedMail) -> Mail | None:
        mail = tx.mails.get(leased.delivery_id)
        if mail is None or mail.state is not MailState.SENDING:
            return None
        return mail if mail.lease_epoch == leased.lease_epoch else None

    def _apply(self, tx: Transaction, mail: Mail, fact: Fact) -> Mail:
        decision = decide_email(mail, fact, policy=self.policy.on_unknown, now=tx.now)
        tx.mails.save(decision.state)
        if decision.events:
            story = _story(tx, mail.run_id)
            tx.outbox.append(*decision.events, caused_by=story.cause, traceparent=story.traceparent)
        return decision.state

    def _rendered(self, tx: Transaction, mail: Mail) -> bytes:
        run = tx.runs.get(mail.run_id)
        if run is None:
            raise RunNotFinishedError(run_id=mail.run_id)
        root = thread_root(
            tx.tenant_id, mail.job_id, mail.recipient_key, mail_domain=self.policy.mail_domain
        )
        content = mail_content(mail, run, _history(tx, mail.run_id), thread_root=root)
        return self.renderer.render(content)


@dataclass(frozen=True, slots=True)
class _Story:
    """What an event about a mail continues: the run's trace, and the event that asked for it."""

    traceparent: str | None = None
    cause: EventId | None = None


def _story(tx: Transaction, run_id: RunId) -> _Story:
    run = tx.runs.get(run_id)
    if run is None:
        return _Story()
    newest = tx.runs.history(run_id, after=max(run.last_sequence - _NEWEST, 0))
    ends = [entry.event_id for entry in newest if entry.type.endswith(".run.finalised")]
    return _Story(run.traceparent, ends[0] if ends else None)


def _lost_attempt(mail: Mail, tx: Transaction) -> MailAttempt:
    return MailAttempt(
        delivery_id=mail.delivery_id,
        attempt_no=mail.lease_epoch,
        started_at=tx.now,
        finished_at=tx.now,
        phase=mail.phase.value if mail.phase else "",
        error=SENDER_LOST.reason,
    )


def _history(tx: Transaction, run_id: RunId) -> Iterator[Recorded]:
    after = 0
    for _ in range(_HISTORY_PAGES):
        page = tx.runs.history(run_id, after=after, limit=_HISTORY_PAGE)
        for entry in page:
            yield Recorded(entry.type, entry.data)
        if len(page) < _HISTORY_PAGE:
            return
        after = page[-1].sequence


def skip_reasons(evaluation: Evaluation) -> list[SkipReason]:
    """Every reason for silence of one run, for metrics."""
    return [
        *(held.reason for held in evaluation.held),
        *(intent.skipped for intent in evaluation.intents if intent.skipped),
    ]
