"""The fixture of the suites of state ports: the same actors over both adapters.

An actor is a service with its own database role; in memory all actors are one. Suites act as the
responsible service, so that on PostgreSQL they also check its grants.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain
from typing import TypeVar

from datarecs_application.ports.feed import ChangeFeed, ResourceFeed
from datarecs_application.ports.messaging import EventArchive
from datarecs_application.ports.state import (
    LeasedRun,
    OutboxReader,
    OutboxRow,
    Queries,
    Transaction,
    UnitOfWork,
    WorkFinder,
)
from datarecs_core.decision import Event
from datarecs_core.resources.events import ResourceCreated
from datarecs_core.resources.resource import Resource
from datarecs_core.runs.events import RunQueued, RunTriggered
from datarecs_core.runs.model import Run, RunStatus
from datarecs_core.values import RunId, TenantId
from datarecs_testing.builders import A_TENANT, a_run

SHARDS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """One service: its transactions, and the work it may find across tenants."""

    unit: UnitOfWork
    finder: WorkFinder


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """One empty store with tenants A and B."""

    api: Actor
    controller: Actor
    worker: Actor
    webhook: Actor
    mail: Actor
    resources: Actor
    """The resource-controller."""
    capture: Actor
    """The capture-worker."""
    relay: OutboxReader
    archive: EventArchive
    """Of the controller."""
    queries: Queries
    feed: ChangeFeed
    """Read by core-api."""
    changes: ResourceFeed
    """The same."""
    pass_time: Callable[[timedelta], None]
    """Let database time move on, for everything that is stored with a time."""

    def triggered(self, **changes: object) -> Run:
        """A new run of core-api in its own transaction."""
        run = a_run(**changes)
        with self.api.unit.begin(run.tenant_id, feed=8) as tx:
            tx.runs.add(run)
            tx.outbox.append(triggered(run))
        return run

    def queued(self, **changes: object) -> Run:
        """A run that waits for a worker."""
        run = self.triggered(**changes)
        with self.controller.unit.begin(run.tenant_id, feed=8) as tx:
            queued_run = replace(
                require_run(tx.runs.for_update(run.run_id)),
                status=RunStatus.QUEUED,
                queued_at=tx.now,
                next_reconcile_at=None,
            )
            tx.runs.save(queued_run)
            tx.leases.submit(queued_run)
            tx.outbox.append(queued(queued_run))
        return queued_run

    def leased(self, **changes: object) -> tuple[Run, LeasedRun]:
        """A run that a worker holds."""
        run = self.queued(**changes)
        leased = self.worker.finder.lease_run("worker-1")
        assert leased is not None
        assert leased.run_id == run.run_id
        return run, leased

    def unsent(self) -> list[OutboxRow]:
        """All rows that the relay would send, by position."""
        by_shard = self.relay.unsent(dict.fromkeys(range(SHARDS), 1000))
        return sorted(chain.from_iterable(by_shard.values()), key=lambda row: row.position)

    def stored(self, run_id: RunId) -> Run:
        """The stored run of tenant A."""
        return require_run(self.queries.run(A_TENANT, run_id))


Result = TypeVar("Result")


def carry_out(
    unit: UnitOfWork, tenant: TenantId, work: Callable[[Transaction], Result], *, feed: int = 8
) -> Result:
    """One transaction around a function, for tests that expect it to fail."""
    with unit.begin(tenant, feed=feed) as tx:
        return work(tx)


def require_run(run: Run | None) -> Run:
    assert run is not None
    return run


def triggered(run: Run) -> Event:
    return RunTriggered(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        mode=run.mode,
        triggered_by=run.triggered_by,
        reason=run.trigger_reason,
    )


def queued(run: Run) -> Event:
    return RunQueued(
        run_id=run.run_id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        argo_workflow_name=run.execution_name,
    )


def created(resource: Resource) -> Event:
    return ResourceCreated(
        tenant_id=resource.tenant_id,
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=resource.namespace,
        name=resource.name,
        uid=resource.uid,
        generation=resource.generation,
        resource_version=str(resource.version),
        changed=("spec",),
        change_type="CREATED",
    )
