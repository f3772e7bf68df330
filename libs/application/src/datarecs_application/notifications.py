"""Mails of a finished run: from event to rows of the queue. `mailing` sends them."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from datarecs_application.ports.outside import Ids
from datarecs_application.ports.state import Transaction
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.crashing import CrashPoint, crash_point
from datarecs_core.errors.delivery import RunNotFinishedError
from datarecs_core.notifications.address import address_fault, recipient_key
from datarecs_core.notifications.evaluation import (
    EVERYTHING,
    Audience,
    Evaluation,
    Intent,
    RunFacts,
    SkipReason,
    StoredRule,
    evaluate_rules,
    outcome_of,
)
from datarecs_core.notifications.identity import dedupe_key, message_id, recipient_hash
from datarecs_core.notifications.mail import EXPIRES_AFTER, Mail, MailState, OnUnknown
from datarecs_core.notifications.rule import NotificationRule
from datarecs_core.notifications.skipping import skipped_events
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.runs.model import Run
from datarecs_core.values import EventId, ResourceUid, RunId, TenantId

MAX_RULES = 1000
_ONCE_PER_RUN = "run"
"""Source of the inbox mark that makes a run, and not only an event, take effect once."""
_NEWEST = 50
"""Lines of a run's history that contain its end; later lines come after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailPolicy:
    """What the operator decided about mail."""

    mail_domain: str
    """Right side of every Message-ID; never changes, else copies no longer join."""
    domains: Mapping[TenantId, Collection[str]]
    """Domains a tenant may write to, lower-case A-labels; a tenant without entry writes to none."""
    on_unknown: OnUnknown = OnUnknown.RESEND_ONCE
    tenant_rate: int = 1000
    """Mails per hour of one tenant."""
    recipient_rate: int = 30
    """Mails per hour to one recipient."""


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
            RunNotFinishedError: the row has no outcome, which contradicts the event.
        """
        if not tx.inbox.first_time(f"{self.consumer}:runs", _ONCE_PER_RUN, EventId(run_id)):
            return None
        run = tx.runs.get(run_id)
        facts = run_facts(tx, run) if run else None
        if facts is None:
            raise RunNotFinishedError(run_id=run_id)
        evaluation = self._evaluate(tx, facts)
        tx.rule_states.save(evaluation.states)
        for intent in evaluation.intents:
            tx.mails.add(self.mail_of(tx, facts, intent))
        if skipped := skipped_events(evaluation, facts):
            story = story_of(tx, run_id)
            tx.outbox.append(*skipped, caused_by=story.cause, traceparent=story.traceparent)
        tx.wake()
        crash_point(CrashPoint.DELIVER_AFTER_INSERT)
        return evaluation

    def first_seen(self, tx: Transaction, rule: Resource, facts: RunFacts) -> Evaluation:
        """What one rule would send if this were the first run of the job; writes nothing."""
        rules = list(self._typed(rule))
        return evaluate_rules(
            rules,
            facts,
            {},
            audience=_audience(tx, self.policy, rules, facts),
            now=facts.finalised_at,
        )

    def _evaluate(self, tx: Transaction, facts: RunFacts) -> Evaluation:
        rules = list(self._rules(tx))
        return evaluate_rules(
            rules,
            facts,
            tx.rule_states.of_job(facts.job_id),
            audience=_audience(tx, self.policy, rules, facts),
            now=tx.now,
        )

    def _rules(self, tx: Transaction) -> Iterator[StoredRule]:
        for resource in tx.resources.page(Kind.NOTIFICATION_RULE, limit=MAX_RULES):
            yield from self._typed(resource)

    def _typed(self, resource: Resource) -> Iterator[StoredRule]:
        """The rule, unless it is being deleted or its spec is of a later release."""
        spec = self.specs.of(resource)
        if spec is not None and resource.deletion_at is None:
            yield StoredRule(uid=resource.uid, name=resource.name, spec=spec)

    def mail_of(self, tx: Transaction, run: RunFacts, intent: Intent) -> Mail:
        """The row of the queue for one recipient of a run."""
        skipped, due_at = intent.skipped is not None, intent.due_at or tx.now
        return Mail(
            tenant_id=tx.tenant_id,
            delivery_id=self.ids.new(),
            dedupe_key=dedupe_key(run.run_id, intent.key),
            run_id=run.run_id,
            job_id=run.job_id,
            recipient=intent.address,
            recipient_key=intent.key,
            rules=intent.rules,
            rule_uids=intent.rule_uids,
            kind=intent.kind,
            detail=intent.detail,
            background=intent.background,
            outcome=run.outcome,
            state=MailState.SKIPPED if skipped else MailState.PENDING,
            reason=intent.skipped,
            due_at=None if skipped else due_at,
            fold=None if skipped else intent.fold,
            expires_at=max(run.finalised_at, due_at) + EXPIRES_AFTER,
            finalised_at=run.finalised_at,
            message_id=message_id(
                tx.tenant_id, run.run_id, intent.key, mail_domain=self.policy.mail_domain
            ),
            created_at=tx.now,
        )


def run_facts(tx: Transaction, run: Run) -> RunFacts | None:
    """What rules read of a run; None for one that has no outcome."""
    outcome = outcome_of(run)
    if outcome is None or run.closed_at is None:
        return None
    job = tx.resources.get_by_uid(ResourceUid(run.job_id))
    return RunFacts(
        labels=job.labels if job else {},
        detail_code=run.error.detail_code if run.error else None,
        tenant_id=run.tenant_id,
        run_id=run.run_id,
        job_id=run.job_id,
        job_name=run.job_name,
        mode=run.mode,
        outcome=outcome,
        finalised_at=run.closed_at,
    )


def _audience(
    tx: Transaction, policy: MailPolicy, rules: Sequence[StoredRule], run: RunFacts
) -> Audience:
    addresses = {to.address.strip() for rule in rules for to in rule.spec.to}
    keys = {recipient_key(address) for address in addresses if not address_fault(address)}
    scopes = {*(str(rule.uid) for rule in rules), str(run.job_id), EVERYTHING}
    hashes = tx.mail_choices.unsubscribed(scopes)
    by_hash = {recipient_hash(tx.tenant_id, key): key for key in keys} if hashes else {}
    return Audience(
        domains=policy.domains.get(tx.tenant_id, ()),
        unsubscribed={(by_hash[one], scope) for one, scope in hashes if one in by_hash},
        suppressed=tx.mail_choices.suppressed(keys),
    )


def skip_reasons(evaluation: Evaluation) -> list[SkipReason]:
    """Every reason for silence of one run, for metrics."""
    return [
        *(held.reason for held in evaluation.held),
        *(intent.skipped for intent in evaluation.intents if intent.skipped),
    ]


@dataclass(frozen=True, slots=True)
class Story:
    """What an event about a mail continues: the run's trace, and the event that requested it."""

    traceparent: str | None = None
    cause: EventId | None = None


def story_of(tx: Transaction, run_id: RunId | None) -> Story:
    run = None if run_id is None else tx.runs.get(run_id)
    if run is None or run_id is None:
        return Story()
    newest = tx.runs.history(run_id, after=max(run.last_sequence - _NEWEST, 0))
    ends = [entry.event_id for entry in newest if entry.type.endswith(".run.finalised")]
    return Story(run.traceparent, ends[0] if ends else None)
