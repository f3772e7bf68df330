"""A run as a workflow, in one process: the real loops and launcher, Argo's part played by a test.

The API server is the one in a dictionary. A test starts pods by `execute` and `finish`, and writes
the phases that Argo's controller would write.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from datarecs_application.attempt_ends import ResultUpload
from datarecs_application.loops.heartbeat import Heartbeat
from datarecs_application.ports.execution import RemoteLauncher
from datarecs_application.runs import carry_out
from datarecs_application.workflow_runs import (
    UNLIMITED,
    Assignment,
    WorkflowEnd,
    claim_run,
    report_workflow_end,
)
from datarecs_argo.kubernetes import Access, KubernetesApi
from datarecs_argo.launcher import ArgoLauncher
from datarecs_argo.pace import CreationPace
from datarecs_core.catalog.layout import result_file
from datarecs_core.errors.storage import BlobNotFoundError
from datarecs_core.runs.events import RunEnd
from datarecs_core.runs.facts import ProgressSeen
from datarecs_core.runs.model import Backend, Run
from datarecs_core.values import EventId
from datarecs_memory.lease_queue import MemoryWorkFinder
from datarecs_postgres.run_queue import QueueLauncher
from datarecs_testing.builders import an_id
from datarecs_testing.clock import ManualClock
from datarecs_testing.kubernetes import TOKEN, FakeKubernetes
from datarecs_testing.platform import RunPlatform
from datarecs_testing.scripted_child import Script

NAMESPACE = "recon"
CREATES_PER_S = 5


@dataclass(kw_only=True)
class ArgoPlatform:
    """One tenant with the backend argo."""

    folder: Path
    script: Script
    server: FakeKubernetes = field(default_factory=FakeKubernetes)
    clock: ManualClock = field(default_factory=lambda: ManualClock(by_itself=True))
    around: Callable[[RemoteLauncher], RemoteLauncher] = lambda launcher: launcher
    """Wraps the launcher, for what happens during a call."""

    def __post_init__(self) -> None:
        token_file = self.folder / "token"
        token_file.write_text(TOKEN, encoding="utf-8")
        access = Access(
            url="https://cluster.test", token_file=token_file, ca_file=None, namespace=NAMESPACE
        )
        api = KubernetesApi(access, self.clock, transport=self.server.transport)
        pace = CreationPace(CREATES_PER_S, self.clock)
        self.remote = self.around(ArgoLauncher(api=api, pace=pace))
        self.runs = RunPlatform(
            folder=self.folder,
            launcher=QueueLauncher(),
            remote=self.remote,
            script=self.script,
            clock=self.clock,
        )
        self.blobs = self.runs.blobs

    def trigger(self, **fields: object) -> Run:
        return self.runs.trigger(backend=Backend.ARGO, **fields)

    def submitted(self, **fields: object) -> Run:
        """A run with a workflow."""
        run = self.trigger(**fields)
        assert self.runs.launching.step() == 1
        return run

    def running(self, **fields: object) -> Run:
        """A run with a workflow that has shown progress."""
        run = self.submitted(**fields)
        self.progress(run)
        return run

    def workflow(self, run: Run) -> dict[str, Any]:
        return self.server.workflows[NAMESPACE, run.execution_name]

    def assignment(self, run: Run) -> Assignment:
        """What the template passes to the pods, read from the workflow."""
        pairs = self.workflow(run)["spec"]["arguments"]["parameters"]
        parameters = {pair["name"]: pair["value"] for pair in pairs}
        assert parameters["run_id"] == str(run.run_id)
        assert parameters["tenant_id"] == str(run.tenant_id)
        return Assignment(
            tenant_id=run.tenant_id,
            run_id=run.run_id,
            attempt=int(parameters["attempt"]),
            lease_epoch=int(parameters["lease_epoch"]),
        )

    def execute(self, run: Run, *, pod: str = "pod-1") -> RunEnd | None:
        """The pod of the run, to its end; what it left, None where it did nothing."""
        upload = ResultUpload(blobs=self.blobs)
        with self.runs.unit.begin(run.tenant_id) as tx:
            leased = claim_run(tx, self.assignment(run), holder=pod)
        if leased is None:
            return None
        slot = self.runs.supervisor(upload)
        slot.heartbeat = self.runs.heartbeat = Heartbeat(
            finder=MemoryWorkFinder(self.runs.store, lease_ttl=UNLIMITED),
            clock=self.clock,
            metrics=self.runs.metrics,
            every=UNLIMITED,
        )
        slot.supervise(leased, self.runs.stop)
        slot.child.end()
        return upload.reported

    def progress(self, run: Run) -> None:
        """The controller's consumer handles a progress event."""
        with self.runs.unit.begin(run.tenant_id, feed=8) as tx:
            current = tx.runs.for_update(run.run_id)
            assert current is not None
            carry_out(tx, current, ProgressSeen(fact_id=EventId(an_id()), attempt=1))

    def finish(self, run: Run, status: str, *failures: dict[str, str]) -> str | None:
        """The exit handler, with the failures as Argo writes them, and the controller after it."""
        text = json.dumps(json.dumps(list(failures) or None))
        assignment = self.assignment(run)
        key = result_file(run.tenant_id, run.run_id, assignment.attempt)
        try:
            file = self.blobs.of(run.tenant_id).get(key)
        except BlobNotFoundError:
            file = None
        ended = WorkflowEnd(status=status, failures=text, file=file)
        with self.runs.unit.begin(run.tenant_id, feed=8) as tx:
            reported = report_workflow_end(tx, assignment, ended, base_url=None)
        self.runs.close_ended(run)
        return reported

    def shutdown(self, run: Run) -> str | None:
        """The strategy with which the workflow was stopped."""
        strategy: str | None = self.workflow(run)["spec"].get("shutdown")
        return strategy
