"""The queue of captures with the lease rules: its items are renewed, retried and returned."""

from collections.abc import Hashable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import pytest

from datarecs_core.captures.items import (
    LEASE,
    LONGEST_BACKOFF,
    MAX_ATTEMPTS,
    RECLAIM_GRACE,
    CaptureJobId,
    WorkState,
    WorkToken,
)
from datarecs_core.errors.captures import LeaseLostError
from datarecs_core.values import TenantId
from datarecs_testing.builders import A_TENANT
from datarecs_testing.captures import CaptureQueue
from datarecs_testing.conformance.lease_discipline import (
    DrainDiscipline,
    FairnessDiscipline,
    Grants,
    LeaseDiscipline,
    RenewalDiscipline,
    RetryDiscipline,
    Taken,
)
from datarecs_testing.conformance.stores import Stores


@dataclass(slots=True)
class LeasedCaptures:
    """`capture_work` with roots."""

    captures: CaptureQueue
    ttl = LEASE
    lasts = LEASE + RECLAIM_GRACE + timedelta(seconds=1)
    pause = LONGEST_BACKOFF
    tries = MAX_ATTEMPTS

    def put(self, tenant: TenantId = A_TENANT) -> Hashable:
        return self.captures.put(tenant=tenant)

    def take(self, worker: str) -> Grants:
        self.captures.reclaim()
        return {
            token.item_id: Taken(
                epoch=token.epoch,
                attempt=self.captures.item(token.item_id, token.tenant_id).attempt,
                tenant=token.tenant_id,
                ticket=token,
            )
            for token in self.captures.claim(worker, limit=1).values()
        }

    def end(self, taken: Taken) -> bool:
        try:
            self.captures.succeed(taken.of(WorkToken))
        except LeaseLostError:
            return False
        return True

    def renew(self, taken: Taken) -> bool:
        return self.captures.renew(taken.of(WorkToken)).is_current

    def fail(self, taken: Taken) -> None:
        self.captures.fail(taken.of(WorkToken))

    def is_set_aside(self, item: Hashable) -> bool:
        assert isinstance(item, UUID)
        return self.captures.item(CaptureJobId(item)).state is WorkState.FAILED

    def release(self, taken: Taken) -> None:
        self.captures.release(taken.of(WorkToken))

    def pass_time(self, duration: timedelta) -> None:
        self.captures.stores.pass_time(duration)


class CaptureQueueConformance(
    LeaseDiscipline, RenewalDiscipline, RetryDiscipline, DrainDiscipline, FairnessDiscipline
):
    """Subclass with a fixture `stores`."""

    @pytest.fixture
    def queue(self, stores: Stores) -> LeasedCaptures:
        return LeasedCaptures(CaptureQueue(stores))
