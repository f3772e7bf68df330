"""The run path in one process: memory twins, real loops, a scripted child. No socket, no sleep.

A separate module because use cases, loops and supervision are tested together; a test advances the
clock, runs single steps, and reads rows and events.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from datarecs_application.assignments import Prepared, Preparing
from datarecs_application.attempt_ends import EndReporter
from datarecs_application.launching import NO_REMOTE
from datarecs_application.loops.heartbeat import Heartbeat
from datarecs_application.loops.launching import Launching
from datarecs_application.loops.polling import Rhythm
from datarecs_application.loops.rescue import Rescue
from datarecs_application.loops.timing import Timing
from datarecs_application.observing import ObservedUnit
from datarecs_application.ports.comparing import Connector
from datarecs_application.ports.execution import Launcher, RemoteLauncher
from datarecs_application.ports.state import HistoryEntry, LeasedRun
from datarecs_application.runs import EventRecord, record_end, request_cancel, trigger_run
from datarecs_application.supervision import Limits, Supervising
from datarecs_application.warm_child import WarmChild
from datarecs_core.comparison.planning.scan import Pin
from datarecs_core.jobs.definition import ReconciliationJob, Source, Stage
from datarecs_core.jobs.vocabulary import SourceKind, StageType
from datarecs_core.resources.connection import Connection
from datarecs_core.runs.model import Run
from datarecs_core.runs.repairing import recorded_end
from datarecs_core.runs.result_file import ARTEFACTS, MAX_BYTES, NAME
from datarecs_core.runs.start import TriggerRun
from datarecs_core.values import EventId, JobId, RunId
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_memory.queries import MemoryQueries
from datarecs_memory.store import MemoryStore
from datarecs_memory.unit_of_work import MemoryUnitOfWork
from datarecs_runtime.clock import Latch
from datarecs_testing.builders import an_id
from datarecs_testing.clock import FixedIds, ManualClock
from datarecs_testing.metrics import RecordedMetrics
from datarecs_testing.scripted_child import ChildSide, ScriptedChild
from datarecs_testing.signals import Signals
from datarecs_testing.spans import RecordedTracing

TTL = timedelta(seconds=60)


class FolderScratch:
    """Port Scratch below a test's own folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def make(self, leased: LeasedRun) -> str:
        folder = self._root / f"{leased.run_id}-{leased.lease_epoch}"
        folder.mkdir(parents=True)
        return str(folder)

    def write_secret(self, folder: str, data: Mapping[str, str]) -> str:
        path = Path(folder) / "credentials.json"
        path.write_text(json.dumps(dict(data)), encoding="utf-8")
        return str(path)

    def read_result(self, folder: str) -> bytes | None:
        path = Path(folder) / NAME
        return path.read_bytes()[: MAX_BYTES + 1] if path.exists() else None

    def artefacts(self, folder: str) -> Mapping[str, str]:
        root = Path(folder) / ARTEFACTS
        files = (path for path in root.rglob("*") if path.is_file())
        return {path.relative_to(root).as_posix(): str(path) for path in files}

    def remove(self, folder: str) -> None:
        """Stored, so that a test can read it."""


class OneJob:
    """Port Decode: every stored spec is the same small job."""

    def job(self, name: str, spec: Mapping[str, object]) -> ReconciliationJob:  # noqa: ARG002  the port's shape
        sources = tuple(
            Source(name=source, kind=SourceKind.CSV, path=f"{source}.csv") for source in "ab"
        )
        return ReconciliationJob(
            name=name, sources=sources, stages=(Stage(name="counts", type=StageType.COUNTS),)
        )

    def connection(self, name: str, spec: Mapping[str, object]) -> Connection:
        raise LookupError(f"the job has no connection {name} ({len(spec)} fields)")


class NoSecrets:
    """Port SecretStore of a platform without any secret."""

    def resolve(self, reference: str, *, tenant: object, uses: object) -> str:
        raise LookupError(f"{tenant} has no {reference} for {uses}")

    def seal(self, plain: bytes, *, context: Mapping[str, str]) -> bytes:
        raise LookupError(f"nothing to seal {len(plain)} bytes with ({len(context)})")

    def open(self, sealed: bytes, *, context: Mapping[str, str]) -> bytes:
        raise LookupError(f"nothing to open {len(sealed)} bytes with ({len(context)})")


class ScriptedPreparing(Preparing):
    """Pins nothing: the script reads no source."""

    def pin(self, prepared: Prepared, held: ExitStack) -> dict[str, Pin]:  # noqa: ARG002  the base's shape
        return {}


def _connect(source: Source, connection: object, secrets: object) -> Connector:
    raise LookupError(f"{source.name} is not opened here ({connection}, {secrets})")


@dataclass(kw_only=True)
class RunPlatform:
    """One tenant's platform; every loop is stepped by the test."""

    folder: Path
    launcher: Launcher
    remote: RemoteLauncher = NO_REMOTE
    script: Callable[[Mapping[str, object], ChildSide], int]
    drain: timedelta = timedelta(0)
    clock: ManualClock = field(default_factory=lambda: ManualClock(by_itself=True))
    ids: FixedIds = field(default_factory=FixedIds)
    metrics: RecordedMetrics = field(default_factory=RecordedMetrics)
    signals: Signals = field(default_factory=Signals)
    tracing: RecordedTracing = field(default_factory=RecordedTracing)

    def __post_init__(self) -> None:
        self.store = MemoryStore(self.clock, self.ids)
        self.tenant = self.store.create_tenant()
        self.unit = ObservedUnit(
            unit=MemoryUnitOfWork(self.store),
            metrics=self.metrics,
            clock=self.clock,
            tracing=self.tracing,
        )
        self.finder = MemoryWorkFinder(self.store, lease_ttl=TTL)
        self.blobs = MemoryBlobStores(self.clock)
        self.queries = MemoryQueries(self.store)
        rhythm = Rhythm(clock=self.clock, wake=Latch())
        self.launching = Launching(
            unit=self.unit,
            finder=self.finder,
            launcher=self.launcher,
            remote=self.remote,
            ids=self.ids,
            rhythm=rhythm,
            jitter=lambda: 0.5,
        )
        self.timing = Timing(
            unit=self.unit,
            finder=self.finder,
            launcher=self.launcher,
            remote=self.remote,
            ids=self.ids,
            rhythm=rhythm,
            jitter=lambda: 0.5,
        )
        self.rescue = Rescue(
            unit=self.unit, finder=self.finder, ids=self.ids, rhythm=rhythm, jitter=lambda: 0.5
        )
        self.heartbeat = Heartbeat(
            finder=self.finder, clock=self.clock, metrics=self.metrics, every=TTL / 3
        )
        self.stop = Latch()

    def trigger(self, **fields: object) -> Run:
        command = TriggerRun(
            tenant_id=self.tenant,
            run_id=RunId(an_id()),
            job_id=JobId(an_id()),
            job_name="ledger-vs-bank",
            job_generation=1,
            spec_hash="sha256:" + 64 * "0",
            spec={"execution": {"retry_on": fields.pop("retry_on", [])}},
            triggered_by="u-7",
            **fields,  # type: ignore[arg-type]  # fields of TriggerRun
        )
        with self.unit.begin(self.tenant, feed=8) as tx:
            return trigger_run(tx, command)

    def cancel(self, run: Run) -> None:
        with self.unit.begin(self.tenant, feed=8) as tx:
            request_cancel(tx, run.run_id, by="u-8", reason=None, fact_id=EventId(an_id()))

    def supervisor(self, reporter: EndReporter | None = None) -> Supervising:
        """A worker slot; `supervise` lets it take one run."""
        preparing = ScriptedPreparing(
            decode=OneJob(),
            secrets=NoSecrets(),
            connect=_connect,
            break_key=lambda _: "00" * 32,
        )
        return Supervising(
            name="slot_0",
            executor="test",
            unit=self.unit,
            finder=self.finder,
            blobs=self.blobs,
            heartbeat=self.heartbeat,
            preparing=preparing,
            scratch=FolderScratch(self.folder),
            child=WarmChild(make=lambda: ScriptedChild(self.script), hello=b"{}", clock=self.clock),
            clock=self.clock,
            ids=self.ids,
            metrics=self.metrics,
            jitter=lambda: 0.5,
            wake=Latch(),
            limits=Limits(memory_bytes=1_000_000, drain=self.drain),
            signals=self.signals,
            tracing=self.tracing,
            reporter=reporter,
        )

    def supervise(self) -> bool:
        """One run, from lease to end, on this thread; False if there was none to lease."""
        return self.supervisor().step(self.stop)

    def close_ended(self, run: Run) -> None:
        """Handle the recorded raw outcome as the controller's consumer does; may be repeated."""
        for entry in self.history(run):
            end = recorded_end(run, wire_type=entry.type, data=entry.data)
            if end is not None:
                event = EventRecord(
                    event_id=entry.event_id,
                    type=entry.type,
                    source=entry.source,
                    time=entry.time,
                    data=entry.data,
                )
                with self.unit.begin(self.tenant, feed=8) as tx:
                    record_end(tx, end, event)

    def now(self, run: Run) -> Run:
        current = self.queries.run(self.tenant, run.run_id)
        assert current is not None
        return current

    def history(self, run: Run) -> list[HistoryEntry]:
        return self.queries.run_events(self.tenant, run.run_id, after=0, limit=1000)

    def event_names(self, run: Run) -> list[str]:
        """Names of the run's history, without their prefix."""
        return [entry.type.rsplit("reconciliation.", 1)[-1] for entry in self.history(run)]
