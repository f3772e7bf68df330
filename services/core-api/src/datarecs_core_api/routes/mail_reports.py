"""Bounces and complaints, reported by the operator's mail system.

The reports come from a program without a user: they are signed with a secret of the operator, by
Standard Webhooks. Nothing is read or changed before the signature is verified.
"""

from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import Field, model_validator

from datarecs_application.mail_reports import record_report
from datarecs_application.ports.state import AuditEntry
from datarecs_core.notifications.address import address_fault, is_sendable, recipient_key
from datarecs_core.notifications.feedback import MailReport, NewSuppression, ReportKind
from datarecs_core.values import TenantId
from datarecs_core_api.dependencies import Ports, Using
from datarecs_core_api.guarded import SignedRoute
from datarecs_core_api.inputs import In, ShortText
from datarecs_core_api.outputs import Out
from datarecs_core_api.problems import input_fault, invalid
from datarecs_core_api.signed import SignedBody, SignedReport

router = APIRouter(prefix="/api/v1", route_class=SignedRoute)


class EmailEventIn(In):
    """One bounce or complaint."""

    kind: Literal["bounce", "complaint"]
    recipient: str = Field(min_length=3, max_length=254)
    permanent: bool = False
    """Of a bounce: the address does not exist."""
    text: ShortText | None = None
    """What the mail system wrote."""

    @model_validator(mode="after")
    def _only_bounces_are_permanent(self) -> "EmailEventIn":
        if self.permanent and self.kind != "bounce":
            raise ValueError("`permanent` is only for kind bounce; remove it")
        return self


class EmailEventOut(Out):
    """What the report led to."""

    tenants: int
    """Tenants that may send mails to the domain of the address."""
    suppressed: bool
    """Whether the address gets no further mail."""


_BODY = SignedBody(EmailEventIn)


@router.post("/inbound/email-events")
def record_email_event(
    sent: Annotated[SignedReport[EmailEventIn], Depends(_BODY)], use: Using
) -> EmailEventOut:
    """Count the report for every tenant that may write to the address; safe to repeat."""
    event = sent.value
    if problem := address_fault(event.recipient):
        raise invalid("the body holds faults", input_fault("/recipient", problem))
    report = MailReport(
        report_id=sent.report_id,
        recipient_key=recipient_key(event.recipient),
        kind=ReportKind(event.kind),
        permanent=event.permanent,
        text=event.text or "",
    )
    domains = use.previewing.planning.policy.domains
    tenants = [one for one in sorted(domains) if is_sendable(report.recipient_key, domains[one])]
    made = [_record(use, tenant, report, sent) for tenant in tenants]
    return EmailEventOut(tenants=len(tenants), suppressed=any(made))


def _record(
    use: Ports, tenant: TenantId, report: MailReport, sent: SignedReport[EmailEventIn]
) -> NewSuppression | None:
    with use.unit.begin(tenant) as tx:
        made = record_report(tx, report)
        if made is not None:
            tx.audit.append(
                AuditEntry(
                    actor="mail reports",
                    actor_kind="service",
                    action="mail.suppress",
                    resource_kind="Suppression",
                    resource_uid=made.recipient_key,
                    detail={"reason": made.reason.value},
                    request_id=sent.request_id,
                    address=sent.address,
                )
            )
    return made
