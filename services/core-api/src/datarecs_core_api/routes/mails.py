"""What became of mails, which addresses get none, and links to reports that are revoked."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from datarecs_application.ports.delivery import MailFilter
from datarecs_application.ports.state import AuditEntry, Transaction
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.errors.api import ApiCode
from datarecs_core.notifications.mail import Mail, MailState, resent_mail
from datarecs_core_api.audit import asker
from datarecs_core_api.auth import Reader, needs
from datarecs_core_api.conditional import json_answer
from datarecs_core_api.dependencies import Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.idempotency import Answer, once
from datarecs_core_api.inputs import CanonicalUuid, JsonBody, NoFieldsIn, Sent, canonical_uuid
from datarecs_core_api.mail_outputs import MailAttemptOut, MailOut, SuppressionOut
from datarecs_core_api.outputs import Page, RunOut
from datarecs_core_api.pagination import Cursor, Position, next_link
from datarecs_core_api.problems import ProblemError, not_found
from datarecs_core_api.published_types import RunIdPath
from datarecs_core_api.routes.runs import known_run
from datarecs_core_api.views import mail_attempt_view, mail_view, run_view, suppression_view

router = APIRouter(prefix="/api/v1", tags=["mails"], route_class=GuardedRoute)
Resender = Annotated[Principal, needs(Permission.DELIVERY_RESEND)]
MAX_MAILS, DEFAULT_MAILS = 200, 50
MAX_SUPPRESSIONS = 1_000
MailIdPath = Annotated[
    str,
    Path(
        description="Id of the mail, in lower case.",
        json_schema_extra={"format": "uuid", "examples": ["019bb000-0000-7000-8000-0000000000d1"]},
    ),
]
AddressPath = Annotated[
    str,
    Path(
        description="Address as in the list.",
        min_length=3,
        max_length=254,
        json_schema_extra={"examples": ["ana@example.com"]},
    ),
]
_FAILED = frozenset({MailState.FAILED, MailState.UNKNOWN})


@router.get("/emails", operation_id="list_emails", responses={200: {"model": Page[MailOut]}})
def list_emails(
    caller: Reader,
    request: Request,
    use: Using,
    run_id: CanonicalUuid | None = None,
    state: MailState | None = None,
    limit: Annotated[int, Query(ge=1, le=MAX_MAILS)] = DEFAULT_MAILS,
    cursor: Cursor | None = None,
) -> Response:
    """Mails and those left out, newest first."""
    scope, now = {"list": "emails", "run": str(run_id), "state": str(state)}, use.clock.now()
    before = None
    if cursor is not None:
        at = use.cursors.read(cursor, tenant=caller.tenant_id, where=scope, now=now)
        before = (at.created_at, at.id)
    where = MailFilter(run_id=run_id, state=state, before=before)
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        newest = tx.mails.page(where, limit + 1)
    items = [mail_view(mail) for mail in newest[:limit]]
    following = None
    if len(newest) > limit:
        position = Position(created_at=items[-1].created_at, id=items[-1].delivery_id)
        following = use.cursors.write(position, tenant=caller.tenant_id, where=scope, now=now)
    page = Page(items=items, next=following)
    return json_answer(page, headers=next_link(request, page.next))


@router.get("/emails/{mail_id}/attempts", operation_id="list_email_attempts")
def list_email_attempts(mail_id: MailIdPath, caller: Reader, use: Using) -> Page[MailAttemptOut]:
    """The reply of the relay to each attempt, in order."""
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        mail = _known(tx, mail_id)
        attempts = tx.mails.attempts(mail.delivery_id)
    return Page(items=[mail_attempt_view(attempt) for attempt in attempts])


def _known(tx: Transaction, mail_id: str) -> Mail:
    uid = canonical_uuid(mail_id)
    mails = [] if uid is None else tx.mails.of_ids([uid])
    if not mails:
        raise not_found("mail")
    return mails[0]


@router.post(
    "/emails/{mail_id}/resend",
    status_code=202,
    operation_id="resend_email",
    responses={202: {"model": MailOut}, 409: {}},
)
async def resend_email(
    mail_id: MailIdPath,
    caller: Resender,
    request: Request,
    body: Annotated[Sent[NoFieldsIn], Depends(JsonBody(NoFieldsIn))],
    use: Using,
) -> Response:
    """Queue a failed or unknown mail again, under the same Message-ID."""

    def act(tx: Transaction, _key: str | None) -> Answer:
        mail = _known(tx, mail_id)
        if mail.state not in _FAILED or not mail.is_terminal:
            raise ProblemError(
                code=ApiCode.WRITE_CONFLICT,
                detail=f"the mail is {mail.state}; only FAILED and UNKNOWN mails are sent again",
            )
        again = resent_mail(mail, use.ids.new(), now=tx.now)
        tx.mails.add(again)
        tx.wake()
        tx.audit.append(
            AuditEntry(
                **asker(request, caller),
                action="mail.resend",
                resource_kind="Mail",
                resource_uid=str(mail.delivery_id),
                detail={"new": str(again.delivery_id)},
            )
        )
        return Answer(status=202, body=mail_view(again))

    return await run_in_threadpool(
        once, request, body.canonical, unit=use.unit, caller=caller, act=act
    )


@router.get("/email-suppressions", operation_id="list_email_suppressions")
def list_email_suppressions(caller: Reader, use: Using) -> Page[SuppressionOut]:
    """Addresses that get no mail because it was refused, newest first."""
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        rows = tx.mail_choices.suppressions(MAX_SUPPRESSIONS)
    return Page(items=[suppression_view(row) for row in rows])


@router.delete("/email-suppressions/{address}", operation_id="delete_email_suppression")
def delete_email_suppression(
    address: AddressPath, caller: Resender, request: Request, use: Using
) -> SuppressionOut:
    """Allow mails to the address again."""
    with use.unit.begin(caller.tenant_id) as tx:
        rows = tx.mail_choices.suppressions(MAX_SUPPRESSIONS)
        released = [row for row in rows if row.recipient_key == address]
        if not released or not tx.mail_choices.release(address):
            raise not_found("suppression")
        tx.audit.append(
            AuditEntry(
                **asker(request, caller),
                action="mail.release",
                resource_kind="Suppression",
                resource_uid=address,
            )
        )
    return suppression_view(released[0])


@router.delete("/runs/{run_id}/report-links", operation_id="delete_report_links")
def delete_report_links(
    run_id: RunIdPath, caller: Resender, request: Request, use: Using
) -> RunOut:
    """Revoke every link to the run's report that mails contain."""
    run = known_run(use, caller, run_id)
    with use.unit.begin(caller.tenant_id) as tx:
        tx.mail_choices.revoke_report_links(run.run_id)
        tx.audit.append(
            AuditEntry(
                **asker(request, caller),
                action="report_links.revoke",
                resource_kind="Run",
                resource_uid=run_id,
            )
        )
    return run_view(run)
