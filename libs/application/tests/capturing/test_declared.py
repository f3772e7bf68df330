"""The controller of Capture over the store in memory: when captures start, and what it reports."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from datarecs_application.capturing import queue
from datarecs_application.capturing.declared import FOLLOW_EVERY, CaptureController
from datarecs_application.controllers import Outcome, decide, reconcile_with, record, snapshot
from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.reconciling import Reconciling
from datarecs_application.ports.capturing import ClaimRequest, WorkFilter
from datarecs_application.resources import (
    ANY,
    Key,
    Making,
    annotate_resource,
    apply_resource,
    delete_resource,
)
from datarecs_application.source_conditions import ConnectionController
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.access.principal import Principal
from datarecs_core.captures.declared import Capture
from datarecs_core.captures.items import RetryClass, WorkItem, WorkKind, WorkState
from datarecs_core.captures.outcomes import WorkFailed
from datarecs_core.resources.conditions import Condition, conditions_of, phase_of
from datarecs_core.resources.declared import Declared
from datarecs_core.resources.reconciling import PAUSED, RECONCILE_AT, RESYNC, Pace
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.values import TenantId, instant_text
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_runtime.clock import Latch
from datarecs_runtime.secrets import Keyring, TenantSecrets
from datarecs_runtime.sections import Secrets
from datarecs_specs.documents import decode_json, decode_stored
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.metrics import RecordedMetrics

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
FILES: Mapping[str, Any] = {"type": "files", "config": {"root": "."}}
SPEC: Mapping[str, Any] = {
    "connection": "here",
    "mode": "METADATA_AND_CAPTURE",
    "outputs": ["TABLE_STATS"],
    "snapshots": {"select": "CURRENT"},
}
HOURLY: Mapping[str, Any] = {**SPEC, "interval": "PT1H"}
NIGHTLY = Key(kind=Kind.CAPTURE, name="nightly")
JITTER = 0.75


def read_capture(spec: Mapping[str, object]) -> Capture:
    capture = decode_stored(Kind.CAPTURE, "", spec)
    assert isinstance(capture, Capture)
    return capture


class Platform:
    """One tenant with the connection `here`, the resource-controller and a capture-worker."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(self.clock, FixedIds())
        self.tenant = self.store.create_tenant()
        self.unit, self.finder = MemoryUnitOfWork(self.store), MemoryWorkFinder(self.store)
        self.actor = Principal(tenant_id=self.tenant, subject="ann")
        secrets = TenantSecrets(
            Secrets(), keyring=Keyring({"k1": bytes(32)}, current="k1"), environment={}
        )
        self.ids = FixedIds(5_000)
        self.making = Making(ids=self.ids, secrets=secrets, random_bytes=bytes)
        self.controller = CaptureController(captures=StoredSpecs(read_capture), ids=self.ids)
        controllers = (ConnectionController(), self.controller)
        self.loop = Reconciling(
            unit=self.unit,
            finder=self.finder,
            controllers={one.kind: one for one in controllers},
            metrics=RecordedMetrics(),
            rhythm=Rhythm(clock=self.clock, wake=Latch()),
            fraction=lambda: 0.5,
        )
        self.apply("Connection", "here", FILES)
        self.reconcile()

    def apply(
        self, kind: str, name: str, spec: Mapping[str, Any], *, tenant: TenantId | None = None
    ) -> None:
        body = {
            "apiVersion": "datarecs.io/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        declared, _ = decode_json(body).require()
        with self.unit.begin(tenant or self.tenant, feed=1) as tx:
            apply_resource(tx, self.actor, declared, making=self.making)

    def annotate(self, **annotations: str | None) -> None:
        set_to = {f"datarecs.io/{name.replace('_', '-')}": one for name, one in annotations.items()}
        assert set(set_to) <= {PAUSED, RECONCILE_AT}
        with self.unit.begin(self.tenant, feed=1) as tx:
            annotate_resource(tx, self.actor, NIGHTLY, set_to=set_to, action="test")

    def delete(self, key: Key = NIGHTLY) -> bool:
        with self.unit.begin(self.tenant, feed=1) as tx:
            return delete_resource(tx, self.actor, key, match=ANY).is_gone

    def reconcile(self) -> None:
        while self.loop.step():
            self.loop.drain()

    def after(self, time: timedelta) -> None:
        """Controllers act at the end of this time."""
        self.clock.advance(time)
        self.reconcile()

    def stored(self, kind: Kind = Kind.CAPTURE, name: str = "nightly") -> Resource | None:
        with self.unit.begin(self.tenant, read_only=True) as tx:
            return tx.resources.get(kind, "default", name)

    @property
    def capture(self) -> Resource:
        capture = self.stored()
        assert capture is not None
        return capture

    @property
    def last(self) -> Mapping[str, Any]:
        last = self.capture.status["last_capture"]
        assert isinstance(last, Mapping)
        return last

    @property
    def ready(self) -> Condition:
        return conditions_of(self.capture.status)["Ready"]

    def roots(self, tenant: TenantId | None = None) -> list[WorkItem]:
        """Oldest first."""
        with self.unit.begin(tenant or self.tenant, read_only=True) as tx:
            newest = tx.capture_work.matching(WorkFilter(roots_only=True), before=None, limit=100)
        return list(reversed(newest))

    def end(self, failure: WorkFailed | None = None) -> None:
        """A worker takes the root and ends it."""
        request = ClaimRequest(executor="w", kinds=[WorkKind.PLAN_CONNECTOR])
        (token,) = self.finder.claim_work(request).tokens
        with self.unit.begin(token.tenant_id) as tx:
            assert queue.begin(tx, token) is not None
            if failure is None:
                counters = {"tables_scanned": 3}
                queue.end_succeeded(tx, self.ids, token, outcome_sha256="1", counters=counters)
            else:
                queue.end_failed(tx, token, failure, outcome_sha256="1", jitter=JITTER)
        self.after(FOLLOW_EVERY)


@pytest.fixture
def platform() -> Platform:
    return Platform()


def test_a_new_declaration_starts_its_capture(platform: Platform) -> None:
    platform.apply("Capture", "nightly", HOURLY)
    platform.reconcile()
    (root,) = platform.roots()
    connection = platform.stored(Kind.CONNECTION, "here")
    assert connection is not None
    assert root.task.request == read_capture(HOURLY).request(connection.uid)
    assert root.requested_by == "Capture default/nightly"
    assert platform.last["job_id"] == str(root.id)
    assert platform.last["state"] == "QUEUED"
    assert platform.ready.reason == "Capturing"
    assert phase_of(platform.capture) == "Capturing"


def test_the_end_of_a_capture_is_reported_with_its_counters(platform: Platform) -> None:
    started = platform.clock.now()
    platform.apply("Capture", "nightly", HOURLY)
    platform.reconcile()
    platform.end()
    assert platform.last["state"] == "SUCCEEDED"
    assert platform.last["counters"]["tables_scanned"] == 3
    assert platform.last["started_at"] <= platform.last["finished_at"]
    assert platform.capture.status["next_due_at"] == instant_text(started + HOUR)
    assert platform.ready.reason == "Captured"
    assert phase_of(platform.capture) == "Ready"


@pytest.mark.case("R62")
def test_a_capture_starts_once_per_interval(platform: Platform) -> None:
    platform.apply("Capture", "nightly", HOURLY)
    platform.reconcile()
    platform.end()
    platform.after(HOUR - FOLLOW_EVERY - SECOND)
    assert len(platform.roots()) == 1
    platform.after(SECOND)
    assert len(platform.roots()) == 2
    assert platform.ready.reason == "Captured"  # of the one before
    platform.end()
    platform.after(5 * HOUR)  # nothing is made up for
    assert len(platform.roots()) == 3


@pytest.mark.case("R62")
def test_a_capture_that_is_late_has_no_second_one_beside_it(platform: Platform) -> None:
    platform.apply("Capture", "nightly", HOURLY)
    platform.reconcile()
    platform.after(3 * HOUR)
    assert len(platform.roots()) == 1
    platform.end()
    assert [one.state for one in platform.roots()] == [WorkState.SUCCEEDED, WorkState.QUEUED]


def test_without_an_interval_each_change_of_the_spec_is_captured_once(platform: Platform) -> None:
    platform.apply("Capture", "nightly", SPEC)
    platform.reconcile()
    platform.end()
    assert "next_due_at" not in platform.capture.status
    platform.after(3 * RESYNC)
    assert len(platform.roots()) == 1
    platform.apply("Capture", "nightly", {**SPEC, "full_rescan": True})
    platform.reconcile()
    assert [one.task.request.is_full_rescan for one in platform.roots()] == [False, True]
    assert platform.ready.reason == "Capturing"


def test_a_change_while_a_capture_runs_is_captured_after_it(platform: Platform) -> None:
    platform.apply("Capture", "nightly", SPEC)
    platform.reconcile()
    platform.apply("Capture", "nightly", {**SPEC, "full_rescan": True})
    platform.after(MINUTE)
    assert len(platform.roots()) == 1
    platform.end()
    assert len(platform.roots()) == 2


def test_a_requested_reconcile_captures_now(platform: Platform) -> None:
    platform.apply("Capture", "nightly", SPEC)
    platform.reconcile()
    platform.end()
    platform.annotate(reconcile_at="2027-01-01T00:00:00Z")
    platform.reconcile()
    assert len(platform.roots()) == 2
    platform.end()
    platform.after(3 * RESYNC)
    assert len(platform.roots()) == 2


def test_a_paused_capture_starts_nothing_until_it_is_resumed(platform: Platform) -> None:
    platform.apply("Capture", "nightly", HOURLY)
    platform.reconcile()
    platform.end()
    platform.annotate(paused="true")
    platform.after(2 * HOUR)
    assert len(platform.roots()) == 1
    assert phase_of(platform.capture) == "Paused"
    assert conditions_of(platform.capture.status)["Paused"].reason == "Annotated"
    platform.annotate(paused=None)
    platform.reconcile()
    assert len(platform.roots()) == 2


@pytest.mark.case("R71")
def test_the_connection_of_another_tenant_is_missing(platform: Platform) -> None:
    other = platform.store.create_tenant()
    platform.apply("Connection", "theirs", FILES, tenant=other)
    platform.apply("Capture", "nightly", {**SPEC, "connection": "theirs"})
    platform.after(HOUR)
    assert platform.roots() == platform.roots(other) == []
    assert platform.ready.reason == "ConnectionMissing"
    assert "connection theirs does not exist" in platform.ready.message
    assert phase_of(platform.capture) == "Degraded"


def test_a_connection_that_appears_is_captured_at_once(platform: Platform) -> None:
    platform.apply("Capture", "nightly", {**SPEC, "connection": "late"})
    platform.reconcile()
    assert not platform.roots()
    platform.apply("Connection", "late", FILES)
    platform.reconcile()
    assert len(platform.roots()) == 1


def test_a_failed_capture_has_its_code_and_fix(platform: Platform) -> None:
    platform.apply("Capture", "nightly", HOURLY)
    platform.reconcile()
    failure = WorkFailed(code="TABLE_MISSING", message="no table x", retry=RetryClass.TERMINAL)
    platform.end(failure)
    assert platform.last["error_code"] == "TABLE_MISSING"
    assert platform.ready.reason == "CaptureFailed"
    for part in ("TABLE_MISSING: no table x", "Compare the names", "the next one is due at"):
        assert part in platform.ready.message
    assert phase_of(platform.capture) == "Degraded"


def test_a_cancelled_capture_says_who_cancelled_it(platform: Platform) -> None:
    platform.apply("Capture", "nightly", SPEC)
    platform.reconcile()
    (root,) = platform.roots()
    with platform.unit.begin(platform.tenant) as tx:
        queue.cancel(tx, root.id, by="bob", reason="too early")
    platform.after(FOLLOW_EVERY)
    assert platform.ready.reason == "CaptureCancelled"
    assert "cancelled by bob: too early" in platform.ready.message
    platform.after(3 * RESYNC)
    assert len(platform.roots()) == 1


@pytest.mark.case("R62")
def test_a_deletion_cancels_the_running_capture(platform: Platform) -> None:
    platform.apply("Capture", "nightly", HOURLY)
    platform.reconcile()
    assert platform.delete()
    platform.after(2 * HOUR)
    (root,) = platform.roots()
    assert root.state is WorkState.CANCELLED
    assert root.cancelled_by == "ann"
    assert root.cancel_reason == "Capture default/nightly was deleted"


def test_an_equal_capture_of_a_person_is_followed_and_never_cancelled(platform: Platform) -> None:
    connection = platform.stored(Kind.CONNECTION, "here")
    assert connection is not None
    request = read_capture(SPEC).request(connection.uid)
    with platform.unit.begin(platform.tenant) as tx:
        theirs = queue.enqueue_root(tx, platform.ids, request, requested_by="bob")
    platform.apply("Capture", "nightly", SPEC)
    platform.reconcile()
    assert platform.last["job_id"] == str(theirs.id)
    platform.delete()
    (root,) = platform.roots()
    assert root.state is WorkState.QUEUED


def test_a_connection_is_deleted_after_its_last_capture(platform: Platform) -> None:
    here = Key(kind=Kind.CONNECTION, name="here")
    platform.apply("Capture", "nightly", SPEC)
    platform.reconcile()
    assert not platform.delete(here)
    platform.reconcile()
    connection = platform.stored(Kind.CONNECTION, "here")
    assert connection is not None
    blocked = conditions_of(connection.status)["DeletionBlocked"]
    assert blocked.message.startswith("1 object read from this connection: capture nightly; delete")
    resolved = conditions_of(platform.capture.status)["ReferencesResolved"]
    assert resolved.reason == "ConnectionBeingDeleted"
    platform.delete()
    platform.reconcile()
    assert platform.stored(Kind.CONNECTION, "here") is None


def test_a_job_that_was_removed_before_its_end_was_read_is_repeated(platform: Platform) -> None:
    platform.apply("Capture", "nightly", SPEC)
    platform.reconcile()
    (root,) = platform.roots()
    with platform.unit.begin(platform.tenant) as tx:
        queue.cancel(tx, root.id, by="bob", reason=None)
    platform.clock.advance(MINUTE)
    with platform.unit.begin(platform.tenant) as tx:
        assert tx.capture_work.remove_ended(finished_before=tx.now, limit=10) == 1
    platform.reconcile()
    (again,) = platform.roots()
    assert again.id != root.id


@pytest.mark.parametrize("change", ["edit", "delete"])
def test_a_declaration_that_changes_during_its_reconcile_starts_nothing(
    platform: Platform, change: str
) -> None:
    platform.apply("Capture", "nightly", SPEC)
    (claim,) = platform.finder.claim_resources([Kind.CAPTURE], 1)
    with platform.unit.begin(platform.tenant, read_only=True) as tx:
        seen = snapshot(tx, [claim])
        observed = seen.observed[claim.uid]
        result = reconcile_with(platform.controller, seen, observed.resource)
    assert result.capture is not None
    if change == "edit":
        platform.apply("Capture", "nightly", {**SPEC, "full_rescan": True})
    else:
        platform.delete()
    decided = decide(observed, result, Pace(fraction=0.5))
    record(platform.unit, [Outcome(claim=claim, observed=observed, decided=decided)])
    assert not platform.roots()
    platform.reconcile()
    assert [one.task.request.is_full_rescan for one in platform.roots()] == (
        [True] if change == "edit" else []
    )


def test_a_process_that_lost_its_lease_starts_nothing(platform: Platform) -> None:
    platform.apply("Capture", "nightly", SPEC)
    (claim,) = platform.finder.claim_resources([Kind.CAPTURE], 1)
    with platform.unit.begin(platform.tenant, read_only=True) as tx:
        seen = snapshot(tx, [claim])
        observed = seen.observed[claim.uid]
        result = reconcile_with(platform.controller, seen, observed.resource)
    platform.after(MINUTE)  # another process takes over
    decided = decide(observed, result, Pace(fraction=0.5))
    late = Outcome(claim=claim, observed=observed, decided=decided)
    assert record(platform.unit, [late]) == []
    assert len(platform.roots()) == 1


def test_a_stored_spec_of_another_release_is_invalid(platform: Platform) -> None:
    declared = Declared(
        kind=Kind.CAPTURE, name="nightly", spec={"connection": "here", "way": 1}, spec_hash="1"
    )
    with platform.unit.begin(platform.tenant, feed=1) as tx:
        apply_resource(tx, platform.actor, declared, making=platform.making)
    platform.reconcile()
    assert phase_of(platform.capture) == "Invalid"
    assert not platform.roots()
