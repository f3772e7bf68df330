"""A due mail to its bytes, a reply of the relay to the mail's end; digests take the place of many.

Each step is one transaction of one tenant; SMTP itself happens between them, outside
(`loops.mail_sending`).
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from datarecs_application.mail_content import ContentOf, Links
from datarecs_application.mail_reports import record_report
from datarecs_application.notifications import MailPolicy, story_of
from datarecs_application.ports.delivery import MailAttempt, MailRenderer, OutgoingMail
from datarecs_application.ports.outside import Ids
from datarecs_application.ports.state import Transaction
from datarecs_core.notifications.address import is_sendable, wire_address
from datarecs_core.notifications.evaluation import MailKind, SkipReason
from datarecs_core.notifications.feedback import MailReport, ReportKind
from datarecs_core.notifications.identity import other_message_id
from datarecs_core.notifications.mail import (
    EXPIRES_AFTER,
    FOLDS_AFTER,
    RATE_FOLD,
    SENDER_LOST,
    Expired,
    Fact,
    Mail,
    MailState,
    RecipientAccepted,
    Replied,
    decide_email,
    fold_mails,
    lease,
    skip_mail,
)
from datarecs_core.notifications.replies import is_hard_bounce, is_soft_bounce
from datarecs_core.notifications.rule import Detail
from datarecs_core.values import RunId, TenantId

HOUR = timedelta(hours=1)


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
    run_id: RunId | None
    traceparent: str | None
    """Of the run in the mail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """The steps around one SMTP transaction."""

    renderer: MailRenderer
    policy: MailPolicy
    ids: Ids
    owner: str
    relay: str
    """As the attempt log names it."""
    links: Links | None = None
    """None: mails link to the API and have no link to unsubscribe."""

    def lease_mail(self, tx: Transaction, delivery_id: UUID) -> LeasedMail | Mail | None:
        """Take a due mail; its bytes are created at the first lease and stored.

        Returns:
            The leased mail; or the mail itself when it ended here, expired or skipped; or None when
            it is not due, leased by another sender, or deleted.
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
        if mime is None and (reason := self._notice_refusal(tx, mail)):
            skipped = skip_mail(mail, reason)
            tx.mails.save(skipped)
            return skipped
        if mime is None and self._waits_for_others(tx, mail):
            return None
        if mime is None:
            mail = with_message_id(mail, mail_domain=self.policy.mail_domain)
            mime = self._rendered(tx, mail)
            tx.mails.store_mime(delivery_id, mime)
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
            traceparent=story_of(tx, mail.run_id).traceparent,
        )

    def enter_data(self, tx: Transaction, leased: LeasedMail) -> bool:
        """Commit phase DATA; False when the lease is lost; then nothing may be sent."""
        mail = self._held(tx, leased)
        if mail is None:
            return False
        self._apply(tx, mail, RecipientAccepted())
        return True

    def record(
        self, tx: Transaction, leased: LeasedMail, fact: Fact, attempt: MailAttempt
    ) -> Mail | None:
        """Close the attempt and decide what follows; None when the lease was lost."""
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
        for event in decision.events:
            story = story_of(tx, getattr(event, "run_id", None))
            tx.outbox.append(event, caused_by=story.cause, traceparent=story.traceparent)
        if isinstance(fact, Replied):
            _record_bounce(tx, decision.state, fact)
        return decision.state

    def _notice_refusal(self, tx: Transaction, mail: Mail) -> SkipReason | None:
        """Why nobody is sent a notice: whoever queued it knows no domains and no bounces."""
        if mail.kind is not MailKind.NOTICE:
            return None
        if not is_sendable(mail.recipient_key, self.policy.domains.get(tx.tenant_id, ())):
            return SkipReason.UNVERIFIED
        is_refused = tx.mail_choices.suppressed([mail.recipient_key])
        return SkipReason.SUPPRESSED if is_refused else None

    def _waits_for_others(self, tx: Transaction, mail: Mail) -> bool:
        """Whether the mail moves into a digest, or waits because of a rate cap."""
        if mail.fold is None:
            return mail.run_id is not None and self._is_above_rate(tx, mail)
        group = tx.mails.fold_of(mail)
        if group is None:
            return True
        if len(group) == 1:
            return False
        digest, ended = fold_mails(group, digest_mail(mail, self.ids.new(), now=tx.now))
        tx.mails.add(digest)
        for one in ended:
            tx.mails.save(one)
        tx.wake()
        return True

    def _is_above_rate(self, tx: Transaction, mail: Mail) -> bool:
        if mail.opened_at is not None or mail.kind is MailKind.TEST:
            return False
        hour = tx.now - HOUR
        to_recipient = tx.mails.opened_since(hour, mail.recipient_key)
        is_above = (
            to_recipient >= self.policy.recipient_rate
            or tx.mails.opened_since(hour) >= self.policy.tenant_rate
        )
        if is_above:
            due_at = tx.now + FOLDS_AFTER
            tx.mails.save(replace(mail, fold=RATE_FOLD, due_at=due_at))
        return is_above

    def _rendered(self, tx: Transaction, mail: Mail) -> bytes:
        writing = ContentOf(tx=tx, links=self.links, mail_domain=self.policy.mail_domain)
        return self.renderer.render(writing.content(mail))


def _record_bounce(tx: Transaction, mail: Mail, replied: Replied) -> None:
    """What the relay's refusal means for the address."""
    is_hard = is_hard_bounce(replied.reply)
    if not is_hard and not is_soft_bounce(replied.reply):
        return
    report = MailReport(
        report_id=f"{mail.delivery_id}/{mail.lease_epoch}",
        recipient_key=mail.recipient_key,
        kind=ReportKind.BOUNCE,
        permanent=is_hard,
        text=mail.last_reply,
    )
    record_report(tx, report)


def _lost_attempt(mail: Mail, tx: Transaction) -> MailAttempt:
    return MailAttempt(
        delivery_id=mail.delivery_id,
        attempt_no=mail.lease_epoch,
        started_at=tx.now,
        finished_at=tx.now,
        phase=mail.phase.value if mail.phase else "",
        error=SENDER_LOST.reason,
    )


def digest_mail(first: Mail, delivery_id: UUID, *, now: datetime) -> Mail:
    """The row of a digest that is due at once; what is in it follows."""
    return Mail(
        tenant_id=first.tenant_id,
        delivery_id=delivery_id,
        dedupe_key=f"digest:{delivery_id}:{first.recipient_key}",
        recipient=first.recipient,
        recipient_key=first.recipient_key,
        rules=(),
        kind=MailKind.DIGEST,
        detail=Detail.SUMMARY,
        outcome="",
        due_at=now,
        expires_at=now + EXPIRES_AFTER,
        finalised_at=now,
        message_id="",
        created_at=now,
    )


def with_message_id(mail: Mail, *, mail_domain: str) -> Mail:
    """The mail with its Message-ID, which digests and notices get here."""
    if mail.message_id:
        return mail
    made = other_message_id(
        mail.tenant_id, mail.dedupe_key, mail.recipient_key, mail_domain=mail_domain
    )
    return replace(mail, message_id=made)
