"""What a child leaves is stored by its supervisor: order, refusals, and a store that is away."""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from datarecs_application.child_frames import FINISHED, READY
from datarecs_application.ports.outside import BlobInfo
from datarecs_core.catalog.layout import differences_part, report, run_document, run_prefix
from datarecs_core.errors.storage import BlobStoreUnavailableError
from datarecs_core.runs.model import Run, RunStatus
from datarecs_core.runs.result_file import ARTEFACTS, NAME
from datarecs_core.values import RunId, TenantId
from datarecs_memory.blob_store import MemoryBlobStore, MemoryBlobStores
from datarecs_postgres.run_queue import QueueLauncher
from datarecs_testing.builders import A_TENANT, an_id
from datarecs_testing.platform import RunPlatform
from datarecs_testing.scripted_child import ChildSide, Script

KeysOf = Callable[[TenantId, RunId], list[str]]
COMPLETED = {"outcome": "COMPLETED", "result": "MATCHED"}
CRASHED = {
    "outcome": "ERRORED",
    "nodes": [{"name": "comparison", "code": "CRASHED", "message": "m"}],
}


def part(tenant: TenantId, run: RunId, number: int) -> str:
    return differences_part(tenant, run, "z", bucket=number)


def evidence(tenant: TenantId, run: RunId) -> list[str]:
    return [run_document(tenant, run), part(tenant, run, 1), part(tenant, run, 0)]


def leaving(keys: KeysOf, end: Mapping[str, object] = COMPLETED) -> Script:
    """A child that leaves files under these keys, and then its result."""

    def script(_hello: Mapping[str, object], side: ChildSide) -> int:
        side.send({"type": READY})
        while (frame := side.receive()) is not None and frame.get("type") != "stop":
            folder = Path(str(frame["folder"]))
            tenant, run = UUID(str(frame["tenant_id"])), UUID(str(frame["run_id"]))
            for key in keys(TenantId(tenant), RunId(run)):
                path = folder / ARTEFACTS / key
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(f"attempt {frame['attempt']}", encoding="utf-8")
            ids = {name: frame[name] for name in ("run_id", "attempt", "lease_epoch")}
            result = {"schema": 1, **ids, **end}
            (folder / NAME).write_text(json.dumps(result), encoding="utf-8")
            side.send({"type": FINISHED})
        return 0

    return script


class Recording(MemoryBlobStores):
    """Remembers what was stored, in order; may be away at first."""

    def __init__(self, platform: RunPlatform, *, away: timedelta = timedelta(0)) -> None:
        super().__init__(platform.clock)
        self.platform, self.away = platform, away
        self.began: float | None = None
        self.stored: list[str] = []
        self.when_away: Callable[[], object] = platform.heartbeat.beat

    def of(self, tenant: UUID) -> MemoryBlobStore:
        store = super().of(tenant)
        put_file = store.put_file

        def recorded(key: str, path: str) -> BlobInfo:
            now = self.platform.clock.monotonic()
            self.began = now if self.began is None else self.began
            if now - self.began < self.away.total_seconds():
                self.when_away()
                raise BlobStoreUnavailableError(where="store", cause="it does not answer")
            self.stored.append(key)
            return put_file(key, path)

        store.put_file = recorded  # type: ignore[method-assign]  # of this instance
        return store


def platform(folder: Path, script: Script, *, away: timedelta = timedelta(0)) -> RunPlatform:
    here = RunPlatform(folder=folder, launcher=QueueLauncher(), script=script)
    here.blobs = Recording(here, away=away)
    return here


def supervised(here: RunPlatform) -> Run:
    run = here.trigger()
    here.launching.step()
    here.supervise()
    here.close_ended(run)
    return here.now(run)


def stored(here: RunPlatform) -> list[str]:
    assert isinstance(here.blobs, Recording)
    return here.blobs.stored


def test_the_document_is_stored_after_the_files_that_it_names(tmp_path: Path) -> None:
    here = platform(tmp_path, leaving(evidence))
    run = supervised(here)
    ids = run.tenant_id, run.run_id
    assert run.status is RunStatus.COMPLETED
    assert stored(here) == [part(*ids, 0), part(*ids, 1), run_document(*ids)]
    assert here.blobs.of(run.tenant_id).get(run_document(*ids)) == b"attempt 1"


def test_parts_of_an_earlier_attempt_are_not_read_as_parts_of_this_one(tmp_path: Path) -> None:
    here = platform(tmp_path, leaving(evidence))
    run = here.trigger()
    earlier = part(run.tenant_id, run.run_id, 2)
    here.blobs.of(run.tenant_id).put(earlier, b"an earlier attempt")
    here.launching.step()
    here.supervise()
    keys = [info.key for info in here.blobs.of(run.tenant_id).list(run_prefix(*_ids(run)))]
    assert sorted(keys) == sorted(evidence(*_ids(run)))


def _ids(run: Run) -> tuple[TenantId, RunId]:
    return run.tenant_id, run.run_id


def test_nothing_is_stored_of_an_attempt_that_failed(tmp_path: Path) -> None:
    here = platform(tmp_path, leaving(evidence, CRASHED))
    assert supervised(here).status is RunStatus.ERRORED
    assert stored(here) == []


@pytest.mark.parametrize(
    "foreign",
    [
        lambda tenant, _run: run_document(tenant, RunId(an_id())),
        lambda _tenant, run: run_document(A_TENANT, run),
        lambda tenant, run: report(tenant, run, "report.html"),
        lambda tenant, run: part(tenant, run, 0).replace("stage=z", "a b"),
    ],
)
def test_a_key_that_is_not_evidence_of_the_run_ends_the_attempt(
    tmp_path: Path, foreign: Callable[[TenantId, RunId], str]
) -> None:
    here = platform(tmp_path, leaving(lambda *ids: [*evidence(*ids), foreign(*ids)]))
    run = supervised(here)
    assert run.status is RunStatus.ERRORED
    assert run_document(*_ids(run)) not in stored(here)


def test_a_store_that_is_away_for_a_minute_delays_the_end(tmp_path: Path) -> None:
    here = platform(tmp_path, leaving(evidence), away=timedelta(minutes=1))
    run = supervised(here)
    assert run.status is RunStatus.COMPLETED
    assert stored(here)[-1] == run_document(*_ids(run))


def test_a_store_that_stays_away_is_the_error_of_the_run(tmp_path: Path) -> None:
    here = platform(tmp_path, leaving(evidence), away=timedelta(days=1))
    run = supervised(here)
    assert run.status is RunStatus.ERRORED
    assert run.error is not None
    assert "it does not answer" in run.error.message


def test_a_cancel_is_carried_out_while_the_store_is_away(tmp_path: Path) -> None:
    here = platform(tmp_path, leaving(evidence), away=timedelta(days=1))
    run = here.trigger()
    assert isinstance(here.blobs, Recording)

    def cancel() -> None:
        here.cancel(run)
        here.heartbeat.beat()

    here.blobs.when_away = cancel
    here.launching.step()
    here.supervise()
    here.close_ended(run)
    assert here.now(run).status is RunStatus.CANCELLED
