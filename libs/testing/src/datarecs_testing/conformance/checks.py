"""Conformance suites of Checks: requests, results, isolation, and the rules of leases."""

from dataclasses import dataclass
from datetime import timedelta

import pytest

from datarecs_application.ports.checks import CHECK_LEASE, LeasedCheck, ResourceCheck
from datarecs_core.errors.run import RunDetail
from datarecs_core.resources.checks import CheckResult, CheckStep, StepState, failed_step
from datarecs_core.values import ResourceUid, TenantId
from datarecs_testing.builders import A_TENANT, B_TENANT, a_resource
from datarecs_testing.conformance.lease_discipline import (
    DrainDiscipline,
    FairnessDiscipline,
    Grants,
    LeaseDiscipline,
    Taken,
)
from datarecs_testing.conformance.stores import Stores

GOOD = CheckResult(
    steps=(CheckStep(source="ledger", name="login", state=StepState.OK, ms=3, seen="PostgreSQL"),)
)
BAD = CheckResult(
    steps=(failed_step("ledger", "login", RunDetail.CONNECTION_FAILED, "refused", ms=5),)
)


def requested(stores: Stores, tenant: TenantId = A_TENANT) -> ResourceUid:
    """A connection with a check that is due."""
    connection = a_resource(tenant_id=tenant)
    with stores.api.unit.begin(tenant) as tx:
        tx.resources.add(connection)
    request(stores, connection.uid, tenant)
    return connection.uid


def request(
    stores: Stores, uid: ResourceUid, tenant: TenantId = A_TENANT, subject: str = "1"
) -> None:
    with stores.resources.unit.begin(tenant) as tx:
        tx.checks.request(uid, subject=subject)


def leased(stores: Stores) -> LeasedCheck:
    taken = stores.worker.finder.lease_check()
    assert taken is not None
    return taken


def end(stores: Stores, taken: LeasedCheck, result: CheckResult = GOOD) -> bool:
    with stores.worker.unit.begin(taken.tenant_id) as tx:
        return tx.checks.end(taken, result, generation=1)


def stored(stores: Stores, uid: ResourceUid, tenant: TenantId = A_TENANT) -> ResourceCheck | None:
    with stores.resources.unit.begin(tenant, read_only=True) as tx:
        return tx.checks.get(uid)


class ChecksConformance:
    def test_a_requested_check_is_due_at_once(self, stores: Stores) -> None:
        uid = requested(stores)
        taken = leased(stores)
        assert (taken.tenant_id, taken.uid) == (A_TENANT, uid)
        assert stores.worker.finder.lease_check() is None

    def test_a_result_is_read_back_by_the_controller(self, stores: Stores) -> None:
        uid = requested(stores)
        assert end(stores, leased(stores), BAD)
        check = stored(stores, uid)
        assert check is not None
        assert (check.result, check.checked_generation, check.due_at) == (BAD, 1, None)
        assert check.checked_at is not None
        assert check.lease_until is None
        assert stores.worker.finder.lease_check() is None

    def test_requests_during_a_check_lead_to_exactly_one_more(self, stores: Stores) -> None:
        uid = requested(stores)
        taken = leased(stores)
        for subject in ("2", "3"):
            request(stores, uid, subject=subject)
        assert stores.worker.finder.lease_check() is None
        assert end(stores, taken)
        check = stored(stores, uid)
        assert check is not None
        assert check.subject == "3"
        assert end(stores, leased(stores))
        assert stores.worker.finder.lease_check() is None

    def test_a_worker_repeats_a_check_and_creates_none(self, stores: Stores) -> None:
        uid = requested(stores)
        assert end(stores, leased(stores))
        assert stores.worker.finder.lease_check() is None
        with stores.worker.unit.begin(A_TENANT) as tx:
            tx.checks.repeat(uid)
            tx.checks.repeat(a_resource().uid)
        assert leased(stores).uid == uid
        assert stores.worker.finder.lease_check() is None

    def test_a_later_result_replaces_the_earlier_one(self, stores: Stores) -> None:
        uid = requested(stores)
        assert end(stores, leased(stores), BAD)
        request(stores, uid)
        during = stored(stores, uid)
        assert during is not None
        assert during.result == BAD
        assert end(stores, leased(stores), GOOD)
        check = stored(stores, uid)
        assert check is not None
        assert check.result == GOOD

    def test_a_check_of_b_is_neither_seen_nor_changed_by_a(self, stores: Stores) -> None:
        uid = requested(stores, B_TENANT)
        taken = leased(stores)
        assert stored(stores, uid) is None
        with stores.worker.unit.begin(A_TENANT) as tx:
            assert not tx.checks.end(taken, GOOD, generation=1)
            tx.checks.release(taken)
        check = stored(stores, uid, B_TENANT)
        assert check is not None
        assert check.lease_until is not None
        assert check.result is None

    def test_a_check_goes_with_its_resource(self, stores: Stores) -> None:
        uid = requested(stores)
        taken = leased(stores)
        with stores.api.unit.begin(A_TENANT) as tx:
            resource = tx.resources.get_by_uid(uid)
            assert resource is not None
            assert tx.resources.remove(resource, expected_rv=resource.rv)
        assert stored(stores, uid) is None
        assert not end(stores, taken)


@dataclass(slots=True)
class CheckQueue:
    """`resource_check`: not renewed, because a lease is longer than every check."""

    stores: Stores
    ttl = CHECK_LEASE
    lasts = CHECK_LEASE + timedelta(seconds=1)
    pause = timedelta()

    def put(self, tenant: TenantId = A_TENANT) -> ResourceUid:
        return requested(self.stores, tenant)

    def take(self, worker: str) -> Grants:  # noqa: ARG002  a lease has an epoch and no owner
        taken = self.stores.worker.finder.lease_check()
        if taken is None:
            return {}
        return {taken.uid: Taken(epoch=taken.epoch, tenant=taken.tenant_id, ticket=taken)}

    def end(self, taken: Taken) -> bool:
        return end(self.stores, taken.of(LeasedCheck))

    def release(self, taken: Taken) -> None:
        with self.stores.worker.unit.begin(taken.tenant) as tx:
            tx.checks.release(taken.of(LeasedCheck))

    def pass_time(self, duration: timedelta) -> None:
        self.stores.pass_time(duration)


class CheckQueueConformance(LeaseDiscipline, DrainDiscipline, FairnessDiscipline):
    """Subclass with a fixture `stores`."""

    @pytest.fixture
    def queue(self, stores: Stores) -> CheckQueue:
        return CheckQueue(stores)
