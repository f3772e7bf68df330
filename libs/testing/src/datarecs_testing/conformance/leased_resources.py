"""The work of controllers with the lease rules.

A stopping process ends what it has begun. Nothing is set aside: failures are repeated without end.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import timedelta

import pytest

from datarecs_application.controllers import Outcome, decide, read_claimed, record
from datarecs_application.ports.reconciling import RESOURCE_LEASE, ClaimedResource
from datarecs_core.resources.reconciling import Pace, success
from datarecs_core.values import TenantId
from datarecs_testing.builders import A_TENANT
from datarecs_testing.conformance.lease_discipline import (
    FairnessDiscipline,
    Grants,
    LeaseDiscipline,
    RenewalDiscipline,
    Taken,
)
from datarecs_testing.conformance.resource_work import JOB, declared
from datarecs_testing.conformance.stores import Stores


@dataclass(slots=True)
class ResourceQueue:
    """`resource_work` with jobs."""

    stores: Stores
    ttl = RESOURCE_LEASE
    lasts = RESOURCE_LEASE + timedelta(seconds=1)
    pause = timedelta()

    def put(self, tenant: TenantId = A_TENANT) -> Hashable:
        return declared(self.stores, tenant)

    def take(self, worker: str) -> Grants:  # noqa: ARG002  the epoch names the holder
        return {
            one.uid: Taken(epoch=one.epoch, tenant=one.tenant_id, ticket=one)
            for one in self.stores.resources.finder.claim_resources([JOB], 1)
        }

    def end(self, taken: Taken) -> bool:
        unit, claim = self.stores.resources.unit, taken.of(ClaimedResource)
        observed = read_claimed(unit, claim)
        if observed is None:
            return False
        decided = decide(observed, success(), Pace(fraction=0.5))
        return claim.uid in record(unit, [Outcome(claim=claim, observed=observed, decided=decided)])

    def renew(self, taken: Taken) -> bool:
        claim = taken.of(ClaimedResource)
        with self.stores.resources.unit.begin(claim.tenant_id) as tx:
            return claim.uid in tx.resource_work.renew([claim])

    def pass_time(self, duration: timedelta) -> None:
        self.stores.pass_time(duration)


class ResourceQueueConformance(LeaseDiscipline, RenewalDiscipline, FairnessDiscipline):
    """Subclass with a fixture `stores`."""

    @pytest.fixture
    def queue(self, stores: Stores) -> ResourceQueue:
        return ResourceQueue(stores)
