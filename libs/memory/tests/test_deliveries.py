"""The twins of webhook deliveries and mails against the suites of their ports."""

from datarecs_testing.conformance.deliveries import DeliveriesConformance
from datarecs_testing.conformance.delivery_order import DeliveryOrderConformance
from datarecs_testing.conformance.mails import (
    MailChoicesConformance,
    MailsConformance,
    RuleStatesConformance,
)


class TestDeliveries(DeliveriesConformance):
    pass


class TestDeliveryOrder(DeliveryOrderConformance):
    pass


class TestMails(MailsConformance):
    pass


class TestRuleStates(RuleStatesConformance):
    pass


class TestMailChoices(MailChoicesConformance):
    """Unsubscribing, suppression, revoked links."""
