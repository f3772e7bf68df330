"""The child as a process: what it leaves, what it never gets, and that it blocks nothing."""

import os
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from uuid import UUID

import psutil  # type: ignore[import-untyped]  # publishes no types
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datarecs_application.capturing.child_work import ChildWork, WorkWatch
from datarecs_application.capturing.renewals import WorkRenewals
from datarecs_application.ports.capturing import Assignment, Renewed
from datarecs_application.ports.supervising import ChildProcess
from datarecs_capture_worker.settings import Settings
from datarecs_capture_worker.slots import CHILD, child_template, enabled_kinds
from datarecs_core.access.references import SecretUse
from datarecs_core.captures.items import HEARTBEAT, LEASE, CaptureJobId, WorkKind, WorkToken
from datarecs_core.captures.outcomes import ConnectorPlanned, WorkFailed, WorkStopped
from datarecs_core.captures.request import CaptureScope
from datarecs_core.documents import to_document
from datarecs_core.egress.addresses import Profile
from datarecs_core.resources.connection import Connection, ConnectionType, FilesConfig
from datarecs_runtime.blob_section import Blob
from datarecs_runtime.capture_sections import CaptureSlots, Enabled, Executor
from datarecs_runtime.child import PipedChild, SpawnedChild
from datarecs_runtime.child_surroundings import surroundings_frame
from datarecs_runtime.clock import Latch, SystemClock
from datarecs_runtime.forked_child import ChildTemplate
from datarecs_runtime.scratch import ReportFolder, ScratchFolder
from datarecs_runtime.sections import Egress, Files, Secrets
from datarecs_testing.builders import A_TENANT
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.metrics import RecordedMetrics

TOKEN = WorkToken(tenant_id=A_TENANT, item_id=CaptureJobId(FixedIds.nth(7)), epoch=1)
BUSY = "import re; re.match(r'(a+)+$', 'a' * 64 + 'b')"
"""Never ends, and never releases the interpreter."""
Forks = Callable[[], ChildProcess]


class NoSecrets:
    """Port SecretStore of a connection without secrets."""

    def resolve(self, reference: str, *, tenant: UUID, uses: Collection[SecretUse]) -> str:
        raise NotImplementedError

    def seal(self, plain: bytes, *, context: Mapping[str, str]) -> bytes:
        raise NotImplementedError

    def open(self, sealed: bytes, *, context: Mapping[str, str]) -> bytes:
        raise NotImplementedError


class Confirming:
    """The part of CaptureControl that renews."""

    cancel_requested = False

    def renew(self, tokens: Collection[WorkToken]) -> Mapping[WorkToken, Renewed]:
        answer = Renewed(is_current=True, cancel_requested=self.cancel_requested)
        return dict.fromkeys(tokens, answer)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChildTemplate]:
    template = child_template(ScratchFolder(tmp_path_factory.mktemp("template")))
    yield template
    template.close()


@pytest.fixture
def forks(template: ChildTemplate) -> Forks:
    return partial(PipedChild, CHILD, template.fork)


def work(folder: Path, make: Forks) -> ChildWork:
    files = folder / "data"
    settings = Settings.model_construct(
        profile=Profile.LOCAL,
        worker=CaptureSlots(scratch_dir=folder / "scratch"),
        blob=Blob(url=(folder / "blobs").as_uri()),
        files=Files(roots=(files,), owner=A_TENANT),
        egress=Egress(),
        secrets=Secrets(),
    )
    child = folder / "scratch" / "child-0"
    return ChildWork(
        make=make,
        folder=ReportFolder(child),
        secrets=NoSecrets(),
        surroundings=surroundings_frame(settings, folder / "scratch"),
        clock=SystemClock(),
        memory_bytes=2**32,
    )


def assignment(root: str = ".") -> Assignment:
    connection = Connection(type=ConnectionType.FILES, config=FilesConfig(root=root))
    return Assignment(
        token=TOKEN,
        kind=WorkKind.PLAN_CONNECTOR,
        frame={
            "kind": "PLAN_CONNECTOR",
            "name": "lake",
            "connection": to_document(connection),
            "scope": to_document(CaptureScope()),
        },
        deadline_seconds=60,
    )


@pytest.fixture
def renewals() -> WorkRenewals:
    made = WorkRenewals(
        control=Confirming(),  # type: ignore[arg-type]  # it only renews
        clock=ManualClock(),
        metrics=RecordedMetrics(),
        wake=Latch(),
    )
    made.hold(TOKEN, confirmed_at=0)
    return made


def watch(renewals: WorkRenewals) -> WorkWatch:
    return WorkWatch(standing=lambda: renewals.standing(TOKEN), stop=Latch())


def test_the_child_lists_the_tables_of_a_folder(
    tmp_path: Path, renewals: WorkRenewals, forks: Forks
) -> None:
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "data" / "orders.parquet")
    renewals.hold(TOKEN, confirmed_at=SystemClock().monotonic())
    outcome = work(tmp_path, forks).outcome(assignment(), watch(renewals))
    assert isinstance(outcome, ConnectorPlanned)
    assert [one.name for one in outcome.objects.tables] == ["orders"]


def test_the_child_opens_nothing_outside_of_the_roots(
    tmp_path: Path, renewals: WorkRenewals, forks: Forks
) -> None:
    (tmp_path / "data").mkdir()
    renewals.hold(TOKEN, confirmed_at=SystemClock().monotonic())
    outcome = work(tmp_path, forks).outcome(assignment("../blobs"), watch(renewals))
    assert isinstance(outcome, WorkFailed)
    assert str(tmp_path) not in outcome.message


@pytest.mark.case("Q27")
def test_renewals_pass_while_the_work_holds_its_interpreter(
    tmp_path: Path, renewals: WorkRenewals
) -> None:
    child, clock, result = (
        work(tmp_path, lambda: SpawnedChild([sys.executable, "-c", BUSY], {})),
        renewals.clock,
        list[object](),
    )
    assert isinstance(clock, ManualClock)
    of_renewals = WorkWatch(standing=lambda: renewals.standing(TOKEN), stop=Latch())
    child = ChildWork(
        make=child.make,
        folder=child.folder,
        secrets=child.secrets,
        surroundings=child.surroundings,
        clock=clock,
        memory_bytes=child.memory_bytes,
    )
    longer = Assignment(
        token=TOKEN,
        kind=WorkKind.PLAN_CONNECTOR,
        frame=assignment().frame,
        deadline_seconds=3600,
    )
    thread = threading.Thread(target=lambda: result.append(child.outcome(longer, of_renewals)))
    thread.start()
    for _ in range(2 * LEASE // HEARTBEAT):
        clock.advance(HEARTBEAT)
        renewals.beat()
        thread.join(0.3)
        assert thread.is_alive()
        assert not renewals.standing(TOKEN).is_lost(clock.monotonic())
    assert clock.monotonic() == 2 * LEASE.total_seconds()
    Confirming.cancel_requested = True
    renewals.beat()
    thread.join(30)
    Confirming.cancel_requested = False
    assert result == [WorkStopped()]
    assert timedelta(seconds=clock.monotonic()) == 2 * LEASE


@pytest.mark.case("Q33")
@pytest.mark.parametrize(
    ("toggle", "kinds"),
    [
        ("planner", {WorkKind.PLAN_CONNECTOR}),
        ("default", {WorkKind.PLAN_TABLE, WorkKind.PLAN_VIEW}),
        ("snapshot_planner", {WorkKind.PLAN_SNAPSHOT}),
        ("file_group", {WorkKind.EXEC_FILE_GROUP}),
        ("snapshot_finalize", {WorkKind.FINALIZE_SNAPSHOT_CAPTURE}),
    ],
)
def test_each_toggle_removes_its_kinds(toggle: str, kinds: set[WorkKind]) -> None:
    executor = Executor.model_validate({toggle: Enabled(enabled=False)})
    assert set(WorkKind) - set(enabled_kinds(executor)) == kinds


def test_a_name_that_is_not_utf8_leaves_other_tables(
    tmp_path: Path, renewals: WorkRenewals, forks: Forks
) -> None:
    (tmp_path / "data").mkdir()
    for name in ("orders.parquet", os.fsdecode(b"bad\xff.parquet")):
        with (tmp_path / "data" / name).open("wb") as stream:
            pq.write_table(pa.table({"id": [1]}), stream)
    renewals.hold(TOKEN, confirmed_at=SystemClock().monotonic())
    outcome = work(tmp_path, forks).outcome(assignment(), watch(renewals))
    assert isinstance(outcome, ConnectorPlanned)
    assert [one.name for one in outcome.objects.tables] == ["orders"]
    assert outcome.objects.ignored == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists threads and descriptors")
def test_the_template_has_one_thread_no_setting_and_no_connection(
    tmp_path: Path, renewals: WorkRenewals, forks: Forks, template: ChildTemplate
) -> None:
    """A fork copies one thread, so a library with another one may stop for ever in the child."""
    (tmp_path / "data").mkdir()
    renewals.hold(TOKEN, confirmed_at=SystemClock().monotonic())
    assert isinstance(
        work(tmp_path, forks).outcome(assignment(), watch(renewals)), ConnectorPlanned
    )
    process = psutil.Process(template.pid())
    assert process.num_threads() == 1
    assert not [name for name in process.environ() if name.startswith("DATARECS")]
    assert process.net_connections("inet") == []
    assert process.open_files() == []
