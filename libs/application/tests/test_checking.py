"""Checks over the store in memory and a scripted child: what is stored, counted and masked."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from datarecs_application.checking import STEP, CheckAssignment, Checking, ReportedSteps
from datarecs_application.loops.checking import SourceChecks
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.checks import CHECK_LEASE, ResourceCheck
from datarecs_core.access.references import SecretUse
from datarecs_core.errors.process import ChildStartError
from datarecs_core.errors.security import SecretUnavailableError
from datarecs_core.jobs.definition import ReconciliationJob
from datarecs_core.resources.checks import Cause, CheckStep, StepState
from datarecs_core.resources.connection import Connection
from datarecs_core.resources.resource import Kind, Resource
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_runtime.clock import Latch, SystemClock
from datarecs_specs.documents import decode_stored, job_of
from datarecs_testing.builders import a_resource
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.metrics import RecordedMetrics
from datarecs_testing.scripted_child import ChildSide, Script, ScriptedChild

SECRET = "canary-4711"
LEDGER: dict[str, Any] = {
    "type": "postgres",
    "config": {"host": "db.example.com", "database": "d", "user": "u"},
    "auth": {"password": "env:LEDGER"},
}
JOB: dict[str, Any] = {
    "sources": [
        {"name": "a", "kind": "postgres", "connection": "ledger", "relation": "a"},
        {"name": "b", "kind": "postgres", "connection": "ledger", "relation": "b"},
    ],
    "stages": [{"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"}],
    "parameters": {
        "day": {"type": "date"},
        "region": {"type": "text", "allowed": ["north", "south"]},
        "ids": {"type": "list<int>"},
        "limit": {"type": "decimal", "default": "1.5"},
    },
}


class Declarations:
    """Port Decode."""

    def job(self, name: str, spec: Mapping[str, object]) -> ReconciliationJob:
        return job_of(name, spec)

    def connection(self, name: str, spec: Mapping[str, object]) -> Connection:
        connection = decode_stored(Kind.CONNECTION, name, spec)
        assert isinstance(connection, Connection)
        return connection


class Secrets:
    """Port SecretStore, as far as checks use it."""

    def __init__(self) -> None:
        self.value: str | None = SECRET

    def resolve(self, reference: str, *, tenant: UUID, uses: Collection[SecretUse]) -> str:
        assert tenant.version
        assert [str(use) for use in uses] == ["postgres:db.example.com"]
        if self.value is None:
            raise SecretUnavailableError(reference=reference, cause="it is not set")
        return self.value

    def seal(self, plain: bytes, *, context: Mapping[str, str]) -> bytes:
        raise NotImplementedError

    def open(self, sealed: bytes, *, context: Mapping[str, str]) -> bytes:
        raise NotImplementedError


class Worker:
    """One tenant, and the loop of a worker with a scripted child."""

    def __init__(self) -> None:
        self.store = MemoryStore(SystemClock(), FixedIds())
        self.tenant = self.store.create_tenant()
        self.unit, self.secrets = MemoryUnitOfWork(self.store), Secrets()
        self.metrics, self.frames = RecordedMetrics(), list[Mapping[str, Any]]()
        self.script: Script = finished
        self.ledger = self.declare(Kind.CONNECTION, "ledger", LEDGER)
        self.loop = SourceChecks(
            unit=self.unit,
            finder=MemoryWorkFinder(self.store),
            use=Checking(decode=Declarations(), secrets=self.secrets, surroundings={"roots": []}),
            make=lambda: ScriptedChild(self.run),
            metrics=self.metrics,
            rhythm=Rhythm(clock=SystemClock(), wake=Latch()),
            memory_bytes=2**30,
        )

    def run(self, plan: Mapping[str, object], side: ChildSide) -> int:
        self.frames.append(plan)
        return self.script(plan, side)

    def declare(self, kind: Kind, name: str, spec: Mapping[str, Any]) -> Resource:
        resource = a_resource(kind=kind, name=name, spec=spec, tenant_id=self.tenant)
        with self.unit.begin(self.tenant) as tx:
            tx.resources.add(resource)
        return resource

    def checked(self, resource: Resource) -> tuple[CheckStep, ...]:
        with self.unit.begin(self.tenant) as tx:
            tx.checks.request(resource.uid, subject="1")
        assert self.loop.step() == 1
        check = self.stored(resource)
        assert check.result is not None
        assert check.lease_until is None
        return check.result.steps

    def stored(self, resource: Resource) -> ResourceCheck:
        with self.unit.begin(self.tenant) as tx:
            check = tx.checks.get(resource.uid)
        assert check is not None
        return check


def finished(_plan: Mapping[str, object], side: ChildSide) -> int:
    side.send({"type": "finished"})
    return 0


def a_step(**changes: object) -> dict[str, object]:
    step = {"type": "step", "source": "ledger", "name": "login", "ok": True, "ms": 4}
    return {**step, "detail": "PostgreSQL 16", "code": None, "login_refused": False, **changes}


def reporting(*frames: Mapping[str, object]) -> Script:
    def script(plan: Mapping[str, object], side: ChildSide) -> int:
        for frame in frames:
            side.send(frame)
        return finished(plan, side)

    return script


@pytest.fixture
def worker() -> Worker:
    return Worker()


def test_nothing_is_due(worker: Worker) -> None:
    assert worker.loop.step() == 0


def test_a_good_check_is_stored_and_counted(worker: Worker) -> None:
    worker.script = reporting(a_step())
    (step,) = worker.checked(worker.ledger)
    assert (step.source, step.name, step.state, step.ms) == ("ledger", "login", StepState.OK, 4)
    assert worker.metrics.total("resource_checks_total", kind="Connection", cause="NONE") == 1


def test_a_failure_is_counted_by_its_cause(worker: Worker) -> None:
    worker.script = reporting(a_step(ok=False, code="CONNECTION_FAILED", login_refused=True))
    (step,) = worker.checked(worker.ledger)
    assert (step.cause, step.code) == (Cause.CREDENTIALS, "CONNECTION_FAILED")
    assert step.fix
    counted = worker.metrics.total("resource_checks_total", kind="Connection", cause="CREDENTIALS")
    assert counted == 1


def test_the_child_gets_declarations_and_secrets_and_nothing_else(worker: Worker) -> None:
    job = worker.declare(Kind.RECONCILIATION_JOB, "books", JOB)
    assert worker.checked(job) == ()
    (frame,) = worker.frames
    assert frame["secrets"] == {"ledger/password": SECRET}
    assert set(frame) == {
        *("roots", "tenant_id", "name", "connections", "secrets"),
        *("spec", "spec_hash", "job_id", "parameters"),
    }
    assert frame["parameters"] == {
        "day": "2000-01-01",
        "region": "north",
        "ids": ["0"],
        "limit": "1.5",
    }


def test_a_secret_is_masked_in_every_text(worker: Worker) -> None:
    worker.script = reporting(a_step(ok=False, detail=f"got {SECRET}!", name=SECRET))
    (step,) = worker.checked(worker.ledger)
    assert (step.seen, step.name) == ("got ***!", "***")


@pytest.mark.parametrize("secrets", [("hunter", "hunter2-long"), ("hunter2-long", "hunter")])
def test_a_secret_that_begins_another_leaves_no_part_of_it(secrets: tuple[str, ...]) -> None:
    reported = ReportedSteps(CheckAssignment(frame={}, sources=("ledger",), secrets=secrets))
    reported.take(
        {
            "type": STEP,
            "source": "ledger",
            "ok": False,
            "code": None,
            "login_refused": True,
            "name": "login",
            "ms": 1,
            "detail": "refused hunter2-long and hunter",
        }
    )
    (step,) = reported.steps
    assert step.seen == "refused *** and ***"


def test_a_secret_that_is_not_available_fails_each_source_and_starts_no_child(
    worker: Worker,
) -> None:
    worker.secrets.value = None
    job = worker.declare(Kind.RECONCILIATION_JOB, "books", JOB)
    steps = worker.checked(job)
    assert [(step.source, step.name, step.cause) for step in steps] == [
        ("a", "secret", Cause.CREDENTIALS),
        ("b", "secret", Cause.CREDENTIALS),
    ]
    assert worker.checked(worker.ledger)[0].source == "ledger"
    assert worker.frames == []


def test_a_connection_of_another_type_is_a_fault_of_the_declaration(worker: Worker) -> None:
    sources = [{**one, "kind": "csv", "path": "x.csv"} for one in JOB["sources"]]
    for one in sources:
        one.pop("relation")
    job = worker.declare(Kind.RECONCILIATION_JOB, "books", {**JOB, "sources": sources})
    steps = worker.checked(job)
    assert {(step.cause, step.code) for step in steps} == {
        (Cause.DECLARATION, "CONNECTION_MISMATCH")
    }


def test_a_stored_spec_that_cannot_be_read_is_a_fault_of_the_declaration(worker: Worker) -> None:
    old = worker.declare(Kind.CONNECTION, "old", {"type": "fax"})
    (step,) = worker.checked(old)
    assert (step.name, step.cause) == ("declaration", Cause.DECLARATION)


def test_a_child_that_cannot_start_is_a_result(worker: Worker) -> None:
    def make() -> ScriptedChild:
        raise ChildStartError(program="the check", cause="no space")

    worker.loop.make = make
    (step,) = worker.checked(worker.ledger)
    assert step.cause is Cause.CHECK
    assert "no space" in step.seen


def test_a_defect_of_the_worker_is_a_result_and_not_its_end(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_self: object, *_args: object, **_named: object) -> str:
        raise KeyError(SECRET)

    monkeypatch.setattr(Secrets, "resolve", broken)
    (step,) = worker.checked(worker.ledger)
    assert (step.cause, SECRET in str(step)) == (Cause.CHECK, False)


def test_a_child_that_cannot_be_made_is_a_result(worker: Worker) -> None:
    def make() -> ScriptedChild:
        raise ValueError(SECRET)

    worker.loop.make = make
    (step,) = worker.checked(worker.ledger)
    assert (step.cause, SECRET in str(step)) == (Cause.CHECK, False)


def test_steps_before_an_abnormal_end_are_stored(worker: Worker) -> None:
    def script(_plan: Mapping[str, object], side: ChildSide) -> int:
        side.send({"type": "opening", "source": "ledger"})
        side.send(a_step())
        return 3

    worker.script = script
    first, last = worker.checked(worker.ledger)
    assert first.state is StepState.OK
    assert (last.source, last.cause) == ("ledger", Cause.CHECK)
    assert "exit code 3" in last.seen


def test_a_deleted_resource_is_not_checked(worker: Worker) -> None:
    with worker.unit.begin(worker.tenant) as tx:
        tx.checks.request(worker.ledger.uid, subject="1")
        assert tx.resources.remove(worker.ledger, expected_rv=worker.ledger.rv)
    assert worker.loop.step() == 0


def test_a_lease_outlasts_every_check(worker: Worker) -> None:
    assert worker.loop.limit < CHECK_LEASE / 1.5


@pytest.mark.case("R60")
def test_a_rotated_secret_is_checked_within_a_minute(worker: Worker) -> None:
    clock, wait = ManualClock(), timedelta(seconds=29)
    worker.loop = replace(worker.loop, rhythm=Rhythm(clock=clock, wake=Latch()))
    worker.checked(worker.ledger)
    clock.advance(wait)
    assert worker.loop.step() == 0
    worker.secrets.value = "another-secret"
    clock.advance(wait)
    assert worker.loop.step() == 1
    assert worker.frames[-1]["secrets"] == {"ledger/password": "another-secret"}
    clock.advance(wait * 2)
    assert worker.loop.step() == 0
    worker.secrets.value = None
    clock.advance(wait * 2)
    assert worker.loop.step() == 1
    (step,) = worker.stored(worker.ledger).result.steps  # type: ignore[union-attr]  # just checked
    assert (step.name, step.cause) == ("secret", Cause.CREDENTIALS)
    worker.secrets.value = SECRET
    clock.advance(wait * 2)
    assert worker.loop.step() == 1


def test_a_rotated_secret_of_a_deleted_connection_is_forgotten(worker: Worker) -> None:
    clock = ManualClock()
    worker.loop = replace(worker.loop, rhythm=Rhythm(clock=clock, wake=Latch()))
    worker.checked(worker.ledger)
    with worker.unit.begin(worker.tenant) as tx:
        assert tx.resources.remove(worker.ledger, expected_rv=worker.ledger.rv)
    worker.secrets.value = "another-secret"
    clock.advance(timedelta(minutes=1))
    assert worker.loop.step() == 0
