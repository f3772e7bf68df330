"""One run inside the child, from the supervisor's frame to the result file, on real files."""

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest

from datarecs_application.child_frames import BadFrameError
from datarecs_application.ports.comparing import Connector, Engine
from datarecs_application.ports.outside import Wake
from datarecs_application.stopping import Stopping
from datarecs_connectors.extracted import rows_of
from datarecs_connectors.registry import Surroundings, open_connector
from datarecs_core.catalog.layout import digests, run_document
from datarecs_core.comparison.planning.plan import ComparisonPlan
from datarecs_core.comparison.results.row_digests import merkle_root
from datarecs_core.documents import to_document
from datarecs_core.egress.addresses import Policy, Profile, Purpose
from datarecs_core.jobs.definition import Source
from datarecs_core.resources.connection import Connection, ConnectionType, FilesConfig
from datarecs_core.runs.result_file import ARTEFACTS, NAME
from datarecs_core.values import RunId
from datarecs_memory.engine import MemoryEngine
from datarecs_reconciliation_worker.frame_reporter import FrameReporter
from datarecs_reconciliation_worker.work import Allowance, Assigned, Tools, read_assignment, work
from datarecs_reports.digest_file import read_digests
from datarecs_runtime.frames import SupervisorChannel
from datarecs_specs.documents import job_of
from datarecs_testing.builders import A_TENANT, an_id
from datarecs_testing.clock import ManualClock

RUN_ID = RunId(an_id())
SPEC: dict[str, Any] = {
    "sources": [
        {"name": "ledger", "kind": "csv", "connection": "here", "path": "ledger.csv"},
        {"name": "exports", "kind": "csv", "connection": "here", "path": "exports.csv"},
    ],
    "stages": [{"name": "rows", "type": "row", "dimensions": ["id"], "measures": "*"}],
}


class Child:
    """What a child has around one run; the oracle takes the place of Spark."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.attempt = folder, folder / "attempt"
        self.attempt.mkdir()
        self.clock = ManualClock()
        self.sent = io.BytesIO()
        config = FilesConfig(root=str(folder))
        self.here = Connection(type=ConnectionType.FILES, config=config)
        (folder / "ledger.csv").write_text("id,amount\n1,1.10\n2,2.20\n")

    def exports(self, text: str) -> None:
        (self.folder / "exports.csv").write_text(text)

    def frame(self, **changes: object) -> dict[str, object]:
        secret = self.attempt / "credentials.json"
        secret.write_text(json.dumps({"break_key": "00" * 32}))
        return {
            "tenant_id": str(A_TENANT),
            "run_id": str(RUN_ID),
            "job_id": str(an_id()),
            "job": "ledger-vs-exports",
            "spec_hash": "sha256:" + 64 * "0",
            "spec": SPEC,
            "parameters": {},
            "attempt": 1,
            "lease_epoch": 7,
            "started_at": None,
            "connections": {"here": to_document(self.here)},
            "pins": {"by_source": {}},
            "folder": str(self.attempt),
            "triggered_by": "ana",
            "credentials_file": str(secret),
            **changes,
        }

    def connect(
        self, source: Source, connection: Connection | None, secrets: Mapping[str, str]
    ) -> Connector:
        surroundings = Surroundings(
            roots=(self.folder,),
            policy=Policy(purpose=Purpose.CONNECTION, profile=Profile.LOCAL),
            now=self.clock.now,
        )
        return open_connector(source, connection, secrets, surroundings=surroundings)

    def engine(self, plan: ComparisonPlan, _key: bytes, _directory: Path) -> Engine:
        job = job_of(plan.job, SPEC)
        opened = {one.name: self.connect(one, self.here, {}) for one in job.sources}
        return MemoryEngine(lambda scan: rows_of(opened[scan.source], scan))

    def tools(self, **changes: Any) -> Tools:  # noqa: ANN401  any field
        made = Tools(
            connect=lambda _tenant, *source: self.connect(*source),
            engine=self.engine,
            clock=self.clock,
            versions={"tzdata": "2026f"},
        )
        return replace(made, **changes)

    def work(self, tools: Tools | None = None) -> dict[str, Any]:
        """The result file that one run leaves."""
        channel = SupervisorChannel(io.BytesIO(), self.sent)
        work(self.assigned(), tools or self.tools(), FrameReporter(channel))
        document: dict[str, Any] = json.loads((self.attempt / NAME).read_bytes())
        return document

    def artefact(self, key: str) -> Path:
        """What a run leaves for its supervisor."""
        return self.attempt / ARTEFACTS / key

    def document(self) -> dict[str, Any]:
        """run.json."""
        content: dict[str, Any] = json.loads(
            self.artefact(run_document(A_TENANT, RUN_ID)).read_bytes()
        )
        return content

    def assigned(self) -> Assigned:
        return read_assignment(self.frame())


@pytest.fixture
def child(tmp_path: Path) -> Child:
    return Child(tmp_path)


@pytest.mark.parametrize(("amount", "verdict"), [("2.20", "MATCHED"), ("2.21", "UNMATCHED")])
def test_the_result_file_has_the_verdict_and_the_document_is_left_before_it(
    child: Child, amount: str, verdict: str
) -> None:
    child.exports(f"id,amount\n1,1.1\n2,{amount}\n")
    result = child.work()
    assert (result["outcome"], result["result"]) == ("COMPLETED", verdict)
    assert (result["run_id"], result["attempt"], result["lease_epoch"]) == (str(RUN_ID), 1, 7)
    document = child.document()
    assert document["proof"]["result"] == verdict
    assert not (child.attempt / f"{NAME}.partial").exists()


@pytest.mark.parametrize(("declared", "used"), [("1TiB", 2**30), ("1MiB", 2**20)])
def test_a_run_has_the_smaller_limit_of_disk_of_its_job_and_of_the_worker(
    child: Child, monkeypatch: pytest.MonkeyPatch, declared: str, used: int
) -> None:
    monkeypatch.setitem(SPEC, "execution", {"spill": declared})
    child.exports("id,amount\n1,1.1\n2,2.20\n")
    plans, allowances = [], []

    def connect(run: Allowance, *source: Any) -> Connector:  # noqa: ANN401  passed on
        allowances.append(run)
        return child.connect(*source)

    def engine(plan: ComparisonPlan, key: bytes, directory: Path) -> Engine:
        plans.append(plan)
        return child.engine(plan, key, directory)

    tools = child.tools(max_spill_bytes=2**30, connect=connect, engine=engine)
    assert child.work(tools)["result"] == "MATCHED"
    assert {each.spill_bytes for each in allowances} == {used}
    assert [stage.effort.spill for plan in plans for stage in plan.stages] == [used]


@pytest.mark.case("F17")
def test_a_proof_of_rows_leaves_its_digests_under_the_root_that_is_sealed(child: Child) -> None:
    child.exports("id,amount\n1,1.1\n2,2.21\n")
    spec = {**SPEC, "execution": {"proof": "rows"}}
    channel = SupervisorChannel(io.BytesIO(), child.sent)
    work(read_assignment(child.frame(spec=spec)), child.tools(), FrameReporter(channel))
    document = child.document()
    root = merkle_root(read_digests(child.artefact(digests(A_TENANT, RUN_ID))))
    assert document["proof"]["digests"]["merkle_root"] == root
    assert document["run"]["plan"]["job"] == "ledger-vs-exports"


@pytest.mark.case("P57")
def test_a_row_that_arrives_while_the_child_waits_is_reported_and_sealed(child: Child) -> None:
    child.exports("id,amount\n1,1.10\n")

    class Arriving(ManualClock):
        def wait(self, duration: timedelta, *, until: Wake | None = None) -> bool:
            child.exports("id,amount\n1,1.10\n2,2.20\n")
            return super().wait(duration, until=until)

    (stage,) = SPEC["stages"]
    spec = {**SPEC, "stages": [{**stage, "confirm": {"after": "PT2M"}}]}
    frame = child.frame(spec=spec)
    channel = SupervisorChannel(io.BytesIO(), child.sent)
    work(
        read_assignment(frame), child.tools(clock=Arriving(by_itself=True)), FrameReporter(channel)
    )
    document = json.loads((child.attempt / NAME).read_bytes())
    assert document["result"] == "MATCHED"
    confirmed = child.document()["proof"]["stages"][0]["confirmed"]
    assert (confirmed["in_flight_resolved"], confirmed["first_counts"]["rows_unmatched"]) == (1, 1)
    frames = child.sent.getvalue()
    assert frames.count(b"extraction_completed") == 3  # what has not moved is not read again
    assert b"in_flight_resolved" in frames


def test_credentials_are_read_once_and_gone(child: Child) -> None:
    assigned = child.assigned()
    assert assigned.secrets == {"break_key": "00" * 32}
    assert list(child.attempt.iterdir()) == []


def test_a_source_that_is_missing_is_named_and_nothing_is_left(child: Child) -> None:
    result = child.work()
    (node,) = result["nodes"]
    assert (result["outcome"], node["name"]) == ("ERRORED", "extract-1")
    assert (node["code"], node["detail_code"]) == ("QUERY_FAILED", "NO_FILES")
    assert not child.artefact("").exists()


def test_a_full_disk_is_reported_and_its_files_are_removed_for_the_result(child: Child) -> None:
    child.exports("id,amount\n1,1.1\n2,2.20\n")

    def full(_plan: ComparisonPlan, _key: bytes, directory: Path) -> Engine:
        directory.mkdir()
        (directory / "half").write_bytes(b"PAR1")
        raise OSError(ENOSPC, "No space left on device")

    result = child.work(child.tools(engine=full))
    assert result["nodes"][0]["detail_code"] == "SPILL_EXHAUSTED"
    assert [one.name for one in child.attempt.iterdir()] == [NAME]


def test_a_defect_is_an_errored_run_without_its_words(child: Child) -> None:
    child.exports("id,amount\n1,1.1\n2,2.20\n")

    def broken(*_: object) -> Engine:
        raise ValueError("row 2 holds 2.20")

    (node,) = child.work(child.tools(engine=broken))["nodes"]
    assert (node["code"], node["message"]) == ("UNKNOWN", "unexpected ValueError")


def test_a_frame_that_is_not_the_supervisors_is_refused(child: Child) -> None:
    with pytest.raises(BadFrameError):
        read_assignment(child.frame(attempt="one"))


def test_a_stop_ends_the_reading_of_files_between_two_batches(child: Child) -> None:
    child.exports("id,amount\n1,1.1\n2,2.20\n")
    stop = Stopping()
    stop.set()
    result = child.work(child.tools(stop=stop))
    (node,) = result["nodes"]
    assert (node["name"], node["detail_code"]) == ("extract-0", "STOPPED")


def test_the_end_of_java_is_part_of_the_result_file(child: Child) -> None:
    def lost(_plan: ComparisonPlan, _key: bytes, _directory: Path) -> Engine:
        raise ConnectionRefusedError

    child.exports("id,amount\n1,1.1\n2,2.20\n")
    result = child.work(child.tools(engine=lost, java_exit=lambda: -9))
    assert result["jvm_exit"] == -9
