"""All records of a run agree: trace, causes, metrics, timeline and row."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from urllib.request import urlopen

import pytest
from starlette.testclient import TestClient

from datarecs_application.child_frames import FINISHED, READY
from datarecs_application.runs import request_cancel
from datarecs_application.tracing import trace_id_of
from datarecs_core.access.permissions import Role
from datarecs_core.notifications.rule import NotificationRule, Notify, Recipient
from datarecs_core.runs.events import RunCancelled, RunFinalised
from datarecs_core.runs.model import Run, RunStatus
from datarecs_core.values import EventId
from datarecs_memory.blob_store import MemoryBlobStores
from datarecs_postgres.change_feed import PostgresChangeFeed, PostgresResourceFeed
from datarecs_postgres.work_finder import PostgresWorkFinder
from datarecs_runtime.clock import SystemClock
from datarecs_runtime.sections import Otel
from datarecs_runtime.tracing import arrival, tracing_of
from datarecs_testing.api import ApiHouse
from datarecs_testing.builders import A_TENANT
from datarecs_testing.deliveries import a_rule
from datarecs_testing.real_path import RealPath, leave_result
from datarecs_testing.scripted_child import ChildSide
from datarecs_testing.service_process import ServiceProcess, running_service
from datarecs_testing.smtp_server import TestRelay, smtp_relay
from datarecs_testing.span_collector import CollectedSpan, SpanCollector, span_collector

pytestmark = [pytest.mark.integration, pytest.mark.slow]
PATIENT = "u-patient"
"""Who triggers runs that go on until they are stopped."""
OF_EVERY_RUN = {"run.trigger", "run.submit", "relay.publish", "event.handle", "run.attempt"}
CAUSELESS = {"run.triggered", "run.cancel_requested", "run.queued", "run.completed", "run.errored"}
"""Events without a cause: the first action of a chain."""


def working(_hello: Mapping[str, object], side: ChildSide) -> int:
    """UNMATCHED at once, or working until a stop request."""
    side.send({"type": READY})
    while (frame := side.receive()) is not None and frame.get("type") != "stop":
        if frame["triggered_by"] != PATIENT:
            leave_result(frame, "UNMATCHED")
            side.send({"type": FINISHED})
    return 75


@dataclass
class Observed:
    """A finalised and a cancelled run, and the processes that took part, which have ended."""

    finalised: Run
    cancelled: Run
    collector: SpanCollector
    metrics: str
    rest: TestClient
    path: RealPath

    def spans(self, run: Run) -> list[CollectedSpan]:
        return self.collector.of_trace(trace_id_of(run.traceparent) or "")

    def row(self, run: Run) -> Run:
        state = self.path.queries.run(A_TENANT, run.run_id)
        assert isinstance(state, Run)
        return state

    def events(self, run: Run) -> list[tuple[str, dict[str, str], str]]:
        """Short type, headers and id of everything on the wire about the run, mails included."""
        rows = self.path.database.query(
            "SELECT type, headers, event_id FROM datarecs.outbox WHERE partition_key = %s"
            " ORDER BY position",
            (str(run.run_id),),
        )
        return [
            (
                re.sub(r"^io\.datarecs\.(reconciliation\.)?", "", str(kind)),
                dict(headers),
                str(event_id),
            )
            for kind, headers, event_id in rows
        ]

    def total(self, name: str, **labels: str) -> float:
        values = [
            float(line.rpartition(" ")[2])
            for line in self.metrics.splitlines()
            if re.match(rf"datarecs_{name}[{{ ]", line)
            and all(f'{label}="{value}"' in line for label, value in labels.items())
        ]
        return sum(values)


@pytest.fixture
def observed(path: RealPath) -> Iterator[Observed]:
    with span_collector() as collector, smtp_relay() as relay:
        otel = {"DATARECS_OTEL__ENDPOINT": collector.endpoint}
        tracing = tracing_of(Otel(endpoint=collector.endpoint), "api-and-worker")
        path.tracing, path.beat = tracing, timedelta(milliseconds=300)
        controller = path.controller(**otel)
        notifier = _notifier(path, relay, otel)
        _add_rule(path)
        path.work(slots=2, script=working)
        first = path.trigger_one(traceparent=arrival(None))
        second = path.trigger_one(triggered_by=PATIENT, traceparent=arrival(None))
        ends = {event.run_id: event for event in _ends(path, first, second)}
        assert isinstance(ends[first.run_id], RunFinalised)
        assert isinstance(ends[second.run_id], RunCancelled)
        _wait(lambda: relay.script.stored and _sent(path))
        metrics = _metrics(controller)
        assert (notifier.stop(), controller.stop()) == (0, 0)
        tracing.close()
        house = ApiHouse(
            unit=path.unit,
            queries=path.queries,
            changes=PostgresChangeFeed(path.api),
            resource_changes=PostgresResourceFeed(path.api),
            finder=PostgresWorkFinder(path.api),
            clock=SystemClock(),
            ids=path.ids,
            blobs=MemoryBlobStores(SystemClock()),
        )
        with house.caller(A_TENANT, Role.VIEWER) as rest:
            yield Observed(first, second, collector, metrics, rest, path)


def _ends(path: RealPath, first: Run, second: Run) -> Iterator[RunFinalised | RunCancelled]:
    """Cancels the second run when it is at work."""
    _wait(lambda: _status(path, second) is RunStatus.RUNNING)
    with path.observed(path.unit).begin(A_TENANT, feed=8) as tx:
        fact = EventId(path.ids.new())
        request_cancel(tx, second.run_id, by="u-7", reason="Wrong month", fact_id=fact)
    yield from path.ends([first, second])


def _status(path: RealPath, run: Run) -> RunStatus | None:
    state = path.queries.run(A_TENANT, run.run_id)
    return state.status if state else None


def _notifier(path: RealPath, relay: TestRelay, otel: Mapping[str, str]) -> ServiceProcess:
    settings = {
        "DATARECS_PROFILE": "local",
        "DATARECS_BASE_URL": "https://recs.example.com",
        "DATARECS_DATABASE__URL": path.database.url("datarecs_mail"),
        "DATARECS_KAFKA__BOOTSTRAP": path.broker.bootstrap,
        "DATARECS_KAFKA__USERNAME": "email-notifier",
        "DATARECS_KAFKA__PASSWORD": path.principals["email-notifier"],
        "DATARECS_MAIL__HOST": relay.host,
        "DATARECS_MAIL__PORT": str(relay.port),
        "DATARECS_MAIL__SECURITY": "none",
        "DATARECS_MAIL__FROM": "datarecs@mail.example.com",
        "DATARECS_MAIL__RECIPIENT_DOMAINS": f'{{"{A_TENANT}": ["example.com"]}}',
        **otel,
    }
    running = running_service(
        "datarecs_email_notifier", settings, log=path.folder / "email-notifier.log"
    )
    process = path.open_things.enter_context(running)
    assert isinstance(process, ServiceProcess)
    return process


def _add_rule(path: RealPath) -> None:
    rule = NotificationRule(to=(Recipient(address="ana@example.com"),), notify=Notify.EVERY_RUN)
    with path.unit.begin(A_TENANT, feed=8) as tx:
        tx.resources.add(a_rule(rule, rv=tx.next_rv(), created_at=tx.now))


def _sent(path: RealPath) -> bool:
    return bool(
        path.database.query(
            "SELECT 1 FROM datarecs.outbox"
            " WHERE type LIKE '%%notification.email.sent' AND sent_at IS NOT NULL"
        )
    )


def _wait(until: Callable[[], object]) -> None:
    clock = SystemClock()
    deadline = clock.monotonic() + 120
    while not until():
        assert clock.monotonic() < deadline
        clock.wait(timedelta(milliseconds=50))


def _metrics(service: ServiceProcess) -> str:
    lines = [json.loads(line) for line in service.text().splitlines() if line.startswith("{")]
    (side,) = (line for line in lines if line["event"] == "side_port_open")
    with urlopen(f"http://127.0.0.1:{side['port']}/metrics") as answer:
        text: bytes = answer.read()
    return text.decode()


@pytest.mark.case("L44")
def test_a_finalised_and_a_cancelled_run_are_reported_alike_everywhere(observed: Observed) -> None:
    _one_trace_to_the_mail(observed)
    _every_cause_exists(observed)
    _metrics_timeline_and_row_agree(observed)


def _one_trace_to_the_mail(observed: Observed) -> None:
    finalised, cancelled = observed.spans(observed.finalised), observed.spans(observed.cancelled)
    assert {span.name for span in finalised} == {*OF_EVERY_RUN, "run.close", "mail.send"}
    assert {span.name for span in cancelled} == {*OF_EVERY_RUN, "run.close"}
    assert {span.service for span in finalised} == {
        *("api-and-worker", "run-controller", "email-notifier"),
    }
    for spans, run in ((finalised, observed.finalised), (cancelled, observed.cancelled)):
        known = {span.span_id for span in spans}
        roots = [span for span in spans if span.parent_id not in known]
        assert [(root.name, root.parent_id) for root in roots] == [("run.trigger", "")]
        for name in ("run.trigger", "run.submit", "run.attempt", "run.close"):
            (span,) = (one for one in spans if one.name == name)
            assert span.attributes["datarecs.run_id"] == str(run.run_id)
        handled = next(one for one in spans if one.name == "run.close").parent_id
        (handling,) = (one for one in spans if one.span_id == handled)
        # Ends in one transaction are traced at its commit, each below its trigger.
        assert handling.name in {"event.handle", "run.trigger"}
        traces = {trace_id_of(headers["ce_traceparent"]) for _, headers, _ in observed.events(run)}
        assert traces == {trace_id_of(run.traceparent)}


def _every_cause_exists(observed: Observed) -> None:
    for run, end, cause in (
        (observed.finalised, "run.finalised", "run.completed"),
        (observed.cancelled, "run.cancelled", "run.errored"),
    ):
        events = observed.events(run)
        kinds = {event_id: kind for kind, _, event_id in events}
        caused = {kind: headers.get("ce_causationid") for kind, headers, _ in events}
        assert {kind for kind, by in caused.items() if by is None} <= CAUSELESS
        assert kinds[caused[end] or ""] == cause
        if run is observed.finalised:
            assert kinds[caused["notification.email.sent"] or ""] == end
        sequences = observed.path.queries.run_events(A_TENANT, run.run_id, after=0, limit=100)
        assert [entry.sequence for entry in sequences] == list(range(1, len(sequences) + 1))


def _metrics_timeline_and_row_agree(observed: Observed) -> None:
    rows = {run.run_id: observed.row(run) for run in (observed.finalised, observed.cancelled)}
    ended = rows[observed.finalised.run_id]
    assert observed.total("runs_total", status="COMPLETED", result="UNMATCHED", code="") == 1
    assert observed.total("runs_total", status="CANCELLED", result="", code="") == 1
    assert observed.total("cancels_total", outcome="stopped") == 1
    for phase, start, end in (
        ("queue", "created_at", "started_at"),
        ("execute", "started_at", "ended_at"),
        ("close", "ended_at", "closed_at"),
    ):
        seconds = sum(
            (getattr(row, end) - getattr(row, start)).total_seconds() for row in rows.values()
        )
        assert observed.total("run_seconds_sum", phase=phase) == pytest.approx(seconds)
        assert observed.total("run_seconds_count", phase=phase) == len(rows)
    for gauge in ("runs_active", "outbox_unsent", "partition_default_rows", "dlq_depth"):
        # From the last check, some seconds ago: only its existence can be checked.
        assert f"datarecs_{gauge}" in observed.metrics
    lanes = observed.rest.get(f"/api/v1/runs/{ended.run_id}/timeline").json()["lanes"]
    assert [(lane["kind"], lane["state"]) for lane in lanes] == [
        ("queue", "DONE"),
        ("attempt", "DONE"),
    ]
    assert ended.ended_at is not None
    assert lanes[1]["end"] == ended.ended_at.isoformat().replace("+00:00", "Z")
    (other,) = (row for row in rows.values() if row is not ended)
    lanes = observed.rest.get(f"/api/v1/runs/{other.run_id}/timeline").json()["lanes"]
    assert (other.status, lanes[-1]["state"]) == (RunStatus.CANCELLED, "ERRORED")
    assert other.cancelled_by == "u-7"
