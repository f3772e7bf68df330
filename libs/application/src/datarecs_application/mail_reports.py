"""A bounce or complaint in a transaction: counted, and the address suppressed if it is too many.

Used by the email-notifier for replies of the relay, and by core-api for reports of mail systems.
"""

import structlog

from datarecs_application.ports.state import Transaction
from datarecs_core.notifications.feedback import (
    COUNTED_FOR,
    MailReport,
    NewSuppression,
    decide_suppression,
)
from datarecs_core.notifications.identity import recipient_hash

log = structlog.get_logger()


def record_report(tx: Transaction, report: MailReport) -> NewSuppression | None:
    """The suppression that follows from the report; safe to repeat under the same report id."""
    count = 0
    if report.is_soft_bounce:
        since = tx.now - COUNTED_FOR
        count = tx.mail_choices.count_soft_bounce(
            report.recipient_key, report.report_id, since=since
        )
    made = decide_suppression(report, soft_bounces=count, now=tx.now)
    if made is not None:
        tx.mail_choices.suppress(made)
        log.info(
            "mail_address_suppressed",
            tenant_id=str(tx.tenant_id),
            recipient=recipient_hash(tx.tenant_id, made.recipient_key),
            reason=made.reason.value,
        )
    return made
