"""Alert mails of endpoints: rows of the mail queue, written together with the change.

The email-notifier sends them; only it has the relay and the addresses that a tenant may mail. So a
mail waits while that service is down, and that service skips an address that is not allowed.
"""

from urllib.parse import urlsplit

from datarecs_application.ports.outside import Ids
from datarecs_application.ports.state import Transaction
from datarecs_core.notifications.mail import NoticeRecipient, notice_mail
from datarecs_core.resources.resource import Resource
from datarecs_core.webhooks.alerts import AlertFacts, endpoint_alerts
from datarecs_core.webhooks.endpoint import WebhookEndpoint
from datarecs_core.webhooks.health import EndpointState
from datarecs_core.webhooks.outcome import AttemptEnd


def alert_facts(
    resource: Resource, spec: WebhookEndpoint, *, url: str = "", end: AttemptEnd | None = None
) -> AlertFacts:
    """The facts of an endpoint for an alert.

    Args:
        resource: the endpoint.
        spec: of the resource.
        url: of the attempt; empty: the URL of the spec.
        end: of the attempt that changed the state, if there is one.
    """
    outcome = "" if end is None else str(end.outcome)
    if end is not None and end.status is not None:
        outcome = f"{outcome}, status {end.status}"
    limit = spec.auto_disable
    return AlertFacts(
        name=resource.name,
        host=urlsplit(url or spec.url or "").netloc.rpartition("@")[2],
        last_outcome=outcome,
        disable_after=limit.after if limit.enabled else None,
        max_pending=spec.limits.max_pending,
    )


def queue_alerts(
    tx: Transaction,
    states: tuple[EndpointState, EndpointState],
    spec: WebhookEndpoint,
    facts: AlertFacts,
    *,
    ids: Ids,
) -> None:
    """Queue one mail per address for every change that a person must know.

    Args:
        tx: the transaction that saves the new state.
        states: of the endpoint, before and after the decision.
        spec: names the addresses.
        facts: for the texts.
        ids: for the mails.
    """
    if not spec.alert_emails:
        return
    for alert in endpoint_alerts(*states, facts):
        for address in spec.alert_emails:
            to = NoticeRecipient(tenant_id=tx.tenant_id, address=address, scope=alert.scope)
            tx.mails.add(notice_mail(alert.notice, to, delivery_id=ids.new(), now=tx.now))
        tx.wake()
