"""Conformance suite of WebhookClient."""

from datetime import date, timedelta

from datarecs_application.ports.delivery import (
    DeliveryKey,
    OutgoingWebhook,
    Ticket,
    WebhookClient,
    WebhookReport,
)
from datarecs_core.values import ResourceUid
from datarecs_core.webhooks.outcome import Outcome
from datarecs_testing.builders import A_TENANT, an_id

LONG = timedelta(seconds=10)


def an_outgoing(
    url: str, *, body: bytes = b"{}", timeout: timedelta = timedelta(seconds=5)
) -> OutgoingWebhook:
    ticket = Ticket(
        tenant_id=A_TENANT,
        endpoint_uid=ResourceUid(an_id()),
        key=DeliveryKey(date(2026, 11, 20), an_id()),
        attempt_no=1,
        lease_epoch=1,
    )
    headers = (("Content-Type", "application/json"), ("webhook-id", "e-1"))
    return OutgoingWebhook(ticket=ticket, url=url, headers=headers, body=body, timeout=timeout)


def all_ended(client: WebhookClient, count: int) -> list[WebhookReport]:
    """Reports until there are as many; the last wait is the longest."""
    reports: list[WebhookReport] = []
    while len(reports) < count:
        fresh = client.ended(LONG)
        assert fresh, f"{len(reports)} of {count} attempts ended"
        reports += fresh
    return reports


class WebhookClientConformance:
    """Subclass with fixtures `client` and `url`, a receiver that answers 2xx to everything."""

    def test_every_started_attempt_ends_once_with_its_ticket(
        self, client: WebhookClient, url: str
    ) -> None:
        requests = [an_outgoing(url) for _ in range(20)]
        for request in requests:
            client.start(request)
        assert client.in_flight == 20
        reports = all_ended(client, 20)
        assert sorted(report.ticket for report in reports) == sorted(
            request.ticket for request in requests
        )
        assert {report.end.outcome for report in reports} == {Outcome.OK}
        assert client.in_flight == 0

    def test_nothing_started_nothing_ended(self, client: WebhookClient, url: str) -> None:
        assert client.ended(timedelta()) == []
        client.start(an_outgoing(url))
        all_ended(client, 1)
        assert client.ended(timedelta()) == []
