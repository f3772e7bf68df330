"""The unit of work on PostgreSQL: one transaction, its repositories, one tenant.

Lists the repositories of a transaction; the rules are in the repositories, the order in `database`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from datarecs_application.ports.outside import Ids
from datarecs_core.values import TenantId
from datarecs_postgres.api_keys import PostgresApiKeys
from datarecs_postgres.audit import PostgresAudit
from datarecs_postgres.captures import PostgresWorkItems
from datarecs_postgres.checks import PostgresChecks
from datarecs_postgres.database import Database
from datarecs_postgres.history import RunHistory
from datarecs_postgres.idempotency import PostgresIdempotencyKeys
from datarecs_postgres.inbox import PostgresInbox
from datarecs_postgres.leases import PostgresRunLeases
from datarecs_postgres.mail_choices import PostgresMailChoices
from datarecs_postgres.mails import PostgresMails, PostgresRuleStates
from datarecs_postgres.outbox import PostgresOutbox
from datarecs_postgres.pointers import PostgresPointers
from datarecs_postgres.quotas import PostgresQuotas
from datarecs_postgres.resource_work import PostgresResourceWork
from datarecs_postgres.resources import PostgresResources
from datarecs_postgres.retention import PostgresRetention
from datarecs_postgres.run_writes import RunWrites
from datarecs_postgres.runs import PostgresRuns
from datarecs_postgres.schedules import PostgresSchedules
from datarecs_postgres.sealed_secrets import PostgresSealedSecrets
from datarecs_postgres.session import Session
from datarecs_postgres.sinks import PostgresSinks
from datarecs_postgres.tickets import PostgresSocketTickets
from datarecs_postgres.timers import PostgresRunTimers
from datarecs_postgres.webhook_actions import PostgresWebhookActions
from datarecs_postgres.webhook_order import PostgresDeliveryOrder
from datarecs_postgres.webhooks import PostgresDeliveries


class PostgresTransaction:
    """Port Transaction."""

    def __init__(self, session: Session, ids: Ids) -> None:
        writes = RunWrites(session)
        history = RunHistory(session, writes)
        self.session = session
        """For repositories of other concepts that join the same transaction."""
        self.runs = PostgresRuns(session, history, writes)
        self.timers = PostgresRunTimers(session)
        self.leases = PostgresRunLeases(session)
        self.outbox = PostgresOutbox(session, history, ids)
        self.inbox = PostgresInbox(session)
        self.resources = PostgresResources(session)
        self.idempotency = PostgresIdempotencyKeys(session)
        self.api_keys = PostgresApiKeys(session)
        self.audit = PostgresAudit(session)
        self.secrets = PostgresSealedSecrets(session)
        self.tickets = PostgresSocketTickets(session)
        self.deliveries = PostgresDeliveries(session)
        self.delivery_order = PostgresDeliveryOrder(session)
        self.webhook_actions = PostgresWebhookActions(session)
        self.mails = PostgresMails(session)
        self.mail_choices = PostgresMailChoices(session)
        self.quotas = PostgresQuotas(session)
        self.rule_states = PostgresRuleStates(session)
        self.schedules = PostgresSchedules(session)
        self.retention = PostgresRetention(session)
        self.checks = PostgresChecks(session)
        self.resource_work = PostgresResourceWork(session)
        self.pointers = PostgresPointers(session)
        self.capture_work = PostgresWorkItems(session)
        self.sinks = PostgresSinks(session)

    @property
    def tenant_id(self) -> TenantId:
        return self.session.tenant_id

    @property
    def now(self) -> datetime:
        return self.session.now

    def next_rv(self) -> int:
        return self.session.next_rv()

    def wake(self) -> None:
        self.session.wake()


class PostgresUnitOfWork:
    """Port UnitOfWork."""

    def __init__(self, database: Database, ids: Ids) -> None:
        self._database, self._ids = database, ids

    @contextmanager
    def begin(
        self, tenant: TenantId, *, feed: int = 0, read_only: bool = False
    ) -> Iterator[PostgresTransaction]:
        with self._database.transaction(tenant, feed=feed, read_only=read_only) as session:
            yield PostgresTransaction(session, self._ids)
