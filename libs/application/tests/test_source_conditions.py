"""Controllers of connections and jobs: when they request checks, and what they report of them."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from datarecs_application.controllers import (
    Outcome,
    Snapshot,
    decide,
    reconcile_with,
    record,
    snapshot,
)
from datarecs_application.job_references import JobController, start_refusal
from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.reconciling import Reconciling
from datarecs_application.resources import (
    ANY,
    Key,
    Making,
    annotate_resource,
    apply_resource,
    delete_resource,
)
from datarecs_application.source_conditions import CHECK_EVERY, ConnectionController
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.access.principal import Principal
from datarecs_core.resources.checks import CheckResult
from datarecs_core.resources.conditions import conditions_of, phase_of
from datarecs_core.resources.declared import Declared
from datarecs_core.resources.reconciling import IN_USE, RECONCILE_AT, RESYNC, Pace, Result
from datarecs_core.resources.resource import Kind, Resource
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_runtime.clock import Latch
from datarecs_runtime.secrets import Keyring, TenantSecrets
from datarecs_runtime.sections import Secrets
from datarecs_specs.documents import job_of
from datarecs_testing.checking import GOOD, REFUSED, UNFINISHED, WRONG_TYPE, report_checks
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.metrics import RecordedMetrics

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
MOMENT = timedelta(milliseconds=1)
FILES: Mapping[str, Any] = {"type": "files", "config": {"root": "."}}
JOB: Mapping[str, Any] = {
    "sources": [
        {"name": "a", "kind": "csv", "connection": "here", "path": "a.csv"},
        {"name": "b", "kind": "csv", "connection": "here", "path": "b.csv"},
    ],
    "stages": [{"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"}],
}


class Platform:
    """One tenant with the connection `here`, the resource-controller and workers."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock, FixedIds())
        self.tenant = self.store.create_tenant()
        self.unit, self.finder = MemoryUnitOfWork(self.store), MemoryWorkFinder(self.store)
        self.actor = Principal(tenant_id=self.tenant, subject="ann")
        secrets = TenantSecrets(
            Secrets(), keyring=Keyring({"k1": bytes(32)}, current="k1"), environment={}
        )
        self.making = Making(ids=FixedIds(5_000), secrets=secrets, random_bytes=bytes)
        jobs = StoredSpecs(lambda spec: job_of("", spec))
        controllers = (
            ConnectionController(),
            JobController(jobs=jobs),
        )
        self.loop = Reconciling(
            unit=self.unit,
            finder=self.finder,
            controllers={one.kind: one for one in controllers},
            metrics=RecordedMetrics(),
            rhythm=Rhythm(clock=self.clock, wake=Latch()),
            fraction=lambda: 0.5,
        )
        self.apply(Kind.CONNECTION, "here", FILES)
        self.reconcile()

    def apply(self, kind: Kind, name: str, spec: Mapping[str, Any], number: int = 1) -> None:
        declared = Declared(kind=kind, name=name, spec=spec, spec_hash=f"sha256:{number}")
        with self.unit.begin(self.tenant, feed=1) as tx:
            apply_resource(tx, self.actor, declared, making=self.making)

    def job(self) -> Resource:
        return self.stored(Kind.RECONCILIATION_JOB, "books")

    def connection(self) -> Resource:
        return self.stored(Kind.CONNECTION, "here")

    def stored(self, kind: Kind, name: str) -> Resource:
        with self.unit.begin(self.tenant, read_only=True) as tx:
            resource = tx.resources.get(kind, "default", name)
        assert resource is not None
        return resource

    def reconcile(self) -> None:
        while self.loop.step():
            self.loop.drain()

    def work(self, result: CheckResult = GOOD) -> int:
        """Controllers and workers until nothing is due; the number of checks."""
        self.reconcile()
        count = 0
        while checks := report_checks(self.unit, self.finder, result):
            count += checks
            self.reconcile()
        return count

    def states(self, resource: Resource) -> dict[str, str]:
        return {name: one.status.value for name, one in conditions_of(resource.status).items()}

    def refusal(self) -> str | None:
        with self.unit.begin(self.tenant, read_only=True) as tx:
            return start_refusal(tx, self.job())


@pytest.fixture
def platform() -> Platform:
    return Platform()


def test_a_connection_is_unknown_until_a_worker_has_checked_it(platform: Platform) -> None:
    assert set(platform.states(platform.connection()).values()) == {"Unknown"}
    assert platform.work() == 1
    assert platform.states(platform.connection()) == {
        "Reachable": "True",
        "CredentialsValid": "True",
        "SchemaReadable": "True",
        "Ready": "True",
    }
    assert phase_of(platform.connection()) == "Ready"


@pytest.mark.case("R60")
def test_a_wrong_password_is_reported_and_leaves_triggers_allowed(platform: Platform) -> None:
    platform.apply(Kind.RECONCILIATION_JOB, "books", JOB)
    assert platform.work(REFUSED) == 3  # the job once more, because its connection fails
    connection = platform.connection()
    assert platform.states(connection)["CredentialsValid"] == "False"
    assert conditions_of(connection.status)["CredentialsValid"].message.endswith("its secret")
    assert phase_of(connection) == "Degraded"
    assert platform.states(platform.job())["Valid"] == "Unknown"
    assert platform.refusal() is None


@pytest.mark.case("R60")
def test_the_next_check_sees_a_rotated_secret(platform: Platform) -> None:
    platform.work(REFUSED)
    platform.clock.advance(CHECK_EVERY)
    assert platform.work(GOOD) == 1
    assert phase_of(platform.connection()) == "Ready"


def test_a_check_is_repeated_at_its_interval_and_not_before(platform: Platform) -> None:
    platform.work()
    platform.clock.advance(CHECK_EVERY - MINUTE)
    assert platform.work() == 0
    platform.clock.advance(MINUTE)
    assert platform.work() == 1


def test_equal_results_leave_the_status_as_it_is(platform: Platform) -> None:
    platform.work()
    version = platform.connection().version
    for _ in range(5):
        platform.clock.advance(CHECK_EVERY)
        assert platform.work() == 1
    assert platform.connection().version == version


def test_an_edit_is_checked_at_once_and_the_old_result_says_nothing_about_it(
    platform: Platform,
) -> None:
    platform.work()
    platform.apply(Kind.CONNECTION, "here", {**FILES, "config": {"root": "data"}}, 2)
    platform.reconcile()
    assert platform.states(platform.connection())["Ready"] == "Unknown"
    assert platform.work() == 1
    assert platform.states(platform.connection())["Ready"] == "True"


def test_a_request_of_a_person_is_one_fresh_check(platform: Platform) -> None:
    platform.work()
    with platform.unit.begin(platform.tenant, feed=1) as tx:
        annotate_resource(
            tx,
            platform.actor,
            Key(kind=Kind.CONNECTION, name="here"),
            set_to={RECONCILE_AT: "2026-03-02T12:00:00Z"},
            action="x",
        )
    assert platform.work(REFUSED) == 1
    assert phase_of(platform.connection()) == "Degraded"


@pytest.mark.case("R61")
def test_a_fault_of_the_declaration_refuses_runs_until_a_later_good_check(
    platform: Platform,
) -> None:
    platform.work()
    platform.apply(Kind.RECONCILIATION_JOB, "books", JOB)
    assert platform.work(WRONG_TYPE) == 1
    assert platform.states(platform.job()) == {
        "Valid": "False",
        "ReferencesResolved": "True",
        "Ready": "False",
    }
    assert phase_of(platform.job()) == "Invalid"
    assert "does not fit the text" in (platform.refusal() or "")
    platform.clock.advance(CHECK_EVERY)
    platform.work(GOOD)
    assert platform.refusal() is None
    assert phase_of(platform.job()) == "Ready"


@pytest.mark.case("R61")
def test_an_edit_lifts_the_refusal_before_the_next_check(platform: Platform) -> None:
    platform.work()
    platform.apply(Kind.RECONCILIATION_JOB, "books", JOB)
    platform.work(WRONG_TYPE)
    platform.apply(Kind.RECONCILIATION_JOB, "books", {**JOB, "description": "mended"}, 2)
    assert platform.refusal() is None
    platform.reconcile()
    assert platform.states(platform.job())["Valid"] == "Unknown"
    assert platform.refusal() is None


def test_a_good_job_is_checked_again_with_its_connection_and_rarely_without(
    platform: Platform,
) -> None:
    platform.work()
    platform.apply(Kind.RECONCILIATION_JOB, "books", JOB)
    assert platform.work() == 1
    platform.clock.advance(CHECK_EVERY)
    assert platform.work() == 1  # the connection alone
    platform.apply(Kind.CONNECTION, "here", {**FILES, "config": {"root": "data"}}, 2)
    assert platform.work() >= 2
    platform.clock.advance(RESYNC * 1.1)
    assert platform.work() == 2


def test_a_check_of_a_job_that_did_not_end_is_repeated_rarely(platform: Platform) -> None:
    platform.work()
    platform.apply(Kind.RECONCILIATION_JOB, "books", JOB)
    assert platform.work(UNFINISHED) == 1
    platform.clock.advance(CHECK_EVERY)
    assert platform.work() == 1  # the connection alone
    assert conditions_of(platform.job().status)["Valid"].reason == "CheckUnfinished"


def test_jobs_are_checked_again_when_their_connection_recovers(platform: Platform) -> None:
    platform.apply(Kind.RECONCILIATION_JOB, "books", JOB)
    platform.work(REFUSED)
    assert platform.states(platform.job())["Valid"] == "Unknown"
    platform.clock.advance(CHECK_EVERY)
    platform.work(GOOD)
    assert platform.states(platform.job())["Valid"] == "True"


def test_without_a_worker_nothing_is_requested_twice(platform: Platform) -> None:
    for _ in range(4):
        platform.clock.advance(CHECK_EVERY)
        platform.reconcile()
    assert report_checks(platform.unit, platform.finder) == 1


def test_a_job_without_its_connection_is_not_checked(platform: Platform) -> None:
    platform.work()
    with platform.unit.begin(platform.tenant, feed=1) as tx:
        key = Key(kind=Kind.CONNECTION, name="here")
        assert delete_resource(tx, platform.actor, key, match=ANY).is_gone
    platform.apply(Kind.RECONCILIATION_JOB, "books", JOB)
    assert platform.work() == 0
    assert platform.states(platform.job()) == {
        "Valid": "Unknown",
        "ReferencesResolved": "False",
        "Ready": "False",
    }


def delete(platform: Platform, kind: Kind, name: str) -> bool:
    """Whether it is gone at once."""
    with platform.unit.begin(platform.tenant, feed=1) as tx:
        key = Key(kind=kind, name=name)
        return delete_resource(tx, platform.actor, key, match=ANY).is_gone


def has_connection(platform: Platform) -> bool:
    with platform.unit.begin(platform.tenant, read_only=True) as tx:
        return tx.resources.get(Kind.CONNECTION, "default", "here") is not None


def events(platform: Platform) -> list[str]:
    """Types of the connection's events."""
    prefix = "io.datarecs.resource.connection."
    types = [one.row.type for one in platform.store.committed(platform.tenant).outbox.values()]
    return [one.removeprefix(prefix) for one in types if one.startswith(prefix)]


@pytest.mark.case("R59")
@pytest.mark.parametrize("end", ["deleted", "another connection"])
def test_a_deleted_connection_waits_for_its_last_job(platform: Platform, end: str) -> None:
    for number in range(12):
        platform.apply(Kind.RECONCILIATION_JOB, f"books-{number:02}", JOB)
    platform.work()
    assert not delete(platform, Kind.CONNECTION, "here")
    platform.work()
    blocked = conditions_of(platform.connection().status)["DeletionBlocked"]
    assert (blocked.status.value, blocked.reason) == ("True", "InUse")
    assert blocked.message.startswith("12 jobs read from this connection: books-00, books-01, ")
    assert blocked.message.endswith("and 2 more; delete them, or name another connection in them")
    assert phase_of(platform.connection()) == "Deleting"
    for number in range(11):
        assert delete(platform, Kind.RECONCILIATION_JOB, f"books-{number:02}")
        platform.work()
    blocked = conditions_of(platform.connection().status)["DeletionBlocked"]
    assert blocked.message == (
        "1 job read from this connection: books-11; delete it, or name another connection in it"
    )
    if end == "deleted":
        delete(platform, Kind.RECONCILIATION_JOB, "books-11")
    else:
        other = [{**one, "connection": "there"} for one in JOB["sources"]]
        platform.apply(Kind.RECONCILIATION_JOB, "books-11", {**JOB, "sources": other}, 2)
    platform.reconcile()
    assert not has_connection(platform)
    assert events(platform)[-2:] == ["deleted", "finalized"]
    assert events(platform).count("deleted") == 1


@pytest.mark.case("R59")
def test_runs_of_jobs_go_on_while_the_deletion_waits(platform: Platform) -> None:
    platform.apply(Kind.RECONCILIATION_JOB, "books", JOB)
    platform.work()
    delete(platform, Kind.CONNECTION, "here")
    assert platform.work() > 0, "the connection is still checked, since jobs read from it"
    resolved = conditions_of(platform.job().status)["ReferencesResolved"]
    assert (resolved.status.value, resolved.reason) == ("True", "ConnectionBeingDeleted")
    assert platform.refusal() is None


@pytest.mark.case("R59")
def test_an_apply_does_not_end_the_wait(platform: Platform) -> None:
    platform.apply(Kind.RECONCILIATION_JOB, "books", JOB)
    delete(platform, Kind.CONNECTION, "here")
    platform.apply(Kind.CONNECTION, "here", {**FILES, "config": {"root": "data"}}, 2)
    platform.work()
    assert platform.connection().deletion_at is not None


@pytest.mark.case("R59")
def test_a_job_that_comes_during_the_end_of_the_deletion_is_waited_for(platform: Platform) -> None:
    platform.apply(Kind.RECONCILIATION_JOB, "books", JOB)
    delete(platform, Kind.CONNECTION, "here")
    platform.work()
    delete(platform, Kind.RECONCILIATION_JOB, "books")
    (claim,) = platform.finder.claim_resources([Kind.CONNECTION], 1)
    with platform.unit.begin(platform.tenant, read_only=True) as tx:
        seen = snapshot(tx, [claim])
        observed = seen.observed[claim.uid]
        result = reconcile_with(ConnectionController(), seen, observed.resource)
    assert result.released == IN_USE
    platform.apply(Kind.RECONCILIATION_JOB, "late", JOB)
    decided = decide(observed, result, Pace(fraction=0.5))
    assert record(platform.unit, [Outcome(claim=claim, observed=observed, decided=decided)])
    platform.work()
    assert "late" in conditions_of(platform.connection().status)["DeletionBlocked"].message


def test_without_jobs_a_connection_is_deleted_at_once(platform: Platform) -> None:
    platform.work()
    assert delete(platform, Kind.CONNECTION, "here")
    assert events(platform)[-1] == "deleted"


@pytest.mark.case("R28")
def test_a_finalize_that_fails_is_repeated_and_the_object_deleted_once(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.apply(Kind.RECONCILIATION_JOB, "books", JOB)
    platform.work()
    delete(platform, Kind.CONNECTION, "here")
    platform.work()
    delete(platform, Kind.RECONCILIATION_JOB, "books")
    finalize, failures = ConnectionController.finalize, iter(range(3))

    def failing(self: ConnectionController, seen: Snapshot, resource: Resource) -> Result:
        if next(failures, None) is not None:
            raise RuntimeError("defect")
        return finalize(self, seen, resource)

    monkeypatch.setattr(ConnectionController, "finalize", failing)
    for delay in (1, 2, 4):
        platform.reconcile()
        connection = platform.connection()
        assert IN_USE in connection.finalizers
        assert conditions_of(connection.status)["Ready"].reason == "ReconcileFailed"
        platform.clock.advance(delay * 0.75 * SECOND - MOMENT)
        assert platform.loop.step() == 0
        platform.clock.advance(MOMENT)
    platform.reconcile()
    assert not has_connection(platform)
    assert events(platform).count("finalize_failed") == 1
    assert events(platform)[-2:] == ["deleted", "finalized"]


def test_another_finalizer_remains_after_that_of_the_platform(platform: Platform) -> None:
    declared = Declared(
        kind=Kind.CONNECTION,
        name="here",
        spec=FILES,
        spec_hash="sha256:1",
        finalizers=("example.com/keep",),
    )
    with platform.unit.begin(platform.tenant, feed=1) as tx:
        apply_resource(tx, platform.actor, declared, making=platform.making)
    platform.apply(Kind.RECONCILIATION_JOB, "books", JOB)
    delete(platform, Kind.CONNECTION, "here")
    platform.work()
    delete(platform, Kind.RECONCILIATION_JOB, "books")
    platform.work()
    connection = platform.connection()
    assert connection.finalizers == ("example.com/keep",)
    assert "DeletionBlocked" not in conditions_of(connection.status)
