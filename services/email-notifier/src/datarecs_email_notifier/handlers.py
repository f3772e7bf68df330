"""What the email-notifier does about its one event: the mails of a finished run become rows."""

from dataclasses import dataclass

from datarecs_application.notifications import Planning, skip_reasons
from datarecs_application.ports.outside import Metrics
from datarecs_application.ports.state import Transaction
from datarecs_core.runs.events import RunFinalised
from datarecs_events.codec import Received


@dataclass(frozen=True, slots=True)
class Handlers:
    planning: Planning
    metrics: Metrics

    def plan_mails(self, tx: Transaction, received: Received) -> None:
        """run.finalised; the mail's content comes from the run's row, which is committed before."""
        finalised = received.event
        if not isinstance(finalised, RunFinalised):
            raise TypeError(f"subscribed to run.finalised, got {type(finalised).__name__}")
        evaluation = self.planning.plan_mails(tx, finalised.run_id)
        for reason in skip_reasons(evaluation) if evaluation else ():
            self.metrics.count("mail_skipped_total", reason=reason)
