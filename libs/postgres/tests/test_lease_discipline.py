"""The durable queues of PostgreSQL, each by its service, under the one lease discipline."""

import pytest

from datarecs_testing.conformance.checks import CheckQueueConformance
from datarecs_testing.conformance.leased_captures import CaptureQueueConformance
from datarecs_testing.conformance.leased_deliveries import (
    DeliveryQueueConformance,
    MailQueueConformance,
)
from datarecs_testing.conformance.leased_resources import ResourceQueueConformance
from datarecs_testing.conformance.leased_runs import RunQueueConformance, ShardQueueConformance

pytestmark = pytest.mark.integration


class TestRuns(RunQueueConformance):
    pass


class TestShards(ShardQueueConformance):
    pass


class TestDeliveries(DeliveryQueueConformance):
    pass


class TestMails(MailQueueConformance):
    pass


class TestChecks(CheckQueueConformance):
    pass


class TestResources(ResourceQueueConformance):
    pass


class TestCaptures(CaptureQueueConformance):
    pass
