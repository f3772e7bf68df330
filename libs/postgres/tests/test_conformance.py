"""PostgreSQL against the suites of the state ports, each service with its rights."""

import pytest

from datarecs_testing.conformance.access import (
    ApiKeysConformance,
    AuditConformance,
    IdempotencyKeysConformance,
)
from datarecs_testing.conformance.change_feed import (
    ChangeFeedConformance,
    ResourceFeedConformance,
)
from datarecs_testing.conformance.checks import ChecksConformance
from datarecs_testing.conformance.event_archive import EventArchiveConformance
from datarecs_testing.conformance.isolation import IsolationConformance
from datarecs_testing.conformance.leases import RunLeasesConformance, WorkFinderConformance
from datarecs_testing.conformance.outbox import (
    InboxConformance,
    OutboxConformance,
    OutboxReaderConformance,
)
from datarecs_testing.conformance.pointers import PointersConformance
from datarecs_testing.conformance.quotas import QuotasConformance
from datarecs_testing.conformance.resource_work import ResourceWorkConformance
from datarecs_testing.conformance.resources import (
    ResourcesConformance,
    SealedSecretsConformance,
)
from datarecs_testing.conformance.retention import RetentionConformance
from datarecs_testing.conformance.runs import QueriesConformance, RunsConformance
from datarecs_testing.conformance.schedules import SchedulesConformance
from datarecs_testing.conformance.sink_tasks import SinkTasksConformance
from datarecs_testing.conformance.tickets import SocketTicketsConformance
from datarecs_testing.conformance.unit_of_work import UnitOfWorkConformance

pytestmark = pytest.mark.integration


class TestUnitOfWork(UnitOfWorkConformance):
    pass


class TestRuns(RunsConformance):
    pass


class TestQueries(QueriesConformance):
    pass


class TestChangeFeed(ChangeFeedConformance):
    pass


class TestResourceFeed(ResourceFeedConformance):
    pass


class TestSinkTasks(SinkTasksConformance):
    pass


class TestSocketTickets(SocketTicketsConformance):
    pass


class TestRunLeases(RunLeasesConformance):
    pass


class TestWorkFinder(WorkFinderConformance):
    pass


class TestOutbox(OutboxConformance):
    pass


class TestOutboxReader(OutboxReaderConformance):
    pass


class TestInbox(InboxConformance):
    pass


class TestEventArchive(EventArchiveConformance):
    pass


class TestResources(ResourcesConformance):
    pass


class TestSealedSecrets(SealedSecretsConformance):
    pass


class TestPointers(PointersConformance):
    pass


class TestQuotas(QuotasConformance):
    pass


class TestChecks(ChecksConformance):
    pass


class TestResourceWork(ResourceWorkConformance):
    pass


class TestSchedules(SchedulesConformance):
    pass


class TestRetention(RetentionConformance):
    pass


class TestIdempotencyKeys(IdempotencyKeysConformance):
    pass


class TestApiKeys(ApiKeysConformance):
    pass


class TestAudit(AuditConformance):
    pass


class TestIsolation(IsolationConformance):
    pass
