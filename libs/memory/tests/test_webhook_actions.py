"""The twin of actions against the suite of its port."""

from datarecs_testing.conformance.webhook_actions import WebhookActionsConformance


class TestWebhookActions(WebhookActionsConformance):
    pass
