"""Slots of a capture-worker over a scripted child and a control that records what is reported."""

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from datarecs_application.capturing.child_work import ChildWork
from datarecs_application.capturing.renewals import FENCE, WorkRenewals
from datarecs_application.capturing.source_work import (
    OUTCOME,
    SourceOutcome,
    WorkReport,
    failure_frame,
)
from datarecs_application.capturing.working import WorkSlot, kinds_of_slots
from datarecs_application.errors import StoreUnavailableError
from datarecs_application.loops.polling import Rhythm
from datarecs_application.ports.capturing import Assignment, ClaimRequest, Claims, Renewed
from datarecs_connectors.errors import (
    ConnectionFailedError,
    LoginRefusedError,
    SnapshotLostError,
    SourceError,
)
from datarecs_core.access.references import SecretUse
from datarecs_core.captures.items import HEARTBEAT, CaptureJobId, RetryClass, WorkKind, WorkToken
from datarecs_core.captures.outcomes import (
    ConnectorPlanned,
    Finalize,
    GroupCaptured,
    Outcome,
    WorkFailed,
    WorkReleased,
    WorkStopped,
)
from datarecs_core.captures.request import ObjectName
from datarecs_core.captures.source_facts import CapturedFile, Sidecar, SourceObjects
from datarecs_core.documents import to_document
from datarecs_core.errors.captures import LeaseLostError, OutcomeRefusedError
from datarecs_core.errors.process import ChildStartError
from datarecs_core.errors.security import SecretUnavailableError
from datarecs_core.hashing import JsonValue, canonical_json, sha256_hex
from datarecs_core.resources.connection import Connection, ConnectionType, PostgresConfig
from datarecs_runtime.clock import Latch, SystemClock
from datarecs_runtime.scratch import ReportFolder
from datarecs_testing.builders import A_TENANT
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.metrics import RecordedMetrics
from datarecs_testing.scripted_child import ChildSide, Script, ScriptedChild

SECRET = "canary-4711"
LEDGER = Connection(
    type=ConnectionType.POSTGRES,
    config=PostgresConfig(host="db.example.com", database="d", user="u"),
    auth={"password": "env:LEDGER"},
)
PLANNED = ConnectorPlanned(
    objects=SourceObjects(tables=(ObjectName(namespace=("default",), name="orders"),), views=())
)
INDEX = b"an index"
TOKEN = WorkToken(tenant_id=A_TENANT, item_id=CaptureJobId(FixedIds.nth(7)), epoch=1)


class Secrets:
    """Port SecretStore, as far as captures use it."""

    value: str | None = SECRET

    def resolve(self, reference: str, *, tenant: UUID, uses: Collection[SecretUse]) -> str:
        assert tenant == A_TENANT
        assert [str(use) for use in uses] == ["postgres:db.example.com"]
        if self.value is None:
            raise SecretUnavailableError(reference=reference, cause="it is not set")
        return self.value

    def seal(self, plain: bytes, *, context: Mapping[str, str]) -> bytes:
        raise NotImplementedError

    def open(self, sealed: bytes, *, context: Mapping[str, str]) -> bytes:
        raise NotImplementedError


@dataclass
class Control:
    """Port CaptureControl: one item at a time, and everything that a worker reports."""

    kind: WorkKind = WorkKind.PLAN_CONNECTOR
    deadline_seconds: float = 3600
    renewed: Renewed = field(default_factory=lambda: Renewed(is_current=True))
    tokens: list[WorkToken] = field(default_factory=lambda: [TOKEN])
    claims: list[ClaimRequest] = field(default_factory=list)
    ends: list[Outcome] = field(default_factory=list)
    sidecars: list[tuple[str, str, bytes]] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    """Raised by the next calls of `end`."""
    renewals: int = 0
    is_away: bool = False

    def claim(self, request: ClaimRequest) -> Claims:
        self.claims.append(request)
        return Claims(tokens=[self.tokens.pop()] if self.tokens else [])

    def begin(self, token: WorkToken) -> Assignment | None:
        frame: Mapping[str, JsonValue] = {
            "kind": self.kind.value,
            "name": "ledger",
            "connection": to_document(LEDGER),
        }
        return Assignment(
            token=token, kind=self.kind, frame=frame, deadline_seconds=self.deadline_seconds
        )

    def renew(self, tokens: Collection[WorkToken]) -> Mapping[WorkToken, Renewed]:
        self.renewals += 1
        if self.is_away:
            raise StoreUnavailableError(cause="no route")
        return dict.fromkeys(tokens, self.renewed)

    def put_sidecar(self, token: WorkToken, path: str, sha256: str, content: bytes) -> None:
        assert token == TOKEN
        self.sidecars.append((path, sha256, content))

    def end(self, token: WorkToken, outcome: Outcome) -> None:
        assert token == TOKEN
        if self.failures:
            raise self.failures.pop(0)
        self.ends.append(outcome)


class Worker:
    """One slot of a worker."""

    def __init__(self, folder: Path) -> None:
        self.control, self.secrets, self.metrics = Control(), Secrets(), RecordedMetrics()
        self.folder, self.frames = folder / "child-0", list[Mapping[str, Any]]()
        self.script: Script = self.reporting(PLANNED)
        self.clock: SystemClock | ManualClock = SystemClock()
        self.stop, self.memory, self.start_error = Latch(), 2**40, False
        self.started = threading.Event()

    def reporting(
        self, outcome: SourceOutcome, *, files: Mapping[str, bytes] | None = None
    ) -> Script:
        document = canonical_json(to_document(WorkReport(outcome=outcome)))
        return self.leaving(document, files=files)

    def leaving(self, document: bytes, *, files: Mapping[str, bytes] | None = None) -> Script:
        def script(_plan: Mapping[str, object], side: ChildSide) -> int:
            for name, content in {OUTCOME: document, **(files or {})}.items():
                (self.folder / name).write_bytes(content)
            side.send({"type": "finished"})
            return 0

        return script

    def slot(self) -> WorkSlot:
        renewals = WorkRenewals(
            control=self.control, clock=self.clock, metrics=self.metrics, wake=Latch()
        )
        child = ChildWork(
            make=self.make,
            folder=ReportFolder(self.folder),
            secrets=self.secrets,
            surroundings={"roots": []},
            clock=self.clock,
            memory_bytes=self.memory,
        )
        slot = WorkSlot(
            name="slot_0",
            control=self.control,
            renewals=renewals,
            request=ClaimRequest(executor="w", kinds=tuple(WorkKind)),
            child=child,
            metrics=self.metrics,
            rhythm=Rhythm(clock=self.clock, wake=Latch()),
        )
        slot.use(self.stop)
        return slot

    def make(self) -> ScriptedChild:
        if self.start_error:
            raise ChildStartError(program="the capture", cause="no memory")

        def run(plan: Mapping[str, object], side: ChildSide) -> int:
            self.frames.append(plan)
            self.started.set()
            return self.script(plan, side)

        return ScriptedChild(run)

    def outcome(self) -> Outcome:
        assert self.slot().step() == 1
        (outcome,) = self.control.ends
        return outcome

    def failure(self) -> WorkFailed:
        outcome = self.outcome()
        assert isinstance(outcome, WorkFailed)
        return outcome


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    return Worker(tmp_path)


def endless(_plan: Mapping[str, object], side: ChildSide) -> int:
    while side.receive() is not None:
        pass
    return 0


def failing(error: Exception, **changes: object) -> Script:
    def script(_plan: Mapping[str, object], side: ChildSide) -> int:
        side.send({**failure_frame(error), **changes})
        return 0

    return script


def test_an_item_is_claimed_done_and_reported(worker: Worker) -> None:
    assert worker.outcome() == PLANNED
    assert worker.frames[0]["secrets"] == {"password": SECRET}
    assert worker.frames[0]["directory"] == str(worker.folder)
    assert list(worker.folder.iterdir()) == []
    assert worker.slot().step() == 0
    assert worker.metrics.total("queue_claims_total", result="leased") == 1
    assert worker.metrics.total("queue_claims_total", result="empty") == 1
    assert worker.metrics.times("queue_claim_seconds") == 2
    assert worker.metrics.times("capture_job_seconds", kind="PLAN_CONNECTOR") == 1


def test_a_finalizer_has_no_child(worker: Worker) -> None:
    worker.control.kind = WorkKind.FINALIZE_SNAPSHOT_CAPTURE
    assert worker.outcome() == Finalize()
    assert worker.frames == []


def captured(sidecar: Sidecar | None) -> GroupCaptured:
    file = CapturedFile(
        path="a.parquet", rows=1, stored_rows=1, columns=(), is_complete=True, sidecar=sidecar
    )
    return GroupCaptured(files=(file,))


def an_index(content: bytes = INDEX) -> Sidecar:
    sha = sha256_hex(content)
    return Sidecar(sha256=sha, size_bytes=len(content), columns=("id",), rows=1)


def test_indexes_are_stored_before_the_outcome(worker: Worker) -> None:
    index = an_index()
    worker.script = worker.reporting(captured(index), files={f"{index.sha256}.parquet": INDEX})
    assert isinstance(worker.outcome(), GroupCaptured)
    assert worker.control.sidecars == [("a.parquet", index.sha256, INDEX)]


@pytest.mark.parametrize("content", [None, b"another index"])
def test_an_index_that_does_not_fit_is_refused(worker: Worker, content: bytes | None) -> None:
    index = an_index()
    files = {} if content is None else {f"{index.sha256}.parquet": content}
    worker.script = worker.reporting(captured(index), files=files)
    failure = worker.failure()
    assert (failure.code, failure.retry) == ("OUTCOME_REFUSED", RetryClass.TERMINAL)
    assert worker.control.sidecars == []


def test_an_index_with_a_path_for_a_name_is_never_opened(worker: Worker, tmp_path: Path) -> None:
    (tmp_path / "secret.parquet").write_bytes(INDEX)
    index = Sidecar(sha256="../secret", size_bytes=8, columns=(), rows=0)
    worker.script = worker.reporting(captured(index))
    assert worker.failure().code == "OUTCOME_REFUSED"
    assert worker.control.sidecars == []


def test_links_of_a_child_are_not_followed(worker: Worker, tmp_path: Path) -> None:
    (tmp_path / "outcome").write_bytes(canonical_json(to_document(WorkReport(outcome=PLANNED))))

    def script(_plan: Mapping[str, object], side: ChildSide) -> int:
        (worker.folder / OUTCOME).symlink_to(tmp_path / "outcome")
        side.send({"type": "finished"})
        return 0

    worker.script = script
    assert worker.failure().code == "OUTCOME_REFUSED"


@pytest.mark.parametrize(
    "document",
    [
        b"no json",
        b'{"outcome": {"$type": "WorkReleased"}}',
        b'{"outcome": {"$type": "Finalize"}}',
        b"[" * 100_000,
        b'{"outcome": {"$type": "GroupCaptured", "files": 1}}',
    ],
)
def test_a_broken_outcome_is_refused(worker: Worker, document: bytes) -> None:
    worker.script = worker.leaving(document)
    failure = worker.failure()
    assert (failure.code, failure.retry) == ("OUTCOME_REFUSED", RetryClass.TERMINAL)


@pytest.mark.parametrize(
    "frame",
    [
        {"type": "another"},
        {"type": "failed"},
        {"type": "failed", "code": "X", "message": "m", "retry": "DEPENDENCY_NOT_READY"},
        {"type": "failed", "code": "X", "message": "m", "retry": "TRANSIENT", "retry_after": "a"},
    ],
)
def test_a_broken_frame_is_refused(worker: Worker, frame: Mapping[str, object]) -> None:
    def script(_plan: Mapping[str, object], side: ChildSide) -> int:
        side.send(frame)
        return 0

    worker.script = script
    assert worker.failure().code == "OUTCOME_REFUSED"


@pytest.mark.parametrize(
    ("error", "code", "retry"),
    [
        (ConnectionFailedError("s", "it is down"), "CONNECTION_FAILED", RetryClass.TRANSIENT),
        (LoginRefusedError("s", "no such user"), "CONNECTION_FAILED", RetryClass.TERMINAL),
        (SnapshotLostError("s", "gone"), "SNAPSHOT_LOST", RetryClass.TERMINAL),
        (MemoryError(), "OUT_OF_MEMORY", RetryClass.TERMINAL),
        (ZeroDivisionError("1/0 of Alice"), "WORK_CRASHED", RetryClass.TRANSIENT),
    ],
)
def test_a_failure_of_the_source_says_whether_another_attempt_helps(
    worker: Worker, error: Exception, code: str, retry: RetryClass
) -> None:
    worker.script = failing(error)
    failure = worker.failure()
    assert (failure.code, failure.retry) == (code, retry)
    assert "Alice" not in failure.message


@pytest.mark.case("Q17")
def test_a_busy_source_says_when_to_come_again_and_a_refusing_one_is_final(worker: Worker) -> None:
    class BusyError(ConnectionFailedError):
        retry_after = timedelta(seconds=40)

    class ForbiddenError(SourceError):
        code = LoginRefusedError.code
        login_refused = True

    worker.script = failing(BusyError("s", "503"))
    assert worker.failure().retry_after == timedelta(seconds=40)
    worker.control.tokens, worker.control.ends = [TOKEN], []
    worker.script = failing(BusyError("s", "503"), retry_after=1e300)
    assert worker.failure().retry_after == timedelta(minutes=15)
    worker.control.tokens, worker.control.ends = [TOKEN], []
    worker.script = failing(ForbiddenError("s", "403"))
    assert worker.failure().retry is RetryClass.TERMINAL


def test_a_failure_shows_no_secret_and_is_one_line(worker: Worker) -> None:
    worker.script = failing(
        ConnectionFailedError("s", f"bad password\n'{SECRET}'" + "x" * 1_960 + SECRET)
    )
    failure = worker.failure()
    assert "bad password '***'" in failure.message
    assert SECRET[:4] not in failure.message
    assert len(failure.message) <= 2_000


def test_an_unknown_code_is_not_repeated(worker: Worker) -> None:
    worker.script = failing(ConnectionFailedError("s", "m"), code="<script>")
    assert worker.failure().code == "WORK_CRASHED"


def test_a_secret_that_cannot_be_used_starts_no_child(worker: Worker) -> None:
    worker.secrets.value = None
    assert worker.failure().code == "SECRET_UNAVAILABLE"
    assert worker.frames == []


def test_a_child_that_does_not_start_is_tried_again(worker: Worker) -> None:
    worker.start_error = True
    assert worker.failure().retry is RetryClass.TRANSIENT


def test_a_child_that_dies_is_tried_again_with_its_end(worker: Worker) -> None:
    worker.script = lambda _plan, side: side.end_by(11)
    failure = worker.failure()
    assert (failure.code, failure.retry) == ("WORK_CRASHED", RetryClass.TRANSIENT)
    assert "signal 11" in failure.message


def test_too_much_memory_is_final_and_names_the_setting(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScriptedChild, "memory_bytes", lambda _: 2**30)
    worker.script, worker.memory = endless, 2**29
    failure = worker.failure()
    assert (failure.code, failure.retry) == ("OUT_OF_MEMORY", RetryClass.TERMINAL)
    assert "512 MiB" in failure.message
    assert "DATARECS_WORKER__CHILD_MEMORY_MB" in failure.message


def test_the_deadline_ends_the_child(worker: Worker) -> None:
    worker.script, worker.control.deadline_seconds = endless, 0.05
    failure = worker.failure()
    assert (failure.code, failure.retry) == ("WORK_DEADLINE_EXCEEDED", RetryClass.TRANSIENT)


@pytest.mark.case("Q21")
def test_a_cancel_ends_the_child_and_the_worker_says_so(worker: Worker) -> None:
    worker.script, worker.control.renewed = endless, Renewed(is_current=True, cancel_requested=True)
    slot = worker.slot()
    with beating(worker, slot.renewals):
        slot.step()
    assert worker.control.ends == [WorkStopped()]


def test_a_lost_lease_ends_the_child_and_nothing_is_reported(worker: Worker) -> None:
    worker.script, worker.control.renewed = endless, Renewed(is_current=False)
    slot = worker.slot()
    with beating(worker, slot.renewals):
        slot.step()
    assert worker.control.ends == []


class beating:  # noqa: N801  a context manager
    """Renews as soon as the child has started."""

    def __init__(self, worker: Worker, renewals: WorkRenewals) -> None:
        self._thread = threading.Thread(target=self._beat, args=(worker, renewals))

    def _beat(self, worker: Worker, renewals: WorkRenewals) -> None:
        assert worker.started.wait(30)
        renewals.beat()

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()


@pytest.mark.case("Q27")
def test_without_a_confirmation_the_work_ends_before_the_lease(worker: Worker) -> None:
    clock = ManualClock()
    worker.clock, worker.script = clock, endless
    slot = worker.slot()
    thread = threading.Thread(target=slot.step)
    thread.start()
    assert worker.started.wait(30)
    clock.advance(FENCE - timedelta(seconds=1))
    worker.control.is_away = True
    slot.renewals.beat()
    thread.join(0.5)
    assert thread.is_alive()
    clock.advance(timedelta(seconds=1))
    thread.join(30)
    assert not thread.is_alive()
    assert worker.control.ends == []


def test_renewals_go_on_until_the_last_slot_has_ended(worker: Worker) -> None:
    clock = ManualClock(by_itself=True)
    renewals = WorkRenewals(
        control=worker.control, clock=clock, metrics=worker.metrics, wake=Latch()
    )
    renewals.hold(TOKEN, confirmed_at=0)
    stop = Latch()
    stop.set()
    thread = threading.Thread(target=renewals.run, args=(stop,))
    thread.start()
    while worker.control.renewals < 3:
        thread.join(0.01)
    renewals.drop(TOKEN)
    thread.join(30)
    assert not thread.is_alive()
    assert HEARTBEAT < FENCE


def test_a_stop_waits_thirty_seconds_and_then_releases_the_work(worker: Worker) -> None:
    clock = ManualClock()
    worker.clock, worker.script = clock, endless
    worker.stop.set()
    thread = threading.Thread(target=worker.slot().step)
    thread.start()
    assert worker.started.wait(30)
    thread.join(0.5)
    assert thread.is_alive()
    clock.advance(timedelta(seconds=31))
    thread.join(30)
    assert worker.control.ends == [WorkReleased()]


def test_a_stopped_slot_claims_nothing(worker: Worker) -> None:
    worker.stop.set()
    worker.slot().run(worker.stop)
    assert worker.control.claims == []


@pytest.mark.case("Q18")
def test_a_report_is_repeated_while_the_store_is_away(worker: Worker) -> None:
    worker.clock = ManualClock(by_itself=True)
    worker.control.failures = [StoreUnavailableError(cause="no route")] * 3
    assert worker.outcome() == PLANNED
    assert worker.metrics.total("capture_repeats_total", cause="STORE_UNAVAILABLE") == 3


def test_a_report_is_repeated_until_the_lease_ends(worker: Worker) -> None:
    worker.clock = ManualClock(by_itself=True)
    worker.control.failures = [StoreUnavailableError(cause="no route") for _ in range(100)]
    assert worker.slot().step() == 1
    assert worker.control.ends == []
    assert worker.control.failures


def test_a_refused_outcome_fails_the_item_with_its_faults(worker: Worker) -> None:
    refused = OutcomeRefusedError(item_id=TOKEN.item_id, faults=["a file was not planned"])
    worker.control.failures = [refused]
    failure = worker.failure()
    assert (failure.code, failure.retry) == ("OUTCOME_REFUSED", RetryClass.TERMINAL)
    assert "a file was not planned" in failure.message


@pytest.mark.parametrize(
    "error", [LeaseLostError(item_id=TOKEN.item_id, epoch=1), RuntimeError("a defect")]
)
def test_an_item_that_cannot_be_reported_ends_quietly(worker: Worker, error: Exception) -> None:
    worker.control.failures = [error]
    assert worker.slot().step() == 1
    assert worker.control.ends == []
    worker.control.tokens = [TOKEN]
    assert worker.slot().step() == 1
    assert worker.control.ends == [PLANNED]


@pytest.mark.case("Q33")
def test_the_first_of_two_slots_takes_no_groups_of_files() -> None:
    first, *others = kinds_of_slots(tuple(WorkKind), slots=3)
    assert first == frozenset(WorkKind) - {WorkKind.EXEC_FILE_GROUP}
    assert others == [frozenset(WorkKind)] * 2
    assert kinds_of_slots(tuple(WorkKind), slots=1) == [frozenset(WorkKind)]
    assert kinds_of_slots(tuple(WorkKind), slots=0) == []
    assert kinds_of_slots((), slots=2) == []
    only = frozenset({WorkKind.EXEC_FILE_GROUP})
    assert kinds_of_slots(only, slots=2) == [only, only]


NOT_UTF8 = "a name \udcff"


def test_a_text_that_cannot_be_written_is_not_tried_again(worker: Worker) -> None:
    with pytest.raises(UnicodeEncodeError) as raised:
        NOT_UTF8.encode()
    worker.script = failing(raised.value)
    failure = worker.failure()
    assert (failure.code, failure.retry) == ("WORK_CRASHED", RetryClass.TERMINAL)
    assert "UnicodeEncodeError" in failure.message
    assert "surrogates not allowed" in failure.message


def test_a_failure_can_quote_a_name_that_is_not_utf8() -> None:
    error = SecretUnavailableError(reference=NOT_UTF8, cause="it is not set")
    frame = failure_frame(error)
    assert r"\udcff" in str(frame["message"])
    canonical_json(frame)  # type: ignore[arg-type]  # a frame is JSON
