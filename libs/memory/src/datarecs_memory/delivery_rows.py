"""The rows of webhook deliveries and mails of one tenant in the twin.

Separate from the repositories, because the store copies them with a transaction, independent of
their meaning.
"""

from dataclasses import dataclass, field
from datetime import date, datetime
from uuid import UUID

from datarecs_application.ports.delivery import (
    DeliveryKey,
    MailAttempt,
    Suppression,
    WebhookAttempt,
)
from datarecs_core.notifications.evaluation import RuleState
from datarecs_core.notifications.mail import Mail
from datarecs_core.values import EventId, JobId, ResourceUid, RunId
from datarecs_core.webhooks.actions import WebhookAction
from datarecs_core.webhooks.delivery import Delivery
from datarecs_core.webhooks.health import EndpointState
from datarecs_core.webhooks.payload import Message


@dataclass(slots=True, kw_only=True)
class DeliveryRows:
    messages: dict[tuple[date, EventId], Message] = field(default_factory=dict)
    received_at: dict[tuple[date, EventId], datetime] = field(default_factory=dict)
    actions: dict[UUID, WebhookAction] = field(default_factory=dict)
    deliveries: dict[DeliveryKey, Delivery] = field(default_factory=dict)
    attempts: dict[tuple[DeliveryKey, int], WebhookAttempt] = field(default_factory=dict)
    endpoints: dict[ResourceUid, EndpointState] = field(default_factory=dict)
    mails: dict[UUID, Mail] = field(default_factory=dict)
    mimes: dict[UUID, bytes] = field(default_factory=dict)
    mails_claimed_until: dict[UUID, datetime] = field(default_factory=dict)
    mail_attempts: dict[tuple[UUID, int], MailAttempt] = field(default_factory=dict)
    rule_states: dict[tuple[ResourceUid, JobId], RuleState] = field(default_factory=dict)
    unsubscribed: set[tuple[str, str]] = field(default_factory=set)
    suppressions: dict[str, Suppression] = field(default_factory=dict)
    bounces: dict[tuple[str, str], datetime] = field(default_factory=dict)
    revoked_links: dict[RunId, datetime] = field(default_factory=dict)

    def copy(self) -> "DeliveryRows":
        return DeliveryRows(
            messages=dict(self.messages),
            received_at=dict(self.received_at),
            actions=dict(self.actions),
            deliveries=dict(self.deliveries),
            attempts=dict(self.attempts),
            endpoints=dict(self.endpoints),
            mails=dict(self.mails),
            mimes=dict(self.mimes),
            mails_claimed_until=dict(self.mails_claimed_until),
            mail_attempts=dict(self.mail_attempts),
            rule_states=dict(self.rule_states),
            unsubscribed=set(self.unsubscribed),
            suppressions=dict(self.suppressions),
            bounces=dict(self.bounces),
            revoked_links=dict(self.revoked_links),
        )
