"""The queue of runs and the relay's shards with the lease rules.

Each method is one step of production, in a transaction of the responsible service.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import pytest

from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.rescue import Rescue
from datarecs_application.ports.state import HeldLease, LeasedRun
from datarecs_application.runs import release_run
from datarecs_core.runs.facts import Loss
from datarecs_core.runs.model import RunStatus
from datarecs_core.runs.retry import ATTEMPTS
from datarecs_core.values import RunId, TenantId
from datarecs_runtime.clock import Latch, SystemClock, UuidV7Ids
from datarecs_testing.builders import A_TENANT
from datarecs_testing.conformance.lease_discipline import (
    DrainDiscipline,
    FairnessDiscipline,
    Grants,
    LeaseDiscipline,
    RenewalDiscipline,
    RetryDiscipline,
    Taken,
)
from datarecs_testing.conformance.stores import Stores, require_run
from datarecs_testing.run_facts import a_completion


@dataclass(slots=True)
class RunQueue:
    """`run_lease`: renewed by heartbeats, taken back by the rescue loop."""

    stores: Stores
    ids: UuidV7Ids = field(default_factory=UuidV7Ids)
    tries = 3
    ttl = timedelta(seconds=60)
    lasts = timedelta(seconds=66)
    pause = ATTEMPTS.wait(2, jitter=1.0)

    def put(self, tenant: TenantId = A_TENANT) -> RunId:
        urgent = 0 if tenant == A_TENANT else 9  # this only orders the runs of one tenant
        run = self.stores.queued(tenant_id=tenant, max_attempts=self.tries, priority=urgent)
        return run.run_id

    def take(self, worker: str) -> Grants:
        self._rescue()
        leased = self.stores.worker.finder.lease_run(worker)
        if leased is None:
            return {}
        granted = Taken(
            epoch=leased.lease_epoch,
            attempt=leased.attempt,
            tenant=leased.tenant_id,
            ticket=leased,
        )
        return {leased.run_id: granted}

    def renew(self, taken: Taken) -> bool:
        leased = taken.of(LeasedRun)
        held = HeldLease(
            tenant_id=leased.tenant_id, run_id=leased.run_id, lease_epoch=leased.lease_epoch
        )
        return self.stores.worker.finder.renew([held])[leased.run_id].current

    def end(self, taken: Taken) -> bool:
        leased = taken.of(LeasedRun)
        with self.stores.worker.unit.begin(leased.tenant_id, feed=8) as tx:
            run = require_run(tx.runs.for_update(leased.run_id))
            ours = tx.leases.end_current(leased.run_id, leased.lease_epoch)
            if ours:
                tx.outbox.append(a_completion(run, attempt=leased.attempt))
        return ours

    def fail(self, taken: Taken) -> None:  # noqa: ARG002  the holder sends no heartbeat
        """Lose the worker, which uses up a try of a run."""
        self.pass_time(self.lasts)
        self._rescue()

    def is_set_aside(self, item: Hashable) -> bool:
        assert isinstance(item, UUID)
        return self.stores.stored(RunId(item)).status is RunStatus.ERRORED

    def release(self, taken: Taken) -> None:
        leased = taken.of(LeasedRun)
        with self.stores.worker.unit.begin(leased.tenant_id, feed=8) as tx:
            run = require_run(tx.runs.for_update(leased.run_id))
            assert tx.leases.is_current(leased.run_id, leased.lease_epoch)
            release_run(tx, run, self.ids, loss=Loss.DRAINED, jitter=1.0)

    def pass_time(self, duration: timedelta) -> None:
        self.stores.pass_time(duration)

    def _rescue(self) -> None:
        controller = self.stores.controller
        Rescue(
            unit=controller.unit,
            finder=controller.finder,
            ids=self.ids,
            rhythm=Rhythm(clock=SystemClock(), wake=Latch()),
            jitter=lambda: 1.0,
        ).step()


@dataclass(slots=True)
class ShardQueue:
    """`relay_shard`: never finished, shared out evenly. An owner that renews may have to give."""

    stores: Stores
    next_shard: int = 0
    known: dict[str, dict[int, int]] = field(default_factory=dict)
    """Epochs by worker and shard, as last returned."""
    ttl = timedelta(seconds=15)
    lasts = timedelta(seconds=16)
    pause = timedelta()

    def put(self, tenant: TenantId = A_TENANT) -> int:  # noqa: ARG002  shards are the platform's
        """The next shard: all of them are due from the beginning."""
        self.next_shard += 1
        return self.next_shard - 1

    def take(self, worker: str) -> Grants:
        before = self.known.get(worker, {})
        return {
            shard: Taken(epoch=epoch, ticket=(worker, shard))
            for shard, epoch in self._held(worker).items()
            if before.get(shard) != epoch
        }

    def renew(self, taken: Taken) -> bool:
        worker, shard = taken.of(tuple)
        return self._held(worker).get(shard) == taken.epoch

    def end(self, taken: Taken) -> bool:
        """A relay that stops; it has read the rows it sends only while it owns the shard."""
        ours = self.renew(taken)
        self.release(taken)
        return ours

    def release(self, taken: Taken) -> None:
        worker, _ = taken.of(tuple)
        self.stores.relay.release_shards(worker)

    def pass_time(self, duration: timedelta) -> None:
        self.stores.pass_time(duration)

    def _held(self, worker: str) -> dict[int, int]:
        self.known[worker] = dict(self.stores.relay.hold_shards(worker, ttl=self.ttl))
        return self.known[worker]


class RunQueueConformance(
    LeaseDiscipline, RenewalDiscipline, RetryDiscipline, DrainDiscipline, FairnessDiscipline
):
    """Subclass with a fixture `stores`."""

    @pytest.fixture
    def queue(self, stores: Stores) -> RunQueue:
        return RunQueue(stores)


class ShardQueueConformance(LeaseDiscipline, RenewalDiscipline, DrainDiscipline):
    """Subclass with a fixture `stores`."""

    @pytest.fixture
    def queue(self, stores: Stores) -> ShardQueue:
        return ShardQueue(stores)
