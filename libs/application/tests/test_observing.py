"""Changes of runs, reported to metrics, log and trace after the commit, for every cause."""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import pytest
import structlog
from structlog.typing import EventDict

from datarecs_application.child_frames import FINISHED, READY, event_frame
from datarecs_application.ports.execution import Accepted, Launcher, Rejected, Unavailable
from datarecs_application.ports.state import HeldLease, Transaction
from datarecs_application.runs import EventRecord, record_end
from datarecs_application.tracing import trace_id_of
from datarecs_core.runs.events import RunEnd
from datarecs_core.runs.model import Run, RunStatus
from datarecs_core.runs.result_file import NAME
from datarecs_core.values import EventId
from datarecs_postgres.run_queue import QueueLauncher
from datarecs_testing.builders import an_id
from datarecs_testing.platform import RunPlatform
from datarecs_testing.run_facts import a_completion, an_errored
from datarecs_testing.scripted_child import ChildSide

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"
TOLERANCES: list[object] = []
STAGE: Mapping[str, object] = {
    "stage_name": "counts",
    "source_row_counts": {"source_0": 7, "source_1": 7},
    "matched_groups": 7,
    "unmatched_by_source": {"source_0": 0, "source_1": 0},
    "tolerances": TOLERANCES,
    "result": "MATCHED",
    "rows_compared": 7,
    "rows_matched": 7,
    "rows_unmatched": 0,
    "source_names": {"source_0": "a", "source_1": "b"},
    "missing_by_source": {"source_0": 0, "source_1": 0},
    "unmatched_groups": 0,
}


@dataclass
class Script:
    """A child with MATCHED runs, after it has sent these events."""

    events: tuple[Mapping[str, object], ...] = ()
    frames: list[Mapping[str, object]] = field(default_factory=list)
    first: Callable[[], None] = field(default=lambda: None)
    """Done before the child sends its first frame."""

    def __call__(self, _hello: Mapping[str, object], side: ChildSide) -> int:
        side.send({"type": READY})
        while (frame := side.receive()) is not None and frame.get("type") != "stop":
            self.frames.append(frame)
            self.first()
            for event in self.events:
                side.send(event)
            document = {
                **{name: frame[name] for name in ("run_id", "attempt", "lease_epoch")},
                "schema": 1,
                "outcome": "COMPLETED",
                "result": "MATCHED",
            }
            (Path(str(frame["folder"])) / NAME).write_text(json.dumps(document), encoding="utf-8")
            side.send({"type": FINISHED})
        return 0


Make = Callable[..., RunPlatform]


@pytest.fixture
def platform(tmp_path: Path) -> Make:
    def made(script: Script | None = None, launcher: Launcher | None = None) -> RunPlatform:
        return RunPlatform(
            folder=tmp_path, launcher=launcher or QueueLauncher(), script=script or Script()
        )

    return made


def running(here: RunPlatform) -> Run:
    """Triggered, queued and leased, by a worker that then sends nothing more."""
    run = here.trigger(traceparent=PARENT)
    here.launching.step()
    here.finder.lease_run("worker-1")
    return here.now(run)


def reported(here: RunPlatform, run: Run, end: RunEnd) -> None:
    event = EventRecord(
        event_id=EventId(an_id()), type="x", source="/x", time=here.clock.now(), data={}
    )
    with here.unit.begin(here.tenant, feed=8) as tx:
        record_end(tx, end, event)
    assert here.now(run).status.is_terminal


class _Answering(QueueLauncher):
    def __init__(self, answer: Rejected | Unavailable) -> None:
        self._answer = answer

    def ensure_running(self, tx: Transaction, run: Run) -> Accepted:  # noqa: ARG002  the port's shape
        return self._answer  # type: ignore[return-value]  # another launcher's answer


class TestMetrics:
    @pytest.mark.case("L44")
    def test_of_a_finalised_run_agree_with_its_row(self, platform: Make) -> None:
        here = platform()
        run = here.trigger()
        here.clock.advance(timedelta(seconds=5))
        here.launching.step()
        here.supervise()
        here.clock.advance(timedelta(seconds=2))
        here.close_ended(run)
        row, metrics = here.now(run), here.metrics
        assert row.started_at
        assert row.ended_at
        assert row.closed_at
        end = {"mode": "IMMEDIATE", "status": "COMPLETED", "result": "MATCHED", "code": ""}
        assert metrics.total("runs_total", **end) == 1
        for phase, duration in {
            "queue": row.started_at - row.created_at,
            "execute": row.ended_at - row.started_at,
            "close": row.closed_at - row.ended_at,
        }.items():
            assert metrics.total("run_seconds", phase=phase) == duration.total_seconds()
        for change in (("TRIGGERED", "QUEUED"), ("QUEUED", "RUNNING"), ("RUNNING", "COMPLETED")):
            labels = dict(zip(("from", "to"), change, strict=True))
            assert metrics.total("run_transitions_total", **labels) == 1
        assert metrics.total("submits_total", backend="queue", outcome="accepted") == 1
        assert metrics.total("run_facts_total", disposition="APPLIED") == 1

    def test_a_transaction_that_fails_is_not_announced(self, platform: Make) -> None:
        here = platform()
        run = running(here)
        with suppress(ZeroDivisionError), here.unit.begin(here.tenant, feed=8) as tx:
            event = EventRecord(
                event_id=EventId(an_id()), type="x", source="/x", time=None, data={}
            )
            record_end(tx, a_completion(run), event)
            raise ZeroDivisionError
        assert here.now(run).status is RunStatus.RUNNING
        assert here.metrics.total("run_facts_total", disposition="APPLIED") == 0
        assert "run.close" not in here.tracing.names()

    @pytest.mark.parametrize(
        ("answer", "outcome"),
        [(Rejected("quota"), "rejected"), (Unavailable("away"), "unavailable")],
    )
    def test_submissions_that_fail_are_counted_by_outcome(
        self, platform: Make, answer: Rejected | Unavailable, outcome: str
    ) -> None:
        here = platform(launcher=_Answering(answer))
        here.trigger()
        here.launching.step()
        assert here.metrics.total("submits_total", backend="queue", outcome=outcome) == 1

    def test_a_cancel_before_the_run_started_is_immediate(self, platform: Make) -> None:
        here = platform()
        run = here.trigger()
        here.cancel(run)
        here.launching.step()
        assert here.metrics.total("cancels_total", outcome="immediate") == 1
        assert here.metrics.total("run_seconds", phase="execute") == 0

    @pytest.mark.parametrize(("completed", "outcome"), [(True, "stale"), (False, "stopped")])
    def test_a_cancel_of_a_running_run_is_counted_by_its_end(
        self, platform: Make, *, completed: bool, outcome: str
    ) -> None:
        here = platform()
        run = running(here)
        here.cancel(run)
        reported(here, run, a_completion(run) if completed else an_errored(run))
        assert here.metrics.total("cancels_total", outcome=outcome) == 1

    def test_a_cancel_without_effect_is_forced(self, platform: Make) -> None:
        here = platform()
        run = running(here)
        here.cancel(run)
        here.clock.advance(timedelta(seconds=301))
        _extend_lease(here, run)
        here.timing.step()
        assert here.now(run).status is RunStatus.CANCELLED
        assert here.metrics.total("cancels_total", outcome="forced") == 1
        assert here.metrics.total("run_repairs_total", reason="cancel_forced") == 1

    def test_a_lost_attempt_is_a_repair_and_an_expired_lease(self, platform: Make) -> None:
        here = platform()
        running(here)
        here.clock.advance(timedelta(seconds=66))
        here.rescue.step()
        assert here.metrics.total("run_repairs_total", reason="attempt_lost") == 1
        assert here.metrics.total("leases_expired_total", queue="runs") == 1
        assert here.metrics.total("run_facts_total", disposition="SYNTHESISED") == 1

    def test_a_run_that_only_its_timer_ends_is_a_repair(self, platform: Make) -> None:
        here = platform()
        run = running(here)
        here.clock.advance(timedelta(seconds=3661))
        _extend_lease(here, run)
        here.timing.step()
        assert here.metrics.total("run_repairs_total", reason="deadline_exceeded") == 1
        end = {"mode": "IMMEDIATE", "status": "ERRORED", "result": "", "code": "TIMED_OUT"}
        assert here.metrics.total("runs_total", **end) == 1

    def test_a_recorded_end_that_was_not_handled_is_a_repair(self, platform: Make) -> None:
        here = platform()
        run = here.trigger()
        here.launching.step()
        here.supervise()
        here.clock.advance(timedelta(seconds=200))
        here.timing.step()
        assert here.now(run).status is RunStatus.COMPLETED
        assert here.metrics.total("run_repairs_total", reason="end_unhandled") == 1

    def test_work_is_summed_over_runs_by_kind_of_source_and_stage(self, platform: Make) -> None:
        here = platform(
            Script(
                (
                    event_frame("stage_started", stage_name="counts"),
                    event_frame("extraction_started", extraction_index=0, connection_type="csv"),
                    event_frame("extraction_completed", extraction_index=0, rows_extracted=7),
                    event_frame("comparison_completed", **STAGE),
                    event_frame("stage_completed", **STAGE),
                )
            )
        )
        here.trigger()
        here.launching.step()
        here.supervise()
        assert here.metrics.total("rows_extracted_total", connector="csv") == 7
        assert here.metrics.total("groups_compared_total") == 7
        assert here.metrics.times("stage_seconds", type="counts") == 1

    def test_each_renewal_of_leases_is_timed(self, platform: Make) -> None:
        here = platform()
        here.trigger()
        here.launching.step()
        leased = here.finder.lease_run("worker-1")
        assert leased is not None
        here.heartbeat.hold(leased)
        here.heartbeat.beat()
        assert here.metrics.times("lease_renew_seconds") == 1

    def test_a_write_under_a_stale_epoch_is_counted_by_the_worker(self, platform: Make) -> None:
        script = Script((event_frame("stage_started", stage_name="counts"),))
        here = platform(script)
        script.first = lambda: _taken_away(here)
        here.trigger()
        here.launching.step()
        here.supervise()
        assert here.metrics.total("stale_epoch_total", queue="runs") == 1
        assert here.metrics.total("leases_lost_total", reason="refused") == 1


def _extend_lease(here: RunPlatform, run: Run) -> None:
    """The worker's heartbeat continues, so that only a timer can end the run."""
    held = HeldLease(tenant_id=here.tenant, run_id=run.run_id, lease_epoch=1)
    assert here.finder.renew([held])[run.run_id].current


def _taken_away(here: RunPlatform) -> None:
    (run_id,) = here.store.committed(here.tenant).runs
    with here.unit.begin(here.tenant, feed=8) as tx:
        tx.runs.for_update(run_id)
        tx.leases.fence(run_id)


class TestLog:
    def test_of_a_run_binds_all_its_ids_at_every_step(self, platform: Make) -> None:
        here = platform()
        with _captured() as entries:
            run = here.trigger(traceparent=PARENT)
            here.launching.step()
            here.supervise()
            here.close_ended(run)
        ids = {"run_id": str(run.run_id), "job_id": str(run.job_id), "trace_id": TRACE}
        names = ["run_triggered", "attempt_started", "run_classified", "run_closed"]
        assert [line["event"] for line in entries if line["event"] in names] == names
        for line in entries:
            if line["event"] in names:
                assert {name: line.get(name) for name in ids} == ids, line
                assert line["tenant_id"] == str(here.tenant)
        closed = entries[-1]
        assert (closed["status"], closed["result"], closed["attempt"]) == (
            *("COMPLETED", "MATCHED"),
            1,
        )

    def test_reports_that_an_attempt_was_lost(self, platform: Make) -> None:
        here = platform()
        run = running(here)
        here.clock.advance(timedelta(seconds=66))
        with _captured() as entries:
            here.rescue.step()
        (line,) = (one for one in entries if one["event"] == "attempt_lost")
        assert (line["run_id"], line["attempt"], line["loss"]) == (str(run.run_id), 1, "EXPIRED")

    @pytest.mark.parametrize("late", [True, False])
    def test_reports_that_a_fact_was_late_and_alerts_when_it_contradicts(
        self, platform: Make, *, late: bool
    ) -> None:
        here = platform()
        run = running(here)
        reported(here, run, a_completion(run))
        with _captured() as entries:
            reported(here, run, a_completion(run) if late else an_errored(run))
        (line,) = (one for one in entries if one["event"] == "late_fact")
        assert line["log_level"] == ("info" if late else "error")
        assert line["job_id"] == str(run.job_id)

    def test_reports_how_a_child_ended(self, tmp_path: Path) -> None:
        def dies(_hello: Mapping[str, object], side: ChildSide) -> int:
            side.send({"type": READY})
            side.receive()
            return 3

        here = RunPlatform(folder=tmp_path, launcher=QueueLauncher(), script=dies)
        run = here.trigger(traceparent=PARENT)
        here.launching.step()
        with _captured() as entries:
            here.supervise()
        (line,) = (one for one in entries if one["event"] == "child_exited")
        assert (line["exit_code"], line["run_id"]) == (3, str(run.run_id))
        assert (line["trace_id"], line["attempt"]) == (TRACE, 1)
        assert here.metrics.total("child_exits_total", code="3") == 1

    def test_holds_no_words_of_people_and_sources(self, platform: Make) -> None:
        here = platform()
        with _captured() as entries:
            run = running(here)
            here.cancel(run)
            error = replace(an_errored(run).error, message="row 4711 has 12.50, not 13")
            reported(here, run, replace(an_errored(run), error=error))
        assert entries != []
        assert "4711" not in str(entries)


class TestTrace:
    @pytest.mark.case("L44")
    def test_of_a_finalised_run_begins_at_its_trigger_and_the_child_continues_it(
        self, platform: Make
    ) -> None:
        script = Script()
        here = platform(script)
        run = here.trigger(traceparent=PARENT)
        here.launching.step()
        here.supervise()
        here.close_ended(run)
        spans = {span.name: span for span in here.tracing.spans}
        assert list(spans) == ["run.trigger", "run.submit", "run.attempt", "run.close"]
        assert {span.trace_id for span in spans.values()} == {TRACE}
        assert (spans["run.trigger"].traceparent, spans["run.trigger"].parent) == (PARENT, None)
        assert spans["run.close"].attributes["result"] == "MATCHED"
        (frame,) = script.frames
        assert frame["traceparent"] == spans["run.attempt"].traceparent
        assert trace_id_of(str(frame["traceparent"])) == TRACE

    @pytest.mark.case("L44")
    def test_of_a_cancelled_run_is_one_trace_as_well(self, platform: Make) -> None:
        here = platform()
        run = here.trigger(traceparent=PARENT)
        here.cancel(run)
        here.launching.step()
        assert here.tracing.names() == ["run.trigger", "run.close"]
        assert {span.trace_id for span in here.tracing.spans} == {TRACE}

    def test_without_a_trace_nothing_breaks(self, platform: Make) -> None:
        here = platform()
        run = here.trigger()
        here.launching.step()
        here.supervise()
        here.close_ended(run)
        assert here.now(run).status is RunStatus.COMPLETED


def _captured() -> AbstractContextManager[list[EventDict]]:
    return structlog.testing.capture_logs(processors=[structlog.contextvars.merge_contextvars])
