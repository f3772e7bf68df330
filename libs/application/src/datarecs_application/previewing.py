"""What a rule would send about a finished run: shown, or sent once to one of its recipients.

The run counts as the first one of the rule, so that a rule can be tried on any past run. Separate
from `notifications`, because nothing here touches the state of a rule.
"""

from dataclasses import dataclass, replace
from typing import Protocol
from uuid import UUID

from datarecs_application.mail_content import ContentOf
from datarecs_application.notifications import Planning, run_facts
from datarecs_application.ports.state import Transaction
from datarecs_core.errors.delivery import RunNotFinishedError
from datarecs_core.notifications.content import Content
from datarecs_core.notifications.evaluation import Evaluation, Intent, MailKind, RunFacts
from datarecs_core.notifications.identity import other_message_id
from datarecs_core.notifications.mail import EXPIRES_AFTER, Mail
from datarecs_core.resources.resource import Resource
from datarecs_core.values import RunId


class TextRenderer(Protocol):
    """A mail as a person reads it."""

    def text(self, content: Content) -> tuple[str, str, str]:
        """Subject, text part and HTML part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    evaluation: Evaluation
    subject: str | None
    """None where no mail would be sent; then the parts are None too."""
    text: str | None
    html: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Previewing:
    planning: Planning
    renderer: TextRenderer

    def preview(self, tx: Transaction, rule: Resource, run_id: RunId) -> Preview:
        """The recipients, the skipped recipients with reasons, and the text; writes nothing.

        Raises:
            RunNotFinishedError: the run has no outcome yet.
        """
        facts, evaluation = self._evaluated(tx, rule, run_id)
        receiving = [intent for intent in evaluation.intents if intent.skipped is None]
        if not receiving:
            return Preview(evaluation=evaluation, subject=None, text=None, html=None)
        mail = self.planning.mail_of(tx, facts, receiving[0])
        writing = ContentOf(tx=tx, links=None, mail_domain=self.planning.policy.mail_domain)
        subject, text, html = self.renderer.text(writing.content(mail))
        return Preview(evaluation=evaluation, subject=subject, text=text, html=html)

    def test_mail(
        self, tx: Transaction, rule: Resource, run_id: RunId, recipient_key: str
    ) -> Mail | None:
        """A mail for one recipient of the rule, to be added to the queue; None for other addresses.

        Raises:
            RunNotFinishedError: the run has no outcome yet.
        """
        facts, evaluation = self._evaluated(tx, rule, run_id)
        for intent in evaluation.intents:
            if intent.key == recipient_key and intent.skipped is None:
                return self._test(tx, facts, intent, self.planning.ids.new())
        return None

    def _test(self, tx: Transaction, facts: RunFacts, intent: Intent, delivery_id: UUID) -> Mail:
        dedupe_key = f"test:{delivery_id}:{intent.key}"
        return replace(
            self.planning.mail_of(tx, facts, intent),
            delivery_id=delivery_id,
            dedupe_key=dedupe_key,
            kind=MailKind.TEST,
            due_at=tx.now,
            expires_at=tx.now + EXPIRES_AFTER,
            fold=None,
            message_id=other_message_id(
                tx.tenant_id,
                dedupe_key,
                intent.key,
                mail_domain=self.planning.policy.mail_domain,
            ),
        )

    def _evaluated(
        self, tx: Transaction, rule: Resource, run_id: RunId
    ) -> tuple[RunFacts, Evaluation]:
        run = tx.runs.get(run_id)
        facts = run_facts(tx, run) if run else None
        if facts is None:
            raise RunNotFinishedError(run_id=run_id)
        return facts, self.planning.first_seen(tx, rule, facts)
