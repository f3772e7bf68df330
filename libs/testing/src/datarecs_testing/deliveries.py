"""Endpoints, rules, deliveries and mails for tests, complete and plausible."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from datarecs_core.notifications.evaluation import MailKind
from datarecs_core.notifications.mail import EXPIRES_AFTER, Mail
from datarecs_core.notifications.rule import Detail, NotificationRule, Recipient
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.values import EventId, JobId, ResourceUid, RunId
from datarecs_core.webhooks.delivery import Delivery
from datarecs_core.webhooks.endpoint import WebhookEndpoint
from datarecs_core.webhooks.payload import Message
from datarecs_specs.documents import decode_stored
from datarecs_specs.kinds import canonical_spec
from datarecs_testing.builders import A_TENANT, NOON, a_resource, an_id

FINALISED = "io.datarecs.reconciliation.run.finalised"
RULE = NotificationRule(to=(Recipient(address="ana@example.com"),))


def an_endpoint(
    spec: WebhookEndpoint | None = None,
    **changes: Any,  # noqa: ANN401  any field of Resource
) -> Resource:
    """A stored WebhookEndpoint; its spec is read by `read_endpoint`."""
    chosen = spec or WebhookEndpoint(url="https://receiver.example.com/hook")
    return a_resource(
        **{
            "kind": Kind.WEBHOOK_ENDPOINT,
            "name": f"hook-{str(an_id())[-6:]}",
            "spec": canonical_spec(Kind.WEBHOOK_ENDPOINT, chosen),
        }
        | changes
    )


def a_rule(
    spec: NotificationRule = RULE,
    **changes: Any,  # noqa: ANN401  any field of Resource
) -> Resource:
    """A stored NotificationRule; its spec is read by `read_rule`."""
    return a_resource(
        **{
            "kind": Kind.NOTIFICATION_RULE,
            "name": f"rule-{str(an_id())[-6:]}",
            "spec": canonical_spec(Kind.NOTIFICATION_RULE, spec),
        }
        | changes
    )


def read_endpoint(spec: Mapping[str, object]) -> WebhookEndpoint:
    read = decode_stored(Kind.WEBHOOK_ENDPOINT, "", spec)
    assert isinstance(read, WebhookEndpoint)
    return read


def read_rule(spec: Mapping[str, object]) -> NotificationRule:
    read = decode_stored(Kind.NOTIFICATION_RULE, "", spec)
    assert isinstance(read, NotificationRule)
    return read


def a_message(event_id: EventId, **attributes: str) -> Message:
    known = {
        "specversion": "1.0",
        "id": str(event_id),
        "source": "/datarecs/core-api",
        "type": FINALISED,
        "time": "2026-11-20T12:00:00.000000Z",
        "datacontenttype": "application/json",
        "tenantid": str(A_TENANT),
    }
    return Message(attributes=known | attributes, data=b'{"probe":0.010}')


def a_delivery(**changes: Any) -> Delivery:  # noqa: ANN401  any field of Delivery
    """A pending delivery of tenant A, due since NOON."""
    delivery = Delivery(
        tenant_id=A_TENANT,
        received_on=NOON.date(),
        delivery_id=an_id(),
        endpoint_uid=ResourceUid(an_id()),
        event_id=EventId(an_id()),
        event_type=FINALISED,
        run_id=RunId(an_id()),
        due_at=NOON,
        expires_at=NOON.replace(year=NOON.year + 50),
        created_at=NOON,
    )
    return replace(delivery, **changes)


def a_mail(**changes: Any) -> Mail:  # noqa: ANN401  any field of Mail
    """A pending mail of tenant A, due since NOON."""
    run_id = RunId(an_id())
    mail = Mail(
        tenant_id=A_TENANT,
        delivery_id=an_id(),
        dedupe_key=f"run:{run_id}:ana@example.com",
        run_id=run_id,
        job_id=JobId(an_id()),
        recipient="ana@example.com",
        recipient_key="ana@example.com",
        rules=("default",),
        kind=MailKind.OUTCOME,
        detail=Detail.SUMMARY,
        outcome="UNMATCHED",
        due_at=NOON,
        expires_at=NOON + EXPIRES_AFTER,
        finalised_at=NOON,
        message_id=f"<run.{run_id}.x@mail.example.com>",
        created_at=NOON,
    )
    return replace(mail, **changes)
