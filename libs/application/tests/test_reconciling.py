"""The loop of controllers over the store in memory: changes, pauses, failures, hanging, metrics."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from time import monotonic

import pytest

from datarecs_application.controllers import Controller, Snapshot
from datarecs_application.errors import StoreBusyError
from datarecs_application.job_references import JobController, start_refusal
from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.reconciling import (
    BATCH,
    CONCURRENCY,
    MOST_HANGING,
    RENEW_EVERY,
    SLOW,
    TIMEOUT,
    Reconciling,
)
from datarecs_application.ports.reconciling import RESOURCE_LEASE
from datarecs_application.resources import (
    ANY,
    Key,
    Making,
    annotate_resource,
    apply_resource,
    delete_resource,
)
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.access.principal import Principal
from datarecs_core.errors.base import DatarecsError
from datarecs_core.errors.run import RunDetail
from datarecs_core.resources.conditions import Condition, Truth, conditions_of, phase_of
from datarecs_core.resources.declared import Declared
from datarecs_core.resources.reconciling import (
    PAUSED,
    RECONCILE_AT,
    RESYNC,
    Ended,
    Result,
    Work,
    requeue_after,
    success,
    terminal,
)
from datarecs_core.resources.resource import Kind, Resource
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.resources import MemoryResources
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_runtime.clock import Latch
from datarecs_runtime.secrets import Keyring, TenantSecrets
from datarecs_runtime.sections import Secrets
from datarecs_specs.documents import job_of
from datarecs_testing.builders import a_resource
from datarecs_testing.checking import report_checks
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.metrics import RecordedMetrics

SECOND = timedelta(seconds=1)
JOB = Declared(
    kind=Kind.RECONCILIATION_JOB,
    name="books",
    spec={
        "sources": [
            {"name": "a", "kind": "csv", "connection": "here", "path": "a.csv"},
            {"name": "b", "kind": "csv", "connection": "there", "path": "b.csv"},
        ],
        "stages": [{"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"}],
    },
    spec_hash="sha256:1",
)
JOB_KEY = Key(kind=JOB.kind, name=JOB.name)
FILES: dict[str, object] = {"type": "files", "config": {"root": "data"}, "auth": {}}
READY = Condition(type="Ready", status=Truth.TRUE, reason="Done")


@dataclass(slots=True)
class Scripted:
    """A controller that does as the test says."""

    act: Callable[[Resource], Result]
    kind: Kind = Kind.RECONCILIATION_JOB
    resync: timedelta = RESYNC
    calls: list[Resource] = field(default_factory=list)

    def reconcile(self, _: Snapshot, resource: Resource) -> Result:
        self.calls.append(resource)
        return self.act(resource)


class NoAnswerError(DatarecsError):
    code = RunDetail.CONNECTION_FAILED


class Platform:
    """One tenant, the use cases of core-api, and the loop of the resource-controller."""

    def __init__(self, *controllers: Controller) -> None:
        self.clock, self.ids = ManualClock(), FixedIds()
        self.store = MemoryStore(self.clock, self.ids)
        self.tenant = self.store.create_tenant()
        self.unit = MemoryUnitOfWork(self.store)
        self.metrics = RecordedMetrics()
        self.actor = Principal(tenant_id=self.tenant, subject="ann")
        secrets = TenantSecrets(
            Secrets(), keyring=Keyring({"k1": bytes(32)}, current="k1"), environment={}
        )
        self.making = Making(ids=self.ids, secrets=secrets, random_bytes=bytes)
        jobs = StoredSpecs(lambda spec: job_of("", spec))
        chosen = controllers or (JobController(jobs=jobs),)
        self.loop = Reconciling(
            unit=self.unit,
            finder=MemoryWorkFinder(self.store),
            controllers={one.kind: one for one in chosen},
            metrics=self.metrics,
            rhythm=Rhythm(clock=self.clock, wake=Latch()),
            fraction=lambda: 0.5,
        )

    def apply(self, declared: Declared = JOB) -> Resource:
        with self.unit.begin(self.tenant, feed=1) as tx:
            return apply_resource(tx, self.actor, declared, making=self.making).resource

    def connect(self, *names: str) -> None:
        for name in names:
            self.apply(
                Declared(kind=Kind.CONNECTION, name=name, spec=FILES, spec_hash="sha256:2")  # type: ignore[arg-type]  # JSON
            )

    def annotate(self, **set_to: str | None) -> None:
        names = {"paused": PAUSED, "reconcile_at": RECONCILE_AT, "note": "example.com/note"}
        annotations = {names[name]: value for name, value in set_to.items()}
        with self.unit.begin(self.tenant, feed=1) as tx:
            annotate_resource(tx, self.actor, JOB_KEY, set_to=annotations, action="x")

    def edit(self, number: int) -> None:
        stages = JOB.spec["stages"]
        spec = {**JOB.spec, "description": f"edit {number}", "stages": stages}
        annotations = self.job().annotations
        self.apply(replace(JOB, spec=spec, spec_hash=f"sha256:{number}", annotations=annotations))

    def pass_time(self, duration: timedelta = timedelta()) -> None:
        self.clock.advance(duration)
        self.work()

    def work(self) -> None:
        """Until nothing is due."""
        while self.loop.step():
            self.loop.drain()

    def job(self) -> Resource:
        with self.unit.begin(self.tenant, read_only=True) as tx:
            job = tx.resources.get(JOB.kind, JOB.namespace, JOB.name)
        assert job is not None
        return job

    def condition(self, name: str) -> Condition:
        return conditions_of(self.job().status)[name]

    def row(self) -> Work:
        with self.unit.begin(self.tenant, read_only=True) as tx:
            work = tx.resource_work.get(self.job().uid)
        assert work is not None
        return work

    def due_in(self) -> timedelta | None:
        due_at = self.row().due_at
        return None if due_at is None else due_at - self.clock.now()

    def events(self, ending: str = "") -> list[str]:
        types = [one.row.type for one in self.store.committed(self.tenant).outbox.values()]
        job = "io.datarecs.resource.reconciliationjob."
        return [one.removeprefix(job) for one in types if one.startswith(job + ending)]

    def calls(self) -> list[Resource]:
        (controller,) = self.loop.controllers.values()
        assert isinstance(controller, Scripted)
        return controller.calls

    def count(self, ended: Ended) -> float:
        return self.metrics.total("reconcile_total", kind=str(JOB.kind), result=ended.value)


def scripted(act: Callable[[Resource], Result]) -> tuple[Platform, Scripted]:
    controller = Scripted(act)
    platform = Platform(controller)
    platform.apply()
    platform.work()
    return platform, controller


@pytest.mark.case("R61")
def test_a_job_says_which_connections_are_missing_until_they_are_applied() -> None:
    platform = Platform()
    platform.apply()
    platform.work()
    resolved = platform.condition("ReferencesResolved")
    assert (resolved.status, resolved.reason) == (Truth.FALSE, "ConnectionMissing")
    assert "connection here does not exist in namespace default; apply it" in resolved.message
    assert "connection there does not exist" in resolved.message
    assert phase_of(platform.job()) == "Pending"
    platform.connect("here")
    platform.work()
    assert "connection here" not in platform.condition("ReferencesResolved").message
    platform.connect("there")
    platform.work()
    assert platform.condition("ReferencesResolved").status is Truth.TRUE
    report_checks(platform.unit, MemoryWorkFinder(platform.store))
    platform.work()
    assert phase_of(platform.job()) == "Ready"
    assert platform.events() == ["created", *["status_updated", "reconciled"] * 4]


def test_a_job_says_that_a_deletion_of_its_connection_waits() -> None:
    platform = Platform()
    platform.connect("here")
    stops = ("example.com/stop",)
    platform.apply(
        Declared(
            kind=Kind.CONNECTION,
            name="there",
            spec=FILES,  # type: ignore[arg-type]  # JSON
            spec_hash="sha256:2",
            finalizers=stops,
        )
    )
    key = Key(kind=Kind.CONNECTION, name="there")
    with platform.unit.begin(platform.tenant, feed=1) as tx:
        delete_resource(tx, platform.actor, key, match=ANY)
    platform.apply()
    platform.work()
    message = platform.condition("ReferencesResolved").message
    assert message.startswith("connection there is being deleted, which waits for this job")
    with platform.unit.begin(platform.tenant, read_only=True) as tx:
        assert start_refusal(tx, platform.job()) is None


@pytest.mark.case("R26")
def test_a_spec_that_cannot_be_read_is_invalid_and_stops_no_other() -> None:
    platform = Platform()
    platform.connect("here", "there")
    platform.apply()
    platform.apply(replace(JOB, name="old", spec={"sources": "x"}))
    platform.work()
    report_checks(platform.unit, MemoryWorkFinder(platform.store))
    platform.work()
    with platform.unit.begin(platform.tenant, read_only=True) as tx:
        listed = {one.name: one for one in tx.resources.page(JOB.kind)}
    valid = conditions_of(listed["old"].status)["Valid"]
    assert (valid.status, valid.reason) == (Truth.FALSE, "Unreadable")
    assert "apply its declaration again" in valid.message
    assert {name: phase_of(one) for name, one in listed.items()} == {
        "books": "Ready",
        "old": "Invalid",
    }


@pytest.mark.case("R23")
def test_an_equal_status_is_written_once() -> None:
    platform, controller = scripted(lambda _: requeue_after(SECOND * 10, READY))
    version = platform.job().version
    for _ in range(100):
        platform.pass_time(SECOND * 10)
    assert len(controller.calls) == 101
    assert platform.job().version == version
    assert platform.events() == ["created", "status_updated", "reconciled"]


@pytest.mark.case("R23")
def test_an_alternating_status_is_written_once_in_300_seconds() -> None:
    flips = [True]

    def flip(_: Resource) -> Result:
        flips.append(not flips[-1])
        return requeue_after(
            timedelta(), Condition(type="Ready", status=Truth.of(flips[-1]), reason="Done")
        )

    platform, controller = scripted(flip)
    assert len(controller.calls) == 21
    assert platform.condition("Thrashing").status is Truth.TRUE
    assert platform.due_in() == SECOND * 300
    platform.pass_time(SECOND * 299)
    assert len(controller.calls) == 21


@pytest.mark.case("R18")
def test_many_changes_during_a_reconcile_cause_one_more_with_the_last_spec() -> None:
    def edit_meanwhile(_: Resource) -> Result:
        if len(controller.calls) == 1:
            for number in range(1000):
                platform.edit(number)
        return success(READY)

    controller = Scripted(edit_meanwhile)
    platform = Platform(controller)
    platform.apply()
    platform.work()
    assert [one.generation for one in controller.calls] == [1, 1001]
    assert controller.calls[-1].spec["description"] == "edit 999"


@pytest.mark.case("R24")
def test_a_status_carries_the_generation_that_was_observed() -> None:
    observed: list[int] = []

    def edit_meanwhile(resource: Resource) -> Result:
        if resource.generation < 3:
            platform.edit(resource.generation)
        else:
            observed.append(platform.job().observed_generation)
        return success(READY)

    controller = Scripted(edit_meanwhile)
    platform = Platform(controller)
    platform.apply()
    platform.work()
    assert [one.generation for one in controller.calls] == [1, 2, 3]
    assert [one.observed_generation for one in controller.calls] == [0, 1, 2]
    assert platform.job().observed_generation == platform.job().generation == 3
    assert observed == [2]


@pytest.mark.case("R19")
def test_a_delay_survives_a_restart() -> None:
    platform, controller = scripted(lambda _: requeue_after(timedelta(minutes=10), READY))
    platform.pass_time(timedelta(minutes=5))
    again = Reconciling(
        unit=platform.unit,
        finder=MemoryWorkFinder(platform.store),
        controllers={controller.kind: controller},
        metrics=platform.metrics,
        rhythm=Rhythm(clock=platform.clock, wake=Latch()),
        fraction=lambda: 0.5,
    )
    platform.loop = again
    platform.pass_time(timedelta(minutes=5) - SECOND)
    assert len(controller.calls) == 1
    platform.pass_time(SECOND)
    assert len(controller.calls) == 2


@pytest.mark.case("R20")
def test_failures_are_repeated_with_growing_delays_and_reported_once() -> None:
    def fail(_: Resource) -> Result:
        raise NoAnswerError("ledger does not answer; start it")

    platform, controller = scripted(fail)
    delays = []
    for _ in range(6):
        delay = platform.due_in()
        assert delay is not None
        delays.append(delay.total_seconds())
        platform.pass_time(delay)
    assert delays == [0.75, 1.5, 3, 6, 12, 24]
    ready = platform.condition("Ready")
    assert (ready.status, ready.reason) == (Truth.UNKNOWN, "ReconcileFailed")
    assert ready.message == "ledger does not answer; start it"
    assert platform.events("reconcile") == ["reconcile_failed"]
    assert platform.job().observed_generation == 0
    platform.edit(1)
    platform.work()
    assert (platform.row().attempts, platform.due_in()) == (1, SECOND * 0.75)
    assert platform.count(Ended.ERROR) == len(controller.calls) == 8


@pytest.mark.case("R21")
@pytest.mark.parametrize("change", ["edit", "request"])
def test_a_terminal_error_waits_for_an_edit_or_a_request(change: str) -> None:
    platform, controller = scripted(lambda _: terminal("the table has no key; add one"))
    assert platform.due_in() is None
    assert (platform.condition("Ready").reason, platform.condition("Ready").status) == (
        *("Terminal", Truth.FALSE),
    )
    platform.pass_time(timedelta(hours=1))
    platform.annotate(note="a label is no reason")
    platform.work()
    assert len(controller.calls) == 1
    if change == "edit":
        platform.edit(1)
    else:
        platform.annotate(reconcile_at="now")
    platform.work()
    assert len(controller.calls) == 2


@pytest.mark.case("R30")
def test_a_paused_object_is_left_alone_until_it_is_resumed() -> None:
    platform, controller = scripted(lambda _: success(READY))
    platform.annotate(paused="true")
    platform.work()
    platform.edit(1)
    platform.pass_time(RESYNC * 2)
    assert len(controller.calls) == 1
    paused = platform.condition("Paused")
    assert paused.status is Truth.TRUE
    assert "datarecs resume" in paused.message
    assert phase_of(platform.job()) == "Paused"
    platform.annotate(paused=None)
    platform.work()
    assert len(controller.calls) == 2
    assert "Paused" not in conditions_of(platform.job().status)


@pytest.mark.case("R27")
def test_a_defect_of_one_object_stops_no_other_and_reports_no_values() -> None:
    def break_down(resource: Resource) -> Result:
        if resource.name == "bad":
            raise RuntimeError("amount 4711")
        return success(READY)

    platform, _ = scripted(break_down)
    platform.apply(replace(JOB, name="bad"))
    platform.work()
    with platform.unit.begin(platform.tenant, read_only=True) as tx:
        listed = {one.name: one for one in tx.resources.page(JOB.kind)}
    assert phase_of(listed["books"]) == "Ready"
    ready = conditions_of(listed["bad"].status)["Ready"]
    assert ready.status is Truth.UNKNOWN
    assert "failed with RuntimeError" in ready.message
    assert "4711" not in ready.message
    assert (platform.count(Ended.ERROR), platform.count(Ended.SUCCESS)) == (1, 1)


@pytest.mark.case("R27")
def test_a_controller_without_its_event_stops_only_its_kind() -> None:
    broken = Scripted(lambda _: success(READY), kind=Kind.CONNECTION)
    works = Scripted(lambda _: success(READY))
    platform = Platform(broken, works)
    platform.connect("here")
    with platform.unit.begin(platform.tenant, feed=1) as tx:
        connection = tx.resources.get(Kind.CONNECTION, "default", "here")
        assert connection is not None
        tx.resource_work.reconcile_soon(connection.uid, Kind.CONNECTION)
    platform.apply()
    platform.work()
    assert len(broken.calls) == 1
    assert phase_of(platform.job()) == "Ready"


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened at the end, so that no thread stays."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.case("R22")
def test_a_hanging_reconcile_delays_no_other_and_its_late_result_is_rejected(
    gate: threading.Event,
) -> None:
    def hang(resource: Resource) -> Result:
        if resource.name == JOB.name and len(controller.calls) == 1:
            gate.wait(30)
        return success(replace(READY, reason=resource.name.capitalize()))

    controller = Scripted(hang)
    platform = Platform(controller)
    platform.apply()
    assert platform.loop.step() == 1
    (hanging,) = (one for one in threading.enumerate() if one.name.startswith("reconcile-"))
    other = replace(JOB, name="other")
    platform.apply(other)
    assert platform.loop.step() == 1
    for thread in threading.enumerate():
        if thread.name.startswith("reconcile-") and thread is not hanging:
            thread.join(30)
    assert platform.count(Ended.SUCCESS) == 1
    platform.clock.advance(TIMEOUT)
    platform.loop.step()
    assert platform.count(Ended.TIMEOUT) == 1
    ready = platform.condition("Ready")
    assert (ready.status, ready.reason) == (Truth.UNKNOWN, "Timeout")
    assert "did not end within 60 s" in ready.message
    gate.set()
    hanging.join(30)
    assert platform.condition("Ready").reason == "Timeout"
    assert platform.metrics.total("stale_epoch_total", queue="resources") == 1
    platform.pass_time(SECOND)
    assert platform.condition("Ready").reason == "Books"


def test_a_busy_store_repeats_at_once() -> None:
    def conflict_twice(_: Resource) -> Result:
        if len(controller.calls) < 3:
            raise StoreBusyError(cause="deadlock")
        return success(READY)

    controller = Scripted(conflict_twice)
    platform = Platform(controller)
    platform.apply()
    platform.work()
    assert (platform.count(Ended.CONFLICT), platform.count(Ended.SUCCESS)) == (2, 1)
    assert platform.events("reconcile") == ["reconciled"]


def test_a_status_write_that_loses_is_tried_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    platform, controller = scripted(lambda _: success(READY))
    controller.act = lambda _: success(replace(READY, reason="Other"))
    replace_row, losses = MemoryResources.replace, iter([False, False])

    def losing(self: MemoryResources, resource: Resource, *, expected_rv: int) -> bool:
        is_status = resource.status != platform.job().status
        if is_status and next(losses, True) is False:
            return False
        return replace_row(self, resource, expected_rv=expected_rv)

    platform.annotate(reconcile_at="2026-03-02T12:00:00Z")
    monkeypatch.setattr(MemoryResources, "replace", losing)
    platform.work()
    assert platform.condition("Ready").reason == "Other"
    assert len(controller.calls) == 2


def test_an_object_that_is_being_deleted_waits_for_its_finalizers() -> None:
    platform, controller = scripted(lambda _: success(READY))
    platform.apply(replace(JOB, finalizers=("example.com/stop",)))
    platform.work()
    with platform.unit.begin(platform.tenant, feed=1) as tx:
        delete_resource(tx, platform.actor, JOB_KEY, match=ANY)
    calls = len(controller.calls)
    platform.pass_time(RESYNC * 2)
    assert len(controller.calls) == calls
    assert phase_of(platform.job()) == "Deleting"


def test_the_gauges_count_what_waits() -> None:
    platform, _ = scripted(lambda _: success(READY))
    labels = {"kind": str(JOB.kind)}
    platform.clock.advance(SECOND * 60)
    for number in range(BATCH + 5):
        platform.apply(replace(JOB, name=f"job-{number}"))
    platform.clock.advance(SECOND * 5)
    platform.loop.step()
    assert platform.metrics.last("reconcile_queue_depth", **labels) == 5
    assert platform.metrics.last("reconcile_oldest_due_seconds", **labels) == 5
    platform.loop.drain()
    platform.work()
    platform.clock.advance(SECOND * 60)
    platform.work()
    assert platform.metrics.last("reconcile_queue_depth", **labels) == 0
    assert platform.metrics.times("reconcile_seconds", **labels) == BATCH + 6


def test_a_job_of_another_release_is_reconciled_after_the_start() -> None:
    platform, controller = scripted(lambda _: success(READY))
    with platform.unit.begin(platform.tenant, feed=1) as tx:
        tx.resources.add(
            a_resource(kind=JOB.kind, name="older", tenant_id=platform.tenant, rv=tx.next_rv())
        )
    platform.pass_time(timedelta(minutes=1))
    assert [one.name for one in controller.calls] == ["books"]
    platform.pass_time(timedelta(hours=1))
    assert [one.name for one in controller.calls] == ["books", "older"]


@pytest.mark.case("R23")
@pytest.mark.parametrize(("change", "calls"), [("annotation", 21), ("edit", 22)])
def test_a_thrashing_object_runs_at_once_only_after_an_edit(change: str, calls: int) -> None:
    def change_once(_: Resource) -> Result:
        if len(controller.calls) == 21:
            if change == "edit":
                platform.edit(1)
            else:
                platform.annotate(note="seen")
        if len(controller.calls) > 21:
            return success(READY)
        return requeue_after(timedelta(), READY)

    controller = Scripted(change_once)
    platform = Platform(controller)
    platform.apply()
    platform.work()
    assert len(controller.calls) == calls
    assert ("Thrashing" in conditions_of(platform.job().status)) == (change == "annotation")


def test_with_many_hanging_reconciles_nothing_more_is_claimed(gate: threading.Event) -> None:
    def hang(_: Resource) -> Result:
        gate.wait(30)
        return success(READY)

    platform = Platform(Scripted(hang))
    for number in range(BATCH):
        platform.apply(replace(JOB, name=f"job-{number}"))
    assert platform.loop.step() == BATCH
    for _ in range(80):
        platform.clock.advance(SLOW)
        platform.loop.step()
    hanging = reconciling_threads()
    assert len(hanging) == CONCURRENCY + MOST_HANGING
    platform.apply()
    platform.loop.step()
    assert platform.row().epoch == 0
    gate.set()
    for thread in hanging:
        thread.join(30)
    platform.pass_time(RESOURCE_LEASE)
    assert platform.row().epoch == 1
    with platform.unit.begin(platform.tenant, read_only=True) as tx:
        assert {phase_of(one) for one in tx.resources.page(JOB.kind, limit=100)} == {"Ready"}


def reconciling_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name.startswith("reconcile-")]


@pytest.mark.case("R22")
def test_the_others_of_a_batch_do_not_wait_for_a_hanging_one(gate: threading.Event) -> None:
    def hang(resource: Resource) -> Result:
        if resource.name == "job-1" and not gate.is_set():
            gate.wait(30)
        return success(READY)

    platform = Platform(Scripted(hang))
    for number in range(4):
        platform.apply(replace(JOB, name=f"job-{number}"))
    assert platform.loop.step() == 4
    (hanging,) = reconciling_threads()
    wait_until(lambda: len(platform.calls()) == 2)
    platform.clock.advance(SLOW)
    platform.loop.step()
    wait_until(lambda: platform.count(Ended.SUCCESS) == 3)
    assert hanging.is_alive()
    gate.set()
    hanging.join(30)
    assert platform.count(Ended.SUCCESS) == 4
    assert platform.metrics.total("stale_epoch_total", queue="resources") == 0


@pytest.mark.parametrize("is_handled", [True, False])
def test_the_others_of_a_batch_do_not_share_a_failure(is_handled: bool) -> None:
    def fail(resource: Resource) -> Result:
        if resource.name == "job-1":
            if is_handled:
                raise RuntimeError("no answer")
            return replace(success(READY), conditions=None)  # type: ignore[arg-type]  # a defect
        return success(READY)

    platform = Platform(Scripted(fail))
    for number in range(4):
        platform.apply(replace(JOB, name=f"job-{number}"))
    assert platform.loop.step() == 4
    for _ in range(12):  # one waits at most 5 s; the trace of a defect takes longer when busy
        platform.loop.drain()
    assert platform.count(Ended.SUCCESS) == 3
    assert platform.count(Ended.ERROR) == (1 if is_handled else 0)


def test_leases_are_renewed_while_a_reconcile_lasts_and_end_with_its_process(
    gate: threading.Event,
) -> None:
    def hang(_: Resource) -> Result:
        gate.wait(30)
        return success(READY)

    platform = Platform(Scripted(hang))
    other = MemoryWorkFinder(platform.store)
    platform.apply()
    assert platform.loop.step() == 1
    for _ in range(6):
        platform.clock.advance(RENEW_EVERY)
        platform.loop.step()
        assert other.claim_resources([JOB.kind], 1) == []
    platform.clock.advance(RESOURCE_LEASE)
    (taken,) = other.claim_resources([JOB.kind], 1)
    platform.loop.step()
    gate.set()
    platform.loop.drain()
    assert taken.epoch == 2
    assert platform.metrics.total("stale_epoch_total", queue="resources") == 1
    assert platform.row().epoch == 2
    assert platform.row().lease_until is not None


def wait_until(holds: Callable[[], bool]) -> None:
    """For a thread, which nothing else announces."""
    ends = monotonic() + 30
    while not holds():
        assert monotonic() < ends
        threading.Event().wait(0.005)
