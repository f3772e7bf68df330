"""The unit of work in memory: serial transactions over copies, one tenant each."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from datarecs_core.values import TenantId
from datarecs_memory.access import (
    MemoryApiKeys,
    MemoryAudit,
    MemoryIdempotencyKeys,
    MemorySocketTickets,
)
from datarecs_memory.captures import MemoryWorkItems
from datarecs_memory.checks import MemoryChecks
from datarecs_memory.deliveries import MemoryDeliveries, MemoryWebhookActions
from datarecs_memory.delivery_order import MemoryDeliveryOrder
from datarecs_memory.lease_queue import MemoryRunLeases
from datarecs_memory.mails import MemoryMailChoices, MemoryMails, MemoryRuleStates
from datarecs_memory.outbox import MemoryInbox, MemoryOutbox
from datarecs_memory.pointers import MemoryPointers
from datarecs_memory.quotas import MemoryQuotas
from datarecs_memory.resource_work import MemoryResourceWork
from datarecs_memory.resources import MemoryResources, MemorySealedSecrets
from datarecs_memory.retention import MemoryRetention
from datarecs_memory.runs import MemoryRuns, MemoryRunTimers
from datarecs_memory.schedules import MemorySchedules
from datarecs_memory.scope import Scope
from datarecs_memory.sinks import MemorySinkTasks
from datarecs_memory.store import MemoryStore


class MemoryTransaction:
    """Port Transaction."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        """For repositories of other concepts that join the same transaction."""
        self.runs = MemoryRuns(scope)
        self.timers = MemoryRunTimers(scope)
        self.leases = MemoryRunLeases(scope)
        self.outbox = MemoryOutbox(scope)
        self.inbox = MemoryInbox(scope)
        self.resources = MemoryResources(scope)
        self.idempotency = MemoryIdempotencyKeys(scope)
        self.api_keys = MemoryApiKeys(scope)
        self.audit = MemoryAudit(scope)
        self.secrets = MemorySealedSecrets(scope)
        self.tickets = MemorySocketTickets(scope)
        self.deliveries = MemoryDeliveries(scope)
        self.delivery_order = MemoryDeliveryOrder(scope)
        self.webhook_actions = MemoryWebhookActions(scope)
        self.mails = MemoryMails(scope)
        self.mail_choices = MemoryMailChoices(scope)
        self.quotas = MemoryQuotas(scope)
        self.rule_states = MemoryRuleStates(scope)
        self.schedules = MemorySchedules(scope)
        self.retention = MemoryRetention(scope)
        self.checks = MemoryChecks(scope)
        self.resource_work = MemoryResourceWork(scope)
        self.pointers = MemoryPointers(scope)
        self.capture_work = MemoryWorkItems(scope)
        self.sinks = MemorySinkTasks(scope)

    @property
    def tenant_id(self) -> TenantId:
        return self.scope.tenant_id

    @property
    def now(self) -> datetime:
        return self.scope.now

    def next_rv(self) -> int:
        return self.scope.next_rv()

    def wake(self) -> None:
        self.scope.wake()


class MemoryUnitOfWork:
    """Port UnitOfWork."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    @contextmanager
    def begin(
        self, tenant: TenantId, *, feed: int = 0, read_only: bool = False
    ) -> Iterator[MemoryTransaction]:
        if read_only:
            state = self._store.committed(tenant).copy()
            yield MemoryTransaction(Scope(self._store, tenant, state, ()))
            return
        with self._store.writing(tenant) as state:
            scope = Scope(self._store, tenant, state, self._store.draw_rv(feed))
            yield MemoryTransaction(scope)
        scope.notify()
