"""The content of a queued mail: its run's row and history, its links, or the runs of a digest.

Separate from `mailing`, because a preview needs the same content and sends nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from datarecs_application.ports.state import Transaction
from datarecs_core.errors.delivery import RunNotFinishedError
from datarecs_core.notifications.content import (
    Content,
    DigestContent,
    DigestLine,
    MailContent,
    NoticeContent,
    Paths,
    Recorded,
    mail_content,
)
from datarecs_core.notifications.evaluation import MailKind
from datarecs_core.notifications.identity import recipient_hash, thread_root
from datarecs_core.notifications.links import (
    ReportLink,
    UnsubscribeLink,
    write_report_link,
    write_unsubscribe_link,
)
from datarecs_core.notifications.mail import Mail
from datarecs_core.values import RunId

REPORTS = "/api/v1/public/reports"
UNSUBSCRIBE = "/api/v1/public/unsubscribe"
_HISTORY_PAGE = 1000
_HISTORY_PAGES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """How links in mails are signed."""

    key: bytes
    report_age: timedelta
    """At most 7 days."""

    def report(self, mail: Mail, run_id: RunId, now: datetime) -> str:
        """Path of the signed link to the report of a run."""
        link = ReportLink(
            tenant_id=mail.tenant_id,
            run_id=run_id,
            issued_at=now,
            expires_at=now + self.report_age,
        )
        return f"{REPORTS}/{write_report_link(link, self.key)}"

    def unsubscribe(self, mail: Mail, now: datetime) -> str:
        """Path that ends mails of these rules to the recipient."""
        link = UnsubscribeLink(
            tenant_id=mail.tenant_id,
            recipient=recipient_hash(mail.tenant_id, mail.recipient_key),
            rules=mail.rule_uids,
            job_id=mail.job_id,
            issued_at=now,
        )
        return f"{UNSUBSCRIBE}/{write_unsubscribe_link(link, self.key)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentOf:
    """The content of mails, read in one transaction."""

    tx: Transaction
    links: Links | None
    mail_domain: str

    def content(self, mail: Mail) -> Content:
        """The content of the mail.

        Raises:
            RunNotFinishedError: the run does not exist any more.
        """
        if mail.notice is not None:
            return NoticeContent(
                recipient=mail.recipient,
                message_id=mail.message_id,
                finalised_at=mail.finalised_at,
                notice=mail.notice,
            )
        return self._digest(mail) if mail.kind is MailKind.DIGEST else self._of_run(mail)

    def _of_run(self, mail: Mail) -> MailContent:
        run = None if mail.run_id is None else self.tx.runs.get(mail.run_id)
        if run is None:
            raise RunNotFinishedError(run_id=mail.run_id)
        root = thread_root(
            mail.tenant_id, run.job_id, mail.recipient_key, mail_domain=self.mail_domain
        )
        paths = Paths(
            thread_root=root,
            report=self._report(mail, run.run_id),
            unsubscribe=self._unsubscribe(mail),
        )
        return mail_content(mail, run, _history(self.tx, run.run_id), paths=paths)

    def _digest(self, mail: Mail) -> DigestContent:
        folded = self.tx.mails.of_ids([one.delivery_id for one in mail.folded])
        return DigestContent(
            recipient=mail.recipient,
            rules=mail.rules,
            message_id=mail.message_id,
            finalised_at=mail.finalised_at,
            lines=tuple(line for one in folded for line in self._lines(one)),
            unsubscribe_path=self._unsubscribe(mail),
        )

    def _lines(self, mail: Mail) -> Iterator[DigestLine]:
        run = None if mail.run_id is None else self.tx.runs.get(mail.run_id)
        if run is not None:
            yield DigestLine(
                kind=mail.kind,
                outcome=mail.outcome,
                job_name=run.job_name,
                finalised_at=mail.finalised_at,
                summary=run.summary,
                report_path=self._report(mail, run.run_id),
                run_id=run.run_id,
            )

    def _report(self, mail: Mail, run_id: RunId) -> str | None:
        return None if self.links is None else self.links.report(mail, run_id, self.tx.now)

    def _unsubscribe(self, mail: Mail) -> str | None:
        has_rules = self.links is not None and mail.rule_uids
        return self.links.unsubscribe(mail, self.tx.now) if self.links and has_rules else None


def _history(tx: Transaction, run_id: RunId) -> Iterator[Recorded]:
    after = 0
    for _ in range(_HISTORY_PAGES):
        page = tx.runs.history(run_id, after=after, limit=_HISTORY_PAGE)
        for entry in page:
            yield Recorded(entry.type, entry.data)
        if len(page) < _HISTORY_PAGE:
            return
        after = page[-1].sequence
