"""The report about recipients without a mail, so that every finalised run leaves a trace."""

from datarecs_core.notifications.evaluation import Evaluation, Held, Intent, RunFacts
from datarecs_core.notifications.events import NotificationEmailSkipped
from datarecs_core.notifications.identity import recipient_hash
from datarecs_core.notifications.rule import Detail


def skipped_events(evaluation: Evaluation, run: RunFacts) -> tuple[NotificationEmailSkipped, ...]:
    """One per rule held back or run left out, one per skipped recipient."""
    return (
        *(_of_rule(held, run) for held in evaluation.held),
        *(_of_recipient(intent, run) for intent in evaluation.intents if intent.skipped),
    )


def _of_rule(held: Held, run: RunFacts) -> NotificationEmailSkipped:
    return NotificationEmailSkipped(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        recipient_count=0,
        recipient_hash="",
        detail_level=Detail.MINIMAL,
        status="skipped",
        rule_names=(held.rule,) if held.rule else None,
        skip_reason=held.reason.lower(),
    )


def _of_recipient(intent: Intent, run: RunFacts) -> NotificationEmailSkipped:
    return NotificationEmailSkipped(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        recipient_count=1,
        recipient_hash=recipient_hash(run.tenant_id, intent.key),
        detail_level=intent.detail,
        status="skipped",
        kind=intent.kind,
        rule_names=intent.rules,
        skip_reason=intent.skipped.lower() if intent.skipped else None,
    )
