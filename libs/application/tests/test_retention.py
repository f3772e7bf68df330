"""Sweeps of retention policies over the store in memory: order, steps, edits, failures, status."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.retention import RetentionSweeps
from datarecs_application.ports.outside import BlobStore
from datarecs_application.ports.retention import Place
from datarecs_application.retention import BATCH, STORE_AWAY, Sweeping
from datarecs_application.stored_specs import StoredSpecs
from datarecs_core.catalog.layout import all_differences, run_document, run_prefix
from datarecs_core.errors.storage import BlobStoreUnavailableError
from datarecs_core.resources.resource import Kind, Resource
from datarecs_core.retention.policy import Lifetime, RetentionPolicy, RunLifetime, Target, Targets
from datarecs_core.runs.model import Run, RunResult, RunStatus
from datarecs_core.values import JobId, RunId
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_runtime.clock import Latch
from datarecs_testing.builders import a_resource, a_run, an_id
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.deliveries import a_mail
from datarecs_testing.metrics import RecordedMetrics

BEGIN = datetime(2027, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
RUNS = RetentionPolicy(targets=Targets(runs=RunLifetime(ttl=90 * DAY)))
DIFFERENCES = RetentionPolicy(targets=Targets(differences=RunLifetime(ttl=30 * DAY)))


class BreakingBlobs(MemoryBlobStores):
    """A store that fails after a number of removals."""

    removals = 0
    most = 10_000

    def of(self, tenant: Any) -> Any:  # noqa: ANN401  the port over a subclass
        return _Counting(self, super().of(tenant))


class _Counting:
    def __init__(self, stores: BreakingBlobs, blobs: BlobStore) -> None:
        self._stores, self._blobs = stores, blobs

    def delete_prefix(self, prefix: str) -> None:
        if self._stores.removals >= self._stores.most:
            raise BlobStoreUnavailableError(where="/srv/private", cause="no answer")
        self._stores.removals += 1
        self._blobs.delete_prefix(prefix)


class Platform:
    """One tenant with the job `books`, and the loop of the resource-controller."""

    def __init__(self) -> None:
        self.clock, ids = ManualClock(BEGIN), FixedIds()
        self.store = MemoryStore(self.clock, ids)
        self.tenant = self.store.create_tenant()
        self.unit = MemoryUnitOfWork(self.store)
        self.blobs = BreakingBlobs(self.clock)
        self.metrics = RecordedMetrics()
        self.specs: dict[int, RetentionPolicy] = {}
        self.loop = RetentionSweeps(
            finder=MemoryWorkFinder(self.store),
            sweeping=Sweeping(
                unit=self.unit,
                policies=StoredSpecs(self._read),
                blobs=self.blobs,
                clock=self.clock,
                metrics=self.metrics,
            ),
            rhythm=Rhythm(clock=self.clock, wake=Latch()),
        )
        self.job = self.add(Kind.RECONCILIATION_JOB, "books", {})

    def add(self, kind: Kind, name: str, spec: Mapping[str, object]) -> Resource:
        resource = a_resource(
            kind=kind,
            name=name,
            tenant_id=self.tenant,
            rv=0,
            spec=spec,
            created_at=self.clock.now(),
        )
        with self.unit.begin(self.tenant) as tx:
            tx.resources.add(resource)
        return resource

    def declare(self, policy: RetentionPolicy = RUNS) -> Resource:
        self.specs[len(self.specs)] = policy
        name = f"policy-{len(self.specs)}"
        resource = self.add(Kind.RETENTION_POLICY, name, {"number": len(self.specs) - 1})
        with self.unit.begin(self.tenant) as tx:
            tx.retention.sweep_soon(resource.uid)
        return resource

    def edit(self, resource: Resource, policy: RetentionPolicy) -> None:
        self.specs[len(self.specs)] = policy
        spec = {"number": len(self.specs) - 1}
        with self.unit.begin(self.tenant, feed=1) as tx:
            stored = tx.resources.get_by_uid(resource.uid)
            assert stored is not None
            after = replace(stored, generation=stored.generation + 1, rv=tx.next_rv(), spec=spec)
            assert tx.resources.replace(after, expected_rv=stored.rv)
            tx.retention.sweep_soon(resource.uid)

    def ended(self, days_ago: float, count: int = 1) -> list[Run]:
        """Runs with artefacts."""
        runs = []
        for _ in range(count):
            run = a_run(
                tenant_id=self.tenant,
                run_id=RunId(an_id()),
                job_id=JobId(self.job.uid),
                status=RunStatus.COMPLETED,
                result=RunResult.UNMATCHED,
                created_at=self.clock.now() - days_ago * DAY,
            )
            runs.append(run)
            blobs = MemoryBlobStores.of(self.blobs, self.tenant)
            blobs.put(run_document(self.tenant, run.run_id), b"{}")
            blobs.put(f"{all_differences(self.tenant, run.run_id)}stage=rows/part-00000", b"x")
        with self.store.writing(self.tenant) as rows:
            rows.runs.update({run.run_id: run for run in runs})
        return runs

    def runs(self) -> dict[RunId, Run]:
        return self.store.committed(self.tenant).runs

    def blobs_of(self, run: Run) -> list[str]:
        prefix = run_prefix(self.tenant, run.run_id)
        blobs = MemoryBlobStores.of(self.blobs, self.tenant)
        return [info.key.removeprefix(prefix) for info in blobs.list(prefix)]

    def status(self, policy: Resource) -> Mapping[str, object]:
        return self.store.committed(self.tenant).resources[policy.uid].status

    def _read(self, spec: Mapping[str, object]) -> RetentionPolicy:
        number = spec["number"]
        assert isinstance(number, int)
        return self.specs[number]


@pytest.fixture
def platform() -> Platform:
    return Platform()


def examined_sizes(platform: Platform) -> list[int]:
    """How many objects each later step finds due."""
    sizes, unit = [], platform.unit
    begin = unit.begin

    @contextmanager
    def observed(*args: Any, **options: Any) -> Iterator[Any]:  # noqa: ANN401  passed through
        with begin(*args, **options) as tx:
            remove = tx.retention.remove

            def counted(target: Target, places: Sequence[Place]) -> int:
                sizes.append(len(places))
                return remove(target, places)

            tx.retention.remove = counted  # type: ignore[method-assign]  # counts
            yield tx

    unit.begin = observed  # type: ignore[method-assign]  # counts
    return sizes


@pytest.mark.case("R58")
def test_expired_runs_go_with_their_artefacts_and_the_status_says_so(platform: Platform) -> None:
    (old,), (young,) = platform.ended(91), platform.ended(89)
    policy = platform.declare()
    assert platform.loop.step() == 1
    assert set(platform.runs()) == {young.run_id}
    assert platform.blobs_of(old) == []
    assert len(platform.blobs_of(young)) == 2
    assert platform.status(policy) == {
        "last_sweep_at": "2027-06-01T12:00:00.000000Z",
        "next_sweep_at": "2027-06-01T13:00:00.000000Z",
        "deleted": {"runs": 1},
    }
    assert platform.metrics.total("cleanup_total", what="runs") == 1
    assert platform.metrics.total("retention_sweeps_total") == 1


def test_the_next_sweep_comes_after_the_interval(platform: Platform) -> None:
    (run,) = platform.ended(89.99)
    platform.declare(replace(RUNS, sweep_interval=timedelta(hours=2)))
    assert platform.loop.step() == 1
    platform.clock.advance(timedelta(hours=1, minutes=59))
    assert platform.loop.step() == 0
    assert run.run_id in platform.runs()
    platform.clock.advance(timedelta(minutes=1))
    assert platform.loop.step() == 1
    assert platform.runs() == {}


@pytest.mark.case("R58")
def test_a_dry_run_counts_and_removes_nothing(platform: Platform) -> None:
    (run,) = platform.ended(91)
    policy = platform.declare(replace(RUNS, dry_run=True))
    platform.loop.step()
    assert set(platform.runs()) == {run.run_id}
    assert len(platform.blobs_of(run)) == 2
    assert platform.status(policy)["would_delete"] == {"runs": 1}
    assert "deleted" not in platform.status(policy)
    assert platform.metrics.total("cleanup_total", what="runs") == 0


@pytest.mark.case("R58")
def test_a_step_removes_at_most_200_objects(platform: Platform) -> None:
    platform.ended(91, BATCH + 1)
    platform.declare()
    sizes = examined_sizes(platform)
    platform.loop.step()
    assert sizes == [BATCH, 1]
    assert platform.runs() == {}


def test_differences_go_alone_and_mark_their_run(platform: Platform) -> None:
    (run,) = platform.ended(31)
    policy = platform.declare(DIFFERENCES)
    platform.loop.step()
    assert platform.blobs_of(run) == ["run.json"]
    assert platform.runs()[run.run_id].differences_deleted_at == BEGIN
    assert platform.status(policy)["deleted"] == {"differences": 1}


def test_targets_are_swept_one_after_the_other(platform: Platform) -> None:
    platform.ended(91)
    (young,) = platform.ended(40)
    mail = a_mail(tenant_id=platform.tenant, job_id=None, run_id=None, created_at=BEGIN - 50 * DAY)
    with platform.store.writing(platform.tenant) as rows:
        sent = replace(mail, state="SENT", due_at=None)  # type: ignore[arg-type]  # its word
        rows.delivery.mails[mail.delivery_id] = sent
    policy = platform.declare(
        RetentionPolicy(
            targets=Targets(
                runs=RunLifetime(ttl=90 * DAY),
                differences=RunLifetime(ttl=30 * DAY),
                mails=Lifetime(ttl=30 * DAY),
                ticks=Lifetime(ttl=30 * DAY),
            )
        )
    )
    platform.loop.step()
    assert platform.status(policy)["deleted"] == {
        "runs": 1,
        "differences": 1,
        "mails": 1,
        "ticks": 0,
    }
    assert platform.runs()[young.run_id].differences_deleted_at is not None


@pytest.mark.case("R58")
def test_a_run_whose_row_stayed_after_its_artefacts_goes_with_the_next_pass(
    platform: Platform,
) -> None:
    """A crash between the artefacts and the rows."""
    first, *others = platform.ended(91, 3)
    policy = platform.declare()
    platform.blobs.most = 1
    platform.loop.step()
    assert platform.blobs_of(first) == []
    assert set(platform.runs()) == {first.run_id, *(run.run_id for run in others)}
    assert platform.status(policy) == {"problem": STORE_AWAY}
    platform.blobs.most = 10_000
    platform.clock.advance(timedelta(seconds=31))
    platform.loop.step()
    assert platform.runs() == {}
    assert platform.status(policy)["deleted"] == {"runs": 3}
    assert "problem" not in platform.status(policy)


def test_a_pass_ends_after_half_a_second_and_goes_on_at_once(platform: Platform) -> None:
    runs = platform.ended(91, 3)
    platform.declare()
    delete = platform.blobs.of(platform.tenant).delete_prefix

    class Slow(BreakingBlobs):
        def of(self, tenant: Any) -> Any:  # noqa: ANN401  the port over a subclass
            blobs = super().of(tenant)

            class Waiting:
                def delete_prefix(self, prefix: str) -> None:
                    blobs.delete_prefix(prefix)
                    delete(prefix)
                    platform.clock.advance(timedelta(milliseconds=300))

            return Waiting()

    object.__setattr__(platform.loop.sweeping, "blobs", Slow(platform.clock))
    assert platform.loop.step() == 1
    assert set(platform.runs()) == {runs[-1].run_id}
    assert platform.loop.step() == 1
    assert platform.runs() == {}
    assert platform.loop.step() == 0


def test_an_edit_during_a_sweep_begins_it_anew(platform: Platform) -> None:
    platform.ended(91, 2)
    policy = platform.declare()
    platform.blobs.most = 0
    platform.loop.step()
    platform.edit(policy, replace(RUNS, dry_run=True))
    platform.blobs.most = 10_000
    platform.loop.step()
    assert len(platform.runs()) == 2
    assert platform.status(policy)["would_delete"] == {"runs": 2}


def test_an_edit_within_a_step_is_not_lost(platform: Platform) -> None:
    """The step removes what it selected; then the sweep begins anew with the new declaration."""
    platform.ended(91)
    platform.ended(40)
    policy = platform.declare()
    shorter = RetentionPolicy(targets=Targets(runs=RunLifetime(ttl=30 * DAY)))

    class Edited(BreakingBlobs):
        is_edited = False

        def of(self, tenant: Any) -> Any:  # noqa: ANN401  the port over a subclass
            if not self.is_edited:
                self.is_edited = True
                platform.edit(policy, shorter)
            return super().of(tenant)

    object.__setattr__(platform.loop.sweeping, "blobs", Edited(platform.clock))
    platform.loop.step()
    assert platform.runs() == {}
    assert platform.store.committed(platform.tenant).resources[policy.uid].observed_generation == (
        policy.generation + 1
    )


def test_a_policy_that_is_deleted_within_a_step_leaves_no_run_without_artefacts(
    platform: Platform,
) -> None:
    platform.ended(91)
    policy = platform.declare()

    class Deleting(BreakingBlobs):
        def of(self, tenant: Any) -> Any:  # noqa: ANN401  the port over a subclass
            with platform.unit.begin(platform.tenant) as tx:
                tx.resources.remove(policy, expected_rv=policy.rv)
            return super().of(tenant)

    object.__setattr__(platform.loop.sweeping, "blobs", Deleting(platform.clock))
    platform.loop.step()
    assert platform.runs() == {}
    assert platform.loop.step() == 0


def test_a_deleted_policy_is_no_longer_swept(platform: Platform) -> None:
    (run,) = platform.ended(91)
    policy = platform.declare()
    with platform.unit.begin(platform.tenant) as tx:
        tx.resources.remove(policy, expected_rv=policy.rv)
    assert platform.loop.step() == 0
    assert set(platform.runs()) == {run.run_id}


def test_the_defect_of_one_policy_does_not_stop_the_others(platform: Platform) -> None:
    platform.ended(91)
    broken = platform.add(Kind.RETENTION_POLICY, "broken", {"number": 77})
    with platform.unit.begin(platform.tenant) as tx:
        tx.retention.sweep_soon(broken.uid)
    platform.declare()
    platform.loop.step()
    assert platform.runs() == {}


def test_the_first_policy_that_selects_a_run_removes_it(platform: Platform) -> None:
    (run,) = platform.ended(100)
    platform.declare(RetentionPolicy(targets=Targets(runs=RunLifetime(ttl=365 * DAY))))
    platform.declare(RUNS)
    platform.loop.step()
    assert run.run_id not in platform.runs()
