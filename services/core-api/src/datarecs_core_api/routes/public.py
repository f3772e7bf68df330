"""Pages of links in mails: the report of one run, and the end of mails to one recipient.

A signed token contains tenant, run or recipient; nothing is read before its signature is verified.
An altered, expired or revoked link has the same response as an unknown link.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from html import escape
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Request, Response

from datarecs_application.ports.state import AuditEntry
from datarecs_core.catalog.layout import run_document
from datarecs_core.errors.api import ApiCode
from datarecs_core.errors.storage import BlobNotFoundError
from datarecs_core.notifications.evaluation import EVERYTHING
from datarecs_core.notifications.links import (
    UnsubscribeLink,
    read_report_link,
    read_unsubscribe_link,
)
from datarecs_core.runs.model import Run
from datarecs_core_api.audit import address_of
from datarecs_core_api.auth import authenticator
from datarecs_core_api.dependencies import Ports, Using
from datarecs_core_api.guarded import PublicRoute
from datarecs_core_api.problems import ProblemError, not_found, result_lost
from datarecs_core_api.routes.results import PAGE_POLICY
from datarecs_core_api.views import run_view
from datarecs_reports.html import error_report, run_report

router = APIRouter(prefix="/api/v1/public", route_class=PublicRoute)
MAX_FORM_BYTES = 4_096
HTML = "text/html; charset=utf-8"
_FORM_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)


class Scope(StrEnum):
    """What a recipient ends."""

    RULES = "rules"
    """The rules that led to this mail; what one click does."""
    JOB = "job"
    EVERYTHING = "everything"


@router.get("/reports/{token}")
def report_by_link(token: str, request: Request, use: Using) -> Response:
    """The report of one run, without values of rows, for the holder of the link."""
    link = read_report_link(token, use.link_keys)
    if link is None:
        raise unknown_link(request)
    with use.unit.begin(link.tenant_id, read_only=True) as tx:
        now, revoked_at = tx.now, tx.mail_choices.report_links_revoked_at(link.run_id)
    run = use.queries.run(link.tenant_id, link.run_id)
    if run is None or not link.is_live(now, revoked_at):
        raise unknown_link(request)
    page = _page(use, run)
    _audit(use, request, run)
    return Response(page, media_type=HTML, headers={"Content-Security-Policy": PAGE_POLICY})


def _page(use: Ports, run: Run) -> bytes:
    view = run_view(run).model_dump(mode="json")
    if not run.status.is_terminal:
        raise not_found("report: the run has not ended")
    if run.result is None:
        return error_report(view)
    try:
        data = use.blobs.of(run.tenant_id).get(run_document(run.tenant_id, run.run_id))
    except BlobNotFoundError as cause:
        raise result_lost() from cause
    document = json.loads(data)
    if not isinstance(document, Mapping):
        raise TypeError("run.json is an object")
    return run_report(document, view, samples=False)


def _audit(use: Ports, request: Request, run: Run) -> None:
    entry = AuditEntry(
        actor="link",
        actor_kind="link",
        action="report.read",
        resource_kind="Run",
        resource_uid=str(run.run_id),
        request_id=request.state.request_id,
        address=address_of(request),
    )
    with use.unit.begin(run.tenant_id) as tx:
        tx.audit.append(entry)


def unknown_link(request: Request) -> ProblemError:
    """404; 429 for an address that tries too many."""
    detail = "link: it is not valid, has expired, or was revoked"
    refusal = authenticator(request).failure(request, reason="link", detail=detail)
    return refusal if refusal.code is ApiCode.TOO_MANY_REQUESTS else not_found(detail)


@router.get("/unsubscribe/{token}")
def show_unsubscribe_page(token: str, request: Request, use: Using) -> Response:
    """A page with the choices; changes nothing, since scanners follow links."""
    link = _unsubscribe_link(token, request, use)
    choices = [(Scope.RULES, "mails of the rule behind this mail")]
    if link.job_id is not None:
        choices.append((Scope.JOB, "every mail about this job"))
    choices.append((Scope.EVERYTHING, "every mail about any run"))
    buttons = "".join(
        f'<p><button name="scope" value="{scope}">Stop {escape(words)}</button></p>'
        for scope, words in choices
    )
    return _html("Unsubscribe", f'<form method="post">{buttons}</form>')


async def small_form(request: Request) -> bytes:
    """The body of a form, at most 4 KiB."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            raise ProblemError(code=ApiCode.BODY_TOO_LARGE, detail="a form has at most 4 KiB")
    return body


@router.post("/unsubscribe/{token}")
def unsubscribe(
    token: str, request: Request, use: Using, form: Annotated[bytes, Depends(small_form)]
) -> Response:
    """End the mails; safe to repeat. One click (RFC 8058) ends those of the mail's rules."""
    link = _unsubscribe_link(token, request, use)
    scopes = _scopes(link, form)
    entry = AuditEntry(
        actor="link",
        actor_kind="link",
        action="mail.unsubscribe",
        detail={"recipient": link.recipient, "scopes": scopes},
        request_id=request.state.request_id,
        address=address_of(request),
    )
    with use.unit.begin(link.tenant_id) as tx:
        known = tx.mail_choices.unsubscribed(scopes)
        if any((link.recipient, scope) not in known for scope in scopes):
            tx.mail_choices.unsubscribe(link.recipient, scopes)
            tx.audit.append(entry)
    return _html("Unsubscribed", "<p>You will get no more of these mails.</p>")


def _unsubscribe_link(token: str, request: Request, use: Ports) -> UnsubscribeLink:
    link = read_unsubscribe_link(token, use.link_keys, now=use.clock.now())
    if link is None:
        raise unknown_link(request)
    return link


def _scopes(link: UnsubscribeLink, form: bytes) -> list[str]:
    """The choice in the form; anything else is the one click of a mail program."""
    chosen = parse_qs(form.decode("ascii", "replace")).get("scope", [""])[0]
    if chosen == Scope.EVERYTHING:
        return [EVERYTHING]
    if chosen == Scope.JOB and link.job_id is not None:
        return [str(link.job_id)]
    return [str(uid) for uid in link.rules]


def _html(title: str, body: str) -> Response:
    page = (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width">'
        f'<meta name="color-scheme" content="light dark"><title>{title}</title></head>'
        f'<body style="font-family:system-ui,sans-serif;max-width:40rem;margin:2rem auto;'
        f'padding:0 1rem"><h1>{title}</h1>{body}</body></html>'
    )
    return Response(page, media_type=HTML, headers={"Content-Security-Policy": _FORM_POLICY})
