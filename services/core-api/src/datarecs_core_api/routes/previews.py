"""What a notification rule would send about a finished run: shown, or sent once as a test."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from datarecs_application.ports.state import AuditEntry, Transaction
from datarecs_core.access.permissions import Permission
from datarecs_core.access.principal import Principal
from datarecs_core.errors.api import ApiCode
from datarecs_core.notifications.address import MAX_LENGTH, address_fault, recipient_key
from datarecs_core.resources.resource import DEFAULT_NAMESPACE, Kind
from datarecs_core.runs.model import Run
from datarecs_core_api.addressing import read_resource
from datarecs_core_api.audit import asker
from datarecs_core_api.auth import needs
from datarecs_core_api.dependencies import Ports, Using
from datarecs_core_api.guarded import GuardedRoute
from datarecs_core_api.idempotency import Answer, once
from datarecs_core_api.inputs import CanonicalUuid, In, JsonBody, Namespace, Sent
from datarecs_core_api.mail_outputs import HeldRuleOut, MailOut, PreviewRecipientOut, RulePreviewOut
from datarecs_core_api.problems import ProblemError, input_fault, invalid
from datarecs_core_api.published_types import ObjectName
from datarecs_core_api.routes.runs import known_run
from datarecs_core_api.views import mail_view
from datarecs_specs.kinds import KINDS

router = APIRouter(prefix="/api/v1", tags=["mails"], route_class=GuardedRoute)
RULE = KINDS[Kind.NOTIFICATION_RULE]
Caller = Annotated[Principal, needs(Permission.DELIVERY_RESEND)]


_RUN_ID = "019b0000-0000-7000-8000-0000000000b1"


class PreviewIn(In):
    """Of which finished run."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"run_id": _RUN_ID}]})

    run_id: CanonicalUuid


class TestIn(In):
    """Of which finished run, and to which recipient of the rule."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"run_id": _RUN_ID, "address": "finops@example.com"}]}
    )

    run_id: CanonicalUuid
    address: Annotated[str, Field(max_length=MAX_LENGTH)]


@router.post(f"/{RULE.path}/{{name}}/preview", operation_id="preview_rule")
async def preview(
    name: ObjectName,
    caller: Caller,
    body: Annotated[Sent[PreviewIn], Depends(JsonBody(PreviewIn))],
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> RulePreviewOut:
    """The recipients of a mail about a run, the skipped ones with reasons, and the text."""
    return await run_in_threadpool(_previewed, use, caller, (namespace, name), body.value)


def _previewed(
    use: Ports, caller: Principal, rule: tuple[str, str], wanted: PreviewIn
) -> RulePreviewOut:
    run = _finished_run(use, caller, str(wanted.run_id))
    with use.unit.begin(caller.tenant_id, read_only=True) as tx:
        resource = read_resource(tx, RULE, rule[1], namespace=rule[0])
        made = use.previewing.preview(tx, resource, run.run_id)
    return RulePreviewOut(
        recipients=[
            PreviewRecipientOut(
                address=intent.address,
                kind=str(intent.kind),
                skipped=None if intent.skipped is None else str(intent.skipped),
                due_at=intent.due_at,
            )
            for intent in made.evaluation.intents
        ],
        held=[
            HeldRuleOut(rule=held.rule, reason=str(held.reason)) for held in made.evaluation.held
        ],
        subject=made.subject,
        text=made.text,
        html=made.html,
    )


def _finished_run(use: Ports, caller: Principal, run_id: str) -> Run:
    run = known_run(use, caller, run_id)
    if run.closed_at is None or (run.result is None and run.error is None):
        raise ProblemError(
            code=ApiCode.WRITE_CONFLICT,
            detail=f"the run is {run.status}; mails are about runs that ended with an outcome",
        )
    return run


@router.post(
    f"/{RULE.path}/{{name}}/test",
    status_code=202,
    operation_id="test_rule",
    responses={202: {"model": MailOut}},
)
async def send_test(
    name: ObjectName,
    caller: Caller,
    request: Request,
    body: Annotated[Sent[TestIn], Depends(JsonBody(TestIn))],
    use: Using,
    namespace: Namespace = DEFAULT_NAMESPACE,
) -> Response:
    """Send the mail about a run to one recipient of the rule, its subject marked `[test]`."""
    address = body.value.address.strip()
    if problem := address_fault(address):
        raise invalid("the address is not valid", input_fault("/address", problem))
    run = await run_in_threadpool(_finished_run, use, caller, str(body.value.run_id))

    def act(tx: Transaction, _key: str | None) -> Answer:
        resource = read_resource(tx, RULE, name, namespace=namespace)
        mail = use.previewing.test_mail(tx, resource, run.run_id, recipient_key(address))
        if mail is None:
            message = "no recipient of the rule that may be mailed; see the rule's preview"
            raise invalid("the address is not mailed", input_fault("/address", message))
        tx.mails.add(mail)
        tx.wake()
        tx.audit.append(
            AuditEntry(
                **asker(request, caller),
                action="rule.test",
                resource_kind=str(RULE.kind),
                resource_uid=str(resource.uid),
                detail={"run_id": str(run.run_id)},
            )
        )
        return Answer(status=202, body=mail_view(mail))

    return await run_in_threadpool(
        once, request, body.canonical, unit=use.unit, caller=caller, act=act
    )
